// SPDX-License-Identifier: BSD-3-Clause
// Matrices of float16 or bfloat16 as float32, for products.
#pragma once
#include "lib/cpu/half.hpp"
#include "lib/cpu/matrix.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
/// The bits of a float16 or bfloat16.
using Half = std::uint16_t;

template <bool is_bfloat16>
Vector<float> load_widened(const Half* from) {
#ifdef __AVX512F__
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  if constexpr (is_bfloat16)
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  else
    return _mm512_cvtph_ps(bits);
#elif defined(__AVX2__)
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  if constexpr (is_bfloat16)
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  else
    return _mm256_cvtph_ps(bits);
#else
  alignas(64) float wide[lanes<float>];
  for (std::int64_t i = 0; i < lanes<float>; ++i)
    wide[i] = is_bfloat16 ? half::from_bfloat16(from[i]) : half::from_float16(from[i]);
  return load(wide);
#endif
}

template <bool is_bfloat16>
void widen_rows(const Matrix<Half>& x, float* to, std::int64_t to_step) {
  constexpr std::int64_t L = lanes<float>, ahead = 8;
  constexpr unsigned how = is_bfloat16 ? pass_bfloat16 : pass_float16;
  for (std::int64_t i = 0; i < x.rows; ++i, to += to_step) {
    const Half* const from = x.data + i * x.row;
    std::int64_t j = 0;
    if (x.column != 1) {
      for (; j < x.columns; ++j) widen(from + j * x.column, to + j, 1, how);
      continue;
    }
    for (; j + L <= x.columns; j += L) {
      __builtin_prefetch(from + ahead * x.row + j);
      store(to + j, load_widened<is_bfloat16>(from + j));
    }
    if (j < x.columns) widen(from + j, to + j, x.columns - j, how);
  }
}
/// Copies x, widened, into row-major memory with rows to_step elements apart. `how` has
/// pass_float16 or pass_bfloat16.
inline void widen_matrix(const Matrix<Half>& x, float* to, std::int64_t to_step, unsigned how) {
  const auto widen = how & pass_bfloat16 ? widen_rows<true> : widen_rows<false>;
  if (x.row != 1 || x.column == 1) return widen(x, to, to_step);
  constexpr std::int64_t side = 32;
  alignas(64) float turned[side * side];
  for (std::int64_t i = 0; i < x.rows; i += side)
    for (std::int64_t j = 0; j < x.columns; j += side) {
      const std::int64_t rows = x.rows - i < side ? x.rows - i : side;
      const std::int64_t columns = x.columns - j < side ? x.columns - j : side;
      widen({x.data + i + j * x.column, columns, rows, x.column, 1}, turned, side);
      transpose_elements(turned, side, to + i * to_step + j, to_step, rows, columns);
    }
}
}  // namespace reel::kernels::REEL_ISA
