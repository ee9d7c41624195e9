// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/every_kernel.hpp"

#include <algorithm>
#include <vector>

#include <reel/reel.hpp>

namespace reel::tests {
namespace {
/// Whether the gradient is dy itself, which needs no kernel.
bool passes(const Op& op, Part part) {
  return (part == Part::gradient_0 && op.gradient.passes & 1) ||
         (part == Part::gradient_1 && op.gradient.passes & 2);
}
template <class F>
void both_ways(const std::vector<Tensor>& sources, const F& f) {
  GradientTape tape;
  for (const Tensor& each : sources) tape.watch(each);
  const Tensor y = f();
  if (is_floating(y.dtype()))
    tape.gradient(sum(y * y), sources, {.unconnected = Unconnected::zero});
}
}  // namespace

bool runs_on_host(const Op& op) {
  const auto kernel_of = [](const Op& each) { return each.on(Device::Kind::cuda).of(Part::value); };
  return kernel_of(op) && kernel_of(op) == kernel_of(*OpTable::the().find("cholesky"));
}
std::set<std::string> kernels() {
  std::set<std::string> names;
  for (const Op* op : OpTable::the().ops())
    for (const Part part : all_parts)
      if (op->on(Device::Kind::cuda).has(part) && !runs_on_host(*op) &&
          op->fusion != Fusion::layout && !passes(*op, part))
        names.insert(std::string(op->name) + suffix_of(part).data());
  return names;
}

void run_every_kernel() {
  seed(5);
  const std::int64_t height = smaller ? 47 : 251, width = smaller ? 97 : 203;
  const std::int64_t count = smaller ? 4'700 : 60'000, units = smaller ? 37 : 101;
  const Shape shape{height, width};
  const Tensor x = random::normal(shape), y = random::uniform(shape, {.low = 0.5});
  const Tensor row = random::normal({width}), column = random::normal({height, 1});
  const Tensor integers = random::integers(1, 50, shape), truth = x > 0, other = y > 0.7;
  const Tensor places = random::integers(0, height, {count}),
               labels = random::integers(0, std::min(height, width), {height});
  for (const auto f : {add, subtract, multiply, divide, remainder, maximum, minimum}) {
    both_ways({x, y}, [&] { return f(x, y); });
    both_ways({x, row}, [&] { return f(x, row); });
    both_ways({x, column}, [&] { return f(x, column); });
    both_ways({x, y}, [&] { return f(transpose(x), transpose(y)); });
  }
  both_ways({x, y}, [&] { return power(y, x); });
  for (const auto f : {negative, abs, exp, square, relu, sigmoid, tanh})
    both_ways({x}, [&] { return f(x); });
  for (const auto f : {log, sqrt}) both_ways({y}, [&] { return f(y); });
  for (const auto f : {sin, cos, tan, atan, sinh, cosh, asinh, exp2, expm1, erf, erfc, gelu,
                       gelu_tanh, silu, softplus})
    both_ways({x}, [&] { return f(x); });
  const Tensor inside = 0.9 * tanh(x), above = 1 + y;
  for (const auto f : {asin, acos, atanh, log1p}) both_ways({inside}, [&] { return f(inside); });
  for (const auto f : {acosh, log2, rsqrt, reciprocal, lgamma, digamma})
    both_ways({above}, [&] { return f(above); });
  both_ways({above}, [&] { return polygamma(2, above); });
  left_shift(integers, integers % 9), right_shift(integers, integers % 9);
  for (const auto f : {ceil, floor, round, trunc, sign, isfinite, isinf, isnan}) f(x);
  for (const auto f : {atan2, hypot, logaddexp, leaky_relu, elu})
    both_ways({x, y}, [&] { return f(x, y); });
  floor_divide(x, y);
  both_ways({x, y, above}, [&] { return clip(x, y, above); });
  both_ways({x, y, above}, [&] { return lerp(x, y, above); });
  const Tensor share = sigmoid(x);
  both_ways({share, y}, [&] { return binary_cross_entropy(share, y, Reduction::none); });
  both_ways({x, y}, [&] { return binary_cross_entropy_with_logits(x, y); });
  both_ways({x, y}, [&] { return call_op("huber", {x, y}); });
  both_ways({y}, [&] { return prod(y, 1); });
  for (const auto f : {cumsum, cumprod, cummax, logcumsumexp})
    both_ways({y}, [&] { return f(y, 1, {}); });
  argmin(x, 1), argsort(x, 1), argsort(random::normal({count})), searchsorted(sort(row), x);
  for (const auto f : {logical_and, logical_or, logical_xor}) f(truth, other);
  truth == other, x != y, x<row, x <= y, x> y, x >= y, logical_not(truth),
      integers < x.to(DType::float64);
  integers & 3, integers | 1, integers ^ integers, ~integers;
  both_ways({x, y}, [&] { return where(truth, x, y); });
  x.to(DType::float64), integers.to(DType::float32), x.to(DType::int8), transpose(x) + 0;
  for (const Axes axes : {Axes({0}), Axes({1}), Axes({0, 1})}) {
    for (const auto reduce : {static_cast<Tensor (*)(Operand, Axes, Keepdims)>(sum),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(mean),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(max),
                              static_cast<Tensor (*)(Operand, Axes, Keepdims)>(min)})
      both_ways({x}, [&] { return reduce(x, axes, Keepdims::no); });
    both_ways({x}, [&] { return norm(x, axes); });
    any(truth, axes, Keepdims::no), all(truth, axes, Keepdims::no);
  }
  argmax(x, 1), argmax(x, 0);
  for (const int axis : {0, 1}) {
    both_ways({x}, [&] { return softmax(x, axis); });
    both_ways({x}, [&] { return log_softmax(x, axis); });
  }
  for (const std::int64_t length : {1, 8, 9, 256}) {  // a thread keeps 8 elements at most
    const Tensor tall = random::normal({2, length, width});
    both_ways({tall}, [&] { return softmax(tall, 1); });
    both_ways({tall}, [&] { return log_softmax(tall, 1); });
  }
  both_ways({x}, [&] { return cross_entropy(x, labels); });
  const std::int64_t batch = smaller ? 47 : 300;
  const Tensor scores = random::normal({7, batch, 29}),
               written = random::integers(1, 29, {batch, 3});
  const Tensor steps = random::integers(4, 8, {batch}), counts = random::integers(0, 4, {batch});
  both_ways({scores}, [&] { return ctc_loss(log_softmax(scores), written, steps, counts); });
  both_ways({x, row}, [&] { return layer_norm(x, row, row); });
  const Tensor doubles = y.to(DType::float64);
  std::vector<Tensor> parts{x, y, x, y, x, doubles, doubles(all, range(1, {}))};
  for (int i = 0; i < 300; ++i) parts.push_back(x(i % height));  // more than one launch takes
  limit_norm(parts, 3);
  both_ways({x}, [&] { return take(x, places(range(0, 400))); });
  both_ways({x}, [&] { return x(places, places % width); });
  both_ways({x}, [&] {
    return gather(x, places(range(0, height * (width - 3))).reshape({height, width - 3}) % width,
                  1);
  });
  both_ways({x}, [&] { return scatter_add(x, labels, x, 0); });
  const Tensor slabs = random::normal({10, 40, 600});
  for (const std::int64_t n : {20, 40})  // one thread for each line of updates, then sorted updates
    both_ways({slabs}, [&] { return take(slabs, places(range(0, n)) % 40, 1); });
  one_hot(labels, 300);
  both_ways({x, y}, [&] { return concat({x, y}, 1); });
  both_ways({x}, [&] { return x(range(3, height - 1), range(1, {})); });
  both_ways({x, y}, [&] { return matmul(x, transpose(y)); });
  both_ways({x, row}, [&] { return matmul_add(x, transpose(y), column); });
  both_ways({x}, [&] { return dense(x, transpose(y), ones({height}), Activation::tanh); });
  const Tensor images = random::normal({3, 21, 17, 12}), filters = random::normal({3, 3, 12, 80});
  // cuDNN does not take groups of 6 channels.
  const Tensor halves = random::normal({3, 3, 6, 160}), offsets = random::normal({160});
  both_ways({images, filters}, [&] { return conv2d(images, filters); });
  both_ways({images, halves, offsets},
            [&] { return conv2d(images, halves, offsets, {.groups = 2}); });
  both_ways({images, filters, offsets},
            [&] { return nn::Conv2d(12, 80, 3, {.activation = Activation::relu})(images); });
  const Tensor pixels = random::normal({12, 21, 19, 12});
  const auto pooled = [](const Tensor& x) { return max_pool2d(x, {2, 2}, {.stride = 1}); };
  both_ways({pixels}, [&] { return pooled(pixels); });
  grad([&](Tensor x) {
    return sum(square(grad([&](Tensor inner) { return sum(square(pooled(inner))); })(x)));
  })(pixels);
  const Tensor queries = random::normal({8, 117, 4}), keys = random::normal({8, 70, 4}),
               values = random::normal({8, 70, 100}), mask = random::normal({117, 70});
  both_ways({queries, keys, values, mask},
            [&] { return attention(queries, keys, values, {.mask = mask}); });
  grad([&](Tensor q) {
    return sum(square(grad([&](Tensor inner) {
      return sum(square(attention(inner, keys, keys, {.dropout = 0.3})));
    })(q)));
  })(queries);
  const Tensor gates = random::normal({131, 4 * units}), cells = random::normal({131, units});
  both_ways({gates, cells}, [&] { return lstm_gates(gates, cells).h; });
  const Tensor tree = random::normal({131, 5 * units}), leaf = random::normal({180, 3 * units});
  both_ways({tree, cells}, [&] { return tree_lstm_gates(tree, cells, cells).h; });
  both_ways({leaf}, [&] { return tree_lstm_leaf_gates(leaf).h; });
  const Tensor kept = random::normal({180, units});
  both_ways({leaf, kept}, [&] { return child_sum_gates(leaf, kept).h; });
  nn::LSTM lstm(30, 40);
  nn::GRU gru(30, 40);
  const Tensor sequence = random::normal({6, smaller ? 120 : 300, 30});
  both_ways({sequence}, [&] { return lstm(sequence).outputs; });
  both_ways({sequence}, [&] { return gru(sequence).outputs; });
  // A thread for each of the states and lengths, and each weight's gradient.
  const Tensor few_steps = random::normal({3, 600, 6}), state = random::normal({600, 40});
  const Tensor weight = random::normal({46, 160}), bias = random::normal({160}),
               gru_weight = random::normal({46, 120});
  const SequenceOptions ends = {.lengths = random::integers(0, 4, {600})};
  both_ways({few_steps, state, weight, bias},
            [&] { return reel::lstm(few_steps, state, state, weight, bias, ends).outputs; });
  both_ways({few_steps, state, gru_weight, bias},
            [&] { return reel::gru(few_steps, state, gru_weight, bias, ends).outputs; });
  // Copies of many weights, for cuDNN.
  const nn::GRU large(5, 200);
  const Tensor two_steps = random::normal({2, 300, 5});
  both_ways({two_steps}, [&] { return large(two_steps).outputs; });
  Variable w("w", x), m("m", x), v("v", y), whole("whole", x);
  sgd_update(w, y, 0.1);
  momentum_update(w, m, y, 0.1);
  adam_update(w, m, v, y, 0.1, 3);
  const std::vector<Variable> ws{w}, ms{m}, vs{v}, most{Variable("most", y)};
  const std::vector<Tensor> gradients{y};
  amsgrad_update(ws, ms, vs, most, gradients, 0.1, 4);
  rmsprop_update(ws, vs, gradients, 0.1);
  rmsprop_update(ws, vs, ms, gradients, 0.1);
  adagrad_update(ws, vs, gradients, 0.1);
  average_update(ws, gradients, 0.1);
  for (const int variables : {60, 500}) {  // more than few and than many arguments name
    std::vector<Variable> xs, firsts, seconds;
    std::vector<Tensor> changes;
    for (int i = 0; i < variables; ++i) {
      const Shape own{1 + i % 3};
      xs.emplace_back("x", random::normal(own));
      firsts.emplace_back("first", zeros(own));
      seconds.emplace_back("second", ones(own));
      changes.push_back(random::normal(own));
    }
    adam_update(xs, firsts, seconds, changes, 0.1, 3);
  }
  detail::check_rate(full({count}, 0.1), ws);
  both_ways({x}, [&] { return lookup(x, places(range(0, 400))); });
  const Tensor rows = concat({full({1}, std::int64_t{-1}), random::permutation(height)}, 0);
  const std::vector<RowGradient> some{
      {y(range(0, height * 4 / 5)), rows(range(0, height * 4 / 5))}};
  const Tensor held = w, held_m = m;  // so that these are copied
  sgd_update(ws, some, 0.1);
  momentum_update(ws, ms, some, 0.1);
  adam_update(ws, ms, vs, some, 0.1, 3);
  amsgrad_update(ws, ms, vs, most, some, 0.1, 4);
  rmsprop_update(ws, vs, some, 0.1);
  rmsprop_update(ws, vs, ms, some, 0.1);
  adagrad_update(ws, vs, some, 0.1);
  w.assign(x), w.assign_add(y), w.assign_sub(y);
  w(range(0, height - 1), all).assign(y(range(1, height)));
  random::normal(shape), random::permutation(count), random::bernoulli(0.3, shape);
  random::exponential(shape), random::gumbel(shape);
  random::truncated_normal(shape), random::gamma(0.7, shape);
  random::beta(2, 0.5, shape), random::categorical(x, 2);
  random::categorical(row, count), random::choice(x, 600), random::shuffle(x, 1);
  random::choice(places, 9, {.weights = random::uniform({count}, {.low = 0.5})});
  for (const std::int64_t bins : {20, 4096, 4097}) histogram(x, bins, -2, 2);
  const Tensor many = random::normal({count, 2}), few = random::normal({400, 2});
  for (const auto f : {scatter, scatter_max, scatter_min, scatter_mean})
    both_ways({few, many}, [&] { return f(few, places, many, 0); });
  for (const auto f : {segment_sum, segment_mean, segment_max, segment_min, segment_softmax})
    both_ways({many}, [&] { return f(many, places, height); });
  // Each thread has one of many lines.
  const Tensor wide = random::normal({90, 600});
  both_ways({wide}, [&] { return sum(wide(range(0, 20)), 0); });
  both_ways({wide}, [&] { return cumsum(wide, 0); });
  // Few updates are not sorted. A gradient is added to one that there is.
  both_ways({wide}, [&] { return take(wide, places(range(0, 20)) % 90); });
  both_ways({x}, [&] { return x(range(1, {})) * x(range(0, -1)); });
  take(zeros({height, 0}), places);  // checks the positions only
  full(shape, 3), arange(0, count), arange(0.5, static_cast<double>(count)), eye(height), tril(x);
}

// Threads are counted here, each with one element, pack, line or share. What they do does not
// depend on random numbers, so that the end of a grid can be seen.
void run_ragged_grids() {
  // 3 blocks, the last one with 188 threads. Or one round of 16 blocks, and 1.6 blocks.
  const std::int64_t n = smaller ? 700 : 4'500;
  const Tensor lines = random::normal({n, 36});
  const Tensor doubles = random::uniform({2 * n}, {.low = 0.5, .dtype = DType::float64});
  const Tensor integers = random::integers(1, 50, {2 * n});
  // Packs of 16 bytes.
  const Tensor bytes = zeros({16 * n}, DType::boolean);
  for (const auto f : {logical_and, logical_or, logical_xor}) f(bytes, bytes);
  logical_not(bytes), bytes == bytes, (bytes & bytes), (bytes | bytes);
  integers + integers, integers * 7, integers >= integers, integers < integers;
  both_ways({doubles}, [&] { return sqrt(doubles); });
  doubles == doubles, doubles - doubles;
  doubles.to(DType::float32), integers.to(DType::float64), doubles.to(DType::int16),
      full({n}, 3, DType::float64);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor part = zeros({4 * n + (dtype == DType::float64)}, dtype);
    concat({part, part}, 0);
    scatter(zeros({n}, dtype), arange(0, 9), zeros({9}, dtype));
    searchsorted(arange(0.0, 300.0).to(dtype), zeros({n}, dtype));
  }
  random::exponential({4 * n}), random::gumbel({4 * n}), random::truncated_normal({4 * n});
  random::bernoulli(0.3, {4 * n});
  // Rows in groups of 8 lanes, 32 of them in a block; columns that a thread or a block reduces.
  const Tensor rows = random::normal({smaller ? 100 : 700, 100});
  const Tensor few = random::normal({20, n}), many = random::normal({70, n});
  for (const auto& [x, axis] : {std::pair(rows, 1), {few, 0}}) {
    const Tensor truth = x > 0;
    sum(x, axis), mean(x, axis), max(x, axis), min(x, axis), prod(x, axis), norm(x, axis);
    argmax(x, axis), argmin(x, axis), any(truth, axis), all(truth, axis);
    any(x.to(DType::int32), axis), all(x.to(DType::int32), axis);
  }
  const Tensor truth = many > 0;
  norm(many, 0), argmax(many, 0), any(truth, 0), all(truth, 0);
  sum(rows.to(DType::float64), 1), mean(rows.to(DType::float64), 1);
  sum(few.to(DType::float64), 0), mean(few.to(DType::float64), 0);
  // Lines in two parts.
  for (const auto f : {cumsum, cumprod, cummax, logcumsumexp})
    both_ways({lines}, [&] { return f(lines, 1, {}); });
  cumsum(lines.to(DType::float64), 1), cumsum(random::normal({36, n}), 0);
  const Tensor wide = random::normal({60, smaller ? 97 : 600});
  for (const auto f : {softmax, log_softmax}) both_ways({wide}, [&] { return f(wide, 0); });
  const Tensor tall = random::normal({smaller ? 47 : 251, 203}, {.dtype = DType::float64}),
               gain = tall(0);
  both_ways({tall, gain}, [&] { return layer_norm(tall, gain, gain); });
  // Tiles of 32 by 32 elements.
  transpose(random::normal({32, 633})).reshape({-1});
  // Shares of the tensors.
  const std::int64_t shares = smaller ? 3 : 20;
  for (const DType dtype : {DType::float32, DType::float64})
    limit_norm({zeros({shares * 8192 - 100}, dtype)}, 3);
  const Tensor x = zeros({shares * 2048 - 100});
  const std::vector<Variable> ws{Variable("w", x)}, ms{Variable("m", x)}, vs{Variable("v", x)},
      most{Variable("most", x)};
  const std::vector<Tensor> gradients{x};
  sgd_update(ws, gradients, 0.1);
  momentum_update(ws, ms, gradients, 0.1);
  adam_update(ws, ms, vs, gradients, 0.1, 3);
  amsgrad_update(ws, ms, vs, most, gradients, 0.1, 4);
  rmsprop_update(ws, vs, gradients, 0.1);
  rmsprop_update(ws, vs, ms, gradients, 0.1);
  adagrad_update(ws, vs, gradients, 0.1);
  average_update(ws, gradients, 0.1);
  // Each update is in a place of its own, or all are in one.
  scatter_max(zeros({n}), arange(0, n), full({n}, -1));
  scatter_min(zeros({n}), arange(0, n), ones({n}));
  scatter_add(zeros({5'000}), arange(0, 5'000), ones({5'000}));
  scatter_add(zeros({9, n}, DType::int64), full({40}, std::int64_t{3}),
              ones({40, n}, DType::int64));
  // Sequences that all have two steps.
  const Tensor steps = random::normal({2, n, 1}), state = random::normal({n, 1}),
               weight = random::normal({2, 4}), gru_weight = random::normal({2, 3}),
               bias = random::normal({4});
  const SequenceOptions ends = {.lengths = full({n}, std::int64_t{2})};
  both_ways({steps, state, weight, bias},
            [&] { return reel::lstm(steps, state, state, weight, bias, ends).outputs; });
  both_ways({steps, state, gru_weight, bias},
            [&] { return reel::gru(steps, state, gru_weight, bias, ends).outputs; });
}

void run_long_lines() {
  for (const DType dtype : {DType::float32, DType::float64}) {
    // A grid takes 4 rows at once, 8 for the gradient of layer_norm, or 16 tiles of 32 columns.
    const std::int64_t count = smaller ? 3 : 9, few = smaller ? 3 : 5;
    const Tensor rows = random::normal({count, 16'500}).to(dtype), row = rows(0);
    const Tensor some = rows(range(0, few)), labels = random::integers(0, 16'500, {few});
    const bool wide = dtype == DType::float32 && !smaller;
    const Tensor columns =
        wide ? random::normal({1, 1'030, 570}) : random::normal({1, 2'060, 97}).to(dtype);
    for (const auto f : {softmax, log_softmax}) {
      both_ways({some}, [&] { return f(some, 1); });
      both_ways({columns}, [&] { return f(columns, 1); });
    }
    both_ways({some}, [&] { return cross_entropy(some, labels); });
    both_ways({rows, row}, [&] { return layer_norm(rows, row, row); });
  }
}
}  // namespace reel::tests
