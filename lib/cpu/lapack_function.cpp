// SPDX-License-Identifier: BSD-3-Clause
// Functions of symmetric matrices and their first and second derivatives, by divided differences.
#include "lib/cpu/lapack.hpp"
#include "lib/cpu/lapack_spectrum.hpp"
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

/// One block's memory, and products of matrices [n, n]. Everything is computed in float64.
struct Basis {
  Int n;
  Eigen<double> eigen;
  double *given, *vectors, *values, *turned[2], *between;  // vectors are rows

  explicit Basis(Int rows) : n(rows), eigen(rows) {}
  std::size_t bytes() const {
    return eigen.bytes() + 5 * Memory::room<double>(n * n) + Memory::room<double>(n);
  }
  void take(Memory& memory) {
    eigen.take(memory);
    for (double** each : {&given, &vectors, &turned[0], &turned[1], &between})
      *each = memory.take<double>(n * n);
    values = memory.take<double>(n);
  }
  /// Matrix m of a tensor, in float64.
  void load(const Body& x, Int m, double* to) const {
    const Int first = m * n * n;
    for (Int i = 0; i < n * n; ++i)
      to[i] =
          x.dtype == DType::float32 ? double{x.as<float>()[first + i]} : x.as<double>()[first + i];
  }
  void store(const double* from, Body& y, Int m) const {
    const Int first = m * n * n;
    for (Int i = 0; i < n * n; ++i)
      if (y.dtype == DType::float32)
        y.as<float>()[first + i] = static_cast<float>(from[i]);
      else
        y.as<double>()[first + i] = from[i];
  }
  void multiply(const double* x, bool x_transposed, const double* y, bool y_transposed,
                double* out) const {
    with_lapack([&] {
      Lapack<double>::gemm(x_transposed ? "T" : "N", y_transposed ? "T" : "N", static_cast<int>(n),
                           x, y, out);
    });
  }
  /// The symmetric part of matrix m of x, in the basis of eigenvectors.
  void enter(const Body& x, Int m, double* to) const {
    load(x, m, between);
    for (Int i = 0; i < n; ++i)
      for (Int k = 0; k < n; ++k) to[i * n + k] = (between[i * n + k] + between[k * n + i]) / 2;
    multiply(vectors, false, to, false, between);
    multiply(between, false, vectors, true, to);
  }
  /// Back from this basis, to matrix m of y. `x` is overwritten.
  void leave(double* x, Body& y, Int m) const {
    multiply(vectors, true, x, false, between);
    multiply(between, false, vectors, false, x);
    store(x, y, m);
  }
};

using UseBasis = void (*)(const KernelCall& call, const Scalar& function, const Basis& basis,
                          Int m);
/// Calls `use` for the symmetric matrices of input 0.
KernelResult each_basis(const KernelCall& call, double operations, UseBasis use) {
  const Body& a = call.input(0);
  const Batch batch(a);
  const Int n = batch.rows;
  if (batch.empty()) return {};
  if (!has_lapack()) return no_library();
  const Scalar function(call.option<MatrixFunction>());
  Findings findings;
  const Basis basis(n);
  const double epsilon = a.dtype == DType::float32 ? std::numeric_limits<float>::epsilon()
                                                   : std::numeric_limits<double>::epsilon();
  each_block(
      batch, operations * cube(n), false, basis.bytes(), [&](Int first, Int end, Memory memory) {
        Basis own = basis;
        own.take(memory);
        for (Int m = first; m < end; ++m) {
          bool found = false;
          own.load(a, m, own.given);
          with_lapack(
              [&] { found = own.eigen(own.given, m, own.vectors, own.values, true, findings); });
          if (!found) continue;
          const double least = -static_cast<double>(n) * epsilon *
                               std::max(std::abs(own.values[0]), std::abs(own.values[n - 1]));
          for (Int i = 0; function.rounds() && i < n; ++i)
            if (own.values[i] < 0 && own.values[i] >= least) own.values[i] = 0;
          use(call, function, own, m);
        }
      });
  return findings.result(batch);
}
}  // namespace

KernelResult matrix_function(const KernelCall& call) {
  return each_basis(call, 11,
                    [](const KernelCall& to, const Scalar& function, const Basis& basis, Int m) {
                      const Int n = basis.n;
                      for (Int i = 0; i < n; ++i) {
                        const double value = function.at(basis.values[i]);
                        for (Int k = 0; k < n; ++k)
                          basis.turned[0][i * n + k] = value * basis.vectors[i * n + k];
                      }
                      basis.multiply(basis.vectors, true, basis.turned[0], false, basis.between);
                      basis.store(basis.between, to.output(), m);
                    });
}

// dy = V (f[w_i, w_j] (V^T dx V)_ij) V^T
KernelResult function_slope(const KernelCall& call) {
  return each_basis(call, 17,
                    [](const KernelCall& to, const Scalar& function, const Basis& basis, Int m) {
                      const Int n = basis.n;
                      double* const x = basis.turned[0];
                      basis.enter(to.input(1), m, x);
                      for (Int i = 0; i < n; ++i)
                        for (Int k = 0; k <= i; ++k) {
                          const double slope = function.slope(basis.values[i], basis.values[k]);
                          x[i * n + k] *= slope;
                          if (i != k) x[k * n + i] *= slope;
                        }
                      basis.leave(x, to.output(), m);
                    });
}

// ddy = V (sum over j of f[w_i, w_j, w_k] (X_ij Y_jk + Y_ij X_jk)) V^T, X = V^T dx V, Y = V^T dy V
KernelResult function_curve(const KernelCall& call) {
  return each_basis(call, 100,
                    [](const KernelCall& to, const Scalar& function, const Basis& basis, Int m) {
                      const Int n = basis.n;
                      const double *const w = basis.values, *const x = basis.turned[0],
                                          *const y = basis.turned[1];
                      double* const sums = basis.given;
                      basis.enter(to.input(1), m, basis.turned[0]);
                      basis.enter(to.input(2), m, basis.turned[1]);
                      for (Int i = 0; i < n; ++i)
                        for (Int k = 0; k <= i; ++k) {
                          double sum = 0;
                          for (Int j = 0; j < n; ++j)
                            sum += function.curve(w[i], w[j], w[k]) *
                                   (x[i * n + j] * y[j * n + k] + y[i * n + j] * x[j * n + k]);
                          sums[i * n + k] = sums[k * n + i] = sum;
                        }
                      basis.leave(sums, to.output(), m);
                    });
}
}  // namespace reel::kernels::lapack
