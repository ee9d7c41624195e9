// SPDX-License-Identifier: BSD-3-Clause
// Matrices in any layout, and the operands of products as matrices.
#pragma once
#include <cstdint>

#include "lib/pool/pool.hpp"
#include "lib/table/kernel_call.hpp"

namespace reel::kernels::REEL_ISA {
/// A matrix in any layout.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t rows, columns, row, column;  // lengths, then steps

  Matrix transposed() const { return {data, columns, rows, column, row}; }
};

/// The last two axes.
template <class T>
Matrix<T> last_axes(const Body& x) {
  const int rank = x.rank();
  const std::int64_t* lengths = x.shape.data();
  return {x.as<T>(), lengths[rank - 2], lengths[rank - 1], x.strides[rank - 2],
          x.strides[rank - 1]};
}

/// z as a matrix that is added to the product. The step of an axis of length 1 is 0.
template <class T>
Matrix<T> added(const Body* z, std::int64_t rows, std::int64_t columns) {
  if (!z) return {nullptr, rows, columns, columns, 1};
  const int rank = z->rank();
  const auto step = [&](int axis) {
    return axis < 0 || z->shape.data()[axis] == 1 ? 0 : z->strides[axis];
  };
  return {z->as<T>(), rows, columns, step(rank - 2), step(rank - 1)};
}

/// The offset of the operand for matrix number `i` of the result. Leading axes broadcast.
inline std::int64_t batch_offset(const Body& x, const Body& out, std::int64_t i) {
  std::int64_t offset = 0;
  for (int axis = out.rank() - 3; axis >= 0; --axis) {
    const std::int64_t length = out.shape.data()[axis];
    const int own = axis - out.rank() + x.rank();
    if (own >= 0 && x.shape.data()[own] != 1) offset += i % length * x.strides[own];
    i /= length;
  }
  return offset;
}
/// Calls f(x, y, z, c) for each matrix of a result with leading axes, `grain` of them or more on
/// one thread. z is the output, or null if nothing is added.
template <class T, class F>
void for_each_product(const KernelCall& call, const Body* z, std::int64_t grain, const F& f) {
  const Body &x = call.input(0), &y = call.input(1), &out = call.output();
  const Matrix<T> a = last_axes<T>(x), b = last_axes<T>(y);
  const std::int64_t size = a.rows * b.columns;
  if (size == 0) return;
  parallel_blocks(out.elements / size, grain, 1, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      Matrix<T> x_i = a, y_i = b, z_i = added<T>(z, a.rows, b.columns);
      T* const c = out.as<T>() + i * size;
      x_i.data += batch_offset(x, out, i);
      y_i.data += batch_offset(y, out, i);
      if (z) z_i.data = c;
      f(x_i, y_i, z_i, c);
    }
  });
}
}  // namespace reel::kernels::REEL_ISA
