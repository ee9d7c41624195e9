// SPDX-License-Identifier: BSD-3-Clause
// Triangular factors of matrices, and what follows from them.
#include "lib/cpu/lapack.hpp"

#include <cstring>

#include "lib/cpu/lapack_spectrum.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/options/linalg.hpp"

namespace reel::kernels::lapack {
namespace {
constexpr const char* singular = "a matrix that has an inverse";
constexpr const char* no_pivot = "a pivot of 0";

/// 16 bytes of a row, which may lie anywhere: every machine has vectors of this size.
template <class T>
struct Lanes {
  using Vector [[gnu::vector_size(16)]] = T;
  static constexpr Int count = 16 / sizeof(T);
  static Vector load(const T* x) {
    Vector loaded;
    std::memcpy(&loaded, x, sizeof loaded);
    return loaded;
  }
  static void subtract(T* z, const Vector& x) {
    const Vector left = load(z) - x;
    std::memcpy(z, &left, sizeof left);
  }
};
/// z -= f x
template <class T>
void subtract(T* z, const T* x, T f, Int n) {
  Int i = 0;
  for (; i + Lanes<T>::count <= n; i += Lanes<T>::count)
    Lanes<T>::subtract(z + i, f * Lanes<T>::load(x + i));
  for (; i < n; ++i) z[i] -= f * x[i];
}
/// z -= f x + g y
template <class T>
void subtract(T* z, const T* x, T f, const T* y, T g, Int n) {
  Int i = 0;
  for (; i + Lanes<T>::count <= n; i += Lanes<T>::count)
    Lanes<T>::subtract(z + i, f * Lanes<T>::load(x + i) + g * Lanes<T>::load(y + i));
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
  T det() const {
    T product = sign();
    for (Int k = 0; k < n; ++k) product *= lu[k * n + k];
    return product;
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

/// Takes the factors of matrix m, and the row of its first pivot that is 0, or n.
template <class T>
using UseFactors = void (*)(const KernelCall& call, const Factors<T>& factors, Int m, Int zero,
                            Findings& findings);
/// Calls `use` for all matrices of input 0.
template <class T>
KernelResult each_factored(const KernelCall& call, double operations, UseFactors<T> use) {
  const Body& a = call.input(0);
  const Batch batch(a);
  const Int n = batch.rows;
  if (n > small && !has_lapack()) return no_library();
  T size = 0;
  if (n > small) Lapack<T>::getri(static_cast<int>(n), nullptr, nullptr, &size, -1);
  Findings findings;
  each_block(
      batch, cube(n) * 0.7 + operations, n > small,
      Memory::room<T>(n * n) + Memory::room<int>(n) + Memory::room<T>(static_cast<Int>(size)),
      [&](Int first, Int end, Memory memory) {
        Factors<T> factors{n, memory.take<T>(n * n), memory.take<int>(n),
                           memory.take<T>(static_cast<Int>(size)), static_cast<int>(size)};
        for (Int m = first; m < end; ++m) {
          copy(a.as<T>() + m * n * n, factors.lu, n * n);
          use(call, factors, m, factors.factor(), findings);
        }
      });
  return findings.result(batch, singular, no_pivot);
}
/// Calls `use` for both dtypes.
KernelResult each_factored(const KernelCall& call, double operations, UseFactors<float> f32,
                           UseFactors<double> f64) {
  return call.output().dtype == DType::float32 ? each_factored<float>(call, operations, f32)
                                               : each_factored<double>(call, operations, f64);
}

template <class T>
void use_for_solution(const KernelCall& call, const Factors<T>& factors, Int m, Int zero,
                      Findings& findings) {
  const Int n = factors.n, columns = call.output().shape.end()[-1];
  if (zero < n) return findings.add(m, Wrong::pivot, zero);
  T* const x = call.output().as<T>() + m * n * columns;
  copy(call.input(1).as<T>() + m * n * columns, x, n * columns);
  if (columns > 0) factors.solve(x, columns);
}
template <class T>
void use_for_inverse(const KernelCall& call, const Factors<T>& factors, Int m, Int zero,
                     Findings& findings) {
  if (zero < factors.n) return findings.add(m, Wrong::pivot, zero);
  factors.invert(call.output().as<T>() + m * factors.n * factors.n);
}
template <class T>
void use_for_det(const KernelCall& call, const Factors<T>& factors, Int m, Int, Findings&) {
  call.output().as<T>()[m] = factors.det();
}
template <class T>
void use_for_log(const KernelCall& call, const Factors<T>& factors, Int m, Int, Findings&) {
  T sign = factors.sign(), log = 0;
  for (Int k = 0; k < factors.n; ++k) {
    const T pivot = factors.lu[k * factors.n + k];
    sign = pivot == 0 ? T(0) : pivot < 0 ? -sign : pivot > 0 ? sign : pivot;
    log += std::log(std::abs(pivot));
  }
  call.output(0).as<T>()[m] = sign;
  call.output(1).as<T>()[m] = log;
}
/// The cofactors by the inverse, or NaN first where pivots differ too much for it.
template <class T>
void use_for_cofactors(const KernelCall& call, const Factors<T>& factors, Int m, Int zero,
                       Findings&) {
  const Int n = factors.n;
  T* const made = call.output().as<T>() + m * n * n;
  T least = zero < n ? T(0) : std::numeric_limits<T>::infinity(), most = 0;
  for (Int r = 0; r < n; ++r) {
    const T pivot = std::abs(factors.lu[r * n + r]);
    least = std::min(least, pivot);
    most = std::max(most, pivot);
  }
  if (!(least > most * T(1e-3))) {
    made[0] = std::numeric_limits<T>::quiet_NaN();
    return;
  }
  const T det = factors.det();
  factors.invert(made);
  transpose(made, n);
  for (Int i = 0; i < n * n; ++i) made[i] *= det;
}
/// The cofactors by the singular values: u diag(products of the others) vt, times the determinants
/// of u and vt. Of a matrix that is not finite they are NaN.
template <class T>
void find_cofactors(const T* a, Int n, T* made) {
  Singular<T> values(n, n);
  Memory memory(static_cast<std::byte*>(lasting_scratch(
      values.bytes() + 3 * Memory::room<T>(n * n) + Memory::room<T>(n) + Memory::room<int>(n))));
  values.take(memory);
  T *const u = memory.take<T>(n * n), *const vt = memory.take<T>(n * n),
           *const s = memory.take<T>(n);
  const Factors<T> factors{n, memory.take<T>(n * n), memory.take<int>(n), nullptr, 0};
  Findings findings;
  bool found = false;
  T sign = 1;
  with_lapack([&] {
    found = values(a, 0, u, s, vt, findings);
    for (const T* each : {u, vt}) {
      if (!found) break;
      copy(each, factors.lu, n * n);
      factors.factor();
      if (factors.det() < 0) sign = -sign;
    }
  });
  if (!found) return std::fill(made, made + n * n, std::numeric_limits<T>::quiet_NaN());
  clear(made, n * n);
  for (Int c = 0; c < n; ++c) {
    T others = sign;
    for (Int r = 0; r < n; ++r)
      if (c != r) others *= s[r];
    for (Int r = 0; r < n; ++r) subtract(made + r * n, vt + c * n, -others * u[r * n + c], n);
  }
}
}  // namespace

KernelResult cholesky(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (n > small && !has_lapack()) return no_library();
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    Findings findings;
    each_block(batch, cube(n) / 3, n > small, 0, [&](Int first, Int end, Memory) {
      for (Int m = first; m < end; ++m) {
        const T* const a = call.input(0).as<T>() + m * n * n;
        T* const made = call.output().as<T>() + m * n * n;
        Int row = n;
        if (n <= small) {
          row = small_cholesky(a, made, n);
        } else {
          copy(a, made, n * n);
          if (const int info = Lapack<T>::potrf("U", static_cast<int>(n), made)) row = info - 1;
          for (Int i = 0; i < n; ++i) clear(made + i * n + i + 1, n - i - 1);
        }
        if (row < n) findings.add(m, Wrong::pivot, row);
      }
    });
    return findings.result(batch, "a positive definite matrix", "a pivot that is not positive");
  });
}

KernelResult solve(const KernelCall& call) {
  if (call.input(0).elements == 0) return {};
  const Shape& b = call.output().shape;
  return each_factored(call, static_cast<double>(2 * b.end()[-2] * b.end()[-2] * b.end()[-1]),
                       use_for_solution<float>, use_for_solution<double>);
}
KernelResult inverse(const KernelCall& call) {
  if (call.output().elements == 0) return {};
  return each_factored(call, cube(call.output().shape.end()[-1]) * 1.3, use_for_inverse<float>,
                       use_for_inverse<double>);
}
KernelResult det(const KernelCall& call) {
  return each_factored(call, 0, use_for_det<float>, use_for_det<double>);
}
KernelResult slogdet(const KernelCall& call) {
  return each_factored(call, 0, use_for_log<float>, use_for_log<double>);
}

KernelResult triangular_solve(const KernelCall& call) {
  const auto& options = call.option<TriangularSystem>();
  const Batch batch(call.input(0));
  const Int n = batch.rows, columns = call.output().shape.end()[-1];
  if (batch.empty()) return {};
  if (n > small && !has_lapack()) return no_library();
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    Findings findings;
    const auto solve_small = [&](const T* a, T* b) {
      const bool upper = options.upper != options.transposed;  // of the matrix that is solved for
      for (Int step = 0; step < n; ++step) {
        const Int i = upper ? n - 1 - step : step;
        T* const row = b + i * columns;
        for (Int k = upper ? i + 1 : 0; k < (upper ? n : i); ++k)
          subtract(row, b + k * columns, options.transposed ? a[k * n + i] : a[i * n + k], columns);
        const T pivot = a[i * n + i];
        for (Int c = 0; !options.unit && c < columns; ++c) row[c] /= pivot;
      }
    };
    const double operations = static_cast<double>(n) * static_cast<double>(n * columns);
    each_block(batch, operations, n > small, 0, [&](Int first, Int end, Memory) {
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
                          options.unit ? "U" : "N", static_cast<int>(columns), static_cast<int>(n),
                          a, x);
      }
    });
    return options.tolerance > 0 ? findings.result(batch, "a matrix of full rank", "a pivot near 0")
                                 : findings.result(batch, singular, no_pivot);
  });
}

/// det(a) times the transposed inverse of a, also for a singular a.
KernelResult cofactors(const KernelCall& call) {
  const Batch batch(call.input(0));
  const Int n = batch.rows;
  if (batch.empty()) return {};
  const KernelResult result =
      each_factored(call, cube(n) * 2, use_for_cofactors<float>, use_for_cofactors<double>);
  if (result.failure) return result;
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) -> KernelResult {
    for (Int i = 0; i < batch.count; ++i) {
      T* const made = call.output().as<T>() + i * n * n;
      if (made[0] == made[0]) continue;
      if (n == 1) {
        made[0] = 1;
        continue;
      }
      if (!has_lapack()) return no_library();
      find_cofactors(call.input(0).as<T>() + i * n * n, n, made);
    }
    return {};
  });
}
}  // namespace reel::kernels::lapack
