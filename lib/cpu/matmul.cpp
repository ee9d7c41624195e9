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
/// A matrix as it lies.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns, row, column;  // lengths, then steps

  Matrix transposed() const { return {data, columns, rows, column, row}; }
};

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
bool fits_blas(const Matrix<T>& x, const Matrix<T>& y) {
  return has_blas() && BlasMatrix<T>(x).fits && BlasMatrix<T>(y).fits;
}
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

// Where ours is faster than OpenBLAS 0.3.21 (measured on AVX-512); beyond, packing x pays as well.
constexpr std::int64_t least_panel_rows = 8;  // which pay for the copy
constexpr std::int64_t most_dot_rows = 3;
constexpr std::int64_t first_cache = 24 << 10;

template <class T>
bool scattered(const Matrix<T>& x) {
  return x.column != 1 && x.row != 1;
}

/// y's columns lie one after the other, and x has few rows.
template <class T>
void by_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, bool accumulate) {
  T* row = nullptr;
  if (x.column != 1)
    row = static_cast<T*>(scratch(static_cast<std::size_t>(x.columns) * sizeof(T)));
  for (std::int64_t i = 0; i < x.rows; ++i, c += y.columns) {
    const T* from = x.data + i * x.row;
    for (std::int64_t j = 0; row && j < x.columns; ++j) row[j] = from[j * x.column];
    dot_row(row ? row : from, y.data, y.column, x.columns, y.columns, c, accumulate);
  }
}

/// y's elements with neighbouring columns, in scratch memory.
template <class T>
const T* row_major(const Matrix<T>& y) {
  auto* copy = static_cast<T*>(scratch(static_cast<std::size_t>(y.rows * y.columns) * sizeof(T)));
  if (y.row == 1) {
    turn_elements(y.data, y.column, copy, y.columns, y.rows, y.columns);
  } else {
    for (std::int64_t i = 0; i < y.rows; ++i)
      for (std::int64_t j = 0; j < y.columns; ++j)
        copy[i * y.columns + j] = y.data[i * y.row + j * y.column];
  }
  return copy;
}

/// Row by row: where k is this short, a product is the way to and from memory.
template <class T>
void by_rows(const Product<T>& p) {
  for (std::int64_t row = 0; row < p.n; ++row) strip<1>(p, row, 0, p.m);
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

/// c [x.rows, y.columns], row-major, = z + x y; z may be c, and its data null for zeros.
template <class T>
void product(const Matrix<T>& x, const Matrix<T>& y, const Matrix<T>& z, T* c) {
  if (x.rows == 0 || y.columns == 0) return;
  if (y.columns == 1 && x.rows > 1)  // a column is a row seen from the other side
    return product(y.transposed(), x.transposed(), z.transposed(), c);
  const bool large = x.columns > 0 && fits_blas(x, y);
  const bool few = y.column != 1 && y.row == 1 && y.columns > 1 && x.rows <= most_dot_rows;
  if (z.data && z.data != c && (large || few || z.column != 1)) {
    copy_rows(z, c);
    return product(x, y, {c, x.rows, y.columns, y.columns, 1}, c);
  }
  if (large) return by_blas(x, y, c, z.data);
  if (few) return by_dots(x, y, c, z.data);
  Product<T> own{x.rows, y.columns, x.columns, x.data,    x.row,  x.column,
                 y.data, y.row,     c,         y.columns, z.data, z.row};
  const std::int64_t bytes = y.rows * y.columns * static_cast<std::int64_t>(sizeof(T));
  if (bytes > first_cache && x.rows >= least_panel_rows && !scattered(y))
    return multiply_by_panels(own, y.column, static_cast<T*>(scratch(panel_bytes)));
  if (y.column != 1 && y.columns > 1) {
    own.y = row_major(y);
    own.y_row = y.columns;
  }
  if (x.columns <= 2) return by_rows(own);
  panel(own, 0, own.m);
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
