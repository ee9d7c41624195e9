// SPDX-License-Identifier: BSD-3-Clause
// Linear algebra. Matrices are far from singular ones, and their eigenvalues from each other.
#include "peers/rows.hpp"

namespace reel::tests::peers {
namespace {
using enum Layout;

Tensor transposed_matrix(const Tensor& a) { return matrix_transpose(a); }
at::Tensor transposed_matrix(const at::Tensor& a) { return a.mT(); }
Tensor symmetric(const Ours& x) { return x[0] + x[1] + transposed_matrix(x[0] + x[1]); }
at::Tensor symmetric(const Theirs& x) { return x[0] + x[1] + transposed_matrix(x[0] + x[1]); }
Tensor positive(const Ours& x) { return symmetric(x) + matmul(x[0], transposed_matrix(x[0])); }
at::Tensor positive(const Theirs& x) {
  return symmetric(x) + at::matmul(x[0], transposed_matrix(x[0]));
}

// The signs that reel chooses.
at::Tensor signs(const at::Tensor& columns) {
  const at::Tensor still = columns.detach();
  return still.gather(-2, still.abs().argmax(-2, true)).sign();
}
Theirs their_qr(const at::Tensor& a) {
  const auto [q, r] = at::linalg_qr(a);
  const at::Tensor sign = r.detach().diagonal(0, -2, -1).sign();
  return {q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)};
}
Theirs their_eigh(const at::Tensor& a) {
  const auto [values, vectors] = at::linalg_eigh(a);
  return {values, vectors * signs(vectors)};
}
Theirs their_svd(const at::Tensor& a) {
  const auto [u, s, vt] = at::linalg_svd(a, false);
  const at::Tensor sign = signs(u);
  return {u * sign, s, vt * sign.mT()};
}
at::Tensor root(const at::Tensor& a) {
  const auto [values, vectors] = at::linalg_eigh(a);
  return at::matmul(vectors * values.sqrt().unsqueeze(-2), vectors.mT());
}
Ours listed(const linalg::QR& of) { return {of.q, of.r}; }
Ours listed(const linalg::Eigenpairs& of) { return {of.values, of.vectors}; }
Ours listed(const linalg::SVD& of) { return {of.u, of.s, of.vt}; }
Ours listed(const linalg::SignAndLog& of) { return {of.sign, of.log}; }
Theirs listed(const std::tuple<at::Tensor, at::Tensor>& of) {
  return {std::get<0>(of), std::get<1>(of)};
}

/// A matrix with small elements, and what makes it regular: whole numbers, which programs leave.
std::vector<Ours> matrices() {
  const auto steps = [](std::int64_t n) {
    return eye(n, {float64}) * arange(2.0, 2.0 * static_cast<double>(n) + 1, 2.0);
  };
  const Draw small{-0.4, 0.4};
  return {{drawn({1, 1}, small), steps(1)},
          {drawn({3, 3}, small), steps(3)},
          {drawn({2, 4, 4}, transposed, small), steps(4)},
          {drawn({2, 1, 3, 3}, stepped, small), steps(3)}};
}
/// With right-hand sides of two columns.
std::vector<Ours> systems() {
  std::vector<Ours> found = matrices();
  for (Ours& one : found) {
    Shape shape = one[0].shape();
    std::vector<std::int64_t> lengths(shape.begin(), shape.end());
    lengths.back() = 2;
    one.push_back(drawn(Shape(lengths), {}, 7));
  }
  return found;
}
std::vector<Ours> rectangles() {
  std::vector<Ours> found = matrices();
  found.push_back({drawn({4, 3}, {-0.4, 0.4}), concat({found[1][1], zeros({1, 3}, {float64})}, 0)});
  found.push_back({drawn({3, 4}, {-0.4, 0.4}), concat({found[1][1], zeros({3, 1}, {float64})}, 1)});
  return found;
}
}  // namespace

void add_linalg(Rows& rows) {
  rows.push_back(
      called("cholesky", matrices(),
             REEL_PAIR(linalg::cholesky(positive(x)), at::linalg_cholesky(positive(x)))));
  rows.push_back(
      called("solve", systems(),
             REEL_PAIR(linalg::solve(x[0] + x[1], x[2]), at::linalg_solve(x[0] + x[1], x[2]))));
  rows.push_back(called("triangular_solve", systems(),
                        REEL_PAIR(linalg::triangular_solve(x[0] + x[1], x[2]),
                                  at::linalg_solve_triangular((x[0] + x[1]).tril(), x[2], false))));
  rows.push_back(called("inverse", matrices(),
                        REEL_PAIR(linalg::inverse(x[0] + x[1]), at::linalg_inv(x[0] + x[1]))));
  rows.push_back(
      called("det", matrices(), REEL_PAIR(linalg::det(x[0] + x[1]), at::linalg_det(x[0] + x[1]))));
  rows.push_back(called("slogdet", matrices(),
                        REEL_PAIR(linalg::slogdet(x[0] + x[1]), at::linalg_slogdet(x[0] + x[1]))));
  rows.push_back(
      called("qr", rectangles(), REEL_PAIR(linalg::qr(x[0] + x[1]), their_qr(x[0] + x[1]))));
  rows.push_back(
      called("svd", rectangles(), REEL_PAIR(linalg::svd(x[0] + x[1]), their_svd(x[0] + x[1]))));
  rows.push_back(
      called("eigh", matrices(), REEL_PAIR(linalg::eigh(symmetric(x)), their_eigh(symmetric(x)))));
  rows.push_back(
      called("eigvalsh", matrices(),
             REEL_PAIR(linalg::eigvalsh(symmetric(x)), at::linalg_eigvalsh(symmetric(x)))));
  rows.push_back(called("apply exp", matrices(),
                        REEL_PAIR(linalg::apply(symmetric(x) / 8, linalg::Function::exp),
                                  at::linalg_matrix_exp(symmetric(x) / 8))));
  rows.push_back(
      called("apply sqrt", matrices(),
             REEL_PAIR(linalg::apply(positive(x), linalg::Function::sqrt), root(positive(x)))));
}
}  // namespace reel::tests::peers
