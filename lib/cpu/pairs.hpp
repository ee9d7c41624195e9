// SPDX-License-Identifier: BSD-3-Clause
// Packs matrices of bfloat16 into blocks of pairs. Zeros are behind their ends.
#pragma once
#include "lib/cpu/half_matrix.hpp"
#include "lib/cpu/pair_tile.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
using Int = std::int64_t;

inline Int lesser(Int a, Int b) { return a < b ? a : b; }
inline Int parts_of(Int n, Int length) { return (n + length - 1) / length; }
inline __mmask16 first_lanes(Int n) {
  return static_cast<__mmask16>(n >= 16 ? 0xffff : (1u << n) - 1);
}
/// Up to 16 elements in the low halves of the lanes.
inline __m512i load_halves(const Half* from, Int n) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(n), from));
}

/// The elements of lines: x in memory, where the lines of a matrix are its rows.
struct HalfLines {
  Matrix<Half> x;

  Int groups() const { return parts_of(x.rows, block_lines); }
  Int blocks() const { return parts_of(x.columns, block_length); }
  /// Elements of packed memory.
  Int size() const { return groups() * blocks() * block_size; }
  /// Whether neighbours in memory are elements of different lines.
  bool crosses() const { return x.row == 1 && x.column != 1; }
};

/// to [16 lines][32 elements].
inline void copy_lines(const Matrix<Half>& x, Half* to) {
  const auto wanted = static_cast<__mmask32>(x.columns >= 32 ? 0xffff'ffff : (1u << x.columns) - 1);
  for (Int i = 0; i < block_lines; ++i, to += block_length) {
    const Half* const from = x.data + i * x.row;
    const auto mask = i < x.rows ? wanted : 0;
    if (x.column == 1) {
      _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
      continue;
    }
    for (Int j = 0; j < block_length; ++j) to[j] = mask >> j & 1 ? from[j * x.column] : Half(0);
  }
}
/// to [16 pairs of elements][16 lines][2], where neighbours in memory are elements of lines.
inline void copy_pairs(const Matrix<Half>& x, Half* to) {
  for (Int j = 0; j < block_length; j += 2, to += block_length) {
    const auto element = [&](Int k) {
      return load_halves(x.data + k * x.column, k < x.columns ? x.rows : 0);
    };
    _mm512_storeu_si512(to, _mm512_or_si512(element(j), _mm512_slli_epi32(element(j + 1), 16)));
  }
}
inline void pack_block(const HalfLines& lines, Int group, Int block, bool in_pairs, Half* to) {
  const Matrix<Half>& x = lines.x;
  const Int first = group * block_lines, at = block * block_length;
  const Matrix<Half> part{x.data + first * x.row + at * x.column,
                          lesser(block_lines, x.rows - first), lesser(block_length, x.columns - at),
                          x.row, x.column};
  alignas(64) Half turned[block_size];
  const bool turns = lines.crosses() != in_pairs;
  (lines.crosses() ? copy_pairs : copy_lines)(part, turns ? turned : to);
  if (turns)
    transpose_square<16>(reinterpret_cast<const std::uint32_t*>(turned), block_lines,
                         reinterpret_cast<std::uint32_t*>(to), block_lines);
}
/// Packs groups [first, end) to [group][block], and each block to [pair][line][2] if `in_pairs`,
/// else to [line][element]. Memory is read in its order.
inline void pack(const HalfLines& lines, Int first, Int end, bool in_pairs, Half* to) {
  const Int blocks = lines.blocks(), groups = end - first;
  for (Int i = 0; i < groups * blocks; ++i) {
    const Int group = lines.crosses() ? i % groups : i / blocks;
    const Int block = lines.crosses() ? i / groups : i % blocks;
    pack_block(lines, first + group, block, in_pairs, to + (group * blocks + block) * block_size);
  }
}
}  // namespace reel::kernels::REEL_ISA
