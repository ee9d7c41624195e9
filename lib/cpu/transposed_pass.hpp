// SPDX-License-Identifier: BSD-3-Clause
// Passes over two matrices of which one is a transposed view. Its squares are transposed in
// registers before the formula reads them.
#pragma once
#include "lib/cpu/direction.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
#ifdef __AVX__
inline constexpr bool has_transposed_pass = true;

/// A band of squares, out of line: in more loops the compiler would carry an address for each row.
template <class Formula>
[[gnu::noinline]] void transposed_band(const float* transposed, std::int64_t transposed_step,
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
    transposed_rows_of_16(transposed + column * transposed_step, transposed_step, put);
#else
    transposed_rows_of_8(transposed + column * transposed_step, transposed_step, put);
#endif
  }
}

template <class Formula>
void run_transposed_pass(const TransposedPair& p, Formula formula) {
  constexpr std::int64_t side = lanes<float>;
  const auto* const transposed = static_cast<const float*>(p.transposed);
  const auto* const in_rows = static_cast<const float*>(p.in_rows);
  auto* const output = static_cast<float*>(p.output);
  const bool backward = from_its_end(transposed);
  walk_bands<side, 8 * side>(
      p.rows, p.columns, [&](std::int64_t row, std::int64_t first, std::int64_t width) {
        if (backward) row = p.rows - side - row;
        const std::int64_t place = row * p.columns + first;
        transposed_band(transposed + first * p.transposed_step + row, p.transposed_step,
                        in_rows + place, output + place, p.columns, width, formula);
      });
}

/// Matrices of at least one square.
template <class F>
void transposed_pass(const TransposedPair& p) {
  using Values = const Vector<float>&;
  if (p.transposed_first)
    run_transposed_pass(p, [](Values x, Values y) { return Vector<float>(F()(x, y)); });
  else
    run_transposed_pass(p, [](Values x, Values y) { return Vector<float>(F()(y, x)); });
}
#else
inline constexpr bool has_transposed_pass = false;
template <class F>
void transposed_pass(const TransposedPair&);
#endif
}  // namespace reel::kernels::REEL_ISA
