// SPDX-License-Identifier: BSD-3-Clause
// Eigenvalues and singular values of one matrix of a batch.
#pragma once
#include "lib/cpu/lapack_batch.hpp"

namespace reel::kernels::lapack {
/// Eigenvalues, and eigenvectors as rows, of symmetric matrices.
template <class T>
struct Eigen {
  int n, size, indices;
  T* work;
  int* integers;

  explicit Eigen(Int rows)
      : n(static_cast<int>(rows)), size(1 + 6 * n + 2 * n * n), indices(3 + 5 * n) {}
  std::size_t bytes() const { return Memory::room<T>(size) + Memory::room<int>(indices); }
  void take(Memory& memory) {
    work = memory.take<T>(size);
    integers = memory.take<int>(indices);
  }
  /// False if it is not finite or the iteration does not end, which `findings` says.
  bool operator()(const T* a, Int matrix, T* vectors, T* values, bool wants_vectors,
                  Findings& findings) const {
    for (int i = 0; i < n; ++i)
      if (!is_finite(a + Int{i} * n, i + 1)) return findings.add(matrix, Wrong::not_finite), false;
    copy(a, vectors, Int{n} * n);
    if (Lapack<T>::syevd(wants_vectors ? "V" : "N", n, vectors, values, work, size, integers,
                         indices))
      return findings.add(matrix, Wrong::no_end), false;
    // The element of largest size is positive.
    for (int i = 0; wants_vectors && i < n; ++i) {
      T* const row = vectors + Int{i} * n;
      T largest = 0;
      for (int k = 0; k < n; ++k)
        if (std::abs(row[k]) > std::abs(largest)) largest = row[k];
      for (int k = 0; largest < 0 && k < n; ++k) row[k] = -row[k];
    }
    return true;
  }
};
/// Factors of matrices [n, m] that have u [n, k] and vt [k, m], all row-major.
template <class T>
struct Singular {
  Int n, m, k;
  int size = 0;
  T *copy_of_a = nullptr, *work = nullptr, *largest = nullptr;
  int* integers = nullptr;

  Singular(Int rows, Int columns) : n(rows), m(columns), k(std::min(rows, columns)) {
    T ask[2];
    const int a = static_cast<int>(m), b = static_cast<int>(n), c = static_cast<int>(k);
    Lapack<T>::gesdd(a, b, c, nullptr, nullptr, nullptr, nullptr, ask, -1, nullptr);
    Lapack<T>::gesvd(a, b, c, nullptr, nullptr, nullptr, nullptr, ask + 1, -1);
    size = static_cast<int>(std::max(ask[0], ask[1]));
  }
  std::size_t bytes() const {
    return Memory::room<T>(n * m) + Memory::room<T>(size) + Memory::room<T>(k) +
           Memory::room<int>(8 * k);
  }
  void take(Memory& memory) {
    copy_of_a = memory.take<T>(n * m);
    work = memory.take<T>(size);
    largest = memory.take<T>(k);
    integers = memory.take<int>(8 * k);
  }
  bool operator()(const T* a, Int matrix, T* u, T* s, T* vt, Findings& findings) const {
    if (!is_finite(a, n * m)) return findings.add(matrix, Wrong::not_finite), false;
    copy(a, copy_of_a, n * m);
    // LAPACK sees the transpose, whose factors are exchanged.
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), few = static_cast<int>(k);
    if (Lapack<T>::gesdd(rows, columns, few, copy_of_a, s, vt, u, work, size, integers)) {
      copy(a, copy_of_a, n * m);
      if (Lapack<T>::gesvd(rows, columns, few, copy_of_a, s, vt, u, work, size))
        return findings.add(matrix, Wrong::no_end), false;
    }
    clear(largest, k);
    for (Int i = 0; i < n; ++i)
      for (Int c = 0; c < k; ++c)
        if (std::abs(u[i * k + c]) > std::abs(largest[c])) largest[c] = u[i * k + c];
    for (Int c = 0; c < k; ++c) {
      if (!(largest[c] < 0)) continue;
      for (Int i = 0; i < n; ++i) u[i * k + c] = -u[i * k + c];
      for (Int i = 0; i < m; ++i) vt[c * m + i] = -vt[c * m + i];
    }
    return true;
  }
};
}  // namespace reel::kernels::lapack
