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

/// Computes the positions along an axis that indices select. Several threads may share the work.
/// The limit is the length of the axis. Negative indices count from the end if from_end is set.
class Places {
 public:
  Places(const Body& indices, std::int64_t limit, int input, bool from_end = true)
      : indices_(indices),
        limit_(limit),
        input_(input),
        from_end_(from_end),
        wrong_(indices.elements) {}
  /// Writes the positions for the indices [first, end). False if one of them is out of range.
  bool write(std::int64_t first, std::int64_t end, std::int64_t* places) {
    return with_integers(indices_.dtype, [&]<class Index>(Type<Index>) {
      const Index* const index = indices_.as<Index>();
      for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t at = index[i], place = at < 0 && from_end_ ? at + limit_ : at;
        if (place < 0 || place >= limit_) [[unlikely]] {
          lower(wrong_, i);
          return false;
        }
        places[i - first] = place;
      }
      return true;
    });
  }
  /// A failure that names the first index that was out of range, if one was.
  KernelResult result() const {
    if (wrong_ == indices_.elements) [[likely]]
      return {};
    return {.failure = "index out of range",
            .input = input_,
            .from_end = from_end_,
            .got = integer_at(indices_, wrong_),
            .limit = limit_};
  }

 private:
  const Body& indices_;
  std::int64_t limit_;
  int input_;
  bool from_end_;
  std::int64_t wrong_;  // the number of the first index that is out of range
};

/// Computes and checks all positions, then calls f(places).
template <class F>
KernelResult with_places(const Body& indices, std::int64_t limit, int input, const F& f,
                         bool from_end = true) {
  auto* const places = static_cast<std::int64_t*>(
      scratch(static_cast<std::size_t>(indices.elements) * sizeof(std::int64_t)));
  Places positions(indices, limit, input, from_end);
  parallel_ranges(indices.elements, elements_in_block, [&](std::int64_t first, std::int64_t end) {
    positions.write(first, end, places + first);
  });
  const KernelResult result = positions.result();
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
