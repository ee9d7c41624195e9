// SPDX-License-Identifier: BSD-3-Clause
// Products of pairs of bfloat16 by AMX.
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/cpu/pair_tile.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
using bf16::block_lines, bf16::block_size, bf16::PairStrip, bf16::PairSums;

/// Whether the system gives the registers of AMX to this process. It is asked once, at the first
/// product, because signal stacks must be larger from then on.
bool available() {
  constexpr long ask = 0x1023, registers = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static int answer = 0;
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known == 0) {
    known = syscall(SYS_arch_prctl, ask, registers) == 0 ? 1 : -1;
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known > 0;
}
/// Eight registers of 16 rows of 64 bytes.
void begin() {
  static constexpr struct alignas(64) {
    std::uint8_t palette = 1, start = 0, none[14] = {};
    std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } layout;
  _tile_loadconfig(&layout);
}
void end() { _tile_release(); }

void sum(const PairStrip& x, const PairStrip& y, std::int64_t length, std::int64_t /*rows*/,
         PairSums& sums) {
  constexpr std::int64_t row = 64, sums_row = sizeof sums[0];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  const std::int64_t blocks = (length + bf16::block_length - 1) / bf16::block_length;
  for (std::int64_t i = 0; i < blocks * block_size; i += block_size) {
    _tile_loadd(4, x.first + i, row);
    _tile_loadd(6, y.first + i, row);
    _tile_loadd(7, y.second + i, row);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, x.second + i, row);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, &sums[0][0], sums_row);
  _tile_stored(1, &sums[0][block_lines], sums_row);
  _tile_stored(2, &sums[block_lines][0], sums_row);
  _tile_stored(3, &sums[block_lines][block_lines], sums_row);
}
constexpr bf16::PairTile tile = {available, begin, end, sum};
}  // namespace
extern const Family matmul_family;
const Family matmul_family = {bf16::PairKernels<tile>::all, nullptr};
}  // namespace reel::kernels::REEL_ISA
