// SPDX-License-Identifier: BSD-3-Clause
// matmul and matmul_add: which way a product goes.
#include "lib/cpu/matmul.hpp"

#include "lib/cpu/blas.hpp"
#include "lib/cpu/kernels.hpp"
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

constexpr std::int64_t most_dot_rows = 3;

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
bool by_blas(const Matrix<T>& x, const Matrix<T>& y, T* c, bool accumulate) {
  const BlasMatrix<T> a(x), b(y);
  if (!has_blas() || !a.fits || !b.fits || x.columns == 0) return false;
  const BlasProduct product{x.rows, y.columns, x.columns, x.data, a.step,    a.turned,
                            y.data, b.step,    b.turned,  c,      y.columns, accumulate};
  if constexpr (sizeof(T) == 4)
    blas_product_f32(product);
  else
    blas_product_f64(product);
  return true;
}

/// With these many rows, and y beyond the first cache, panels are faster than BLAS by up to a half
/// (measured on AVX-512 against OpenBLAS 0.3.21).
constexpr std::int64_t least_panel_rows = 8, most_panel_rows = 128;
constexpr std::int64_t first_cache = 24 << 10;

template <class T>
bool by_panels(const Matrix<T>& x, const Matrix<T>& y, T* c, bool accumulate) {
  if (x.rows < least_panel_rows || x.rows > most_panel_rows) return false;
  if (y.rows * y.columns * static_cast<std::int64_t>(sizeof(T)) <= first_cache) return false;
  if (y.column != 1 && y.row != 1) return false;
  auto* copy = static_cast<T*>(scratch(panel_bytes));
  if (!copy) return false;
  multiply_by_panels(Product<T>{x.rows, y.columns, x.columns, x.data, x.row, x.column, y.data,
                                y.row, c, y.columns, accumulate},
                     y.column, copy);
  return true;
}

/// y's columns lie one after the other and x has few rows: each element is a dot product.
template <class T>
void by_dots(const Matrix<T>& x, const Matrix<T>& y, T* c, bool accumulate) {
  T* row = nullptr;
  if (x.column != 1)
    row = static_cast<T*>(scratch(static_cast<std::size_t>(x.columns) * sizeof(T)));
  for (std::int64_t i = 0; i < x.rows; ++i, c += y.columns) {
    const T* from = x.data + i * x.row;
    if (row)
      for (std::int64_t j = 0; j < x.columns; ++j) row[j] = from[j * x.column];
    for (std::int64_t j = 0; j < y.columns; ++j) {
      const T value = dot(row ? row : from, y.data + j * y.column, x.columns);
      c[j] = accumulate ? c[j] + value : value;
    }
  }
}

/// y with neighbouring columns: itself, or turned into scratch memory.
template <class T>
Matrix<T> row_major(const Matrix<T>& y) {
  if (y.column == 1 || y.columns == 1) return y;
  auto* copy = static_cast<T*>(scratch(static_cast<std::size_t>(y.rows * y.columns) * sizeof(T)));
  if (y.row == 1) {
    turn(y.data, y.column, copy, y.columns, y.rows, y.columns);
  } else {
    for (std::int64_t i = 0; i < y.rows; ++i)
      for (std::int64_t j = 0; j < y.columns; ++j)
        copy[i * y.columns + j] = y.data[i * y.row + j * y.column];
  }
  return {copy, y.rows, y.columns, y.columns, 1};
}

/// c [x.rows, y.columns], row-major.
template <class T>
void product(Matrix<T> x, Matrix<T> y, T* c, bool accumulate) {
  if (x.rows == 0 || y.columns == 0) return;
  if (by_panels(x, y, c, accumulate) || by_blas(x, y, c, accumulate)) return;
  if (y.columns == 1 && x.rows > 1) {  // a column is a row seen from the other side
    const Matrix<T> turned = x.transposed();
    x = y.transposed();
    y = turned;
  }
  if (y.row == 1 && y.column != 1 && y.columns > 1 && x.rows <= most_dot_rows)
    return by_dots(x, y, c, accumulate);
  const Matrix<T> rows = row_major(y);
  multiply(Product<T>{x.rows, y.columns, x.columns, x.data, x.row, x.column, rows.data, rows.row, c,
                      y.columns, accumulate});
}

template <class T>
Matrix<T> last_axes(const Body& x) {
  const int rank = x.rank();
  const std::int64_t* lengths = x.shape.data();
  return {x.as<T>(), lengths[rank - 2], lengths[rank - 1], x.strides[rank - 2],
          x.strides[rank - 1]};
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

template <class T>
void products(const KernelCall& call, bool accumulate) {
  const Body &x = call.input(0), &y = call.input(1);
  Body& out = call.output();
  Matrix<T> a = last_axes<T>(x), b = last_axes<T>(y);
  const std::int64_t size = a.rows * b.columns;
  if (out.rank() == 2) return product(a, b, out.as<T>(), accumulate);
  for (std::int64_t i = 0; size && i < out.elements / size; ++i) {
    a.data = x.as<T>() + batch_offset(x, out, i);
    b.data = y.as<T>() + batch_offset(y, out, i);
    product(a, b, out.as<T>() + i * size, accumulate);
  }
}

KernelResult matmul(const KernelCall& call) {
  if (call.output().dtype == DType::float32)
    products<float>(call, call.accumulate & 1);
  else
    products<double>(call, call.accumulate & 1);
  return {};
}

template <class T>
void spread(const Body& z, Body& out) {
  const std::int64_t n = out.shape.data()[0], m = out.shape.data()[1];
  const int rank = z.rank();
  const std::int64_t column = rank < 1 || z.shape.data()[rank - 1] == 1 ? 0 : z.strides[rank - 1];
  const std::int64_t row = rank < 2 || z.shape.data()[0] == 1 ? 0 : z.strides[0];
  for (std::int64_t i = 0; i < n; ++i) {
    const T* from = z.as<T>() + i * row;
    T* to = out.as<T>() + i * m;
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < m; ++j) to[j] = from[j * column];
  }
}

KernelResult matmul_add(const KernelCall& call) {
  Body& out = call.output();
  if (out.dtype == DType::float32) {
    spread<float>(call.input(2), out);
    products<float>(call, true);
  } else {
    spread<double>(call.input(2), out);
    products<double>(call, true);
  }
  return {};
}

const NamedKernel kernels[] = {{"matmul", matmul}, {"matmul_add", matmul_add}, {nullptr, nullptr}};
}  // namespace
extern const Family matmul_family;
const Family matmul_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
