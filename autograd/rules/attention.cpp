// SPDX-License-Identifier: BSD-3-Clause
#include <limits>

#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/install.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/attention.hpp"

namespace reel {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

Shape with_last(const Shape& shape, std::int64_t length) {
  Shape other = shape;
  other.data()[shape.rank() - 1] = length;
  return other;
}
/// A tensor [batch] as [batch, 1, 1, 1].
Tensor with_axes_behind(const Tensor& x, int count) {
  Tensor result = x;
  for (int i = 0; i < count; ++i) result = expand_dims(result, -1);
  return result;
}
/// softmax(scores) without its factor, where no score but -infinity gives 0.
Tensor weights_of(const Tensor& scores) {
  const Tensor hidden = scores == -infinity, fixed = stop_gradient(scores);
  const Tensor most = max(fixed, -1, keepdims);
  const Tensor shift = where(most == -infinity, 0, most);
  const Tensor powers = where(hidden, 0, exp(where(hidden, 0, scores - shift)));
  const Tensor total = sum(powers, -1, keepdims);
  return powers / where(total == 0, 1, total);
}

// y = softmax(scale q k^T + mask) v, in public ops under a tape of their own. An outer tape sees
// these ops, so gradients of every order exist.
void attention_rule(GradientCall& call) {
  const auto& options = call.option<AttentionSettings>();
  const Shape of_q = call.input_shape(0), of_k = call.input_shape(1);
  const std::int64_t queries = of_q[-2], keys = of_k[-2];
  const Shape of_scores = with_last(of_q, keys);
  if (of_scores.elements() == 0) {
    for (int i = 0; i < call.input_count(); ++i)
      if (call.wants(i)) call.give(i, zeros(call.input_shape(i), call.input_dtype(i)));
    return;
  }
  GradientTape tape({.watch_variables = false});
  std::vector<Tensor> sources;
  const int last = options.has_mask && is_floating(call.input_dtype(options.mask())) ? 4 : 3;
  for (int i = 0; i < last; ++i) {
    sources.push_back(call.input(i) + 0);
    tape.watch(sources.back());
  }
  Tensor q = sources[0], k = sources[1], v = sources[2];
  const Tensor key = arange(std::int64_t{0}, keys);
  Tensor counted;  // keys before the length
  if (options.has_lengths) {
    counted = key < with_axes_behind(call.input(options.lengths()), 3);
    const Tensor read = swap_axes(counted, -1, -2);
    k = where(read, k, 0);
    v = where(read, v, 0);
  }
  // [batch, kv_heads, group, queries or keys, width]
  const std::int64_t shared = of_k[-3], group = of_q[-3] / shared;
  const std::int64_t batch = of_scores.elements() / (of_q[-3] * queries * keys);
  const auto grouped = [&](const Tensor& x, std::int64_t of_group) {
    return reshape(x, {batch, shared, of_group, x.shape(-2), x.shape(-1)});
  };
  const Tensor products =
      matmul(grouped(q, group) * options.scale, swap_axes(grouped(k, 1), -1, -2));
  Tensor scores = reshape(products, of_scores);
  if (options.has_mask)
    scores = last == 4 ? scores + sources[3] : where(call.input(options.mask()), scores, -infinity);
  if (counted.defined()) scores = where(counted, scores, -infinity);
  const Tensor query = expand_dims(arange(std::int64_t{0}, queries), 1) + (keys - queries);
  if (options.causal) scores = where(key <= query, scores, -infinity);
  if (options.window > 0) scores = where(key > query - options.window, scores, -infinity);
  Tensor weights = weights_of(scores);
  if (options.dropout > 0)
    weights = weights * run(core_ops.attention_dropout, {call.input(options.seed())},
                            AttentionDropoutOptions{options.dropout, of_scores, weights.dtype()});
  const Tensor y = reshape(matmul(grouped(weights, group), grouped(v, 1)),
                           with_last(of_q, call.input_shape(2)[-1]));
  const auto found = tape.gradient(y, GradientSources(sources),
                                   {.upstream = call.dy(), .unconnected = Unconnected::zero});
  for (int i = 0; i < last; ++i) call.give(i, found[static_cast<std::size_t>(i)]);
}
}  // namespace

const NamedRule attention_rules[] = {{"attention", attention_rule}, {nullptr, nullptr}};
}  // namespace reel
