// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra by the oldest methods, in long double.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/table/options/linalg.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
using Real = long double;
using Size = std::size_t;
struct Matrix {
  Size rows = 0, columns = 0;
  std::vector<Real> of;
  Matrix(Size n, Size m) : rows(n), columns(m), of(n * m) {}
  Real& operator()(Size i, Size k) { return of[i * columns + k]; }
  Real operator()(Size i, Size k) const { return of[i * columns + k]; }
};
Matrix identity(Size n) {
  Matrix one(n, n);
  for (Size i = 0; i < n; ++i) one(i, i) = 1;
  return one;
}
Matrix transposed(const Matrix& x) {
  Matrix y(x.columns, x.rows);
  for (Size i = 0; i < x.rows; ++i)
    for (Size k = 0; k < x.columns; ++k) y(k, i) = x(i, k);
  return y;
}
Matrix times(const Matrix& x, const Matrix& y) {
  Matrix z(x.rows, y.columns);
  for (Size i = 0; i < x.rows; ++i)
    for (Size j = 0; j < x.columns; ++j)
      for (Size k = 0; k < y.columns; ++k) z(i, k) += x(i, j) * y(j, k);
  return z;
}

/// Gauss and Jordan, with pivots. Returns the determinant, and b becomes the solution.
Real eliminate(Matrix a, Matrix& b) {
  Real det = 1;
  for (Size c = 0; c < a.rows; ++c) {
    Size best = c;
    for (Size i = c; i < a.rows; ++i)
      if (std::abs(a(i, c)) > std::abs(a(best, c))) best = i;
    if (best != c) det = -det;
    for (Size k = 0; k < a.columns; ++k) std::swap(a(c, k), a(best, k));
    for (Size k = 0; k < b.columns; ++k) std::swap(b(c, k), b(best, k));
    const Real pivot = a(c, c);
    det *= pivot;
    if (pivot == 0) return 0;
    for (Size i = 0; i < a.rows; ++i) {
      const Real f = i == c ? 0 : a(i, c) / pivot;
      if (i == c) continue;
      for (Size k = 0; k < a.columns; ++k) a(i, k) -= f * a(c, k);
      for (Size k = 0; k < b.columns; ++k) b(i, k) -= f * b(c, k);
    }
  }
  for (Size i = 0; i < a.rows; ++i)
    for (Size k = 0; k < b.columns; ++k) b(i, k) /= a(i, i);
  return det;
}

struct Spectrum {
  std::vector<Real> values;
  Matrix vectors;  // columns
};
/// Jacobi's rotations of the lower triangle.
Spectrum spectrum(Matrix a) {
  const Size n = a.rows;
  for (Size i = 0; i < n; ++i)
    for (Size k = 0; k < i; ++k) a(k, i) = a(i, k);
  Matrix v = identity(n);
  for (int sweep = 0; sweep < 60; ++sweep)
    for (Size p = 0; p < n; ++p)
      for (Size q = p + 1; q < n; ++q) {
        if (a(p, q) == 0) continue;
        const Real theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
        const Real t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const Real c = 1 / std::sqrt(t * t + 1), s = t * c;
        Matrix turn = identity(n);
        turn(p, p) = turn(q, q) = c;
        turn(p, q) = s;
        turn(q, p) = -s;
        a = times(transposed(turn), times(a, turn));
        a(p, q) = a(q, p) = 0;
        v = times(v, turn);
      }
  std::vector<Size> order(n);
  std::iota(order.begin(), order.end(), Size{0});
  std::sort(order.begin(), order.end(), [&](Size x, Size y) { return a(x, x) < a(y, y); });
  Spectrum found{{}, Matrix(n, n)};
  for (Size c = 0; c < n; ++c) {
    found.values.push_back(a(order[c], order[c]));
    Real largest = 0;
    for (Size i = 0; i < n; ++i)
      if (std::abs(v(i, order[c])) > std::abs(largest)) largest = v(i, order[c]);
    for (Size i = 0; i < n; ++i) found.vectors(i, c) = v(i, order[c]) * (largest < 0 ? -1 : 1);
  }
  return found;
}

/// u, s and vt, from the spectra of the products with the transpose.
std::vector<Matrix> singular(const Matrix& a) {
  const Size n = a.rows, m = a.columns, k = std::min(n, m);
  const bool tall = n >= m;
  const Spectrum found = spectrum(tall ? times(transposed(a), a) : times(a, transposed(a)));
  Matrix u(n, k), s(k, 1), vt(k, m);
  for (Size c = 0; c < k; ++c) {
    s(c, 0) = std::sqrt(found.values[k - 1 - c]);
    for (Size i = 0; i < (tall ? m : n); ++i)
      (tall ? vt(c, i) : u(i, c)) = found.vectors(i, k - 1 - c);
  }
  if (tall) {
    u = times(a, transposed(vt));
    for (Size i = 0; i < n; ++i)
      for (Size c = 0; c < k; ++c) u(i, c) /= s(c, 0);
  } else {
    vt = times(transposed(u), a);
    for (Size c = 0; c < k; ++c)
      for (Size i = 0; i < m; ++i) vt(c, i) /= s(c, 0);
  }
  for (Size c = 0; c < k; ++c) {
    Real largest = 0;
    for (Size i = 0; i < n; ++i)
      if (std::abs(u(i, c)) > std::abs(largest)) largest = u(i, c);
    if (largest > 0) continue;
    for (Size i = 0; i < n; ++i) u(i, c) = -u(i, c);
    for (Size i = 0; i < m; ++i) vt(c, i) = -vt(c, i);
  }
  return {u, s, vt};
}

/// Gram and Schmidt, twice, for orthonormal columns; r has a positive diagonal.
std::vector<Matrix> orthogonal(const Matrix& a) {
  const Size k = std::min(a.rows, a.columns);
  Matrix q(a.rows, k);
  for (Size c = 0; c < k; ++c) {
    for (Size i = 0; i < a.rows; ++i) q(i, c) = a(i, c);
    for (int twice = 0; twice < 2; ++twice)
      for (Size before = 0; before < c; ++before) {
        Real dot = 0;
        for (Size i = 0; i < a.rows; ++i) dot += q(i, before) * q(i, c);
        for (Size i = 0; i < a.rows; ++i) q(i, c) -= dot * q(i, before);
      }
    Real squares = 0;
    for (Size i = 0; i < a.rows; ++i) squares += q(i, c) * q(i, c);
    for (Size i = 0; i < a.rows; ++i) q(i, c) /= std::sqrt(squares);
  }
  Matrix r = times(transposed(q), a);
  for (Size i = 0; i < k; ++i)
    for (Size c = 0; c < i; ++c) r(i, c) = 0;
  return {q, r};
}

Matrix cholesky(const Matrix& a) {
  Matrix l(a.rows, a.rows);
  for (Size j = 0; j < a.rows; ++j)
    for (Size i = j; i < a.rows; ++i) {
      Real rest = a(i, j);
      for (Size k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
      l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
    }
  return l;
}

/// A function of one number, and its divided differences, of points that are not near each other.
struct Scalar {
  MatrixFunction options;
  Real exponent() const { return options.function == 0 ? Real{0.5} : Real{options.exponent}; }
  Real operator()(Real x) const {
    return options.function == 1   ? std::log(x)
           : options.function == 2 ? std::exp(x)
                                   : std::pow(x, exponent());
  }
  Real slope(Real x) const {
    return options.function == 1   ? 1 / x
           : options.function == 2 ? std::exp(x)
                                   : exponent() * std::pow(x, exponent() - 1);
  }
  Real curve(Real x) const {
    return options.function == 1   ? -1 / (x * x)
           : options.function == 2 ? std::exp(x)
                                   : exponent() * (exponent() - 1) * std::pow(x, exponent() - 2);
  }
  Real operator()(Real x, Real y) const {
    return x == y ? slope(x) : ((*this)(x) - (*this)(y)) / (x - y);
  }
  Real operator()(Real x, Real y, Real z) const {
    if (x == z && y == z) return curve(x) / 2;
    if (x == z) std::swap(y, z);
    return ((*this)(x, y) - (*this)(y, z)) / (x - z);
  }
};
Matrix symmetric(const Matrix& x) {
  Matrix y = x;
  for (Size i = 0; i < x.rows; ++i)
    for (Size k = 0; k < x.rows; ++k) y(i, k) = (x(i, k) + x(k, i)) / 2;
  return y;
}

/// f(matrices of all inputs, options) gives the matrices of all outputs. `axes` says how many axes
/// of each matrix an output has.
template <class F>
Reference of_matrices(std::vector<int> axes, F f) {
  return [=](const Hosts& in, const void* options) {
    std::vector<Host> hosts;
    std::int64_t count = 1;
    const Shape& first = in[0].shape;
    for (std::size_t a = 0; a + 2 < first.rank(); ++a) count *= first.data()[a];
    const auto shape_of = [&](const Matrix& matrix, int kept) {
      Shape shape = first;
      shape.resize(first.rank() - 2 + static_cast<Size>(kept));
      if (kept > 0) shape.data()[first.rank() - 2] = static_cast<std::int64_t>(matrix.rows);
      if (kept > 1) shape.data()[first.rank() - 1] = static_cast<std::int64_t>(matrix.columns);
      return shape;
    };
    const auto matrix_of = [&](const Host& host, std::int64_t m) {
      Matrix matrix(static_cast<Size>(host.shape[-2]), static_cast<Size>(host.shape[-1]));
      const Size begin = static_cast<Size>(m) * matrix.of.size();
      for (Size i = 0; i < matrix.of.size(); ++i) matrix.of[i] = host.values[begin + i];
      return matrix;
    };
    for (std::int64_t m = 0; m < std::max<std::int64_t>(count, 1); ++m) {
      std::vector<Matrix> given;
      for (const Host& host : in)
        given.push_back(count == 0 ? Matrix(static_cast<Size>(host.shape[-2]),
                                            static_cast<Size>(host.shape[-1]))
                                   : matrix_of(host, m));
      if (count == 0)  // any matrix gives the shapes
        for (Size i = 0; i < std::min(given[0].rows, given[0].columns); ++i)
          given[0](i, i) = static_cast<Real>(i + 1);
      const std::vector<Matrix> made = f(given, options);
      for (Size i = 0; i < made.size(); ++i) {
        if (m == 0) hosts.push_back({in[0].dtype, shape_of(made[i], axes[i]), {}});
        for (const Real x : made[i].of)
          if (count > 0) hosts[i].values.push_back(static_cast<double>(x));
      }
    }
    return hosts;
  };
}
using Matrices = std::vector<Matrix>;
Matrix of_number(Real x) {
  Matrix one(1, 1);
  one(0, 0) = x;
  return one;
}
Matrix column(const std::vector<Real>& values) {
  Matrix all(values.size(), 1);
  all.of = values;
  return all;
}
Real det(const Matrix& a) {
  Matrix none(a.rows, 0);
  return eliminate(a, none);
}
}  // namespace

void add_linalg_references(References& table) {
  table["cholesky"] =
      of_matrices({2}, [](const Matrices& in, const void*) { return Matrices{cholesky(in[0])}; });
  table["solve"] = of_matrices({2}, [](const Matrices& in, const void*) {
    Matrix x = in[1];
    eliminate(in[0], x);
    return Matrices{x};
  });
  table["triangular_solve"] = of_matrices({2}, [](const Matrices& in, const void* given) {
    const auto& options = as<TriangularSystem>(given);
    Matrix a = in[0], x = in[1];
    for (Size i = 0; i < a.rows; ++i)
      for (Size k = 0; k < a.rows; ++k) {
        if (options.upper ? k < i : k > i) a(i, k) = 0;
        if (options.unit && i == k) a(i, k) = 1;
      }
    eliminate(options.transposed ? transposed(a) : a, x);
    return Matrices{x};
  });
  table["inverse"] = of_matrices({2}, [](const Matrices& in, const void*) {
    Matrix x = identity(in[0].rows);
    eliminate(in[0], x);
    return Matrices{x};
  });
  table["det"] = of_matrices(
      {0}, [](const Matrices& in, const void*) { return Matrices{of_number(det(in[0]))}; });
  table["slogdet"] = of_matrices({0, 0}, [](const Matrices& in, const void*) {
    const Real found = det(in[0]);
    return Matrices{of_number(found < 0   ? -1
                              : found > 0 ? 1
                                          : 0),
                    of_number(std::log(std::abs(found)))};
  });
  table["cofactors"] = of_matrices({2}, [](const Matrices& in, const void*) {
    Matrix x = identity(in[0].rows);
    const Real found = eliminate(in[0], x);
    for (Real& each : x.of) each *= found;
    return Matrices{transposed(x)};
  });
  table["qr"] =
      of_matrices({2, 2}, [](const Matrices& in, const void*) { return orthogonal(in[0]); });
  table["eigh"] = of_matrices({1, 2}, [](const Matrices& in, const void*) {
    const Spectrum found = spectrum(in[0]);
    return Matrices{column(found.values), found.vectors};
  });
  table["eigvalsh"] = of_matrices({1}, [](const Matrices& in, const void*) {
    return Matrices{column(spectrum(in[0]).values)};
  });
  table["svd"] =
      of_matrices({2, 1, 2}, [](const Matrices& in, const void*) { return singular(in[0]); });
  table["matrix_function"] = of_matrices({2}, [](const Matrices& in, const void* options) {
    const Spectrum found = spectrum(in[0]);
    const Scalar f{as<MatrixFunction>(options)};
    Matrix scaled = found.vectors;
    for (Size i = 0; i < scaled.rows; ++i)
      for (Size k = 0; k < scaled.rows; ++k) scaled(i, k) *= f(found.values[k]);
    return Matrices{times(scaled, transposed(found.vectors))};
  });
  table["function_slope"] = of_matrices({2}, [](const Matrices& in, const void* options) {
    const auto [w, v] = spectrum(in[0]);
    const Scalar f{as<MatrixFunction>(options)};
    Matrix x = times(transposed(v), times(symmetric(in[1]), v));
    for (Size i = 0; i < x.rows; ++i)
      for (Size k = 0; k < x.rows; ++k) x(i, k) *= f(w[i], w[k]);
    return Matrices{times(v, times(x, transposed(v)))};
  });
  table["function_curve"] = of_matrices({2}, [](const Matrices& in, const void* options) {
    const auto [w, v] = spectrum(in[0]);
    const Scalar f{as<MatrixFunction>(options)};
    const Matrix x = times(transposed(v), times(symmetric(in[1]), v)),
                 y = times(transposed(v), times(symmetric(in[2]), v));
    Matrix sums(x.rows, x.rows);
    for (Size i = 0; i < x.rows; ++i)
      for (Size k = 0; k < x.rows; ++k)
        for (Size j = 0; j < x.rows; ++j)
          sums(i, k) += f(w[i], w[j], w[k]) * (x(i, j) * y(j, k) + y(i, j) * x(j, k));
    return Matrices{times(v, times(sums, transposed(v)))};
  });
}
}  // namespace reel::tests
