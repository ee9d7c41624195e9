// SPDX-License-Identifier: BSD-3-Clause
// The steps of optimizers and schedules: what they take, and what they refuse.
#include <reel/optim/rmsprop.hpp>
#include <reel/optim/schedule.hpp>

#include "nn/near.hpp"

namespace reel::tests {
TEST_CASE("a factor of a schedule that is not one number is an error", "[optim]") {
  Variable x("x", ones({2}));
  optim::SGD sgd({x}, {.learning_rate = 0.5});
  for (const Tensor& factor : {ones({3}), ones({1}), Tensor()})
    require_parts(
        message<ShapeError>([&] { optim::Schedule(sgd, [&](const Tensor&) { return factor; }); }),
        {"Schedule: factor", "one number"});
  bool later = false;
  optim::Schedule schedule(sgd, [&](const Tensor& step) { return later ? ones({1}) : step + 1; });
  later = true;
  require_parts(message<ShapeError>([&] { schedule.step(); }), {"Schedule: factor"});
  CHECK(sgd.learning_rate().value().item<double>() == 0.5);
}

TEST_CASE("step() of a tape and a loss is step() of the gradients of its own Variables",
          "[optim]") {
  const auto loss_of = [](const nn::Linear& model) {
    return sum(square(model(tensor({{1.0, 2.0}}))));
  };
  const auto check = [&]<class O>(O*, auto options) {
    const nn::Linear a(2, 2);
    const nn::Linear b = clone(a);
    O first({a.bias, a.weight}, options), second({b.bias, b.weight}, options);
    for (int i = 0; i < 3; ++i) {
      GradientTape tape({.persistent = true});
      const Tensor loss = loss_of(a), other = loss_of(b);
      first.step(tape, loss);
      second.step(tape.gradient(other, second.variables()));
    }
    CHECK(equal(a.weight, b.weight));
    CHECK(equal(a.bias, b.bias));
  };
  check(static_cast<optim::SGD*>(nullptr), optim::SGDOptions{.momentum = 0.9});
  check(static_cast<optim::Adam*>(nullptr), optim::AdamOptions{});
  check(static_cast<optim::AdamW*>(nullptr), optim::AdamWOptions{});
  check(static_cast<optim::RMSprop*>(nullptr), optim::RMSpropOptions{});
  check(static_cast<optim::Adagrad*>(nullptr), optim::AdagradOptions{});
  // Rows of a sparse table, and the line of an error.
  const nn::Embedding table(5, 2, {.sparse = true});
  optim::Adam adam(parameters(table));
  const Tensor before = table.table;
  GradientTape tape;
  adam.step(tape, sum(table(tensor({1, 1}))));
  CHECK(equal(table.table.value()(tensor({0, 2, 3, 4})), before(tensor({0, 2, 3, 4}))));
  CHECK(!equal(table.table.value()(1), before(1)));
  require_parts(message<TapeError>([&] { adam.step(tape, sum(before)); }), {"Adam: tape"});
}

TEST_CASE("an optimizer that was moved from says so", "[optim]") {
  const nn::Linear model(2, 2);
  optim::Adam a(parameters(model));
  const optim::Adam b = std::move(a);
  const std::string words = "moved from";
  require_parts(message<Error>([&] { a.step({}); }), {words});
  require_parts(message<Error>([&] { a.learning_rate(); }), {words});
  GradientTape tape;
  const Tensor loss = sum(model(ones({1, 2})));
  require_parts(message<Error>([&] { a.step(tape, loss); }), {words});
  CHECK(equal(tape.gradient(loss, model.bias), ones({2})));  // the tape is not spent
}

TEST_CASE("an error of step() of a tape and a loss names the optimizer", "[optim]") {
  const nn::Linear model(2, 2), other(2, 2);
  optim::SGD sgd(parameters(other));
  GradientTape tape;
  const Tensor loss = sum(model(ones({1, 2})));
  require_parts(message<TapeError>([&] { sgd.step(tape, loss); }), {"SGD: ", "\"weight\""});
}

TEST_CASE("the state of an optimizer has the names of its parameters", "[optim]") {
  const nn::Linear model(2, 2);
  optim::Adam adam(parameters(model));
  std::vector<std::string> names;
  adam.fields([&](std::string_view, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::vector<Variable>>)
      for (const Variable& each : member) names.push_back(each.name());
  });
  CHECK(names == std::vector<std::string>{"m.weight", "m.bias", "v.weight", "v.bias"});
}
}  // namespace reel::tests
