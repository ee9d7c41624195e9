// SPDX-License-Identifier: BSD-3-Clause
// LAPACK for each matrix of a batch. A row-major matrix is for LAPACK the transpose of a
// column-major one.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "lib/cpu/blas.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::lapack {
using Int = std::int64_t;
/// Up to so many rows, own code takes the place of LAPACK where there is some.
inline constexpr Int small = 16;

/// The functions of LAPACK for one dtype, with the texts in front of their lengths.
template <class T>
struct Lapack {
  using Text = const char*;
  using Size = const int*;
  using Length = std::size_t;
  template <class F>
  static F* get(Fortran name) {
    return reinterpret_cast<F*>(fortran(name, sizeof(T) == 8));
  }
  static int potrf(Text uplo, int n, T* a) {
    int info = 0;
    get<void(Text, Size, T*, Size, int*, Length)>(Fortran::potrf)(uplo, &n, a, &n, &info, 1);
    return info;
  }
  static int getrf(int n, T* a, int* pivots) {
    int info = 0;
    get<void(Size, Size, T*, Size, int*, int*)>(Fortran::getrf)(&n, &n, a, &n, pivots, &info);
    return info;
  }
  /// A vector b becomes the solution for the transposed matrix.
  static void getrs(int n, const T* a, const int* pivots, T* b) {
    int one = 1, info = 0;
    get<void(Text, Size, Size, const T*, Size, const int*, T*, Size, int*, Length)>(Fortran::getrs)(
        "T", &n, &one, a, &n, pivots, b, &n, &info, 1);
  }
  static int getri(int n, T* a, const int* pivots, T* work, int size) {
    int info = 0;
    get<void(Size, T*, Size, const int*, T*, Size, int*)>(Fortran::getri)(&n, a, &n, pivots, work,
                                                                          &size, &info);
    return info;
  }
  /// b [rows, n] a^-1, or with the transposed a, in place.
  static void trsm(Text uplo, Text transposed, Text diagonal, int rows, int n, const T* a, T* b) {
    const T one = 1;
    get<void(Text, Text, Text, Text, Size, Size, const T*, const T*, Size, T*, Size, Length, Length,
             Length, Length)>(Fortran::trsm)("R", uplo, transposed, diagonal, &rows, &n, &one, a,
                                             &n, b, &rows, 1, 1, 1, 1);
  }
  /// out = x y for row-major matrices [n, n].
  static void gemm(Text x_transposed, Text y_transposed, int n, const T* x, const T* y, T* out) {
    const T one = 1, zero = 0;
    get<void(Text, Text, Size, Size, Size, const T*, const T*, Size, const T*, Size, const T*, T*,
             Size, Length, Length)>(Fortran::gemm)(y_transposed, x_transposed, &n, &n, &n, &one, y,
                                                   &n, x, &n, &zero, out, &n, 1, 1);
  }
  static int gelqf(int m, int n, T* a, T* tau, T* work, int size) {
    int info = 0;
    get<void(Size, Size, T*, Size, T*, T*, Size, int*)>(Fortran::gelqf)(&m, &n, a, &m, tau, work,
                                                                        &size, &info);
    return info;
  }
  static int orglq(int k, int n, T* a, const T* tau, T* work, int size) {
    int info = 0;
    get<void(Size, Size, Size, T*, Size, const T*, T*, Size, int*)>(Fortran::orglq)(
        &k, &n, &k, a, &k, tau, work, &size, &info);
    return info;
  }
  static int syevd(Text job, int n, T* a, T* values, T* work, int size, int* indices, int count) {
    int info = 0;
    get<void(Text, Text, Size, T*, Size, T*, T*, Size, int*, Size, int*, Length, Length)>(
        Fortran::syevd)(job, "U", &n, a, &n, values, work, &size, indices, &count, &info, 1, 1);
    return info;
  }
  /// a [m, n], u [m, k], vt [k, n], column-major.
  static int gesdd(int m, int n, int k, T* a, T* s, T* u, T* vt, T* work, int size, int* indices) {
    int info = 0;
    get<void(Text, Size, Size, T*, Size, T*, T*, Size, T*, Size, T*, Size, int*, int*, Length)>(
        Fortran::gesdd)("S", &m, &n, a, &m, s, u, &m, vt, &k, work, &size, indices, &info, 1);
    return info;
  }
  static int gesvd(int m, int n, int k, T* a, T* s, T* u, T* vt, T* work, int size) {
    int info = 0;
    get<void(Text, Text, Size, Size, T*, Size, T*, T*, Size, T*, Size, T*, Size, int*, Length,
             Length)>(Fortran::gesvd)("S", "S", &m, &n, a, &m, s, u, &m, vt, &k, work, &size, &info,
                                      1, 1);
    return info;
  }
};

/// The batch of a call: its matrices are the last two axes of input 0.
struct Batch {
  Int count = 1, rows = 1, columns = 1;
  bool has_axes = false;  // whether there may be several matrices

  explicit Batch(const Body& x);
  bool empty() const { return count == 0 || rows == 0 || columns == 0; }
};

/// What is wrong with a matrix.
enum class Wrong { pivot, not_finite, no_end };
/// The first matrix of a batch that is wrong, whichever thread finds it.
class Findings {
 public:
  void add(Int matrix, Wrong wrong, Int row = 0) {
    const std::uint64_t found = static_cast<std::uint64_t>(matrix) << 20 |
                                static_cast<std::uint64_t>(row) << 2 |
                                static_cast<std::uint64_t>(wrong);
    std::uint64_t first = first_.load(std::memory_order_relaxed);
    while (found < first && !first_.compare_exchange_weak(first, found)) {
    }
  }
  /// `expected` and `got` say what a pivot means.
  KernelResult result(const Batch& batch, const char* expected = "", const char* got = "") const;

 private:
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  std::atomic<std::uint64_t> first_ = none;
};

KernelResult no_library();
bool has_lapack();

/// f(), which calls functions of LAPACK. They may raise floating-point exceptions over clean
/// numbers, which a program may trap; it does not see them. f throws nothing.
void call_lapack(void (*f)(const void* work), const void* work);
template <class F>
void with_lapack(const F& f) {
  call_lapack([](const void* work) { (*static_cast<const F*>(work))(); }, &f);
}

/// Scratch memory of one block, which gives one part after the other.
class Memory {
 public:
  explicit Memory(std::byte* begin) : next_(begin) {}
  template <class T>
  T* take(Int count) {
    std::byte* const part = next_;
    next_ += room<T>(count);
    return reinterpret_cast<T*>(part);
  }
  /// The bytes of a part.
  template <class T>
  static std::size_t room(Int count) {
    return (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
  }

 private:
  std::byte* next_;
};
using MatrixBlock = void (*)(const void* work, Int first, Int end, Memory memory);
/// Calls block(work, first, end, memory of so many bytes) over all matrices, each of which costs
/// `operations`. From 64 K operations on, several threads share them. With `lapack`, the block
/// calls its functions and throws nothing.
void share_blocks(const Batch& batch, double operations, bool lapack, std::size_t bytes,
                  MatrixBlock block, const void* work);
template <class F>
void each_block(const Batch& batch, double operations, bool lapack, std::size_t bytes, const F& f) {
  share_blocks(
      batch, operations, lapack, bytes,
      [](const void* work, Int first, Int end, Memory memory) {
        (*static_cast<const F*>(work))(first, end, memory);
      },
      &f);
}

/// The number of elements of a cube: matrices take time in proportion to it.
inline double cube(Int n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}
template <class T>
bool is_finite(const T* x, Int n) {
  T sum = 0;  // NaN if one is not finite
  for (Int i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == 0;
}
template <class T>
void copy(const T* from, T* to, Int n) {
  if (n > 0) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}
template <class T>
void clear(T* x, Int n) {
  if (n > 0) std::memset(x, 0, static_cast<std::size_t>(n) * sizeof(T));
}
/// A square matrix, transposed in place.
template <class T>
void transpose(T* a, Int n) {
  constexpr Int side = 16;
  for (Int i = 0; i < n; i += side)
    for (Int j = i; j < n; j += side)
      for (Int r = i; r < std::min(i + side, n); ++r)
        for (Int c = std::max(j, r + 1); c < std::min(j + side, n); ++c)
          std::swap(a[r * n + c], a[c * n + r]);
}

}  // namespace reel::kernels::lapack
