// SPDX-License-Identifier: BSD-3-Clause
// Passes over two matrices of which one is transposed: its squares are turned in registers on their
// way to the formula.
#pragma once
#include "lib/cpu/direction.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
#ifdef __AVX__
inline constexpr bool has_crossing = true;

/// A band of squares, out of line: in more loops the compiler would carry an address for each row.
template <class Formula>
[[gnu::noinline]] void cross_band(const float* across, std::int64_t across_step,
                                  const float* in_rows, float* output, std::int64_t step,
                                  std::int64_t width, Formula formula) {
  constexpr std::int64_t side = lanes<float>;
  for (std::int64_t i = 0; i < width; i += side) {
    const std::int64_t column = i + side <= width ? i : width - side;
    const float* other = in_rows + column;
    float* to = output + column;
    using Values = const Vector<float>&;
    const auto put = [&](Values a, Values b, Values c, Values d) {
      store(to, formula(a, load(other)));
      store(to + step, formula(b, load(other + step)));
      store(to + 2 * step, formula(c, load(other + 2 * step)));
      store(to + 3 * step, formula(d, load(other + 3 * step)));
      to += 4 * step;
      other += 4 * step;
    };
#ifdef __AVX512F__
    turn_rows_of_16(across + column * across_step, across_step, put);
#else
    turn_rows_of_8(across + column * across_step, across_step, put);
#endif
  }
}

template <class Formula>
void run_crossing(const Crossing& p, Formula formula) {
  constexpr std::int64_t side = lanes<float>;
  const auto* const across = static_cast<const float*>(p.across);
  const auto* const in_rows = static_cast<const float*>(p.in_rows);
  auto* const output = static_cast<float*>(p.output);
  const bool backward = from_its_end(across);
  walk_bands<side, 8 * side>(
      p.rows, p.columns, [&](std::int64_t row, std::int64_t first, std::int64_t width) {
        if (backward) row = p.rows - side - row;
        const std::int64_t place = row * p.columns + first;
        cross_band(across + first * p.across_step + row, p.across_step, in_rows + place,
                   output + place, p.columns, width, formula);
      });
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
