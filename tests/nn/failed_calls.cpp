// SPDX-License-Identifier: BSD-3-Clause
// A call that throws has changed nothing: no Variable, no state, no position of a generator.
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <reel/fit.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
const DType wide = DType::float64;
const float nan = std::numeric_limits<float>::quiet_NaN();

/// f throws. The Variables of the parts, the thread's generator and training() stay as they are.
template <class F, class... Parts>
void check_kept(const std::string& call, F f, const Parts&... parts) {
  INFO(call);
  std::vector<Variable> variables;
  [[maybe_unused]] const auto add = [&](const auto& part) {
    for (const Variable& v : reel::detail::all_variables(part, "check_kept"))
      variables.push_back(v);
  };
  (add(parts), ...);
  std::vector<Tensor> before;
  for (const Variable& v : variables) before.push_back(v.value());
  const std::uint64_t position = thread_generator().position();
  const bool trains = training();
  bool thrown = false;
  try {
    f();
  } catch (const std::exception&) {
    thrown = true;
  }
  CHECK(thrown);
  for (std::size_t i = 0; i < variables.size(); ++i) {
    INFO(variables[i].name());
    CHECK(equal(variables[i], before[i]));
  }
  CHECK(thread_generator().position() == position);
  CHECK(training() == trains);
}

struct Trained {
  Variable w{"w", ones({2, 3})}, b{"b", ones({3})};
  optim::Adam adam{{w, b}};
  Trained() {
    GradientTape tape;
    adam.step(tape, sum(w * w) + sum(b * b));
  }
  REEL_FIELDS(w, b, adam)
};
Tensor half() { return full({}, 0.5, {wide}); }
[[noreturn]] Tensor failed() { throw std::runtime_error("a function of the user"); }
}  // namespace

TEST_CASE("an optimizer, schedule or sum whose call fails has counted nothing", "[cpu]") {
  Trained m;
  const std::vector<Tensor> wrong{ones({2, 3}), ones({2})}, undefined{ones({2, 3}), Tensor()},
      infinite{ones({2, 3}) * nan, ones({3})};
  check_kept(
      "Adam: shape", [&] { m.adam.step(wrong); }, m);
  check_kept(
      "Adam: undefined", [&] { m.adam.step(undefined); }, m);
  const auto step_with = [&](auto loss) {
    GradientTape tape;
    m.adam.step(tape, loss());
  };
  check_kept(
      "Adam: loss", [&] { step_with([&] { return m.w * 2; }); }, m);
  check_kept(
      "Adam: unconnected", [&] { step_with([&] { return sum(m.w); }); }, m);
  const Tensor rate = m.adam.learning_rate().value();
  m.adam.learning_rate().assign(-1);
  check_kept(
      "Adam: rate", [&] { step_with([&] { return sum(m.w) + sum(m.b); }); }, m);
  m.adam.learning_rate().assign(rate);

  check_kept(
      "Schedule: first factor",
      [&] { optim::Schedule(m.adam, [](const Tensor&) { return failed(); }); }, m);
  for (const bool throws : {true, false}) {
    bool first = true;
    optim::Schedule schedule(m.adam, [&](const Tensor&) {
      if (first) return half();
      return throws ? failed() : ones({3}, {wide});
    });
    first = false;
    check_kept(
        "Schedule: factor", [&] { schedule.step(); }, m, schedule);
  }
  optim::ReduceOnPlateau plateau(m.adam);
  plateau.step(1.0);
  check_kept(
      "ReduceOnPlateau: loss", [&] { plateau.step(ones({2})); }, m, plateau);
  check_kept(
      "ReduceOnPlateau: undefined", [&] { plateau.step(Tensor()); }, m, plateau);
  optim::GradientSum gradients({m.w, m.b});
  gradients.add({ones({2, 3}), ones({3})});
  check_kept(
      "GradientSum: shape", [&] { gradients.add(wrong); }, gradients);
  check_kept(
      "GradientSum: undefined", [&] { gradients.add(undefined); }, gradients);
  check_kept(
      "GradientSum: dtype",
      [&] {
        gradients.add({ones({2, 3}), ones({3}, {wide})});
      },
      gradients);
  optim::LossScaler scaler;
  check_kept(
      "LossScaler: shape", [&] { scaler.step(m.adam, wrong); }, m, scaler);
  scaler.factor.assign(1);
  check_kept(
      "LossScaler: NaN at 1", [&] { scaler.step(m.adam, infinite); }, m, scaler);
  const std::vector<Variable> both{m.w, m.b};
  check_kept(
      "sgd_update: second", [&] { sgd_update(both, wrong, 0.1); }, m);
  check_kept(
      "average_update: second", [&] { average_update(both, wrong, 0.1); }, m);
}

TEST_CASE("an assignment that fails has written no element", "[cpu]") {
  const Variable x("x", ones({4, 2})), n("n", ones({3}, {DType::int32}));
  check_kept(
      "position",
      [&] {
        x(tensor({0, 9})).assign(0);
      },
      x);
  check_kept(
      "position of assign_add",
      [&] {
        x(tensor({0, 9})).assign_add(1);
      },
      x);
  check_kept(
      "dtype",
      [&] {
        x(range(0, 2)).assign(zeros({2, 2}, {wide}));
      },
      x);
  check_kept(
      "shape",
      [&] {
        x(range(0, 2)).assign(zeros({3, 2}));
      },
      x);
  check_kept(
      "fraction", [&] { n.assign_add(0.5); }, n);
  check_kept(
      "range", [&] { n.assign(std::int64_t{3000000000}); }, n);
}

TEST_CASE("a layer whose call fails has kept its state", "[cpu]") {
  const nn::BatchNorm norm(3);
  for (const Tensor& x : {ones({1, 3}), ones({0, 3}), ones({4, 2}), ones({3})})
    check_kept(
        "BatchNorm " + to_string(x.shape()), [&] { norm(x); }, norm);
  const nn::MultiHeadAttention layer(8, 2, {.dropout = 0.5});
  nn::KeyValueCache cache = layer.cache(1, 4);
  layer(ones({1, 3, 8}), cache);
  check_kept(
      "a full cache",
      [&] {
        layer(ones({1, 3, 8}), cache);
      },
      cache);
  check_kept(
      "v's shape",
      [&] {
        cache.append(ones({1, 2, 1, 4}), ones({1, 2, 1, 5}));
      },
      cache);
  check_kept(
      "v's dtype",
      [&] {
        cache.append(zeros({1, 2, 1, 4}), zeros({1, 2, 1, 4}, {wide}));
      },
      cache.length);
  check_kept(
      "reorder", [&] { cache.reorder(tensor({1})); }, cache);
  const nn::TransformerDecoderLayer decoder(8, 2);
  nn::KeyValueCache steps = decoder.attention.cache(1, 8);
  decoder(ones({1, 2, 8}), ones({1, 3, 8}), steps);
  const Tensor x = ones({1, 1, 8}), memory = ones({1, 3, 8});
  check_kept(
      "memory's width",
      [&] {
        decoder(x, ones({1, 3, 7}), steps);
      },
      steps);
  check_kept(
      "memory's batch",
      [&] {
        decoder(x, ones({2, 3, 8}), steps);
      },
      steps);
  check_kept(
      "memory's lengths", [&] { decoder(x, memory, steps, {.key_lengths = tensor({9})}); }, steps);
}

TEST_CASE("a random op that fails has drawn nothing", "[cpu]") {
  seed(3);
  check_kept("dropout: dtype", [] { dropout(ones({3}, {DType::int32}), 0.5); });
  check_kept("Dropout: dtype", [] { nn::Dropout(0.5)(ones({3}, {DType::int32})); });
  check_kept("normal: shape", [] { random::normal({-1}); });
  check_kept("normal: memory", [] { random::normal({std::int64_t{1} << 50}); });
  check_kept("uniform", [] { random::uniform({2}, {.low = 2, .high = 1}); });
  check_kept("integers", [] { random::integers(3, 3, {2}); });
  check_kept("gamma", [] { random::gamma(-1, {2}); });
  check_kept("beta", [] { random::beta(1, -1, {2}); });
  check_kept("permutation", [] { random::permutation(-1); });
  check_kept("shuffle", [] { random::shuffle(ones({3}), 2); });
  check_kept("categorical", [] { random::categorical(tensor({{0.f, 1.f}, {0.f, nan}}), 3); });
  check_kept("choice", [] { random::choice(ones({3}), 4, {.replace = false}); });
  check_kept("choice: weights", [] { random::choice(ones({3}), 2, {.weights = zeros({3})}); });
  const Tensor q = ones({1, 2, 4, 8});
  check_kept("attention: keys", [&] { attention(q, ones({1, 2, 5, 8}), q, {.dropout = 0.5}); });
  check_kept("attention: mask", [&] {
    attention(q, q, q, {.mask = ones({7, 7}, {DType::boolean}), .dropout = 0.5});
  });
  check_kept("attention: lengths",
             [&] { attention(q, q, q, {.key_lengths = tensor({9}), .dropout = 0.5}); });
  const nn::LSTM lstm(3, 4, {.layers = 2, .dropout = 0.5});
  check_kept(
      "LSTM: lengths",
      [&] {
        lstm(ones({5, 2, 3}), {}, tensor({9, 1}));
      },
      lstm);
}

TEST_CASE("a tape can be used after a call of gradient() with wrong arguments", "[cpu]") {
  const Variable w("w", tensor({1.f, 3.f})), other("other", ones({2}));
  GradientTape tape;
  const Tensor y = square(w);
  check_kept("source", [&] { tape.gradient(y, other); });
  check_kept("undefined", [&] { tape.gradient(Tensor(), w); });
  check_kept("upstream", [&] { tape.gradient(y, w, {.upstream = ones({3})}); });
  check_kept("jacobian", [&] { tape.jacobian(y, other); });
  CHECK(equal(tape.gradient(y, w), 2 * w));
}

TEST_CASE("fit() whose validation fails trains afterwards", "[cpu]") {
  Trained m;
  const std::vector<Tensor> train{ones({2, 3})}, validation{ones({2, 4})};
  const auto loss = [](const Trained& model, const Tensor& x) {
    return mean(square(model.w * x + model.b));
  };
  CHECK(training());
  CHECK_THROWS_AS(fit(m, m.adam, train, loss, {.validate = validation}), ShapeError);
  CHECK(training());
  CHECK(m.adam.steps().value().item<std::int64_t>() == 2);  // the epoch itself had ended
}
}  // namespace reel::tests
