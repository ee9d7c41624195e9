// SPDX-License-Identifier: BSD-3-Clause
// matmul and matmul_add: which way a product goes.
#include "lib/cpu/matmul.hpp"

#include "lib/cpu/blas.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/matmul_dots.hpp"
#include "lib/cpu/panels.hpp"
#include "lib/cpu/scratch.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// How BLAS reads a matrix: neighbours along one axis, whole rows along the other.
template <class T>
struct BlasMatrix {
  std::int64_t step = 0;
  bool turned = false, fits = false;

  explicit BlasMatrix(const Matrix<T>& x) {
    const bool one_row = x.rows == 1, one_column = x.columns == 1;
    turned = x.column != 1 && !one_column;
    step = turned ? (one_column ? x.rows : x.column) : (one_row ? x.columns : x.row);
    fits = step >= (turned ? x.rows : x.columns) && (!turned || x.row == 1 || one_row);
  }
};

template <class T>
void by_blas(const Matrix<T>& x, const Matrix<T>& y, T* c, bool accumulate) {
  const BlasMatrix<T> a(x), b(y);
  const BlasProduct product{x.rows, y.columns, x.columns, x.data, a.step,    a.turned,
                            y.data, b.step,    b.turned,  c,      y.columns, accumulate};
  if constexpr (sizeof(T) == 4)
    blas_product_f32(product);
  else
    blas_product_f64(product);
}

// Measured on AVX-512, and with OpenBLAS 0.3.21 on its narrower kernels.
constexpr bool loses_to_blas = lanes<float> < 16;
constexpr std::int64_t least_of_blas = 256;
constexpr std::int64_t few_rows = 14;  // too few to pay for a copy of y
constexpr std::int64_t most_dot_rows = most_tile_rows > 6 ? 12 : 3, most_short_dot_rows = 3;
constexpr std::int64_t first_cache = 24 << 10, short_cache = 160 << 10;
constexpr std::int64_t short_sum = 32, band_rows = 16, least_banded_columns = 64;
constexpr std::int64_t most_turned = 1 << 18;  // elements of c

template <class T>
T* memory(std::int64_t elements) {
  return static_cast<T*>(scratch(static_cast<std::size_t>(elements) * sizeof(T)));
}

/// y's columns lie one after the other, and x has few rows.
template <class T>
void by_dots(Matrix<T> x, const Matrix<T>& y, T* c, bool accumulate) {
  if (x.column != 1) {
    T* const copy = memory<T>(x.rows * x.columns);
    copy_matrix(x, copy, x.columns);
    x = {copy, x.rows, x.columns, x.columns, 1};
  }
  multiply_dots(x, y, c, accumulate);
}

/// c starts from z, whose steps may be 0.
template <class T>
void copy_rows(const Matrix<T>& z, T* c) {
  for (std::int64_t i = 0; i < z.rows; ++i, c += z.columns) {
    const T* from = z.data + i * z.row;
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < z.columns; ++j) c[j] = from[j * z.column];
  }
}

/// Cycles that moving a matrix takes, if it lies with neighbours along its rows or not, and those
/// of a product with vectors of y, all roughly.
template <class T>
double moving_cost(const Matrix<T>& x) {
  const double each = x.column == 1 ? 0.1 : x.row == 1 ? 0.25 : 1;
  return each * static_cast<double>(x.rows * x.columns);
}
template <class T>
double cost(const Matrix<T>& x, const Matrix<T>& y) {
  const std::int64_t vectors = (y.columns + lanes<T> - 1) / lanes<T>;
  return moving_cost(x) + moving_cost(y) + 0.5 * static_cast<double>(x.rows * x.columns * vectors);
}

/// Whether c's transpose from y's and x's is less work than c.
template <class T>
bool pays_turned(const Matrix<T>& x, const Matrix<T>& y, bool adds) {
  if (y.column == 1 && (x.row != 1 || x.column == 1)) return false;
  const std::int64_t size = x.rows * y.columns;
  if (x.columns == 0 || size > most_turned) return false;
  const double turning = (adds ? 0.5 : 0.25) * static_cast<double>(size);
  return cost(y.transposed(), x.transposed()) + turning < cost(x, y);
}

/// Rows begin with cache lines.
template <class T>
bool is_lined_up(const Matrix<T>& x) {
  const auto row = static_cast<std::uintptr_t>(x.row) * sizeof(T);
  return (reinterpret_cast<std::uintptr_t>(x.data) | row) % 64 == 0;
}
/// Reading y as it lies is best where it stays in the first cache, or is met by few rows of x or
/// for so few steps that the way of c to and from memory counts.
template <class T>
bool reads_y_as_it_lies(const Matrix<T>& x, const Matrix<T>& y) {
  if (x.columns == 0) return true;
  if (y.column != 1) return false;
  const std::int64_t bytes = y.rows * y.columns * size_in_bytes<T>;
  if (bytes <= first_cache || x.rows < few_rows) return true;
  return x.columns <= short_sum && bytes <= short_cache && is_lined_up(y);
}

template <class T>
void by_tiles(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c) {
  Product<T> p{x.rows, y.columns, x.columns, x.data,    x.row,  x.column,
               y.data, y.row,     c,         y.columns, z.data, z.row};
  if (!reads_y_as_it_lies(x, y)) {
    const Blocks<T> blocks(p, y.column);
    return blocks.multiply(memory<T>(blocks.room()));
  }
  const bool wide = p.n > 2 * most_tile_rows && p.m > panel_width<most_tile_rows, T>;
  const std::int64_t height = wide ? wide_tile_rows : most_tile_rows;
  // Few rows of x take y in bands of rows, in the order of memory.
  const bool banded = p.n < few_rows && p.m > least_banded_columns;
  const std::int64_t depth = banded ? band_rows : p.k;
  while (p.k > depth) {
    Product<T> part = p;
    part.k = depth;
    multiply<Way::plain>(part, height);
    p.k -= depth;
    p.x += depth * p.x_column;
    p.y += depth * p.y_row;
    p.start = p.c;
    p.start_row = p.c_row;
  }
  multiply<Way::plain>(p, height);
}

/// By transposes: c's is y's times x's.
template <class T>
void by_turned_tiles(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c) {
  Product<T> p{y.columns, x.rows,   x.columns, y.data, y.column, y.row,
               x.data,    x.column, nullptr,   x.rows, nullptr,  x.rows};
  const Blocks<T> blocks(p, x.row);
  const std::int64_t size = rounded_up(x.rows * y.columns, Blocks<T>::line);
  p.c = memory<T>(size + blocks.room());
  if (z.data) {
    copy_matrix(z.transposed(), p.c, x.rows);
    p.start = p.c;
  }
  blocks.multiply(p.c + size);
  turn_elements(p.c, x.rows, c, y.columns, x.rows, y.columns);
}

/// c [x.rows, y.columns], row-major, = z + x y; z may be c, and its data null for zeros.
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c) {
  if (x.rows == 0 || y.columns == 0) return;
  if (y.columns == 1 && x.rows > 1)  // a column is a row seen from the other side
    return product(y.transposed(), x.transposed(), z.transposed(), c);
  const std::int64_t dot_rows =
      x.column == 1 && x.columns >= 8 * lanes<T> ? most_dot_rows : most_short_dot_rows;
  const bool dots = y.row == 1 && y.column != 1 && y.columns > 1 && x.rows <= dot_rows;
  const bool blas = loses_to_blas && has_blas() &&
                    least(least(x.rows, y.columns), x.columns) >= least_of_blas &&
                    BlasMatrix<T>(x).fits && BlasMatrix<T>(y).fits;
  if (z.data && z.data != c && (dots || blas || z.column != 1)) {
    copy_rows(z, c);
    return product(x, y, {c, x.rows, y.columns, y.columns, 1}, c);
  }
  if (blas) return by_blas(x, y, c, z.data);
  if (dots) return by_dots(x, y, c, z.data);
  if (pays_turned(x, y, z.data)) return by_turned_tiles(x, y, z, c);
  by_tiles(x, y, z, c);
}

template <class T>
Matrix<T> last_axes(const Body& x) {
  const int rank = x.rank();
  const std::int64_t* lengths = x.shape.data();
  return {x.as<T>(), lengths[rank - 2], lengths[rank - 1], x.strides[rank - 2],
          x.strides[rank - 1]};
}

/// z as it is added to each element of a matrix: axes of length 1 do not step.
template <class T>
Matrix<T> added(const Body* z, std::int64_t rows, std::int64_t columns) {
  if (!z) return {nullptr, rows, columns, columns, 1};
  const int rank = z->rank();
  const auto step = [&](int axis) {
    return axis < 0 || z->shape.data()[axis] == 1 ? 0 : z->strides[axis];
  };
  return {z->as<T>(), rows, columns, step(rank - 2), step(rank - 1)};
}

/// Where matrix number `i` of the result finds its operand: leading axes broadcast.
std::int64_t batch_offset(const Body& x, const Body& out, std::int64_t i) {
  std::int64_t offset = 0;
  for (int axis = out.rank() - 3; axis >= 0; --axis) {
    const std::int64_t length = out.shape.data()[axis];
    const int own = axis - out.rank() + x.rank();
    if (own >= 0 && x.shape.data()[own] != 1) offset += i % length * x.strides[own];
    i /= length;
  }
  return offset;
}

/// z: what the products are added to; null if nothing. It has the result's rank, or broadcasts over
/// the rows of one matrix.
template <class T>
void products(const KernelCall& call, const Body* z) {
  const Body &x = call.input(0), &y = call.input(1);
  T* c = call.output().as<T>();
  Matrix<T> a = last_axes<T>(x), b = last_axes<T>(y);
  const std::int64_t size = a.rows * b.columns;
  Matrix<T> start = added<T>(z, a.rows, b.columns);
  if (call.output().rank() == 2) return product(a, b, start, c);
  for (std::int64_t i = 0; size && i < call.output().elements / size; ++i, c += size) {
    a.data = x.as<T>() + batch_offset(x, call.output(), i);
    b.data = y.as<T>() + batch_offset(y, call.output(), i);
    if (z) start.data = c;
    product(a, b, start, c);
  }
}
KernelResult by_dtype(const KernelCall& call, const Body* z) {
  if (call.output().dtype == DType::float32)
    products<float>(call, z);
  else
    products<double>(call, z);
  return {};
}

KernelResult matmul(const KernelCall& call) {
  return by_dtype(call, call.accumulate & 1 ? &call.output() : nullptr);
}
KernelResult matmul_add(const KernelCall& call) { return by_dtype(call, &call.input(2)); }

const NamedKernel kernels[] = {{"matmul", matmul}, {"matmul_add", matmul_add}, {nullptr, nullptr}};
}  // namespace
extern const Family matmul_family;
const Family matmul_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
