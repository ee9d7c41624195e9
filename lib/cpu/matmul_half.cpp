// SPDX-License-Identifier: BSD-3-Clause
// Products of float16 and bfloat16 in float32, rounded once. The bits are those of the product of
// row-major float32 matrices with the same elements.
#include "lib/cpu/half_matrix.hpp"
#include "lib/cpu/product.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/pool/thread_count.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
using Int = std::int64_t;
// Elements of float32: whole matrices up to this number are widened at once.
constexpr Int most_whole = 12 << 10;
// The largest part of c that is computed at once.
constexpr Int part_rows = 288, part_columns = 1024;
// In tiles, an element of c depends on k and `adds` alone. Other methods serve fewer lengths.
constexpr Int least_rows = 16, least_columns = 16;

struct HalfProduct {
  Matrix<Half> x, y, z;  // z.data is null if nothing is added
  Half* c;
  PassFunction activation;
  unsigned how;

  Int elements() const { return x.rows * x.columns + x.columns * y.columns + x.rows * y.columns; }
  double work() const {
    return static_cast<double>(x.rows * y.columns) * static_cast<double>(x.columns);
  }
  bool is_whole() const { return elements() <= most_whole; }
  bool fits_tiles() const {
    return x.rows >= least_rows && y.columns >= least_columns && x.columns > 0;
  }
};

float* memory(void* (*buffer)(std::size_t), Int elements) {
  return static_cast<float*>(buffer(static_cast<std::size_t>(elements) * sizeof(float)));
}
/// A row-major copy at `to`, behind which `to` points then.
Matrix<float> widened(const Matrix<Half>& x, float*& to, unsigned how) {
  float* const at = to;
  widen_matrix(x, at, x.columns, how);
  to += x.rows * x.columns;
  return {at, x.rows, x.columns, x.columns, 1};
}

void whole_product(const HalfProduct& p) {
  const Int n = p.x.rows, m = p.y.columns;
  float* to = memory(lasting_scratch, p.elements() + n * m);
  const Matrix<float> x = widened(p.x, to, p.how), y = widened(p.y, to, p.how);
  float* const c = to;
  to += n * m;
  Matrix<float> z{nullptr, n, m, m, 1};
  if (p.z.data == p.c) {
    z.data = c;
    widen_matrix(p.z, c, m, p.how);
  } else if (p.z.data) {  // axes with a step of 0 stay axes of length 1
    const Int rows = p.z.row ? n : 1, columns = p.z.column ? m : 1;
    z = widened({p.z.data, rows, columns, p.z.row, p.z.column}, to, p.how);
    z = {z.data, n, m, rows == n ? columns : 0, columns == m ? Int{1} : Int{0}};
  }
  product(x, y, z, c, p.activation);
  narrow(c, p.c, n * m, p.how);
}

/// Rows [row, row + rows) and some columns of c.
void part_product(const HalfProduct& p, Int depth, Int row, Int rows, Int column, Int columns) {
  const bool apart = p.x.columns >= least_apart;
  Product<float, Half> part{rows,
                            columns,
                            p.x.columns,
                            p.x.data + row * p.x.row,
                            p.x.row,
                            p.x.column,
                            p.y.data + column * p.y.column,
                            p.y.row,
                            nullptr,
                            columns,
                            nullptr,
                            columns};
  part.activation = p.activation;
  part.adds = p.z.data && apart && (p.z.data == p.c || p.z.column != 1);
  const Blocks<float, Half> blocks(part, p.y.column, depth, p.how);
  const Int size = rounded_up(rows * columns, blocks.line);
  float* const sums = memory(scratch, size + blocks.scratch_size());
  part.c = sums;
  if (p.z.data) {
    const Half* const from = p.z.data + row * p.z.row + column * p.z.column;
    widen_matrix({from, rows, columns, p.z.row, p.z.column}, sums, columns, p.how);
    if (!part.adds) part.start = sums;
  }
  blocks.multiply(sums + size);
  Half* to = p.c + row * p.y.columns + column;
  for (Int i = 0; i < rows; ++i, to += p.y.columns) narrow(sums + i * columns, to, columns, p.how);
}
void tiled_product(const HalfProduct& p) {
  constexpr double least_work = 8 << 20;  // multiply-adds that pay for threads
  const Int n = p.x.rows, m = p.y.columns, k = p.x.columns;
  const Int threads = p.work() < least_work ? 1 : thread_count();
  const Int depth = depth_of<float>({nullptr, n, k, k, 1}, {nullptr, k, m, m, 1});
  const Int rows = part_length(n, least(part_rows, (n + threads - 1) / threads), wide_tile_rows);
  const Int columns = part_length(m, part_columns, lanes<float>),
            across = (m + columns - 1) / columns;
  parallel_for((n + rows - 1) / rows * across, [&](Int piece) {
    const Int row = piece / across * rows, column = piece % across * columns;
    if (row < n && column < m)
      part_product(p, depth, row, least(rows, n - row), column, least(columns, m - column));
  });
}
HalfProduct product_of(const KernelCall& call, const Matrix<Half>& z, PassFunction activation) {
  const Body& out = call.output();
  return {last_axes<Half>(call.input(0)),
          last_axes<Half>(call.input(1)),
          z,
          out.as<Half>(),
          activation,
          out.dtype == DType::float16 ? pass_float16 : pass_bfloat16};
}
}  // namespace

bool takes_halves(const KernelCall& call) {
  const HalfProduct p = product_of(call, {}, nullptr);
  return p.is_whole() || p.fits_tiles();
}
KernelResult half_products(const KernelCall& call, const Body* z, PassFunction activation) {
  const Body& out = call.output();
  if (out.elements == 0) return {};
  HalfProduct p = product_of(call, {}, activation);
  const auto compute = [](const HalfProduct& one) {
    one.is_whole() ? whole_product(one) : tiled_product(one);
  };
  if (out.rank() == 2) {
    p.z = added<Half>(z, p.x.rows, p.y.columns);
    compute(p);
    return {};
  }
  const double grain = p.work() < (8 << 20) ? 1 + (4 << 20) / (p.work() + 1) : 1e18;
  for_each_product<Half>(call, z, static_cast<Int>(grain),
                         [&](const auto& x, const auto& y, const auto& z_i, Half* c) {
                           compute({x, y, z_i, c, nullptr, p.how});
                         });
  return {};
}
}  // namespace reel::kernels::REEL_ISA
