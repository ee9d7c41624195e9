// SPDX-License-Identifier: BSD-3-Clause
// Orthogonal factors of matrices.
#include "lib/cpu/lapack_spectrum.hpp"

#include "lib/cpu/lapack.hpp"

namespace reel::kernels::lapack {
KernelResult qr(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows, m = batch.columns, k = std::min(n, m);
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    // a = q r is for LAPACK the factors of the transpose [m, n], r transposed and q transposed.
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), few = static_cast<int>(k);
    T ask[2];
    Lapack<T>::gelqf(rows, columns, nullptr, nullptr, ask, -1);
    Lapack<T>::orglq(few, columns, nullptr, nullptr, ask + 1, -1);
    const int size = static_cast<int>(std::max(ask[0], ask[1]));
    const auto one = [&](Int i, T* tau, T* work) {
      T *const q = call.output(0).as<T>() + i * n * k, *const r =
                                                           call.output(1).as<T>() + i * k * m;
      T* const both = n >= m ? q : r;  // has room for all
      copy(call.input(0).as<T>() + i * n * m, both, n * m);
      Lapack<T>::gelqf(rows, columns, both, tau, work, size);
      if (n >= m)
        copy(both, r, k * m);
      else
        for (Int c = 0; c < n; ++c) copy(both + c * m, q + c * k, k);
      Lapack<T>::orglq(few, columns, q, tau, work, size);
      for (Int row = 0; row < k; ++row) {
        clear(r + row * m, row);
        if (!(r[row * m + row] < 0)) continue;
        for (Int c = row; c < m; ++c) r[row * m + c] = -r[row * m + c];
        for (Int c = 0; c < n; ++c) q[c * k + row] = -q[c * k + row];
      }
    };
    each_block(batch, 4 * static_cast<double>(n) * static_cast<double>(m * k), true,
               Memory::room<T>(k) + Memory::room<T>(size), [&](Int first, Int end, Memory memory) {
                 T *const tau = memory.take<T>(k), *const work = memory.take<T>(size);
                 for (Int i = first; i < end; ++i) one(i, tau, work);
               });
    return KernelResult{};
  });
}

KernelResult svd(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows, m = batch.columns, k = std::min(n, m);
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    const Singular<T> values(n, m);
    each_block(batch, 10 * static_cast<double>(n) * static_cast<double>(m * k), true,
               values.bytes(), [&](Int first, Int end, Memory memory) {
                 Singular<T> own = values;
                 own.take(memory);
                 for (Int i = first; i < end; ++i)
                   own(call.input(0).as<T>() + i * n * m, i, call.output(0).as<T>() + i * n * k,
                       call.output(1).as<T>() + i * k, call.output(2).as<T>() + i * k * m,
                       findings);
               });
    return findings.result(batch);
  });
}

namespace {
KernelResult eigen(const KernelCall& call, bool wants_vectors) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    const Eigen<T> values(n);
    each_block(batch, cube(n) * (wants_vectors ? 9 : 1.5), true,
               values.bytes() + Memory::room<T>(n * n), [&](Int first, Int end, Memory memory) {
                 Eigen<T> own = values;
                 own.take(memory);
                 T* const vectors = memory.take<T>(n * n);
                 for (Int m = first; m < end; ++m) {
                   own(call.input(0).as<T>() + m * n * n, m, vectors,
                       call.output(0).as<T>() + m * n, wants_vectors, findings);
                   if (!wants_vectors) continue;
                   transpose(vectors, n);
                   copy(vectors, call.output(1).as<T>() + m * n * n, n * n);
                 }
               });
    return findings.result(batch);
  });
}
}  // namespace

KernelResult eigh(const KernelCall& call) { return eigen(call, true); }
KernelResult eigvalsh(const KernelCall& call) { return eigen(call, false); }
}  // namespace reel::kernels::lapack
