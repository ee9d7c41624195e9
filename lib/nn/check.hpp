// SPDX-License-Identifier: BSD-3-Clause
// How layers and optimizers refuse an argument.
#pragma once
#include <reel/error.hpp>
#include <reel/format.hpp>
#include <reel/shape.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace reel {
/// Throws "program.cpp:12: Linear: in: expected 1 or more, got 0".
template <class Exception>
[[noreturn]] void refuse(Caller caller, std::string_view name, std::string_view argument,
                         std::string_view expected, std::string_view got) {
  std::string_view file = caller.file ? caller.file : "?";
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  throw Exception(fmt::format("{}:{}: {}: {}: expected {}, got {}", file, caller.line, name,
                              argument, expected, got));
}

/// `size`, if it is the size of a layer. The end keeps sums and products of sizes within int64.
inline std::int64_t checked(std::string_view layer, std::string_view argument, Extent size,
                            Caller caller) {
  constexpr std::int64_t end = std::int64_t{1} << 40;
  if (size.value >= 1 && size.value < end) return size.value;
  refuse<ShapeError>(caller, layer, argument, "1 or more (and below 2^40)",
                     fmt::format("{}", size.value));
}

/// `dtype`, if it is floating.
inline DType checked(std::string_view layer, DType dtype, Caller caller) {
  if (is_floating(dtype)) return dtype;
  refuse<DTypeError>(caller, layer, "dtype", "float32 or float64", name_of(dtype));
}

/// NaN is refused too.
inline void check_number(bool good, std::string_view name, std::string_view argument,
                         std::string_view expected, double got, Caller caller) {
  if (!good) refuse<Error>(caller, name, argument, expected, fmt::format("{}", got));
}
}  // namespace reel
