// SPDX-License-Identifier: BSD-3-Clause
// How layers and optimizers refuse an argument.
#pragma once
#include <reel/error.hpp>
#include <reel/format.hpp>
#include <reel/shape.hpp>
#include <reel/variable.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace reel {
/// `size`, if it is the size of a layer. The end keeps sums and products of sizes within int64.
inline std::int64_t checked(std::string_view layer, std::string_view argument, Extent size,
                            Caller caller) try {
  constexpr std::int64_t end = std::int64_t{1} << 40;
  if (size.value >= 1 && size.value < end) return size.value;
  fail<ShapeError>(caller, layer, argument, "1 or more (and below 2^40)",
                   fmt::format("{}", size.value));
} catch (const std::bad_alloc&) {
  fail_memory(caller, layer);
}

/// `dtype`, if it is floating.
inline DType checked(std::string_view layer, DType dtype, Caller caller) {
  if (is_floating(dtype)) return dtype;
  fail<DTypeError>(caller, layer, "dtype", "float32 or float64", name_of(dtype));
}

/// A Variable of what `make` gives, whose errors name the layer.
template <class Make>
Variable parameter(std::string_view layer, std::string_view name, Caller caller, Make make) {
  const CallerScope here(caller, layer);
  return Variable(name, make(), caller);
}

/// NaN is refused too.
inline void check_number(bool good, std::string_view name, std::string_view argument,
                         std::string_view expected, double got, Caller caller) try {
  if (!good) fail<Error>(caller, name, argument, expected, fmt::format("{}", got));
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace reel
