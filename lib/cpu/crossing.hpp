// SPDX-License-Identifier: BSD-3-Clause
// Passes over two matrices of which one is transposed: its squares are turned in registers on their
// way to the formula.
#pragma once
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
#ifdef __AVX__
inline constexpr bool has_crossing = true;

template <class Put>
[[gnu::always_inline]] inline void turn_rows(const float* from, std::int64_t from_step,
                                             const Put& put) {
#ifdef __AVX512F__
  turn_rows_of_16(from, from_step, put);
#else
  turn_rows_of_8(from, from_step, put);
#endif
}

/// Squares that lie over their neighbours where a length is no multiple of theirs are done twice.
/// Blocks of squares keep to few pages of memory.
template <class Formula>
void run_crossing(const Crossing& p, const Formula& formula) {
  constexpr std::int64_t side = lanes<float>, block = 8 * side;
  const auto* const across = static_cast<const float*>(p.across);
  const auto* const in_rows = static_cast<const float*>(p.in_rows);
  auto* const output = static_cast<float*>(p.output);
  const std::int64_t columns = p.columns, across_step = p.across_step;
  const auto square = [=](std::int64_t row, std::int64_t column) {
    const float* other = in_rows + row * columns + column;
    float* to = output + row * columns + column;
    turn_rows(across + column * across_step + row, across_step, [&](const Vector<float>& x) {
      store(to, formula(x, load(other)));
      to += columns;
      other += columns;
    });
  };
  const auto last = [](std::int64_t i, std::int64_t n) { return i + side <= n ? i : n - side; };
  const auto end_of = [](std::int64_t i, std::int64_t n) { return i + block < n ? i + block : n; };
  for (std::int64_t top = 0; top < p.rows; top += block)
    for (std::int64_t left = 0; left < columns; left += block)
      for (std::int64_t row = top; row < end_of(top, p.rows); row += side)
        for (std::int64_t column = left; column < end_of(left, columns); column += side)
          square(last(row, p.rows), last(column, columns));
}

/// Matrices of at least one square.
template <class F>
void crossing_pass(const Crossing& p) {
  using Values = const Vector<float>&;
  if (p.across_first)
    run_crossing(p, [](Values x, Values y) { return Vector<float>(F()(x, y)); });
  else
    run_crossing(p, [](Values x, Values y) { return Vector<float>(F()(y, x)); });
}
#else
inline constexpr bool has_crossing = false;
template <class F>
void crossing_pass(const Crossing&);
#endif
}  // namespace reel::kernels::REEL_ISA
