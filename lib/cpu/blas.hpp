// SPDX-License-Identifier: BSD-3-Clause
// Products by a BLAS library, where it is faster than this library: large products.
#pragma once
#include <cstdint>

namespace reel::kernels {
/// c [n, m] = x [n, k] y [k, m] (+ c), row-major; a transposed operand is stored as its
/// transpose. Steps are distances between rows in memory. Uses one thread.
struct BlasProduct {
  std::int64_t n, m, k;
  const void* x;
  std::int64_t x_step;
  bool x_transposed;
  const void* y;
  std::int64_t y_step;
  bool y_transposed;
  void* c;
  std::int64_t c_step;
  bool accumulate;
};
/// Whether there is a BLAS library, and memory for it. Opens it at the first call of a process,
/// whose answer holds for this process.
bool has_blas();
void blas_product_f32(const BlasProduct& product);
void blas_product_f64(const BlasProduct& product);

/// Functions of LAPACK, and one of BLAS, as Fortran has them: arguments by address, column-major
/// matrices, and the length of each text at the end.
enum class Fortran { potrf, getrf, getri, getrs, trsm, gelqf, orglq, syevd, gesdd, gesvd };
inline constexpr int fortran_functions = 10;
using AnyFunction = void (*)();
/// Null if there is no library with this function, or no memory for it.
AnyFunction fortran(Fortran function, bool is_double);
/// Calls f(work), which calls such functions. They use one thread meanwhile. f throws nothing.
void call_fortran(void (*f)(const void* work), const void* work);
}  // namespace reel::kernels
