// SPDX-License-Identifier: BSD-3-Clause
// Products of bfloat16 by instructions that multiply pairs of elements and add in float32: the
// driver, and the tile of AVX512-BF16.
#include "lib/cpu/matmul.hpp"
#include "lib/cpu/pairs.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/pool/thread_count.hpp"
#include "lib/table/options/matmul.hpp"

namespace reel::kernels::REEL_BASE {
extern const Family matmul_family;
PassFunction activation_pass(Activation activation, DType dtype);
}  // namespace reel::kernels::REEL_BASE

namespace reel::kernels::REEL_ISA {
namespace {
/// Groups `group` and the next one of packed lines.
PairStrip lines_of(const Half* packed, Int group, Int groups, Int group_size) {
  const Half* const first = packed + group * group_size;
  return {first, group + 1 < groups ? first + group_size : first};
}

/// Eight rows at once: 16 sums hide the latency of an instruction.
void sum(const PairStrip& x, const PairStrip& y, Int length, Int rows, PairSums& sums) {
  constexpr int height = 8;
  for (Int top = 0; top < rows; top += height) {
    const Half* from = (top < block_lines ? x.first : x.second) + top % block_lines * block_length;
    const Half *left = y.first, *right = y.second;
    __m512 added[height][2] = {};
    for (Int rest = length; rest > 0; rest -= block_length, from += block_size - block_length) {
      const Int pairs = parts_of(lesser(rest, block_length), 2);
      const Half *l = left, *r = right;
      for (Int j = 0; j < pairs; ++j, from += 2, l += block_length, r += block_length) {
        const auto y_left = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(l));
        const auto y_right = __builtin_bit_cast(__m512bh, _mm512_loadu_si512(r));
        REEL_UNROLL
        for (int i = 0; i < height; ++i) {
          std::int32_t pair;
          __builtin_memcpy(&pair, from + i * block_length, sizeof pair);
          const auto factor = __builtin_bit_cast(__m512bh, _mm512_set1_epi32(pair));
          added[i][0] = _mm512_dpbf16_ps(added[i][0], factor, y_left);
          added[i][1] = _mm512_dpbf16_ps(added[i][1], factor, y_right);
        }
      }
      from += block_length - 2 * pairs;
      left += block_size;
      right += block_size;
    }
    REEL_UNROLL
    for (int i = 0; i < height; ++i) {
      _mm512_store_ps(sums[top + i], added[i][0]);
      _mm512_store_ps(sums[top + i] + block_lines, added[i][1]);
    }
  }
}
constexpr PairTile bf16_tile = {[] { return true; }, [] {}, [] {}, sum};

/// Rounds to the nearest bfloat16, ties to even. Subnormal numbers become zero.
void store_rounded(Half* to, __m512 x, Int n) {
  const auto rounded = __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(x));
  if (n >= block_lines)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), rounded);
  else
    _mm256_mask_storeu_epi16(to, first_lanes(n), rounded);
}

/// c = x y + z, then the activation. Rows of c are c_row elements apart. z.data may be null.
struct PairProduct {
  HalfLines x, y;  // the lines of y are its columns
  Matrix<Half> z;
  Half* c;
  Int c_row;
  PassFunction activation;
  const PairTile& tile;

  Int length() const { return x.x.columns; }
  Int group_size() const { return x.blocks() * block_size; }

  __m512 added(Int i, Int j, Int n) const {
    const Half* const from = z.data + i * z.row + j * z.column;
    alignas(64) Half copy[block_lines] = {};
    if (z.column != 1)
      for (Int k = 0; k < n && k < block_lines; ++k) copy[k] = from[k * z.column];
    return _mm512_castsi512_ps(_mm512_slli_epi32(load_halves(z.column == 1 ? from : copy, n), 16));
  }
  /// What follows the sums of a strip of rows and columns.
  void finish(Int row, Int column, Int rows, Int columns, PairSums& sums) const {
    for (Int i = 0; z.data && i < rows; ++i)
      for (Int j = 0; j < columns; j += block_lines) {
        float* const at = sums[i] + j;
        _mm512_store_ps(at,
                        _mm512_add_ps(added(row + i, column + j, columns - j), _mm512_load_ps(at)));
      }
    if (activation) {
      const void* const input = sums;
      activation(rows * pair_strip, &input, 0, sums);
    }
    for (Int i = 0; i < rows; ++i)
      for (Int j = 0; j < columns; j += block_lines)
        store_rounded(c + (row + i) * c_row + column + j, _mm512_load_ps(sums[i] + j), columns - j);
  }

  /// Rows [row, row_end) and columns [column, column_end). y has been packed from column 0 on.
  void run(Int row, Int row_end, Int column, Int column_end, const Half* packed_y) const {
    const Int first = row / block_lines, groups = parts_of(row_end, block_lines) - first;
    auto* const packed_x =
        static_cast<Half*>(scratch(static_cast<std::size_t>(groups * group_size()) * sizeof(Half)));
    pack(x, first, first + groups, false, packed_x);
    tile.begin();
    alignas(64) PairSums sums;
    for (Int j = column; j < column_end; j += pair_strip) {
      const PairStrip right = lines_of(packed_y, j / block_lines, y.groups(), group_size());
      for (Int i = row; i < row_end; i += pair_strip) {
        const Int rows = lesser(pair_strip, row_end - i),
                  columns = lesser(pair_strip, column_end - j);
        const PairStrip left = lines_of(packed_x, i / block_lines - first, groups, group_size());
        tile.sum(left, right, length(), rows, sums);
        finish(i, j, rows, columns, sums);
      }
    }
    tile.end();
  }
};

// In multiply-adds: the least work for a piece to pay for another thread.
constexpr double piece_work = 16 << 20;
// Elements: packed rows of x stay in the L2 cache, packed columns of y in the L3 cache.
constexpr Int most_of_x = 256 << 10, most_of_y = 2 << 20;

/// The greatest multiple of a strip with `length` elements in each line, of at most `most`.
Int lines_within(Int most, Int length) {
  const Int lines = most / (length + 1) / pair_strip * pair_strip;
  return lines ? lines : pair_strip;
}
Int in_strips(Int n, Int parts) { return parts_of(parts_of(n, parts), pair_strip) * pair_strip; }

/// The product with some columns of y, whose packed elements are read by all threads.
void columns_product(const PairProduct& p, bool shares) {
  const Int n = p.x.x.rows, m = p.y.x.rows, threads = shares ? thread_count() : 1;
  auto* const packed =
      static_cast<Half*>(lasting_scratch(static_cast<std::size_t>(p.y.size()) * sizeof(Half)));
  parallel_blocks(p.y.groups(), parts_of(p.y.groups(), threads), 1, [&](Int first, Int end) {
    pack(p.y, first, end, true, packed + first * p.group_size());
  });
  const Int rows = lesser(lines_within(most_of_x, p.length()), in_strips(n, threads));
  const Int row_pieces = parts_of(n, rows);
  const Int columns = in_strips(m, row_pieces < threads ? threads : 1);
  const Int column_pieces = parts_of(m, columns);
  parallel_for(row_pieces * column_pieces, [&](Int piece) {
    const Int row = piece / column_pieces * rows, column = piece % column_pieces * columns;
    p.run(row, lesser(n, row + rows), column, lesser(m, column + columns), packed);
  });
}
void product(const PairProduct& p) {
  const Int m = p.y.x.rows, columns = lines_within(most_of_y, p.length());
  const double work = static_cast<double>(p.x.x.rows * m) * static_cast<double>(p.length());
  for (Int column = 0; column < m; column += columns) {
    PairProduct part = p;
    part.y.x.data += column * p.y.x.row;
    part.y.x.rows = lesser(columns, m - column);
    if (p.z.data) part.z.data += column * p.z.column;
    part.c += column;
    columns_product(part, work >= 2 * piece_work);
  }
}

KernelResult products(const KernelCall& call, const Body* z, PassFunction activation,
                      const PairTile& tile) {
  const Body &x = call.input(0), &y = call.input(1), &out = call.output();
  const Matrix<Half> a = last_axes<Half>(x), b = last_axes<Half>(y);
  const Int m = b.columns;
  if (out.elements == 0) return {};
  // Rows that are multiplied by one matrix are those of one matrix.
  if (out.rank() == 2 || (y.rank() == 2 && x.contiguous)) {
    Half* const c = out.as<Half>();
    const Int n = out.elements / m;
    const Matrix<Half> start =
        out.rank() == 2 ? added<Half>(z, n, m) : Matrix<Half>{z ? c : nullptr, n, m, m, 1};
    product({{{a.data, n, a.columns, a.row, a.column}},
             {b.transposed()},
             start,
             c,
             m,
             activation,
             tile});
    return {};
  }
  const double work = static_cast<double>(a.rows * b.columns) * static_cast<double>(a.columns);
  const double grain = work < 2 * piece_work ? 1 + piece_work / (work + 1) : 1e18;
  for_each_product<Half>(
      call, z, static_cast<Int>(grain),
      [&](const auto& x_i, const auto& y_i, const auto& z_i, Half* c_i) {
        product({{x_i}, {y_i.transposed()}, z_i, c_i, z_i.columns, nullptr, tile});
      });
  return {};
}

bool fits(const KernelCall& call, const PairTile& tile) {
  return call.output().dtype == DType::bfloat16 && tile.available();
}
}  // namespace

bool takes_halves(const KernelCall& call, const PairTile& tile) {
  return fits(call, tile) || REEL_BASE::matmul_family.kernels[0].takes_halves(call);
}
KernelResult pair_products(const KernelCall& call, PairOp op, const PairTile& tile) {
  if (!fits(call, tile)) [[likely]]
    return REEL_BASE::matmul_family.kernels[static_cast<int>(op)].kernel(call);
  if (op == PairOp::matmul)
    return products(call, call.accumulate & 1 ? &call.output() : nullptr, nullptr, tile);
  const Activation activation =
      op == PairOp::dense ? call.option<ActivationOptions>().activation : Activation::none;
  return products(call, &call.input(2), REEL_BASE::activation_pass(activation, DType::float32),
                  tile);
}

extern const Family matmul_family;
const Family matmul_family = {PairKernels<bf16_tile>::all, nullptr};
}  // namespace reel::kernels::REEL_ISA
