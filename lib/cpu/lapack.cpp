// SPDX-License-Identifier: BSD-3-Clause
// Factors of matrices.
#include "lib/cpu/lapack.hpp"

#include "lib/cpu/lapack_batch.hpp"
#include "lib/table/options/linalg.hpp"

namespace reel::kernels::lapack {
namespace {
constexpr const char* singular = "a matrix that has an inverse";
constexpr const char* no_pivot = "a pivot of 0";

double cube(Int n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

/// 16 bytes of a row: every machine has vectors of this size.
template <class T>
struct Lanes {
  using Vector [[gnu::vector_size(16), gnu::aligned(sizeof(T)), gnu::may_alias]] = T;
  static constexpr Int count = 16 / sizeof(T);
  static Vector& at(T* x) { return *reinterpret_cast<Vector*>(x); }
  static const Vector& at(const T* x) { return *reinterpret_cast<const Vector*>(x); }
};
/// z -= f x
template <class T>
void subtract(T* z, const T* x, T f, Int n) {
  Int i = 0;
  for (; i + Lanes<T>::count <= n; i += Lanes<T>::count)
    Lanes<T>::at(z + i) -= f * Lanes<T>::at(x + i);
  for (; i < n; ++i) z[i] -= f * x[i];
}
/// z -= f x + g y
template <class T>
void subtract(T* z, const T* x, T f, const T* y, T g, Int n) {
  Int i = 0;
  for (; i + Lanes<T>::count <= n; i += Lanes<T>::count)
    Lanes<T>::at(z + i) -= f * Lanes<T>::at(x + i) + g * Lanes<T>::at(y + i);
  for (; i < n; ++i) z[i] -= f * x[i] + g * y[i];
}

/// The lower factor of a small matrix, two rows and two columns at a time. Returns the row of the
/// first pivot that is not positive, or n.
template <class T>
Int small_cholesky(const T* a, T* l, Int n) {
  T inverses[small];  // of the diagonal
  for (Int k = 1; k < n; ++k)
    for (Int i = 0; i < k; ++i) l[i * n + k] = 0;
  const auto root = [&](T pivot, Int i) {
    if (!(pivot > 0)) return false;
    l[i * n + i] = std::sqrt(pivot);
    inverses[i] = 1 / l[i * n + i];
    return true;
  };
  Int i = 0;
  for (; i + 2 <= n; i += 2) {
    T *const p = l + i * n, *const q = p + n;
    const T *const b = a + i * n, *const c = b + n;
    for (Int j = 0; j < i; j += 2) {
      const T *const x = l + j * n, *const y = x + n;
      T px = b[j], py = b[j + 1], qx = c[j], qy = c[j + 1];
      for (Int k = 0; k < j; ++k) {
        px -= p[k] * x[k];
        py -= p[k] * y[k];
        qx -= q[k] * x[k];
        qy -= q[k] * y[k];
      }
      p[j] = px *= inverses[j];
      q[j] = qx *= inverses[j];
      p[j + 1] = (py - px * y[j]) * inverses[j + 1];
      q[j + 1] = (qy - qx * y[j]) * inverses[j + 1];
    }
    T pp = b[i], pq = c[i], qq = c[i + 1];
    for (Int k = 0; k < i; ++k) {
      pp -= p[k] * p[k];
      pq -= p[k] * q[k];
      qq -= q[k] * q[k];
    }
    if (!root(pp, i)) return i;
    q[i] = pq *= inverses[i];
    if (!root(qq - pq * pq, i + 1)) return i + 1;
  }
  if (i == n) return n;
  T* const p = l + i * n;
  T pp = a[i * n + i];
  for (Int j = 0; j < i; ++j) {
    T sum = a[i * n + j];
    for (Int k = 0; k < j; ++k) sum -= p[k] * l[j * n + k];
    p[j] = sum *= inverses[j];
    pp -= sum * sum;
  }
  return root(pp, i) ? n : i;
}

/// LU factors: row-major, with exchanged rows, of small matrices; else those of LAPACK for the
/// transpose. Pivots count from 1.
template <class T>
struct Factors {
  Int n;
  T* lu;
  int* pivots;
  T* work;  // of an inverse
  int work_size;

  /// Returns the row of the first pivot that is 0, or n.
  Int factor() const {
    if (n > small) {
      const int info = Lapack<T>::getrf(static_cast<int>(n), lu, pivots);
      return info ? info - 1 : n;
    }
    Int zero = n;
    for (Int k = 0; k < n; k += 2) {  // two columns, and then all columns behind them at once
      for (Int c = k; c < std::min(k + 2, n); ++c) {
        T* const row = lu + c * n;
        Int best = c;
        for (Int i = c + 1; i < n; ++i)
          if (std::abs(lu[i * n + c]) > std::abs(lu[best * n + c])) best = i;
        pivots[c] = static_cast<int>(best + 1);
        if (best != c) std::swap_ranges(row, row + n, lu + best * n);
        if (row[c] == 0) zero = std::min(zero, c);
        const T r = row[c] == 0 ? T(0) : 1 / row[c];  // below a 0 are only zeros
        for (Int i = c + 1; i < n; ++i) {
          const T f = lu[i * n + c] *= r;
          if (c == k && c + 1 < n) lu[i * n + c + 1] -= f * row[c + 1];
        }
      }
      const T *const x = lu + k * n + k + 2, *const y = x + n;
      const Int rest = n - k - 2;
      if (rest <= 0) break;
      subtract(lu + (k + 1) * n + k + 2, x, lu[(k + 1) * n + k], rest);
      for (Int i = k + 2; i < n; ++i)
        subtract(lu + i * n + k + 2, x, lu[i * n + k], y, lu[i * n + k + 1], rest);
    }
    return zero;
  }
  /// b [n, columns] becomes the solution.
  void solve(T* b, Int columns) const {
    if (n > small) {
      const int rows = static_cast<int>(columns), order = static_cast<int>(n);
      if (rows == 1) return Lapack<T>::getrs(order, lu, pivots, b);
      Lapack<T>::trsm("U", "N", "N", rows, order, lu, b);
      Lapack<T>::trsm("L", "N", "U", rows, order, lu, b);
      for (Int k = n - 1; k >= 0; --k) exchange(b, columns, k);
      return;
    }
    for (Int k = 0; k < n; ++k) exchange(b, columns, k);
    for (Int k = 0; k < n; ++k) subtract_row(b, columns, k, k + 1, n);
    for (Int k = n - 1; k >= 0; --k) {
      const T r = 1 / lu[k * n + k];
      for (Int c = 0; c < columns; ++c) b[k * columns + c] *= r;
      subtract_row(b, columns, k, 0, k);
    }
  }
  /// The inverse.
  void invert(T* x) const {
    if (n > small) {
      copy(lu, x, n * n);
      Lapack<T>::getri(static_cast<int>(n), x, pivots, work, work_size);
      return;
    }
    clear(x, n * n);
    for (Int i = 0; i < n; ++i) x[i * n + i] = 1;
    solve(x, n);
  }
  /// The sign of the order of rows: -1 for an odd number of exchanges.
  T sign() const {
    bool odd = false;
    for (Int k = 0; k < n; ++k) odd ^= pivots[k] != k + 1;
    return odd ? T(-1) : T(1);
  }

 private:
  /// Subtracts row k of b from rows first to end - 1, times the elements of column k.
  void subtract_row(T* b, Int columns, Int k, Int first, Int end) const {
    if (columns > 1) {
      for (Int i = first; i < end; ++i)
        subtract(b + i * columns, b + k * columns, lu[i * n + k], columns);
    } else {
      const T factor = b[k];
      for (Int i = first; i < end; ++i) b[i] -= factor * lu[i * n + k];
    }
  }
  void exchange(T* b, Int columns, Int k) const {
    const Int other = pivots[k] - 1;
    if (other != k) std::swap_ranges(b + k * columns, b + (k + 1) * columns, b + other * columns);
  }
};

/// f(factors of matrix m, m, the row of its first pivot that is 0) for all matrices of input 0.
template <class T, class F>
KernelResult each_factored(const KernelCall& call, double work, const F& f) {
  const Body& a = call.input(0);
  const Batch batch(a);
  const Int n = batch.rows;
  if (n > small && !has_lapack()) return no_library();
  Findings findings;
  each_block(batch, cube(n) * 0.7 + work, [&](Int first, Int end) {
    Factors<T> factors{n, nullptr, nullptr, nullptr, 0};
    if (n > small) {
      T size = 0;
      Lapack<T>::getri(static_cast<int>(n), nullptr, nullptr, &size, -1);
      factors.work_size = static_cast<int>(size);
    }
    const Parts parts([&](Parts& all) {
      factors.work = all.add<T>(factors.work_size);
      factors.lu = all.add<T>(n * n);
      factors.pivots = all.add<int>(n);
    });
    const auto run = [&] {
      for (Int m = first; m < end; ++m) {
        copy(a.as<T>() + m * n * n, factors.lu, n * n);
        f(factors, m, factors.factor(), findings);
      }
    };
    with_lapack(n > small, run);
  });
  return findings.result(batch, singular, no_pivot);
}
}  // namespace

KernelResult cholesky(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (n > small && !has_lapack()) return no_library();
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    const T* const a = call.input(0).as<T>();
    T* const l = call.output().as<T>();
    Findings findings;
    each_block(batch, cube(n) / 3, [&](Int first, Int end) {
      const auto run = [&] {
        for (Int m = first; m < end; ++m) {
          T* const made = l + m * n * n;
          if (n <= small) {
            const Int row = small_cholesky(a + m * n * n, made, n);
            if (row < n) findings.add(m, Wrong::pivot, row);
            continue;
          }
          copy(a + m * n * n, made, n * n);
          if (const int info = Lapack<T>::potrf("U", static_cast<int>(n), made))
            findings.add(m, Wrong::pivot, info - 1);
          for (Int i = 0; i < n; ++i) clear(made + i * n + i + 1, n - i - 1);
        }
      };
      with_lapack(n > small, run);
    });
    return findings.result(batch, "a positive definite matrix", "a pivot that is not positive");
  });
}

KernelResult solve(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) -> KernelResult {
    const Int n = call.output().shape.end()[-2], columns = call.output().shape.end()[-1];
    if (call.input(0).elements == 0) return {};
    return each_factored<T>(call, static_cast<double>(2 * n * n * columns),
                            [&](const Factors<T>& factors, Int m, Int zero, Findings& findings) {
                              if (zero < n) return findings.add(m, Wrong::pivot, zero);
                              T* const x = call.output().as<T>() + m * n * columns;
                              copy(call.input(1).as<T>() + m * n * columns, x, n * columns);
                              if (columns > 0) factors.solve(x, columns);
                            });
  });
}

KernelResult inverse(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) -> KernelResult {
    const Int n = call.output().shape.end()[-1];
    if (call.output().elements == 0) return {};
    return each_factored<T>(call, cube(n) * 1.3,
                            [&](const Factors<T>& factors, Int m, Int zero, Findings& findings) {
                              if (zero < n) return findings.add(m, Wrong::pivot, zero);
                              T* const x = call.output().as<T>() + m * n * n;
                              clear(x, n * n);
                              for (Int i = 0; i < n; ++i) x[i * n + i] = 1;
                              factors.solve(x, n);
                            });
  });
}

KernelResult det(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    return each_factored<T>(call, 0, [&](const Factors<T>& factors, Int m, Int, Findings&) {
      T product = factors.sign();
      for (Int k = 0; k < factors.n; ++k) product *= factors.lu[k * factors.n + k];
      call.output().as<T>()[m] = product;
    });
  });
}

KernelResult slogdet(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    return each_factored<T>(call, 0, [&](const Factors<T>& factors, Int m, Int, Findings&) {
      T sign = factors.sign(), log = 0;
      for (Int k = 0; k < factors.n; ++k) {
        const T pivot = factors.lu[k * factors.n + k];
        sign = pivot == 0 ? T(0) : pivot < 0 ? -sign : pivot > 0 ? sign : pivot;
        log += std::log(std::abs(pivot));
      }
      call.output(0).as<T>()[m] = sign;
      call.output(1).as<T>()[m] = log;
    });
  });
}

KernelResult triangular_solve(const KernelCall& call) {
  const auto& options = call.option<TriangularSystem>();
  const Batch batch(call.input(0));
  const Int n = batch.rows, columns = call.output().shape.end()[-1];
  if (batch.empty()) return {};
  if (n > small && !has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    const bool upper = options.upper != options.transposed;  // of the matrix that is solved for
    const auto solve_small = [&](const T* a, T* b) {
      for (Int step = 0; step < n; ++step) {
        const Int i = upper ? n - 1 - step : step;
        T* const row = b + i * columns;
        for (Int k = upper ? i + 1 : 0; k < (upper ? n : i); ++k)
          subtract(row, b + k * columns, options.transposed ? a[k * n + i] : a[i * n + k], columns);
        const T pivot = a[i * n + i];
        for (Int c = 0; !options.unit && c < columns; ++c) row[c] /= pivot;
      }
    };
    each_block(batch, static_cast<double>(n) * static_cast<double>(n * columns),
               [&](Int first, Int end) {
                 const auto run = [&] {
                   for (Int m = first; m < end; ++m) {
                     const T* const a = call.input(0).as<T>() + m * n * n;
                     T* const x = call.output().as<T>() + m * n * columns;
                     T largest = 0;
                     for (Int i = 0; options.tolerance > 0 && i < n; ++i)
                       largest = std::max(largest, std::abs(a[i * n + i]));
                     const T least = static_cast<T>(options.tolerance) * largest;
                     for (Int i = 0; !options.unit && i < n; ++i)
                       if (std::abs(a[i * n + i]) <= least) findings.add(m, Wrong::pivot, i);
                     copy(call.input(1).as<T>() + m * n * columns, x, n * columns);
                     if (n <= small)
                       solve_small(a, x);
                     else if (columns > 0)
                       Lapack<T>::trsm(options.upper ? "L" : "U", options.transposed ? "T" : "N",
                                       options.unit ? "U" : "N", static_cast<int>(columns),
                                       static_cast<int>(n), a, x);
                   }
                 };
                 with_lapack(n > small, run);
               });
    return options.tolerance > 0 ? findings.result(batch, "a matrix of full rank", "a pivot near 0")
                                 : findings.result(batch, singular, no_pivot);
  });
}

KernelResult qr(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows, m = batch.columns, k = std::min(n, m);
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    // a = q r is for LAPACK the factors of the transpose [m, n], r transposed and q transposed.
    const int rows = static_cast<int>(m), columns = static_cast<int>(n), few = static_cast<int>(k);
    each_block(batch, 2 * static_cast<double>(n) * static_cast<double>(m * k) * 2,
               [&](Int first, Int end) {
                 T ask[2];
                 Lapack<T>::gelqf(rows, columns, nullptr, nullptr, ask, -1);
                 Lapack<T>::orglq(few, columns, nullptr, nullptr, ask + 1, -1);
                 const int size = static_cast<int>(std::max(ask[0], ask[1]));
                 T *tau = nullptr, *work = nullptr;
                 const Parts parts([&](Parts& all) {
                   tau = all.add<T>(k);
                   work = all.add<T>(size);
                 });
                 const auto run = [&] {
                   for (Int i = first; i < end; ++i) {
                     T *const q = call.output(0).as<T>() + i * n * k, *const r =
                                                                          call.output(1).as<T>() +
                                                                          i * k * m;
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
                   }
                 };
                 with_lapack(true, run);
               });
    return KernelResult{};
  });
}

namespace {
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
  void add_to(Parts& parts) {
    copy_of_a = parts.add<T>(n * m);
    work = parts.add<T>(size);
    largest = parts.add<T>(k);
    integers = parts.add<int>(8 * k);
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
}  // namespace

KernelResult svd(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows, m = batch.columns, k = std::min(n, m);
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    each_block(
        batch, 10 * static_cast<double>(n) * static_cast<double>(m * k), [&](Int first, Int end) {
          Singular<T> singular_values(n, m);
          const Parts parts([&](Parts& all) { singular_values.add_to(all); });
          with_lapack(true, [&] {
            for (Int i = first; i < end; ++i)
              singular_values(call.input(0).as<T>() + i * n * m, i,
                              call.output(0).as<T>() + i * n * k, call.output(1).as<T>() + i * k,
                              call.output(2).as<T>() + i * k * m, findings);
          });
        });
    return findings.result(batch, singular, no_pivot);
  });
}

/// det(a) times the transposed inverse of a, also for a singular a: the cofactors. Where pivots
/// differ too much, they follow from the singular values.
KernelResult cofactors(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) -> KernelResult {
    const T* const a = call.input(0).as<T>();
    T* const out = call.output().as<T>();
    const KernelResult result = each_factored<T>(
        call, cube(n) * 2, [&](const Factors<T>& factors, Int i, Int zero, Findings&) {
          T least = zero < n ? T(0) : std::numeric_limits<T>::infinity(), most = 0,
            product = factors.sign();
          for (Int r = 0; r < n; ++r) {
            const T pivot = factors.lu[r * n + r];
            product *= pivot;
            least = std::min(least, std::abs(pivot));
            most = std::max(most, std::abs(pivot));
          }
          T* const made = out + i * n * n;
          if (least > most * T(1e-3)) {
            clear(made, n * n);
            for (Int r = 0; r < n; ++r) made[r * n + r] = product;
            factors.solve(made, n);
            transpose(made, n);
          } else {
            made[0] = std::numeric_limits<T>::quiet_NaN();
          }
        });
    if (result.failure) return result;
    Findings findings;
    for (Int i = 0; i < batch.count; ++i) {
      T* const made = out + i * n * n;
      if (made[0] == made[0]) continue;
      if (n == 1) {
        made[0] = 1;
        continue;
      }
      if (!has_lapack()) return no_library();
      // u diag(products of the other singular values) vt times the determinants of u and vt
      Singular<T> values(n, n);
      T *u = nullptr, *s = nullptr, *vt = nullptr, *lu = nullptr;
      int* pivots = nullptr;
      const Parts parts([&](Parts& all) {
        values.add_to(all);
        for (T** each : {&u, &vt, &lu}) *each = all.add<T>(n * n);
        s = all.add<T>(n);
        pivots = all.add<int>(n);
      });
      bool found = false;
      T sign = 1;
      with_lapack(true, [&] {
        found = values(a + i * n * n, i, u, s, vt, findings);
        for (const T* each : {u, vt}) {
          if (!found) break;
          const Factors<T> factors{n, lu, pivots, nullptr, 0};
          copy(each, lu, n * n);
          factors.factor();
          sign *= factors.sign();
          for (Int r = 0; r < n; ++r)
            if (lu[r * n + r] < 0) sign = -sign;
        }
      });
      if (!found) {  // as an inverse of NaN and infinity
        std::fill(made, made + n * n, std::numeric_limits<T>::quiet_NaN());
        continue;
      }
      for (Int r = 0; r < n; ++r) {
        T others = sign;
        for (Int c = 0; c < n; ++c)
          if (c != r) others *= s[c];
        for (Int c = 0; c < n; ++c) vt[r * n + c] *= others;
      }
      clear(made, n * n);
      for (Int r = 0; r < n; ++r)
        for (Int c = 0; c < n; ++c) subtract(made + r * n, vt + c * n, -u[r * n + c], n);
    }
    return {};
  });
}

KernelResult eigh(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    each_block(batch, cube(n) * 9, [&](Int first, Int end) {
      Eigen<T> eigen(n);
      const Parts parts([&](Parts& all) { eigen.add_to(all); });
      with_lapack(true, [&] {
        for (Int m = first; m < end; ++m) {
          T* const vectors = call.output(1).as<T>() + m * n * n;
          eigen(call.input(0).as<T>() + m * n * n, m, vectors, call.output(0).as<T>() + m * n, true,
                findings);
          transpose(vectors, n);
        }
      });
    });
    return findings.result(batch, singular, no_pivot);
  });
}

KernelResult eigvalsh(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    each_block(batch, cube(n) * 1.5, [&](Int first, Int end) {
      Eigen<T> eigen(n);
      T* destroyed = nullptr;
      const Parts parts([&](Parts& all) {
        eigen.add_to(all);
        destroyed = all.add<T>(n * n);
      });
      with_lapack(true, [&] {
        for (Int m = first; m < end; ++m)
          eigen(call.input(0).as<T>() + m * n * n, m, destroyed, call.output().as<T>() + m * n,
                false, findings);
      });
    });
    return findings.result(batch, singular, no_pivot);
  });
}
}  // namespace reel::kernels::lapack
