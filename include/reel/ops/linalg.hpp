// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra: matrices in the last two axes, any number of matrices in the axes before.
#pragma once  // defined in lib/ops
#include <cstdint>

#include <reel/tensor.hpp>

namespace reel {
/// Each function takes float32 or float64 and computes on the CPU, by LAPACK (of OpenBLAS, Debian's
/// package libopenblas0-pthread) or, for up to 16 rows, by code of its own. Other dtypes throw
/// DTypeError, other shapes ShapeError. A matrix of no rows is allowed; its determinant is 1. A
/// matrix has at most 32,000 rows and columns. Errors name the matrix, counted from 0 in row-major
/// order of the leading axes. All functions have gradients of first and second order.
namespace linalg {
/// The lower triangular matrix l with a positive diagonal and matmul(l, matrix_transpose(l)) = a. a
/// [..., n, n] is symmetric: only its lower triangle is read, and its gradient is symmetric. Throws
/// Error for a matrix that is not positive definite. a is float32 or float64, and the result has
/// its dtype; other dtypes throw DTypeError.
///
///     linalg::cholesky(tensor({{4.f, 2.f}, {2.f, 5.f}}))   // [[2., 0.], [1., 2.]]
REEL_API Tensor cholesky(Operand a);
/// x with a x = b. a is [..., n, n] and b [..., n, k]; leading axes broadcast. A b with one axis is
/// a vector, and so is x for each matrix, as in NumPy 2. Throws Error for a matrix whose LU factors
/// have a pivot of 0. a and b come to one dtype, float32 or float64; other dtypes throw DTypeError.
///
///     linalg::solve(tensor({{2.f, 0.f}, {0.f, 4.f}}), tensor({2.f, 2.f}))   // [1.0, 0.5]
REEL_API Tensor solve(Operand a, Operand b);
/// Options of triangular_solve().
struct TriangularOptions {
  bool upper = false;       ///< whether a is upper triangular; the other triangle is not read
  bool transposed = false;  ///< whether to solve a x = b for the transposed a
  bool unit = false;        ///< whether the diagonal counts as 1 and is not read
};
/// solve() for a triangular matrix a, which is lower triangular by default. Throws Error for a 0 in
/// the diagonal. a and b come to one dtype, float32 or float64; other dtypes throw DTypeError.
REEL_API Tensor triangular_solve(Operand a, Operand b, TriangularOptions options = {});
/// The inverse of a [..., n, n]. Throws Error for a matrix whose LU factors have a pivot of 0. a is
/// float32 or float64, and the result has its dtype; other dtypes throw DTypeError.
///
///     linalg::inverse(tensor({{0.5f, 0.f}, {0.f, 0.25f}}))  // [[2., 0.], [0., 4.]]
REEL_API Tensor inverse(Operand a);
/// The determinant of a [..., n, n]. Its gradient exists for a singular matrix too; there the
/// second derivative throws Error. a is float32 or float64, and the result has its dtype; other
/// dtypes throw DTypeError.
///
///     linalg::det(tensor({{1.f, 2.f}, {3.f, 4.f}}))        // -2.0
REEL_API Tensor det(Operand a);
/// The sign of a determinant, and the logarithm of its absolute value.
struct SignAndLog {
  Tensor sign, log;
};
/// The sign of the determinant of a [..., n, n] (-1, 0 or 1), and log |det a|, which does not
/// overflow. Of a singular matrix they are 0 and -infinity, and the gradient throws Error. a is
/// float32 or float64, and the results have its dtype; other dtypes throw DTypeError.
REEL_API SignAndLog slogdet(Operand a);

/// The factors of qr().
struct QR {
  Tensor q, r;
};
/// a = q r for a [..., n, m]: the columns of q [..., n, k] are orthonormal, r [..., k, m] is upper
/// triangular, and its diagonal is not negative; k is the smaller one of n and m. The gradient
/// throws Error if the first k columns of a are linearly dependent. a is float32 or float64, and
/// the results have its dtype; other dtypes throw DTypeError.
REEL_API QR qr(Operand a);
/// Eigenvalues in ascending order, and a unit vector for each one, as the columns of a matrix.
struct Eigenpairs {
  Tensor values, vectors;
};
/// The eigenvalues [..., n] and eigenvectors [..., n, n] of a symmetric matrix a [..., n, n]: only
/// its lower triangle is read, and its gradient is symmetric. The element of largest size in each
/// vector is positive. Throws Error for NaN and infinity. a is float32 or float64, and the results
/// have its dtype; other dtypes throw DTypeError.
///
/// Eigenvectors of equal eigenvalues are not unique. Where eigenvalues are equal, the gradient of
/// the vectors is infinite or NaN, never 0, and near such a matrix it is inaccurate. eigvalsh() has
/// a gradient everywhere, and so has apply(), for functions of a matrix.
REEL_API Eigenpairs eigh(Operand a);
/// The eigenvalues of eigh() alone. Their gradient has no differences of eigenvalues. Of equal
/// eigenvalues, each one gets the gradient of one of their eigenvectors. a is float32 or float64,
/// and the result has its dtype; other dtypes throw DTypeError.
///
///     linalg::eigvalsh(tensor({{2.f, 1.f}, {1.f, 2.f}}))   // [1., 3.]
REEL_API Tensor eigvalsh(Operand a);
/// The factors of svd().
struct SVD {
  Tensor u, s, vt;
};
/// a = u diag(s) vt for a [..., n, m]: singular values s [..., k] in descending order, orthonormal
/// columns of u [..., n, k] and rows of vt [..., k, m]; k is the smaller one of n and m. (NumPy's
/// full_matrices=False.) The element of largest size in each column of u is positive. Throws Error
/// for NaN and infinity. The gradient of s alone has no differences of singular values. That of u
/// and vt is infinite or NaN where singular values are equal, or 0 in a matrix that is not square.
/// a is float32 or float64, and the results have its dtype; other dtypes throw DTypeError.
REEL_API SVD svd(Operand a);
/// The x with the least |a x - b|, and of several the one with the least |x|. a is [..., n, m]; b
/// is as in solve(). Throws Error if a does not have full rank, to the precision of its dtype. a
/// and b come to one dtype, float32 or float64; other dtypes throw DTypeError.
REEL_API Tensor lstsq(Operand a, Operand b);
/// a times itself, n times. A negative n stands for the inverse's power, and 0 gives the identity.
/// a is floating, and the result has its dtype.
REEL_API Tensor matrix_power(Operand a, CountNumber n);

/// The functions of apply().
enum class Function : std::int64_t { sqrt, log, exp, power };
/// f of a symmetric matrix a [..., n, n]: matmul(v * f(w), matrix_transpose(v)) with the
/// eigenvalues w and vectors v. Only the lower triangle of a is read, and its gradient is
/// symmetric. The gradient is exact for equal eigenvalues too: it uses divided differences of f.
/// Function::power takes `exponent`. Where f of an eigenvalue does not exist, the matrix becomes
/// NaN; eigenvalues that are negative by rounding alone count as 0. Throws Error for NaN and
/// infinity. a is float32 or float64, and the result has its dtype; other dtypes throw DTypeError.
///
///     linalg::apply(tensor({{4.f, 0.f}, {0.f, 9.f}}), linalg::Function::sqrt)
///     // [[2., 0.], [0., 3.]]
REEL_API Tensor apply(Operand a, Function f, double exponent = 1);
}  // namespace linalg
}  // namespace reel
