// SPDX-License-Identifier: BSD-3-Clause
// Matrix products by cuBLASLt, for kernels that compute one or more products.
#pragma once
#include <reel/activation.hpp>

#include "cuda/places.hpp"

namespace reel::gpu {
/// A matrix on a device, or a batch of matrices. Steps are the distances in elements between rows,
/// columns and matrices. A step of 0 repeats the same one.
struct Matrix {
  const void* data = nullptr;
  std::int64_t row = 0, column = 0, batch = 0;
};

/// c = z + x y, for each matrix of a batch. c is row-major without gaps.
struct Product {
  DType dtype;  // a floating one
  std::int64_t rows, columns, depth;
  Matrix x, y;  // [rows, depth] and [depth, columns]
  void* c;
  Matrix z = {};  // without data, z is 0. For a batch, z has no data or is c
  std::int64_t batches = 1;
  bool relu = false;    // cuBLASLt may apply it to z + x y
  bool copied = false;  // all operands are copies, which are aligned and have no gaps

  /// The size of n elements in bytes.
  std::int64_t bytes(std::int64_t elements) const { return elements * size_of(dtype); }
  /// This product with z = c.
  Product added_to_c() const {
    Product sum = *this;
    sum.z = {c, columns, 1, rows * columns};
    return sum;
  }
};

/// Products on one queue, which share a workspace.
class Products {
 public:
  explicit Products(const Queue& queue) : queue_(queue) {}
  /// Whether ReLU was applied.
  bool multiply(Product p);
  /// The result of a kernel: `declined` if cuBLASLt multiplies no 16 bits here.
  KernelResult result() const { return {.failure = declined_ ? declined : nullptr}; }
  /// Makes the handle of the current device. If that fails, the first product tries again.
  static void open(int device);
  /// Reads REEL_CUDA_TF32 and REEL_CUDA_FUSED_RELU. What is wrong with them, or null.
  static const char* read_options();
  /// Whether products of float32 may round their inputs to TF32: 10 bits after the first one.
  static bool use_tf32();

 private:
  void start_from_z(const Product& p) const;
  void fit(const Product& p, Matrix& x, std::int64_t rows, std::int64_t columns) const;
  void copy(const Product& p, Matrix& x, std::int64_t rows, std::int64_t columns) const;
  bool run(const Product& p, bool bias);
  bool run_otherwise(const Product& p, bool bias);

  const Queue& queue_;
  void* workspace_ = nullptr;  // of this size
  std::size_t workspace_bytes_ = 0;
  bool computed_ = false, declined_ = false;  // any of the products; then none was computed
};

/// Copies the n elements of `places` to row-major order. (matmul_copy.cu)
void copy_from_places(const Queue& queue, DType dtype, std::int64_t n, const Places<1>& places,
                      const void* from, void* to);
/// Applies an activation in place, to 16 bits only ReLU or none. (activate.cu)
void activate(const Queue& queue, Activation activation, DType dtype, std::int64_t n, void* x);
}  // namespace reel::gpu
