// SPDX-License-Identifier: BSD-3-Clause
// Tensors of positions along an axis.
#pragma once
#include "lib/body/body.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/kernel_call.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
/// Sets x to the lower of x and `value`, atomically.
inline void lower(std::int64_t& x, std::int64_t value) {
  std::int64_t seen = __atomic_load_n(&x, __ATOMIC_RELAXED);
  while (value < seen &&
         !__atomic_compare_exchange_n(&x, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

inline constexpr std::int64_t bytes_in_block = 256 << 10, elements_in_block = 1 << 16;

/// Writes the position along the axis for each index. `limit` is the length of the axis. Negative
/// indices count from the end if from_end is set.
template <class Index>
KernelResult resolve(const Body& indices, std::int64_t limit, int input, bool from_end,
                     std::int64_t* places) {
  const Index* const index = indices.as<Index>();
  std::int64_t wrong = indices.elements;  // the number of the first index that is out of range
  parallel_ranges(indices.elements, elements_in_block, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t at = index[i], place = at < 0 && from_end ? at + limit : at;
      if (place < 0 || place >= limit) [[unlikely]]
        return lower(wrong, i);
      places[i] = place;
    }
  });
  if (wrong == indices.elements) [[likely]]
    return {};
  return {.failure = "index out of range",
          .input = input,
          .from_end = from_end,
          .got = index[wrong],
          .limit = limit};
}

/// Computes and checks all positions, then calls f(places).
template <class F>
KernelResult with_places(const Body& indices, std::int64_t limit, int input, const F& f,
                         bool from_end = true) {
  auto* const places = static_cast<std::int64_t*>(
      scratch(static_cast<std::size_t>(indices.elements) * sizeof(std::int64_t)));
  const KernelResult result = with_integers(indices.dtype, [&]<class T>(Type<T>) {
    return resolve<T>(indices, limit, input, from_end, places);
  });
  if (!result.failure) f(static_cast<const std::int64_t*>(places));
  return result;
}

/// The lengths before an axis, of the axis, and behind it.
struct AxisView {
  std::int64_t outer = 1, length, inner = 1;
  AxisView(const Shape& shape, std::int64_t axis) : length(shape.data()[axis]) {
    for (std::int64_t i = 0; i < axis; ++i) outer *= shape.data()[i];
    for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.rank(); ++i)
      inner *= shape.data()[i];
  }
};
}  // namespace reel::kernels::REEL_ISA
