// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/flow/context.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/linalg.hpp"

namespace reel {
namespace {
using linalg::triangular_solve;

Tensor transposed(const Tensor& x) { return matrix_transpose(x); }
Tensor symmetric(const Tensor& x) { return (x + transposed(x)) / 2; }
/// The identity of x's last axis, or another number in its place and 0 elsewhere.
Tensor diagonal_of(const Tensor& x, double number) {
  const std::int64_t n = x.shape().end()[-1];
  const DeviceScope here(x.device());
  return where(eye(n, {DType::boolean}), full({}, number, {x.dtype()}), zeros({}, {x.dtype()}));
}
/// v [..., n] as the columns, or the rows, of [..., n, n].
Tensor in_columns(const Tensor& v) { return expand_dims(v, -1); }
Tensor in_rows(const Tensor& v) { return expand_dims(v, -2); }
/// 1 / (w_j - w_i), and 0 in the diagonal.
Tensor gaps(const Tensor& w) {
  const Tensor between = in_rows(w) - in_columns(w);
  return 1 / (between + diagonal_of(between, std::numeric_limits<double>::infinity()));
}

// a = l lT        da = l^-T phi(lT dl) l^-1, symmetric; phi halves the diagonal of the lower part
void cholesky_rule(GradientCall& call) {
  const Tensor& l = call.output();
  const Tensor product = matmul(transposed(l), tril(call.dy()));
  const Tensor phi = tril(product) - product * diagonal_of(product, 0.5);
  const linalg::TriangularOptions back{.transposed = true};
  const Tensor left = triangular_solve(l, phi, back);
  call.give(0, symmetric(triangular_solve(l, transposed(left), back)));
}

// a x = b        db = a^-T dx        da = -db xT
void solve_rule(GradientCall& call) {
  const Tensor db = linalg::solve(transposed(call.input(0)), call.dy());
  call.give(1, db);
  if (call.wants(0)) call.give(0, -matmul(db, transposed(call.output())));
}
void triangular_solve_rule(GradientCall& call) {
  const auto& options = call.option<TriangularSystem>();
  const Tensor db = triangular_solve(call.input(0), call.dy(),
                                     {options.upper, !options.transposed, options.unit});
  call.give(1, db);
  if (!call.wants(0)) return;
  const Tensor& x = call.output();
  const Tensor da = options.transposed ? matmul(x, transposed(db)) : matmul(db, transposed(x));
  const int without_diagonal = options.unit;
  call.give(0, -(options.upper ? triu(da, without_diagonal) : tril(da, -without_diagonal)));
}

// c = a^-1        da = -cT dc cT
void inverse_rule(GradientCall& call) {
  const Tensor c = transposed(call.output());
  call.give(0, -matmul(matmul(c, call.dy()), c));
}

// log |det a|        da = a^-T
void slogdet_rule(GradientCall& call) {
  if (!call.has_dy(1)) return;
  const FunctionScope scope({}, "slogdet");
  call.give(0, in_columns(in_columns(call.dy(1))) * transposed(linalg::inverse(call.input(0))));
}
// det a        da = its cofactors
void det_rule(GradientCall& call) {
  call.give(0, in_columns(in_columns(call.dy())) * run(core_ops.cofactors, {call.input(0)}));
}
// c = det(a) a^-T        da = (sum(c dc) - c dcT) a^-T, by the derivatives of both factors
void cofactors_rule(GradientCall& call) {
  const FunctionScope scope({}, "det");
  const Tensor& c = call.output();
  const Tensor inverse = transposed(linalg::inverse(call.input(0)));
  const Tensor total = sum(c * call.dy(), {-2, -1}, keepdims);
  call.give(0, total * inverse - matmul(matmul(c, transposed(call.dy())), inverse));
}

// a = q r        da = (dq + q s) r^-T, s symmetric with the lower part of r drT - dqT q
Tensor qr_gradient(const Tensor& q, const Tensor& r, const Tensor& dq, const Tensor& dr) {
  const Tensor m = matmul(r, transposed(triu(dr))) - matmul(transposed(dq), q);
  const Tensor lower = dq + matmul(q, tril(m) + transposed(tril(m, -1)));
  return transposed(triangular_solve(r, transposed(lower), {.upper = true}));
}
void qr_rule(GradientCall& call) {
  const FunctionScope scope({}, "qr");
  const Tensor &q = call.output(0), &r = call.output(1), &dq = call.dy(0), &dr = call.dy(1);
  const std::int64_t k = r.shape().end()[-2], m = r.shape().end()[-1];
  if (k == m) return call.give(0, qr_gradient(q, r, dq, dr));
  // [a1 a2] = q [r1 r2]: a2 = q r2, and q depends on a1 alone
  const Tensor r2 = r(ellipsis, range(k, m)), dr2 = dr(ellipsis, range(k, m));
  const Tensor more = matmul(matmul(q, r2), transposed(dr2));
  const Tensor first =
      qr_gradient(q, r(ellipsis, range(0, k)), dq + more, dr(ellipsis, range(0, k)));
  call.give(0, concat({first, matmul(q, dr2)}, -1));
}

// a = v diag(w) vT        da = v (diag(dw) + (vT dv) / (w_j - w_i)) vT, symmetric
void eigh_rule(GradientCall& call) {
  const Tensor& v = call.output(1);
  if (!call.has_dy(1)) return call.give(0, matmul(v * in_rows(call.dy(0)), transposed(v)));
  const Tensor turned = matmul(transposed(v), call.dy(1)) * gaps(call.output(0));
  const Tensor inner = turned + in_rows(call.dy(0)) * diagonal_of(turned, 1);
  call.give(0, symmetric(matmul(matmul(v, inner), transposed(v))));
}
void eigvalsh_rule(GradientCall& call) {
  const Tensor v = linalg::eigh(call.input(0)).vectors;
  call.give(0, matmul(v * in_rows(call.dy()), transposed(v)));
}

// a = u diag(s) vt, f_ij = 1 / (s_j^2 - s_i^2)
// da = u ((j + jT) s_j + s_i (k + kT) + diag(ds)) vt + (du - u uT du) / s vt + u / s (dvt - dvt v
// vt) with j = f uT du, k = f vt dv
void svd_rule(GradientCall& call) {
  const Tensor &u = call.output(0), &s = call.output(1), &vt = call.output(2);
  if (!call.has_dy(0) && !call.has_dy(2)) return call.give(0, matmul(u * in_rows(call.dy(1)), vt));
  const Tensor &du = call.dy(0), &dvt = call.dy(2);
  const Tensor f = gaps(square(s));
  const Tensor j = f * matmul(transposed(u), du), k = f * matmul(vt, transposed(dvt));
  const Tensor inner = (j + transposed(j)) * in_rows(s) + in_columns(s) * (k + transposed(k)) +
                       in_rows(call.dy(1)) * diagonal_of(j, 1);
  Tensor da = matmul(matmul(u, inner), vt);
  const std::int64_t rank = s.shape().end()[-1];
  if (u.shape().end()[-2] > rank)
    da = da + matmul((du - matmul(u, matmul(transposed(u), du))) / in_rows(s), vt);
  if (vt.shape().end()[-1] > rank)
    da = da + matmul(u / in_rows(s), dvt - matmul(matmul(dvt, transposed(vt)), vt));
  call.give(0, da);
}

// y = f(a)        da = the slope of f at a along dy, which is symmetric
void matrix_function_rule(GradientCall& call) {
  call.give(0, core_ops.function_slope, {call.input(0), call.dy()}, call.option<MatrixFunction>());
}
// y = the slope of f at a along x        dx = the slope along dy        da = the curve along both
void function_slope_rule(GradientCall& call) {
  const auto& options = call.option<MatrixFunction>();
  if (call.wants(0))
    call.give(0, core_ops.function_curve, {call.input(0), call.input(1), call.dy()}, options);
  call.give(1, core_ops.function_slope, {call.input(0), call.dy()}, options);
}
}  // namespace

const NamedRule linalg_rules[] = {{"cholesky", cholesky_rule},
                                  {"cofactors", cofactors_rule},
                                  {"det", det_rule},
                                  {"eigh", eigh_rule},
                                  {"eigvalsh", eigvalsh_rule},
                                  {"function_slope", function_slope_rule},
                                  {"inverse", inverse_rule},
                                  {"matrix_function", matrix_function_rule},
                                  {"qr", qr_rule},
                                  {"slogdet", slogdet_rule},
                                  {"solve", solve_rule},
                                  {"svd", svd_rule},
                                  {"triangular_solve", triangular_solve_rule},
                                  {nullptr, nullptr}};
}  // namespace reel
