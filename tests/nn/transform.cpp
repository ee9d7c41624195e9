// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints of layers, and layers with other weights.
#include <string>
#include <vector>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// The gradients and values of a model, with its parts in checkpoints or not.
template <class F>
std::vector<Tensor> learn(const std::vector<Variable>& variables, F f) {
  seed(5);
  GradientTape tape;
  const Tensor loss = mean(square(f()));
  std::vector<Tensor> found = tape.gradient(loss, variables);
  found.push_back(loss);
  return found;
}
void require_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(allclose(a[i], b[i], {.rtol = 1e-4, .atol = 1e-5}));
}
}  // namespace

TEST_CASE("every kind of layer has the same gradients inside a checkpoint") {
  const Tensor x = random::normal({6, 4});
  const Tensor words = tensor({{1, 2, 1}, {0, 3, 4}}), steps = random::normal({5, 2, 4});
  const auto alike = [&](const auto& layer, const Tensor& input) {
    const auto plain = learn(parameters(layer), [&] { return layer(input); });
    require_alike(learn(parameters(layer), [&] { return checkpoint(layer)(input); }), plain);
    const auto inside = checkpoint([&](Tensor t) { return layer(t); });
    require_alike(learn(parameters(layer), [&] { return inside(input); }), plain);
  };
  alike(nn::Linear(4, 3, Activation::tanh), x);
  alike(nn::LayerNorm(4), x);
  alike(nn::BatchNorm(4), x);
  alike(nn::Embedding(5, 3), words);
  alike(nn::Sequential(nn::Linear(4, 8, Activation::relu), nn::Dropout(0.3), nn::Linear(8, 2)), x);
  const nn::LSTM lstm{4, 3};
  const auto outputs = [&](Tensor t) { return lstm(t).outputs; };
  require_alike(learn(parameters(lstm), [&] { return checkpoint(outputs)(steps); }),
                learn(parameters(lstm), [&] { return outputs(steps); }));
}

TEST_CASE("a model learns the same with checkpoints, eagerly and traced") {
  const Tensor x = random::normal({32, 4}), labels = random::integers(0, 3, {32});
  const auto train = [&](bool checkpoints, bool traces) {
    seed(3);
    nn::Sequential body(nn::Linear(4, 16, Activation::tanh), nn::Dropout(0.2));
    nn::Linear head(16, 3);
    std::vector<Variable> all = parameters(body);
    for (const Variable& w : parameters(head)) all.push_back(w);
    optim::Adam adam(all, {.learning_rate = 0.01});
    const auto step = [&](Tensor batch) {
      GradientTape tape;
      const auto f = [&](Tensor t) { return body(t); };
      const Tensor loss =
          cross_entropy(head(checkpoints ? checkpoint(f)(batch) : f(batch)), labels);
      adam.step(tape.gradient(loss, all));
      return loss;
    };
    auto traced = trace(step);
    std::vector<double> losses;
    for (int i = 0; i < 8; ++i) losses.push_back((traces ? traced(x) : step(x)).item<float>());
    if (traces) CHECK(traced.trace_count() == 1);
    return losses;
  };
  const auto expected = train(false, false);
  require_near(train(true, false), expected, 1e-5);
  require_near(train(true, true), expected, 1e-5);
  require_near(train(false, true), expected, 1e-5);
}

TEST_CASE("functional_call of layers: Buffers stay the model's own, and give no way round") {
  nn::BatchNorm norm(3);
  const Tensor x = random::normal({8, 3});
  const std::vector<Tensor> weights = {full({3}, 2.0), full({3}, 1.0)};
  const Tensor expected = norm(x) * 2.0 + 1.0;
  const std::vector<Variable> own = buffers(norm);
  const Tensor before = own[0].value() * 1.0;
  CHECK(allclose(functional_call(norm, weights, x), expected, {.rtol = 1e-5, .atol = 1e-5}));
  CHECK_FALSE(equal(own[0], before));  // the running mean has moved
  std::vector<Variable> all = parameters(norm);
  for (const Variable& buffer : own) all.push_back(buffer);
  std::vector<Tensor> values;
  for (const Variable& each : all) values.push_back(each.value() * 1.0);
  const WeightScope scope(all, values);
  CHECK_THROWS_AS(norm(x), Error);  // it would assign the running mean
  const TrainScope evaluating(false);
  CHECK(norm(x).defined());
}

TEST_CASE("views of Variables inside of a checkpoint and under other weights") {
  const Variable w("w", numbers({3, 3}));
  const Tensor x = numbers({2, 3});
  const auto loss = [w](Tensor input) {
    const Tensor diagonals = w.view([](Tensor t) { return diagonal(t); });
    const Tensor rows = w.view([](Tensor t) { return transpose(t)(range(0, 2)); });
    return sum(square(diagonals)) + sum(input * rows * rows);
  };
  const auto expected_at = [&](const Tensor& weights) {
    const Variable v("v", weights);
    GradientTape tape;
    const Tensor diagonals = diagonal(v), rows = transpose(v)(range(0, 2));
    return tape.gradient(sum(square(diagonals)) + sum(x * rows * rows), v);
  };
  const auto gradient_of = [&](const auto& f, const auto& source) {
    GradientTape tape;
    tape.watch(source);
    return tape.gradient(f(x), source);
  };
  CHECK(equal(gradient_of(loss, w), expected_at(w)));
  CHECK(equal(gradient_of(checkpoint(loss), w), expected_at(w)));
  const Tensor other = numbers({3, 3}) * 2;
  const auto with_weights = [&](Tensor input) {
    const WeightScope weights({w}, {other});
    return loss(input);
  };
  CHECK(equal(gradient_of(with_weights, other), expected_at(other)));
  CHECK(equal(gradient_of(checkpoint(with_weights), other), expected_at(other)));
  const WeightScope weights({w}, {other});
  require_parts(message<Error>([&] { w.view([](Tensor t) { return t + 0; }); }),
                {"view: f: expected a view of the Variable's value"});
  VariableSlice part = w.view([](Tensor t) { return diagonal(t); });
  require_parts(message<Error>([&] { part.assign(0); }), {"a WeightScope"});
  CHECK(equal(part, diagonal(other)));
  const Variable unlisted("unlisted", ones({2}));
  CHECK(equal(unlisted * 2, full({2}, 2.0)));
  GradientTape tape;
  tape.watch(other);
  const Tensor squared = other * other;
  const WeightScope again({w}, {squared});
  // The weight is the target in place of the Variable.
  CHECK(equal(tape.gradient(w, other), 2 * other));
}

TEST_CASE("functional_call of an LSTM and of a model of several layers") {
  nn::LSTM lstm{3, 4};
  const Tensor x = random::normal({5, 2, 3});
  std::vector<Tensor> half;
  for (const Variable& w : parameters(lstm)) half.push_back(w * 0.5);
  const Tensor found = functional_call(lstm, half, x).outputs;
  nn::LSTM copy = clone(lstm);
  for (Variable& w : parameters(copy)) w.assign(w * 0.5);
  CHECK(allclose(found, copy(x).outputs));
  GradientTape tape;
  std::vector<Tensor> scaled;
  const Tensor scale = tensor(0.5f);
  tape.watch(scale);
  for (const Variable& w : parameters(lstm)) scaled.push_back(w * scale);
  const auto slopes =
      tape.gradient(sum(functional_call(lstm, scaled, x).outputs), parameters(lstm));
  GradientTape other;
  const auto expected = other.gradient(sum(copy(x).outputs), parameters(copy));
  for (std::size_t i = 0; i < slopes.size(); ++i)
    CHECK(allclose(slopes[i], expected[i] * 0.5, {.rtol = 1e-4, .atol = 1e-5}));
}
}  // namespace reel::tests
