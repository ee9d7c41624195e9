// SPDX-License-Identifier: BSD-3-Clause
// Bad arguments of public functions. Each call throws the promised type and names the user's line.
#include <limits>

#include <reel/bench.hpp>

#include "sweep/hostile.hpp"

namespace reel::tests {
namespace {
enum class Kind { any, shape, dtype, index, memory, tape };
struct Bad {
  const char* head;  // the op and the argument
  Kind kind;
  void (*call)();
  unsigned line;
  Bad(const char* head, Kind kind, void (*call)(), unsigned line = __builtin_LINE())
      : head(head), kind(kind), call(call), line(line) {}
};

Tensor x() { return tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}); }
Tensor v() { return tensor({1.0f, 2.0f, 3.0f}); }
Tensor truth() { return tensor({true, false, true}); }
Tensor huge(Shape shape) { return broadcast_to(ones({}), shape); }
constexpr std::int64_t large = std::int64_t{1} << 40;
constexpr int nine_axes[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
Variable w() { return Variable("w", v()); }
void momentum(double rate, MomentumOptions options, Caller caller = Caller::here()) {
  Variable w("w", v()), velocity("velocity", v());
  momentum_update(w, velocity, {v(), caller}, rate, options);
}
void adam(double rate, int step, AdamUpdateOptions options, Caller caller = Caller::here()) {
  Variable w("w", v()), m("m", v()), s("s", v());
  adam_update(w, m, s, {v(), caller}, rate, step, options);
}
void slope(GradientOptions options, Caller caller = Caller::here()) {
  GradientTape tape;
  const Variable x = w();
  tape.gradient({x * 2, caller}, x, options);
}
Tensor product(Operand x) { return matmul(x, ones({2})); }
auto nothing(Tensor) {
  return std::pair(Tensor(), [](Tensor dy) { return Tensors{dy}; });
}
void child_sum(Operand x, const std::vector<nn::LSTMState>& states) {
  nn::ChildSumTreeLSTMCell(3, 2)(x, states);
}
using optim::clip_by_global_norm;

/// Two sequences of four steps with three features. The state has two features.
Tensor of_steps(Shape weight, Tensor lengths = {}, Caller caller = Caller::here()) {
  const CallerScope scope(caller);
  const Tensor state = zeros({2, 2});
  return lstm(zeros({4, 2, 3}), state, state, zeros(weight), zeros({8}), {lengths}).outputs;
}
Tensor gru_steps() { return ones({4, 2, 3}); }

// clang-format off
const Bad table[] = {  // one to a line, which the error names
    Bad("add: y", Kind::shape, [] { x() + tensor({1.0f, 2.0f}); }),
    Bad("add: y", Kind::any, [] { x() + Tensor(); }),
    Bad("add: y", Kind::dtype, [] { tensor({1, 2}) + (std::int64_t{1} << 40); }),
    Bad("add: shape", Kind::shape, [] { huge({large, 1}) + huge({1, large}); }),
    Bad("add: result", Kind::memory, [] { huge({large, 1}) + huge({1, 1 << 17}); }),
    Bad("subtract: x", Kind::dtype, [] { truth() - truth(); }),
    Bad("negative: x", Kind::dtype, [] { -truth(); }),
    Bad("remainder: x", Kind::dtype, [] { truth() % truth(); }),
    Bad("exp: result", Kind::memory, [] { exp(huge({large, 1 << 17})); }),
    Bad("tanh: x", Kind::any, [] { tanh(Tensor()); }),
    Bad("where: condition", Kind::dtype, [] { where(v(), 1, 2); }),
    Bad("where: y", Kind::shape, [] { where(truth(), x(), tensor({1.0f, 2.0f})); }),
    Bad("equal: y", Kind::shape, [] { (void)(x() == tensor({1.0f, 2.0f})); }),
    Bad("equal: x", Kind::any, [] { equal(Tensor(), x()); }),
    Bad("allclose: y", Kind::shape, [] { allclose(x(), tensor({1.0f, 2.0f})); }),
    Bad("sum: axis", Kind::shape, [] { sum(x(), 2); }),
    Bad("sum: axis", Kind::shape, [] { sum(x(), -3); }),
    Bad("sum: axes", Kind::shape, [] { sum(x(), {0, -2}); }),
    Bad("mean: axis", Kind::shape, [] { mean(x(), std::numeric_limits<int>::max()); }),
    Bad("mean: axis", Kind::shape, [] { mean(x(), std::numeric_limits<int>::min()); }),
    Bad("max: x", Kind::shape, [] { max(zeros({0})); }),
    Bad("min: x", Kind::shape, [] { min(zeros({2, 0}), 1); }),
    Bad("argmax: x", Kind::shape, [] { argmax(zeros({0})); }),
    Bad("argmax: axes", Kind::shape, [] { argmax(x(), {0, 1}); }),
    Bad("prod: axis", Kind::shape, [] { prod(x(), 2); }),
    Bad("argmin: x", Kind::shape, [] { argmin(zeros({0})); }),
    Bad("argmin: axes", Kind::shape, [] { argmin(x(), {0, 1}); }),
    Bad("cumsum: axis", Kind::shape, [] { cumsum(x(), 2); }),
    Bad("logcumsumexp: x", Kind::any, [] { logcumsumexp(Tensor()); }),
    Bad("argsort: axis", Kind::shape, [] { argsort(x(), -3); }),
    Bad("topk: k", Kind::shape, [] { topk(x(), 4); }),
    Bad("searchsorted: sorted", Kind::shape, [] { searchsorted(x(), 1); }),
    Bad("norm: p", Kind::any, [] { norm(x(), 0, keepdims, {.p = nan}); }),
    Bad("median: x", Kind::shape, [] { median(zeros({0})); }),
    Bad("quantile: q", Kind::any, [] { quantile(x(), -0.5); }),
    Bad("masked_select: mask", Kind::dtype, [] { masked_select(x(), x()); }),
    Bad("any: axis", Kind::shape, [] { any(truth(), 1); }),
    Bad("all: axis", Kind::shape, [] { all(truth(), 1); }),
    Bad("matmul: y", Kind::shape, [] { matmul(x(), x()); }),
    Bad("matmul: y", Kind::shape, [] { matmul(x(), tensor({1.0f, 2.0f})); }),
    Bad("matmul: x", Kind::shape, [] { matmul(tensor(1.0f), v()); }),
    Bad("matmul: y", Kind::shape, [] { matmul(v(), 2.0f); }),
    Bad("matmul: y", Kind::shape, [] { matmul(ones({2, 2, 3}), ones({3, 3, 2})); }),
    Bad("matmul: x", Kind::dtype, [] { matmul(tensor({1, 2}), tensor({1, 2})); }),
    Bad("matmul: result", Kind::memory, [] { matmul(huge({1 << 30, 1}), huge({1, 1 << 27})); }),
    Bad("matmul: y", Kind::any, [] { matmul(x(), Tensor()); }),
    Bad("einsum: formula", Kind::any, [] { einsum("ij->k", {x()}); }),
    Bad("einsum: operand 1", Kind::shape, [] { einsum("ij,jk", {x(), x()}); }),
    Bad("einsum: operands", Kind::shape, [] { einsum("ij", {x(), x()}); }),
    Bad("einsum: x", Kind::any, [] { einsum("ij", {Tensor()}); }),
    Bad("einsum: result", Kind::memory, [] { einsum("ik,kj->ij", {huge({1 << 30, 1}), huge({1, 1 << 27})}); }),
    Bad("tensordot: axes", Kind::shape, [] { tensordot(x(), x(), 3); }),
    Bad("tensordot: axes", Kind::shape, [] { tensordot(x(), x(), {0, 1}, 0); }),
    Bad("tensordot: axis", Kind::shape, [] { tensordot(x(), x(), 2, 0); }),
    Bad("tensordot: y", Kind::shape, [] { tensordot(x(), x(), 1); }),
    Bad("outer: x", Kind::any, [] { outer(Tensor(), x()); }),
    Bad("outer: result", Kind::memory, [] { outer(huge({1 << 30}), huge({1 << 27})); }),
    Bad("kron: x", Kind::shape, [] { kron(ones({1, 1, 1, 1, 1}), x()); }),
    Bad("cholesky: a", Kind::shape, [] { linalg::cholesky(x()); }),
    Bad("cholesky: a", Kind::any, [] { linalg::cholesky(-eye(2)); }),
    Bad("solve: b", Kind::shape, [] { linalg::solve(eye(2), v()); }),
    Bad("solve: a", Kind::any, [] { linalg::solve(zeros({2, 2}), ones({2})); }),
    Bad("triangular_solve: a", Kind::any, [] { linalg::triangular_solve(zeros({2, 2}), ones({2})); }),
    Bad("inverse: a", Kind::dtype, [] { linalg::inverse(truth()(newaxis)); }),
    Bad("det: a", Kind::shape, [] { linalg::det(v()); }),
    Bad("slogdet: a", Kind::shape, [] { linalg::slogdet(x()); }),
    Bad("qr: a", Kind::shape, [] { linalg::qr(v()); }),
    Bad("eigh: a", Kind::any, [] { linalg::eigh(full({2, 2}, nan)); }),
    Bad("eigvalsh: a", Kind::any, [] { linalg::eigvalsh(full({2, 2}, nan)); }),
    Bad("svd: a", Kind::any, [] { linalg::svd(full({2, 3}, nan)); }),
    Bad("lstsq: a", Kind::any, [] { linalg::lstsq(ones({3, 2}), v()); }),
    Bad("lstsq: b", Kind::shape, [] { linalg::lstsq(x(), v()); }),
    Bad("matrix_power: a", Kind::shape, [] { linalg::matrix_power(x(), 2); }),
    Bad("apply: f", Kind::any, [] { linalg::apply(eye(2), static_cast<linalg::Function>(7)); }),
    Bad("apply: exponent", Kind::any, [] { linalg::apply(eye(2), linalg::Function::power, nan); }),
    Bad("matmul_add: x", Kind::shape, [] { matmul_add(v(), x(), 1); }),
    Bad("matmul_add: z", Kind::shape, [] { matmul_add(x(), transpose(x()), v()); }),
    Bad("matmul_add: z", Kind::shape, [] { matmul_add(x(), transpose(x()), ones({1, 1, 1})); }),
    Bad("dense: x", Kind::shape, [] { dense(1, x(), 1, Activation::relu); }),
    Bad("dense: weight", Kind::shape, [] { dense(v(), v(), 1, Activation::relu); }),
    Bad("dense: weight", Kind::shape, [] { dense(v(), x(), 1, Activation::relu); }),
    Bad("dense: weight", Kind::shape, [] { dense(x(), x(), 1, Activation::relu); }),
    Bad("dense: bias", Kind::shape, [] { dense(x(), transpose(x()), v(), Activation::tanh); }),
    Bad("dense: activation", Kind::any,
        [] { dense(x(), transpose(x()), 1, static_cast<Activation>(4)); }),
    Bad("softmax: axis", Kind::shape, [] { softmax(1.0f, 1); }),
    Bad("softmax: axis", Kind::shape, [] { softmax(x(), 2); }),
    Bad("log_softmax: axis", Kind::shape, [] { log_softmax(x(), -3); }),
    Bad("cross_entropy: labels", Kind::shape, [] { cross_entropy(x(), tensor({0, 1, 2})); }),
    Bad("cross_entropy: scores", Kind::shape, [] { cross_entropy(1.0f, 0); }),
    Bad("cross_entropy: labels", Kind::dtype, [] { cross_entropy(x(), tensor({0.0f, 1.0f})); }),
    Bad("cross_entropy: labels", Kind::index, [] { cross_entropy(x(), tensor({0, 3})); }),
    Bad("cross_entropy: labels", Kind::index, [] { cross_entropy(x(), tensor({-1, 0})); }),
    Bad("layer_norm: scale", Kind::shape, [] { layer_norm(x(), ones({2}), ones({3})); }),
    Bad("layer_norm: x", Kind::shape, [] { layer_norm(1.0f, ones({1}), ones({1})); }),
    Bad("limit_norm: x 1", Kind::dtype, [] { limit_norm({x(), tensor({1})}, 1); }),
    Bad("limit_norm: x 0", Kind::dtype, [] { limit_norm({tensor({true})}, 1); }),
    Bad("limit_norm: norm", Kind::any, [] { limit_norm({x()}, 0); }),
    Bad("limit_norm: norm", Kind::any, [] { limit_norm({x()}, std::nan("")); }),
    Bad("layer_norm: epsilon", Kind::any, [] { layer_norm(x(), v(), v(), -1); }),
    Bad("layer_norm: x", Kind::dtype, [] { layer_norm(tensor({1}), 1, 1); }),
    Bad("lstm_gates: gates", Kind::shape, [] { lstm_gates(ones({2, 9}), ones({2, 2})); }),
    Bad("lstm_gates: gates", Kind::shape, [] { lstm_gates(ones({3, 8}), ones({2, 2})); }),
    Bad("lstm_gates: gates", Kind::shape, [] { lstm_gates(1.0f, 1.0f); }),
    Bad("tree_lstm_leaf_gates: gates", Kind::shape, [] { tree_lstm_leaf_gates(ones({2, 4})); }),
    Bad("tree_lstm_leaf_gates: gates", Kind::shape, [] { tree_lstm_leaf_gates(1.0f); }),
    Bad("tree_lstm_leaf_gates: gates", Kind::dtype, [] { tree_lstm_leaf_gates(tensor({1, 2, 3})); }),
    Bad("child_sum_gates: gates", Kind::shape, [] { child_sum_gates(v(), v()); }),
    Bad("tree_lstm_gates: gates", Kind::shape, [] { tree_lstm_gates(v(), v(), v()); }),
    Bad("gru: weight", Kind::shape, [] { gru(gru_steps(), zeros({2, 2}), zeros({5, 8}), v()); }),
    Bad("gru: bias", Kind::shape, [] { gru(gru_steps(), zeros({2, 2}), zeros({5, 6}), v()); }),
    Bad("lstm: x", Kind::shape, [] { lstm(x(), x(), x(), x(), v()); }),
    Bad("lstm: weight", Kind::shape, [] { of_steps({3, 8}); }),
    Bad("lstm: weight", Kind::shape, [] { of_steps({5, 10}); }),
    Bad("lstm: h", Kind::shape, [] { of_steps({6, 12}); }),
    Bad("lstm: lengths", Kind::shape, [] { of_steps({5, 8}, tensor({2, 1, 1})); }),
    Bad("lstm: lengths", Kind::shape, [] { of_steps({5, 8}, cast(zeros({0}), DType::int64)); }),
    Bad("lstm: lengths", Kind::index, [] { of_steps({5, 8}, tensor({2, 5})); }),
    Bad("lstm: lengths", Kind::index, [] { of_steps({5, 8}, tensor({-1, 1})); }),
    Bad("lstm: lengths", Kind::dtype, [] { of_steps({5, 8}, ones({2})); }),
    Bad("reshape: shape", Kind::shape, [] { reshape(x(), {4}); }),
    Bad("reshape: shape", Kind::shape, [] { reshape(x(), {-1, -1}); }),
    Bad("reshape: shape", Kind::shape, [] { reshape(x(), {-1, 0}); }),
    Bad("transpose: axes", Kind::shape, [] { transpose(x(), {0, 0}); }),
    Bad("transpose: axes", Kind::shape, [] { transpose(x(), {0}); }),
    Bad("expand_dims: axis", Kind::shape, [] { expand_dims(x(), 4); }),
    Bad("expand_dims: axes", Kind::shape, [] { expand_dims(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0); }),
    Bad("squeeze: axes", Kind::shape, [] { squeeze(x(), 0); }),
    Bad("broadcast_to: x", Kind::shape, [] { broadcast_to(x(), {3, 2}); }),
    Bad("broadcast_to: x", Kind::shape, [] { broadcast_to(x(), {-1, 2, 3}); }),
    Bad("concat: part 1", Kind::shape, [] { concat({x(), v()}); }),
    Bad("concat: axis", Kind::shape, [] { concat({x(), x()}, 2); }),
    Bad("concat: parts", Kind::any, [] { concat({}); }),
    Bad("stack: part 1", Kind::shape, [] { stack({x(), v()}); }),
    Bad("split: parts", Kind::shape, [] { split(x(), 4, 1); }),
    Bad("take: indices", Kind::index, [] { take(v(), tensor({3})); }),
    Bad("take: indices", Kind::index, [] { take(v(), tensor({std::int64_t{1} << 62})); }),
    Bad("take: indices", Kind::dtype, [] { take(v(), v()); }),
    Bad("lookup: rows", Kind::index, [] { lookup(v(), tensor({3})); }),
    Bad("lookup: rows", Kind::dtype, [] { lookup(v(), v()); }),
    Bad("lookup: table", Kind::any, [] { lookup(Tensor(), tensor({0})); }),
    Bad("take: axis", Kind::shape, [] { take(v(), tensor({0}), 1); }),
    Bad("gather: indices", Kind::shape, [] { gather(x(), tensor({0}), 1); }),
    Bad("gather: indices", Kind::index, [] { gather(x(), tensor({{3}, {0}}), 1); }),
    Bad("scatter_add: updates", Kind::any, [] { scatter_add(v(), tensor({0, 1}), ones({1})); }),
    Bad("scatter_add: indices", Kind::index, [] { scatter_add(v(), tensor({7}), tensor({1.0f})); }),
    Bad("scatter: updates", Kind::shape, [] { scatter(v(), tensor({0, 1}), ones({1})); }),
    Bad("scatter: indices", Kind::index, [] { scatter(v(), tensor({-4}), tensor({1.0f})); }),
    Bad("scatter: indices", Kind::dtype, [] { scatter(v(), v(), v()); }),
    Bad("scatter: updates", Kind::dtype, [] { scatter(tensor({1}), tensor({0}), tensor({1.0f})); }),
    Bad("scatter: axis", Kind::shape, [] { scatter(v(), tensor({0}), v(), 1); }),
    Bad("scatter: x", Kind::any, [] { scatter(Tensor(), tensor({0}), v()); }),
    Bad("scatter_max: indices", Kind::index, [] { scatter_max(v(), tensor({3}), tensor({1.0f})); }),
    Bad("scatter_max: updates", Kind::dtype, [] { scatter_max(tensor({1}), tensor({0}), tensor({1.0f})); }),
    Bad("scatter_min: updates", Kind::shape, [] { scatter_min(x(), tensor({1}), ones({1, 2})); }),
    Bad("scatter_mean: updates", Kind::dtype, [] { scatter_mean(tensor({1}), tensor({0}), tensor({1.0f})); }),
    Bad("scatter_mean: updates", Kind::shape, [] { scatter_mean(x(), tensor({1}), ones({1, 2})); }),
    Bad("scatter_mean: indices", Kind::index, [] { scatter_mean(v(), tensor({3}), tensor({1.0f})); }),
    Bad("segment_sum: ids", Kind::shape, [] { segment_sum(v(), tensor({0, 1}), 2); }),
    Bad("segment_sum: count", Kind::shape, [] { segment_sum(v(), tensor({0, 1, 0}), -1); }),
    Bad("segment_sum: ids", Kind::index, [] { segment_sum(v(), tensor({0, 1, 2}), 2); }),
    Bad("segment_min: ids", Kind::index, [] { segment_min(v(), tensor({0, 1, -1}), 2); }),
    Bad("segment_mean: x", Kind::shape, [] { segment_mean(tensor(1.0f), tensor({0}), 1); }),
    Bad("segment_max: ids", Kind::dtype, [] { segment_max(v(), v(), 1); }),
    Bad("segment_min: ids", Kind::shape, [] { segment_min(x(), tensor({{0, 1}}), 1); }),
    Bad("segment_softmax: x", Kind::any, [] { segment_softmax(Tensor(), tensor({0}), 1); }),
    Bad("one_hot: indices", Kind::index, [] { one_hot(tensor({3}), 3); }),
    Bad("pick: indices", Kind::shape, [] { pick(x(), tensor({0})); }),
    Bad("pick: indices", Kind::index, [] { pick(x(), tensor({0, 3})); }),
    Bad("pick: indices", Kind::dtype, [] { pick(x(), tensor({0.0f, 1.0f})); }),
    Bad("pick: axis", Kind::shape, [] { pick(x(), tensor({0, 1}), 2); }),
    Bad("pad: widths", Kind::shape, [] { pad(x(), {{1, 1}}); }),
    Bad("pad: value", Kind::dtype, [] { pad(tensor({1}), {{1, 1}}, {.value = 0.5}); }),
    Bad("roll: axis", Kind::shape, [] { roll(x(), 1, 2); }),
    Bad("flip: axis", Kind::shape, [] { flip(x(), 2); }),
    Bad("tile: count", Kind::shape, [] { tile(x(), {-1}); }),
    Bad("repeat: count", Kind::shape, [] { repeat(x(), -1, 0); }),
    Bad("repeat: counts", Kind::shape, [] { repeat(x(), {1, 1, 1}, 0); }),
    Bad("diagonal: axes", Kind::shape, [] { diagonal(x(), 0, 1, 1); }),
    Bad("tril: x", Kind::shape, [] { tril(v()); }),
    Bad("triu: x", Kind::shape, [] { triu(v()); }),
    Bad("unbind: axis", Kind::shape, [] { unbind(x(), 2); }),
    Bad("swap_axes: axis", Kind::shape, [] { swap_axes(x(), 0, 2); }),
    Bad("matrix_transpose: x", Kind::shape, [] { matrix_transpose(v()); }),
    Bad("meshgrid: part 1", Kind::shape, [] { meshgrid({v(), x()}); }),
    Bad("linspace: dtype", Kind::dtype, [] { linspace(0, 1, 3, int32); }),
    Bad("sequence_mask: lengths", Kind::dtype, [] { sequence_mask(v(), 3); }),
    Bad("one_hot: depth", Kind::shape, [] { one_hot(tensor({0}), -1); }),
    Bad("one_hot: indices", Kind::dtype, [] { one_hot(v(), 3); }),
    Bad("zeros: shape", Kind::shape, [] { zeros({-1}); }),
    Bad("zeros: result", Kind::memory, [] { zeros({large, 1 << 17}); }),
    Bad("ones: shape", Kind::shape, [] { ones({2, -1}); }),
    Bad("full: shape", Kind::shape, [] { full({-1}, 1); }),
    Bad("eye: shape", Kind::shape, [] { eye(-1); }),
    Bad("zeros_like: x", Kind::any, [] { zeros_like(Tensor()); }),
    Bad("ones_like: x", Kind::any, [] { ones_like(Tensor()); }),
    Bad("full_like: value", Kind::dtype, [] { full_like(tensor({1}), nan); }),
    Bad("full_like: x", Kind::any, [] { full_like(Tensor(), 1); }),
    Bad("arange: step", Kind::any, [] { arange(0, 1, 0); }),
    Bad("arange: stop", Kind::shape, [] { arange(0.0, 1e300); }),
    Bad("Shape: length", Kind::shape, [] { Shape({-2}); }),
    Bad("Shape: axis", Kind::shape, [] { (void)x().shape()[5]; }),
    Bad("Shape: axis", Kind::shape, [] { (void)x().shape()[large]; }),
    Bad("Shape: axes", Kind::shape, [] { Shape({1}).resize(9); }),
    Bad("Axes: axes", Kind::shape, [] { sum(x(), std::span<const int>(nine_axes)); }),
    Bad("shape: x", Kind::any, [] { Tensor().shape(); }),
    Bad("shape: x", Kind::any, [] { const Tensor u; (void)u.shape(); }),
    Bad("shape: axis", Kind::shape, [] { x().shape(2); }),
    Bad("shape: x", Kind::any, [] { Tensor().rank(); }),
    Bad("dtype: x", Kind::any, [] { Tensor().dtype(); }),
    Bad("device: x", Kind::any, [] { Tensor().device(); }),
    Bad("size: x", Kind::any, [] { Tensor().size(); }),
    Bad("to: x", Kind::any, [] { Tensor().to(DType::int32); }),
    Bad("to: result", Kind::memory, [] { huge({large, 1 << 17}).to(DType::float64); }),
    Bad("reshape: x", Kind::any, [] { Tensor().reshape({1}); }),
    Bad("item: x", Kind::any, [] { Tensor().item<float>(); }),
    Bad("item: tensor", Kind::shape, [] { x().item<float>(); }),
    Bad("item: type", Kind::dtype, [] { tensor(1).item<float>(); }),
    Bad("values: type", Kind::dtype, [] { x().values<int>(); }),
    Bad("to_vector: type", Kind::dtype, [] { x().to_vector<int>(); }),
    Bad("to_vector: x", Kind::any, [] { Tensor().to_vector<int>(); }),
    Bad("x(...): axis 0", Kind::index, [] { x()(2); }),
    Bad("x(...): axis 0", Kind::index, [] { zeros({0})[0]; }),
    Bad("x(...): indices", Kind::index, [] { x()(0, 0, 0); }),
    Bad("x(...): range", Kind::index, [] { x()(range(0, 1, 0)); }),
    Bad("x(...): x", Kind::any, [] { Tensor()(0); }),
    Bad("x(...): indices", Kind::index, [] { x()(tensor({2})); }),
    Bad("x(...): indices", Kind::dtype, [] { x()(tensor({1.0f})); }),
    Bad("x(...): mask", Kind::shape, [] { x()(truth()); }),
    Bad("x(...): mask", Kind::index, [] { x()(0, full({}, true)); }),
    Bad("x(...): indices 1", Kind::index, [] { x()(tensor({0}), tensor({3})); }),
    Bad("x(...): indices 1", Kind::shape, [] { x()(tensor({0, 1}), tensor({0, 1, 2})); }),
    Bad("x(...): indices 1", Kind::dtype, [] { x()(tensor({0}), tensor({1.0f})); }),
    Bad("x(...): indices", Kind::any, [] { x()(Tensor()); }),
    Bad("x(...): indices", Kind::index, [] { x()(cast(tensor({2}), DType::uint8)); }),
    Bad("one_hot: indices", Kind::index, [] { one_hot(tensor({-1}), 3); }),
    Bad("scatter_add: updates", Kind::dtype, [] { scatter_add(tensor({1}), tensor({0}), tensor({1.0f})); }),
    Bad("bitwise_and: operands", Kind::dtype, [] { x() & 1; }),
    Bad("bitwise_not: operands", Kind::dtype, [] { ~x(); }),
    Bad("left_shift: operands", Kind::dtype, [] { left_shift(x(), 1); }),
    Bad("right_shift: operands", Kind::dtype, [] { right_shift(truth(), truth()); }),
    Bad("polygamma: n", Kind::any, [] { polygamma(-1, v()); }),
    Bad("polygamma: n", Kind::any, [] { polygamma(101, v()); }),
    Bad("lgamma: x", Kind::any, [] { lgamma(Tensor()); }),
    Bad("ctc_loss: log_probs", Kind::shape, [] { ctc_loss(x(), tensor({{1}}), tensor({1}), tensor({1})); }),
    Bad("ctc_loss: labels", Kind::shape, [] { ctc_loss(ones({3, 2, 4}), tensor({{1}}), tensor({1}), tensor({1})); }),
    Bad("ctc_loss: label_lengths", Kind::shape, [] { ctc_loss(ones({3, 1, 4}), tensor({{1}}), tensor({1}), tensor({1, 1})); }),
    Bad("ctc_loss: blank", Kind::index, [] { ctc_loss(ones({3, 1, 4}), tensor({{1}}), tensor({1}), tensor({1}), {.blank = 4}); }),
    Bad("ctc_loss: labels", Kind::index, [] { ctc_loss(ones({3, 1, 4}), tensor({{4}}), tensor({1}), tensor({1})); }),
    Bad("ctc_loss: labels", Kind::index, [] { ctc_loss(ones({3, 1, 4}), tensor({{-1}}), tensor({1}), tensor({1})); }),
    Bad("ctc_loss: input_lengths", Kind::index, [] { ctc_loss(ones({3, 1, 4}), tensor({{1}}), tensor({4}), tensor({1})); }),
    Bad("ctc_loss: label_lengths", Kind::index, [] { ctc_loss(ones({3, 1, 4}), tensor({{1}}), tensor({3}), tensor({-1})); }),
    Bad("ctc_loss: x", Kind::any, [] { ctc_loss(Tensor(), tensor({{1}}), tensor({3}), tensor({-1})); }),
    Bad("histogram: bins", Kind::any, [] { histogram(v(), 0, 0, 1); }),
    Bad("histogram: high", Kind::any, [] { histogram(v(), 3, 1, 1); }),
    Bad("histogram: high", Kind::any, [] { histogram(v(), 3, 0, nan); }),
    Bad("histogram: high", Kind::any, [] { histogram(v(), 3, -1.7e308, 1.7e308); }),
    Bad("histogram: x", Kind::any, [] { histogram(Tensor(), 3, 0, 1); }),
    Bad("full: value", Kind::dtype, [] { full({2}, 300, {.dtype = DType::uint8}); }),
    Bad("arange: dtype", Kind::dtype, [] { arange(0, 3.5, 1, {.dtype = DType::int32}); }),
    Bad("arange: value", Kind::dtype, [] { arange(0, 300, uint8); }),
    Bad("tensor: value", Kind::dtype, [] { tensor<std::uint8_t>({300}); }),
    Bad("max: x", Kind::shape, [] { max(zeros({0, 0}), 0); }),
    Bad("argmax: x", Kind::shape, [] { argmax(zeros({0, 0}), -1); }),
    Bad("to_string: format", Kind::any, [] { to_string(x(), "q"); }),
    Bad("to_string: format", Kind::any, [] { to_string(Variable("w", x()), "{}"); }),
    Bad("to_string: format", Kind::any, [] { to_string(x().shape(), ".q"); }),
    Bad("from_span: values", Kind::shape, [] { from_span(std::vector<float>{1, 2}, {3}); }),
    Bad("tensor: lists", Kind::shape, [] { tensor({{1, 2}, {3}}); }),
    Bad("normal: mean", Kind::any, [] { random::normal({2}, {.mean = nan}); }),
    Bad("normal: stddev", Kind::any, [] { random::normal({2}, {.stddev = -1}); }),
    Bad("normal: mean", Kind::any, [] { random::normal({2}, {.mean = 1e300}); }),
    Bad("normal: dtype", Kind::dtype, [] { random::normal({2}, {.dtype = DType::int32}); }),
    Bad("normal: shape", Kind::shape, [] { random::normal({-1}); }),
    Bad("uniform: low", Kind::any, [] { random::uniform({2}, {.low = nan}); }),
    Bad("uniform: high", Kind::any, [] { random::uniform({2}, {.high = nan}); }),
    Bad("uniform: high", Kind::any, [] { random::uniform({2}, {.low = 2, .high = 1}); }),
    Bad("uniform: low", Kind::any, [] { random::uniform({2}, {.low = -1e300}); }),
    Bad("integers: high", Kind::any, [] { random::integers(1, 1, {2}); }),
    Bad("integers: shape", Kind::shape, [] { random::integers(0, 1, {-1}); }),
    Bad("bernoulli: probability", Kind::any, [] { random::bernoulli(nan, {2}); }),
    Bad("permutation: shape", Kind::shape, [] { random::permutation(-1); }),
    Bad("exponential: scale", Kind::any, [] { random::exponential({2}, {.scale = 0}); }),
    Bad("exponential: scale", Kind::any, [] { random::exponential({2}, {.scale = 1e300}); }),
    Bad("exponential: dtype", Kind::dtype, [] { random::exponential({2}, {.dtype = DType::int64}); }),
    Bad("exponential: shape", Kind::shape, [] { random::exponential({-1}); }),
    Bad("gumbel: scale", Kind::any, [] { random::gumbel({2}, {.scale = -1}); }),
    Bad("gumbel: location", Kind::any, [] { random::gumbel({2}, {.location = nan}); }),
    Bad("truncated_normal: stddev", Kind::any, [] { random::truncated_normal({2}, {.stddev = -1}); }),
    Bad("truncated_normal: mean", Kind::any, [] { random::truncated_normal({2}, {.mean = nan}); }),
    Bad("truncated_normal: high", Kind::any, [] { random::truncated_normal({2}, {.low = 1, .high = 1}); }),
    Bad("truncated_normal: high", Kind::any, [] { random::truncated_normal({2}, {.high = nan}); }),
    Bad("truncated_normal: dtype", Kind::dtype, [] { random::truncated_normal({2}, {.dtype = DType::int32}); }),
    Bad("gamma: alpha", Kind::any, [] { random::gamma(0, {2}); }),
    Bad("gamma: alpha", Kind::any, [] { random::gamma(nan, {2}); }),
    Bad("gamma: scale", Kind::any, [] { random::gamma(1, {2}, {.scale = -1}); }),
    Bad("gamma: shape", Kind::shape, [] { random::gamma(1, {-1}); }),
    Bad("beta: a", Kind::any, [] { random::beta(-1, 1, {2}); }),
    Bad("beta: b", Kind::any, [] { random::beta(1, nan, {2}); }),
    Bad("beta: dtype", Kind::dtype, [] { random::beta(1, 1, {2}, {.dtype = DType::int32}); }),
    Bad("shuffle: axis", Kind::shape, [] { random::shuffle(v(), 1); }),
    Bad("shuffle: x", Kind::any, [] { random::shuffle(Tensor()); }),
    Bad("categorical: logits", Kind::shape, [] { random::categorical(tensor(1.0f)); }),
    Bad("categorical: logits", Kind::shape, [] { random::categorical(ones({2, 0})); }),
    Bad("categorical: count", Kind::shape, [] { random::categorical(v(), -1); }),
    Bad("categorical: logits", Kind::any, [] { random::categorical(tensor({1.0, nan})); }),
    Bad("categorical: x", Kind::any, [] { random::categorical(Tensor()); }),
    Bad("choice: x", Kind::shape, [] { random::choice(tensor(1.0f), 1); }),
    Bad("choice: n", Kind::shape, [] { random::choice(v(), 4, {.replace = false}); }),
    Bad("choice: n", Kind::shape, [] { random::choice(ones({0}), 1); }),
    Bad("choice: n", Kind::shape, [] { random::choice(v(), -1); }),
    Bad("choice: weights", Kind::shape, [] { random::choice(v(), 1, {.weights = ones({2})}); }),
    Bad("choice: weights", Kind::any, [] { random::choice(v(), 1, {.weights = tensor({1.0, -1.0, 1.0})}); }),
    Bad("choice: weights", Kind::any, [] { random::choice(v(), 1, {.weights = zeros({3})}); }),
    Bad("choice: weights", Kind::any, [] { random::choice(v(), 1, {.weights = tensor({1.0, nan, 1.0}), .replace = false}); }),
    Bad("dropout: probability", Kind::any, [] { dropout(x(), 1); }),
    Bad("dropout: x", Kind::any, [] { dropout(Tensor(), 0.5); }),
    Bad("dropout: x", Kind::dtype, [] { dropout(tensor({1}), 0.5); }),
    Bad("allclose: rtol", Kind::any, [] { allclose(x(), x(), {.rtol = nan}); }),
    Bad("allclose: atol", Kind::any, [] { allclose(x(), x(), {.atol = -1}); }),
    Bad("allclose: y", Kind::any, [] { allclose(x(), Tensor()); }),
    Bad("equal: y", Kind::any, [] { equal(x(), Tensor()); }),
    Bad("stack: axis", Kind::shape, [] { stack({x(), x()}, 3); }),
    Bad("stack: part 1", Kind::any, [] { stack({x(), Tensor()}); }),
    Bad("concat: part 1", Kind::any, [] { concat({x(), Tensor()}); }),
    Bad("split: axis", Kind::shape, [] { split(x(), 2, 2); }),
    Bad("split: x", Kind::any, [] { split(Tensor(), 2); }),
    Bad("split: lengths", Kind::shape, [] { split(x(), std::vector<std::int64_t>{1, 3}, 1); }),
    Bad("softmax: axis", Kind::shape, [] { softmax(tensor(1.0f), -2); }),
    Bad("cross_entropy: labels", Kind::any, [] { cross_entropy(x(), Tensor()); }),
    Bad("scatter_add: x", Kind::any, [] { scatter_add(Tensor(), tensor({0}), v()); }),
    Bad("cast: x", Kind::any, [] { cast(Tensor(), DType::int32); }),
    Bad("call_op: name", Kind::any, [] { call_op("none such", {x()}); }),
    Bad("exp: inputs", Kind::any, [] { call_op("exp", {x(), x()}); }),
    Bad("Variable: value", Kind::any, [] { Variable("w", Tensor()); }),
    Bad("assign: value", Kind::shape, [] { w().assign(x()); }),
    Bad("assign: value", Kind::dtype, [] { w().assign(v().to(DType::float64)); }),
    Bad("assign_add: value", Kind::any, [] { w().assign_add(Tensor()); }),
    Bad("assign: value", Kind::shape, [] { Variable("w", x())(0).assign(x()); }),
    Bad("assign_sub: value", Kind::shape, [] { Variable("w", x())(0).assign_sub(x()); }),
    Bad("assign: value", Kind::shape, [] { Variable("w", x())(tensor({0})).assign(x()); }),
    Bad("x(...): indices", Kind::index, [] { Variable("w", x())(tensor({9})).assign(0); }),
    Bad("x(...): axis 0", Kind::index, [] { Variable("w", x())(3).assign(0); }),
    Bad("sgd_update: gradient", Kind::shape, [] { Variable w("w", v()); sgd_update(w, x(), 1); }),
    Bad("sgd_update: rate", Kind::any, [] { Variable w("w", v()); sgd_update(w, v(), nan); }),
    Bad("sgd_update: rate", Kind::any, [] { Variable w("w", v()); sgd_update(w, v(), Tensor()); }),
    Bad("momentum_update: momentum", Kind::any, [] { momentum(1, {.momentum = nan}); }),
    Bad("momentum_update: rate", Kind::any, [] { momentum(nan, {}); }),
    Bad("adam_update: rate", Kind::any, [] { adam(nan, 1, {}); }),
    Bad("adam_update: beta1", Kind::any, [] { adam(1, 1, {.beta1 = nan}); }),
    Bad("adam_update: step", Kind::any, [] { adam(1, 0, {}); }),
    Bad("watch: x", Kind::any, [] { GradientTape().watch(Tensor()); }),
    Bad("watch: x", Kind::dtype, [] { GradientTape().watch(tensor({1})); }),
    Bad("gradient: source 0", Kind::tape, [] { GradientTape().gradient(v(), v()); }),
    Bad("gradient: target", Kind::any, [] { GradientTape().gradient(Tensor(), v()); }),
    Bad("gradient: source 0", Kind::any, [] { GradientTape().gradient(v(), Tensor()); }),
    Bad("gradient: target", Kind::dtype, [] { GradientTape().gradient(tensor({1}), v()); }),
    Bad("gradient: upstream", Kind::shape, [] { slope({.upstream = x()}); }),
    Bad("jacobian: target", Kind::tape, [] { GradientTape().jacobian(Tensor(), v()); }),
    Bad("watch: x", Kind::dtype, [] { grad([](Tensor t) { return t; })(tensor({1})); }),
    Bad("watch: x", Kind::any, [] { value_and_grad([](Tensor t) { return t; })(Tensor()); }),
    Bad("gradient: target", Kind::dtype, [] { grad([](Tensor t) { return t > 0; })(v()); }),
    Bad("gradient: source 0", Kind::tape, [] { value_and_grad([](Tensor) { return v(); })(v()); }),
    Bad("gradient: source 0", Kind::tape, [] { grad(grad([](Tensor) { return v(); }))(v()); }),
    Bad("matmul: y", Kind::shape, [] { grad(product)(v()); }),
    Bad("matmul: y", Kind::shape, [] { jacobian(product, v()); }),
    Bad("jacobian: source 0", Kind::tape, [] { jacobian([](Tensor) { return v(); }, v()); }),
    Bad("custom_gradient: value", Kind::any, [] { custom_gradient(nothing)(v()); }),
    Bad("save_npy: \"x.npy\"", Kind::any, [] { io::save_npy("/nonexistent/x.npy", x()); }),
    Bad("save_npy: x", Kind::any, [] { io::save_npy("/tmp/x.npy", Tensor()); }),
    Bad("load_npy: \"x.npy\"", Kind::any, [] { io::load_npy("/nonexistent/x.npy"); }),
    Bad("compare: candidates", Kind::any, [] { bench::compare({}); }),
    Bad("Linear: in", Kind::shape, [] { nn::Linear(0, 1); }),
    Bad("Linear: dtype of glorot_uniform", Kind::dtype, [] { nn::Linear(1, 1, {DType::int32}); }),
    Bad("Linear: shape of Shape", Kind::shape, [] { nn::Linear(large - 1, large - 1); }),
    Bad("Linear: result of uniform", Kind::memory, [] { nn::Linear(large - 1, 1 << 17); }),
    Bad("Linear: activation of dense", Kind::any,
        [] { nn::Linear(1, 1, static_cast<Activation>(9))(ones({2, 2, 1})); }),
    Bad("Linear: x", Kind::shape,
        [] { nn::Linear(2, 2, Activation::relu)(x()); }),
    Bad("Linear: x", Kind::shape, [] { nn::Linear(2, 2)(x()); }),
    Bad("Linear: x", Kind::shape, [] { nn::Linear(2, 2)(ones({2, 2, 3})); }),
    Bad("Linear: x", Kind::any, [] { nn::Linear(2, 2)(Tensor()); }),
    Bad("Linear: x", Kind::shape, [] { nn::Sequential(nn::Linear(2, 1))(x()); }),
    Bad("Embedding: width", Kind::shape, [] { nn::Embedding(1, 0); }),
    Bad("Embedding: indices", Kind::index, [] { nn::Embedding(2, 2)(tensor({2})); }),
    Bad("Embedding: indices", Kind::dtype, [] { nn::Embedding(2, 2)(x()); }),
    Bad("LayerNorm: epsilon", Kind::any, [] { nn::LayerNorm(2, {.epsilon = nan}); }),
    Bad("LayerNorm: x", Kind::shape, [] { nn::LayerNorm(2)(x()); }),
    Bad("Dropout: probability", Kind::any, [] { nn::Dropout(1); }),
    Bad("Dropout: x", Kind::dtype, [] { nn::Dropout()(tensor({1})); }),
    Bad("RNNCell: in", Kind::shape, [] { nn::RNNCell(0, 1); }),
    Bad("RNNCell: dtype of glorot_uniform", Kind::dtype, [] { nn::RNNCell(1, 1, {DType::int32}); }),
    Bad("RNNCell: shape of zeros", Kind::shape, [] { nn::RNNCell(2, 2).initial_state(-1); }),
    Bad("RNNCell: activation of dense", Kind::any,
        [] { nn::RNNCell(3, 3, static_cast<Activation>(9))(x(), x()); }),
    Bad("RNNCell: x", Kind::shape, [] { nn::RNNCell(2, 2)(x(), x()); }),
    Bad("LSTMCell: hidden", Kind::shape, [] { nn::LSTMCell(1, 0); }),
    Bad("LSTMCell: forget_bias of gates", Kind::any, [] { nn::LSTMCell(1, 1, {nan}); }),
    Bad("LSTMCell: shape of zeros", Kind::shape, [] { nn::LSTMCell(2, 2).initial_state(-1); }),
    Bad("LSTMCell: x", Kind::any, [] { nn::LSTMCell(2, 2)(x(), {}); }),
    Bad("TreeLSTMCell: in", Kind::shape, [] { nn::TreeLSTMCell(0, 1); }),
    Bad("TreeLSTMCell: part 0 of concat", Kind::any, [] { nn::TreeLSTMCell(2, 2)({}, {}); }),
    Bad("TreeLSTMCell: x", Kind::shape, [] { nn::TreeLSTMCell(2, 2).leaf(x()); }),
    Bad("ChildSumTreeLSTMCell: hidden", Kind::shape, [] { nn::ChildSumTreeLSTMCell(1, 0); }),
    Bad("ChildSumTreeLSTMCell: x of matmul_add", Kind::any, [] { child_sum(x(), {{}}); }),
    Bad("glorot_uniform: shape", Kind::shape, [] { nn::glorot_uniform({3}); }),
    Bad("glorot_normal: dtype", Kind::dtype, [] { nn::glorot_normal({3, 3}, {DType::int32}); }),
    Bad("he_uniform: shape of uniform", Kind::shape, [] { nn::he_uniform({-1, 3}); }),
    Bad("he_normal: result of normal", Kind::memory, [] { nn::he_normal({large, 1 << 17}); }),
    Bad("orthogonal: shape", Kind::shape, [] { nn::orthogonal({3}); }),
    Bad("orthogonal: gain", Kind::any, [] { nn::orthogonal({3, 3}, nan); }),
    Bad("orthogonal: shape of normal", Kind::shape, [] { nn::orthogonal({-1, 3}); }),
    Bad("constant: shape of full", Kind::shape, [] { nn::constant({-1}, 1); }),
    Bad("SGD: variables", Kind::any, [] { optim::SGD({}); }),
    Bad("SGD: learning_rate", Kind::any, [] { optim::SGD({w()}, {.learning_rate = nan}); }),
    Bad("SGD: gradients", Kind::any, [] { optim::SGD({w()}).step({}); }),
    Bad("SGD: gradient 0 (w)", Kind::shape, [] { optim::SGD({w()}).step({x()}); }),
    Bad("Adam: variables", Kind::any, [] { optim::Adam({}); }),
    Bad("Adam: beta", Kind::any, [] { optim::Adam({w()}, {.beta1 = 1}); }),
    Bad("AdamW: variable 0 (w)", Kind::dtype, [] { optim::AdamW({Variable("w", tensor({1}))}); }),
    Bad("AdamW: gradient 0 (w)", Kind::any, [] { optim::AdamW({w()}).step({Tensor()}); }),
    Bad("clip_by_value: low", Kind::any, [] { optim::clip_by_value({v()}, 2, 1); }),
    Bad("clip_by_value: x of maximum", Kind::any, [] { optim::clip_by_value({Tensor()}, 0, 1); }),
    Bad("global_norm: x of square", Kind::any, [] { optim::global_norm({Tensor()}); }),
    Bad("clip_by_global_norm: norm", Kind::any, [] { optim::clip_by_global_norm({v()}, nan); }),
    Bad("clip_by_global_norm: x 0 of limit_norm", Kind::any, [] { clip_by_global_norm({Tensor()}, 1); }),
};
// clang-format on

bool is_of(Kind kind, const Error& error) {
  switch (kind) {
    case Kind::any:
      return true;
    case Kind::shape:
      return dynamic_cast<const ShapeError*>(&error) != nullptr;
    case Kind::dtype:
      return dynamic_cast<const DTypeError*>(&error) != nullptr;
    case Kind::index:
      return dynamic_cast<const IndexError*>(&error) != nullptr;
    case Kind::tape:
      return dynamic_cast<const TapeError*>(&error) != nullptr;
    case Kind::memory:
      return dynamic_cast<const MemoryError*>(&error) != nullptr;
  }
  return false;
}
}  // namespace

TEST_CASE("wrong arguments give the promised error, in the user's line") {
  for (const Bad& bad : table) {
    INFO("line " << bad.line << ", " << bad.head);
    const ThreadState before = state();
    try {
      bad.call();
      await_errors();
      FAIL_CHECK("no error was thrown");
    } catch (const Error& error) {
      const std::string message = error.what(), first = message.substr(0, message.find('\n'));
      INFO(message);
      CHECK(is_of(bad.kind, error));
      CHECK(first.size() <= 200);
      const auto is_at = [&](auto line) {
        const std::string place = "arguments.cpp:" + std::to_string(line);
        return first.find(place + ": " + bad.head + ": expected ") == 0;
      };
      CHECK((is_at(bad.line) || is_at(bad.line + 1)));  // clang++: the first line of a row
      CHECK(first.find(", got ") != std::string::npos);
    } catch (const std::exception& error) {
      FAIL_CHECK("foreign exception: " << error.what());
    }
    CHECK((state() == before));
  }
}

TEST_CASE("an operator that throws leaves its left side as it was") {
  Tensor kept = v();
  CHECK_THROWS_AS(kept += tensor({1.0f, 2.0f}), ShapeError);
  CHECK_THROWS_AS(kept *= Tensor(), Error);
  CHECK(equal(kept, v()));
}
}  // namespace reel::tests
