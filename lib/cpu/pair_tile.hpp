// SPDX-License-Identifier: BSD-3-Clause
// PairSums of products of pairs of bfloat16, by AVX512-BF16 or by AMX. Both share the driver of
// matmul_pairs.cpp, which is compiled for AVX512-BF16.
#pragma once
#include "lib/cpu/kernels.hpp"

namespace reel::kernels::bf16 {
// Packed elements are in blocks of 16 lines and 32 elements of each. A line is a row of x or a
// column of y.
inline constexpr std::int64_t block_lines = 16, block_length = 32,
                              block_size = block_lines * block_length;
/// Rows of x and columns of y whose sums are computed together: two groups of lines of each.
inline constexpr std::int64_t pair_strip = 2 * block_lines;
using PairSums = float[pair_strip][pair_strip];
/// Two groups of lines. The second one is the first one again where there is no other. Blocks of x
/// are [line][element], those of y [pair][line][2].
struct PairStrip {
  const std::uint16_t *first, *second;
};

struct PairTile {
  bool (*available)();
  void (*begin)(), (*end)();  // around the calls of sum() of a thread
  /// The sums over `length` elements. Only the first `rows` are needed.
  void (*sum)(const PairStrip& x, const PairStrip& y, std::int64_t length, std::int64_t rows,
              PairSums& sums);
};
enum class PairOp { matmul, matmul_add, dense };  // in the order of the base's kernels

/// The kernel of an op: products of bfloat16 by tiles, other products by AVX-512.
KernelResult pair_products(const KernelCall& call, PairOp op, const PairTile& tile);
bool takes_halves(const KernelCall& call, const PairTile& tile);

/// The kernels of an instruction set with these tiles.
template <const PairTile& tile>
struct PairKernels {
  template <PairOp op>
  static KernelResult run(const KernelCall& call) {
    return pair_products(call, op, tile);
  }
  static bool takes(const KernelCall& call) { return takes_halves(call, tile); }
  static constexpr NamedKernel all[] = {{"matmul", run<PairOp::matmul>, takes},
                                        {"matmul_add", run<PairOp::matmul_add>, takes},
                                        {"dense", run<PairOp::dense>, takes},
                                        {nullptr, nullptr}};
};
}  // namespace reel::kernels::bf16
