// SPDX-License-Identifier: BSD-3-Clause
// Functions of symmetric matrices and their first and second derivatives, by divided differences.
#include "lib/cpu/lapack.hpp"
#include "lib/cpu/lapack_batch.hpp"
#include "lib/table/options/linalg.hpp"

namespace reel::kernels::lapack {
namespace {
/// A function of one number: exp, or log, or a power.
class Scalar {
 public:
  explicit Scalar(const MatrixFunction& options)
      : kind_(options.function == 0   ? Kind::power
              : options.function == 1 ? Kind::log
              : options.function == 2 ? Kind::exp
                                      : Kind::power),
        exponent_(options.function == 0 ? 0.5 : options.exponent),
        rounds_(kind_ == Kind::log ||
                (kind_ == Kind::power && exponent_ != std::floor(exponent_))) {}
  /// Whether negative numbers of rounding size count as 0.
  bool rounds() const { return rounds_; }

  /// The derivative of this order.
  double at(double x, int order = 0) const {
    if (kind_ == Kind::exp) return std::exp(x);
    if (kind_ == Kind::log && order == 0) return std::log(x);
    double factor = 1, exponent = exponent_;
    if (kind_ == Kind::log) {
      exponent = -1;
      --order;
    }
    for (; order > 0; --order) factor *= exponent--;
    return factor == 0 ? 0 : factor * std::pow(x, exponent);
  }
  /// f[x, y]: the slope between two points, the derivative where they are one.
  double slope(double x, double y) const {
    const double step = x - y, half = step / 2, middle = y + half;
    if (std::abs(step) > near * scale(std::max(std::abs(x), std::abs(y))))
      return (at(x) - at(y)) / step;
    const double square = half * half;
    double sum = at(middle, 1);
    if (step != 0) sum += at(middle, 3) * square / 6 + at(middle, 5) * square * square / 120;
    return sum;
  }
  /// f[x, y, z]: half the second derivative where they are one.
  double curve(double x, double y, double z) const {
    if (x > y) std::swap(x, y);
    if (y > z) std::swap(y, z);
    if (x > y) std::swap(x, y);
    if (z - x > near * scale(std::max(std::abs(x), std::abs(z))))
      return (slope(z, y) - slope(y, x)) / (z - x);
    const double middle = (x + y + z) / 3, a = x - middle, b = y - middle, c = z - middle;
    const double squares = a * a + b * b + c * c, cubes = a * a * a + b * b * b + c * c * c,
                 fourths = a * a * a * a + b * b * b * b + c * c * c * c;
    double sum = at(middle, 2) / 2;
    if (x != z)
      sum += at(middle, 4) / 24 * squares / 2 + at(middle, 5) / 120 * cubes / 3 +
             at(middle, 6) / 720 * (fourths / 4 + squares * squares / 8);
    return sum;
  }

 private:
  /// At smaller relative distances a polynomial is more accurate than a difference.
  static constexpr double near = 1e-2;
  double scale(double size) const { return kind_ == Kind::exp ? 1 : size; }
  enum class Kind { log, exp, power } kind_;
  double exponent_;
  bool rounds_;
};

/// One block's memory, and products of matrices [n, n].
template <class T>
struct Basis {
  Int n;
  Eigen<T> eigen;
  T *vectors, *values, *turned[2], *between;  // vectors are rows

  explicit Basis(Int rows) : n(rows), eigen(rows) {}
  void add_to(Parts& parts) {
    eigen.add_to(parts);
    vectors = parts.add<T>(n * n);
    values = parts.add<T>(n);
    for (T** each : {&turned[0], &turned[1], &between}) *each = parts.add<T>(n * n);
  }
  void multiply(const T* x, bool x_transposed, const T* y, bool y_transposed, T* out) const {
    const BlasProduct product{n, n, n, x, n, x_transposed, y, n, y_transposed, out, n, false};
    sizeof(T) == 8 ? blas_product_f64(product) : blas_product_f32(product);
  }
  /// The symmetric part of x, in the basis of eigenvectors.
  void enter(const T* x, T* to) const {
    for (Int i = 0; i < n; ++i)
      for (Int k = 0; k < n; ++k) to[i * n + k] = (x[i * n + k] + x[k * n + i]) / 2;
    multiply(vectors, false, to, false, between);
    multiply(between, false, vectors, true, to);
  }
  /// Back from this basis. `x` is overwritten.
  void leave(const T* x, T* out) const {
    multiply(vectors, true, x, false, between);
    multiply(between, false, vectors, false, out);
  }
};

/// f(basis of matrix m, m) for the symmetric matrices of input 0.
template <class T, class F>
KernelResult each_basis(const KernelCall& call, double work, bool rounds, const F& f) {
  const Body& a = call.input(0);
  const Batch batch(a);
  const Int n = batch.rows;
  Findings findings;
  each_block(batch, work, [&](Int first, Int end) {
    Basis<T> basis(n);
    const Parts parts([&](Parts& all) { basis.add_to(all); });
    for (Int m = first; m < end; ++m) {
      bool found = false;
      with_lapack(true, [&] {
        found = basis.eigen(a.as<T>() + m * n * n, m, basis.vectors, basis.values, true, findings);
      });
      if (!found) continue;
      const T least = -static_cast<T>(n) * std::numeric_limits<T>::epsilon() *
                      std::max(std::abs(basis.values[0]), std::abs(basis.values[n - 1]));
      for (Int i = 0; rounds && i < n; ++i)
        if (basis.values[i] < 0 && basis.values[i] >= least) basis.values[i] = 0;
      f(basis, m);
    }
  });
  return findings.result(batch, "", "");
}
}  // namespace

KernelResult matrix_function(const KernelCall& call) {
  if (call.output().elements == 0) return {};
  if (!has_lapack()) return no_library();
  const Scalar function(call.option<MatrixFunction>());
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const Int n = call.output().shape.end()[-1];
    const double cube = static_cast<double>(n * n) * static_cast<double>(n);
    return each_basis<T>(call, cube * 11, function.rounds(), [&](const Basis<T>& basis, Int m) {
      T* const scaled = basis.turned[0];
      for (Int i = 0; i < n; ++i) {
        const T value = static_cast<T>(function.at(basis.values[i]));
        for (Int k = 0; k < n; ++k) scaled[i * n + k] = value * basis.vectors[i * n + k];
      }
      basis.multiply(basis.vectors, true, scaled, false, call.output().as<T>() + m * n * n);
    });
  });
}

// dy = V (f[w_i, w_j] (V^T dx V)_ij) V^T
KernelResult function_slope(const KernelCall& call) {
  if (call.output().elements == 0) return {};
  if (!has_lapack()) return no_library();
  const Scalar function(call.option<MatrixFunction>());
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const Int n = call.output().shape.end()[-1];
    const double cube = static_cast<double>(n * n) * static_cast<double>(n);
    return each_basis<T>(call, cube * 17, function.rounds(), [&](const Basis<T>& basis, Int m) {
      T* const x = basis.turned[0];
      basis.enter(call.input(1).as<T>() + m * n * n, x);
      for (Int i = 0; i < n; ++i)
        for (Int k = 0; k <= i; ++k) {
          const T slope = static_cast<T>(function.slope(basis.values[i], basis.values[k]));
          x[i * n + k] *= slope;
          if (i != k) x[k * n + i] *= slope;
        }
      basis.leave(x, call.output().as<T>() + m * n * n);
    });
  });
}

// ddy = V (sum over j of f[w_i, w_j, w_k] (X_ij Y_jk + Y_ij X_jk)) V^T, X = V^T dx V, Y = V^T dy V
KernelResult function_curve(const KernelCall& call) {
  if (call.output().elements == 0) return {};
  if (!has_lapack()) return no_library();
  const Scalar function(call.option<MatrixFunction>());
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const Int n = call.output().shape.end()[-1];
    const double cube = static_cast<double>(n * n) * static_cast<double>(n);
    return each_basis<T>(call, cube * 100, function.rounds(), [&](const Basis<T>& basis, Int m) {
      const T *const w = basis.values, *const x = basis.turned[0], *const y = basis.turned[1];
      T* const sums = call.output().as<T>() + m * n * n;
      basis.enter(call.input(1).as<T>() + m * n * n, basis.turned[0]);
      basis.enter(call.input(2).as<T>() + m * n * n, basis.turned[1]);
      for (Int i = 0; i < n; ++i)
        for (Int k = 0; k <= i; ++k) {
          double sum = 0;
          for (Int j = 0; j < n; ++j)
            sum += function.curve(w[i], w[j], w[k]) *
                   (double{x[i * n + j]} * y[j * n + k] + double{y[i * n + j]} * x[j * n + k]);
          sums[i * n + k] = sums[k * n + i] = static_cast<T>(sum);
        }
      basis.leave(sums, sums);
    });
  });
}
}  // namespace reel::kernels::lapack
