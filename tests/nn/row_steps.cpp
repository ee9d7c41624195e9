// SPDX-License-Identifier: BSD-3-Clause
// Traced steps of several tables: they write in place, and change nothing if they fail.
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "nn/near.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// Tables that one step trains, and a layer.
struct Tables {
  std::vector<nn::Embedding> tables;
  nn::Linear head;
  Tables(int count, std::int64_t rows, std::int64_t width) : head(width, 2) {
    for (int i = 0; i < count; ++i)
      tables.emplace_back(rows, width, nn::EmbeddingOptions{.sparse = true});
  }
  Tensor loss(const Tensor& words) const {
    Tensor x = tables[0](words);
    for (std::size_t i = 1; i < tables.size(); ++i) x = x * tables[i](words);
    return mean(square(head(x)));
  }
  REEL_FIELDS(tables, head)
};

/// Each optimizer, made for these Variables.
template <class F>
void with_optimizers(const F& f) {
  f([](const auto& x) { return optim::SGD(x, {.learning_rate = 0.05}); });
  f([](const auto& x) { return optim::SGD(x, {.learning_rate = 0.05, .momentum = 0.5}); });
  f([](const auto& x) { return optim::Adam(x, {.learning_rate = 0.05}); });
  f([](const auto& x) { return optim::Adam(x, {.learning_rate = 0.05, .amsgrad = true}); });
  f([](const auto& x) { return optim::Adagrad(x); });
  f([](const auto& x) { return optim::RMSprop(x, {.momentum = 0.5}); });
}
void require_equal(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name());
    CHECK(equal(a[i], b[i]));
  }
}
/// Variables, and what optimizers keep.
std::vector<Variable> with_state(std::vector<Variable> variables, const auto& optimizers) {
  for (const Variable& x : parameters(optimizers)) variables.push_back(x);
  return variables;
}
std::vector<Variable> copies(const std::vector<Variable>& of) {
  std::vector<Variable> all;
  for (const Variable& x : of) all.push_back(x.clone());
  return all;
}
/// The large blocks that calls ask of the system. Checks that each Variable keeps its memory.
template <class F>
std::int64_t blocks_of(const std::vector<Variable>& variables, const F& call) {
  const auto memory = [&] {
    std::vector<const void*> all;
    for (const Variable& x : variables) all.push_back(Access::body(Access::cell(x).value)->data);
    return all;
  };
  for (int i = 0; i < 3; ++i) call();
  trim_memory();
  const auto before = memory();
  const std::int64_t blocks = memory_statistics().large_blocks;
  for (int i = 0; i < 3; ++i) call();
  CHECK(memory() == before);
  return memory_statistics().large_blocks - blocks;
}
}  // namespace

TEST_CASE("a traced step of several tables writes in place, and makes nothing of their size",
          "[optim][cpu]") {
  for (const int count : {1, 2, 3})
    with_optimizers([&](const auto& make) {
      const Tables model(count, 5000, 32), eager_model = clone(model);
      auto optimizer = make(parameters(model)), eager_optimizer = make(parameters(eager_model));
      const auto step = [](const Tables& m, auto& o, const Tensor& x) {
        GradientTape tape;
        const Tensor loss = m.loss(x);
        o.step(tape, loss);
        return loss;
      };
      const auto traced =
          trace([step, m = model, o = optimizer](Tensor x) mutable { return step(m, o, x); },
                {.verify = 0});
      const Tensor words = tensor({5, 4999, 5, 3});
      const std::int64_t blocks =
          blocks_of(with_state(parameters(model), optimizer), [&] { traced(words); });
      CHECK((blocks == 0 || sanitized));
      for (int i = 0; i < 6; ++i) step(eager_model, eager_optimizer, words);
      CHECK(traced.trace_count() == 1);
      require_equal(with_state(parameters(model), optimizer),
                    with_state(parameters(eager_model), eager_optimizer));
    });
}

TEST_CASE("traced steps of two groups, or of two optimizers, write in place", "[optim][cpu]") {
  const Tables model(2, 5000, 32);
  const Variable &a = model.tables[0].table, &b = model.tables[1].table;
  const Tensor words = tensor({5, 4999, 5, 3});
  const auto check = [&](const auto& optimizers, const auto& step) {
    const auto traced = trace(
        [step, model, o = optimizers](Tensor x) mutable {
          GradientTape tape;
          step(o, tape, model.loss(x));
        },
        {.verify = 0});
    const std::int64_t blocks = blocks_of(with_state({a, b}, optimizers), [&] { traced(words); });
    CHECK((blocks == 0 || sanitized));
    CHECK(traced.trace_count() == 1);
  };
  check(optim::Adam({{{a}, {.learning_rate = 0.05}}, {{b}, {.learning_rate = 0.2}}}),
        [](auto& o, auto& tape, const Tensor& loss) { o.step(tape, loss); });
  check(std::vector{optim::Adam({a}), optim::Adam({b})},
        [a, b](auto& o, auto& tape, const Tensor& loss) {
          const std::vector<RowGradient> g = tape.row_gradients(loss, {a, b});
          for (std::size_t i = 0; i < 2; ++i) o[i].step(std::vector<RowGradient>{g[i]});
        });
}

namespace {
Tensor rows_of(std::int64_t last) { return tensor(std::vector<std::int64_t>{1, last}); }

/// Compares a traced `step` of two tables with an eager one, before, in and after a call that fails
/// because the last row of the second table is 9. `changes` says whether that call writes a
/// Variable before it fails.
void check_failing(bool changes, const auto& make, const auto& step) {
  static int runs;
  const std::vector<Variable> x = {Variable("a", random::normal({9, 3})),
                                   Variable("b", random::normal({9, 3}))},
                              y = copies(x);
  auto o = make(x), eager = make(y);
  const auto traced = trace(
      [step, x, o](Tensor g, Tensor rows) mutable {
        ++runs;
        return step(x, o, g, rows);
      },
      {.verify = 0});
  const auto both = [&](std::int64_t last) {
    const Tensor g = random::normal({2, 3});
    if (last < 9) {
      CHECK(equal(traced(g, rows_of(last)), step(y, eager, g, rows_of(last))));
    } else {
      CHECK_THROWS_AS(traced(g, rows_of(last)), IndexError);
      CHECK_THROWS_AS(step(y, eager, g, rows_of(last)), IndexError);
    }
    require_equal(with_state(x, o), with_state(y, eager));
  };
  runs = 0;
  for (const std::int64_t last : {3, 5, 2, 8}) both(last);
  const auto check_runs = [](int expected) { CHECK((runs == expected || sanitized)); };
  check_runs(1);
  const std::vector<Variable> before = copies(with_state(x, o));
  both(9);
  check_runs(2);  // the replay was dropped
  if (!changes) require_equal(with_state(x, o), before);
  for (const std::int64_t last : {7, 4}) both(last);
  check_runs(2);
}
using Rows = std::vector<RowGradient>;
}  // namespace

TEST_CASE("a traced step of rows that fails leaves what an eager step leaves", "[optim][cpu]") {
  const auto step_both = [](auto&, auto& o, const Tensor& g, const Tensor& rows) {
    o.step(Rows{{g, rows_of(0)}, {g * 2.0f, rows}});
    return sum(g);
  };
  with_optimizers([&](const auto& make) { check_failing(false, make, step_both); });
  // Two groups are two steps, of which the second one fails.
  check_failing(
      false,
      [](const auto& x) {
        return optim::Adam({{{x[0]}, {.learning_rate = 0.05}}, {{x[1]}, {.learning_rate = 0.2}}});
      },
      step_both);
  // So are two optimizers. An eager call has made the first step when it fails.
  with_optimizers([](const auto& make) {
    check_failing(
        true,
        [&](const auto& x) {
          return std::vector{make(std::vector{x[0]}), make(std::vector{x[1]})};
        },
        [](auto&, auto& o, const Tensor& g, const Tensor& rows) {
          o[0].step(Rows{{g, rows_of(0)}});
          o[1].step(Rows{{g * 2.0f, rows}});
          return sum(g);
        });
  });
  // Reads after the step, of other tensors and of the new values.
  with_optimizers([](const auto& make) {
    check_failing(true, make, [](auto&, auto& o, const Tensor& g, const Tensor& rows) {
      o.step(Rows{{g, rows_of(0)}, {g * 2.0f, rows_of(8)}});
      return take(concat({g, g, g, g, g}, 0)(range(0, 9)), rows);
    });
    check_failing(true, make, [](auto& x, auto& o, const Tensor& g, const Tensor& rows) {
      o.step(Rows{{g, rows_of(0)}, {g * 2.0f, rows_of(8)}});
      return lookup(x[0], rows);
    });
  });
}

TEST_CASE("a traced step of rows refuses a rate before it writes", "[optim][cpu]") {
  const auto make = [](const std::vector<Variable>& x) {
    return optim::Adam({{{x[0]}, {.learning_rate = 0.05}}, {{x[1]}, {.learning_rate = 0.2}}});
  };
  const std::vector<Variable> x = {Variable("a", ones({9, 3})), Variable("b", ones({9, 3}))};
  optim::Adam adam = make(x);
  const auto traced = trace(
      [adam](Tensor g) mutable {
        adam.step(Rows{{g, rows_of(0)}, {g * 2.0f, rows_of(8)}});
      },
      {.verify = 0});
  for (int i = 0; i < 4; ++i) traced(ones({2, 3}));
  const std::vector<Variable> before = copies(x);
  adam.learning_rate(1).assign(std::numeric_limits<double>::infinity());
  CHECK_THROWS_AS(traced(ones({2, 3})), Error);
  require_equal(x, before);
  CHECK(adam.steps().value().item<std::int64_t>() == 4);
}

TEST_CASE("a step of rows takes one number as its rate", "[optim]") {
  const std::vector<Variable> table = {Variable("table", zeros({4, 3}))};
  const std::vector<RowGradient> g = {{ones({2, 3}), tensor({0, 2}).to(int64)}};
  require_parts(message<ShapeError>([&] { sgd_update(table, g, ones({2})); }),
                {"sgd_update: rate: expected one number, got shape (2,)"});
  CHECK(equal(table[0], zeros({4, 3})));
  sgd_update(table, g, ones({1}));
  CHECK(equal(table[0].value()(0), -ones({3})));
}

TEST_CASE("an optimizer reads no gradient behind the last one", "[optim]") {
  const Variable a("a", ones({2})), b("b", ones({2}));
  optim::SGD sgd({{{a}, {.learning_rate = 1}}, {{b}, {.learning_rate = 0.5}}});
  // The third one belongs to no Variable and has a row that does not exist.
  const std::vector<RowGradient> all = {
      {ones({2})}, {ones({2})}, {ones({1}), tensor({77}).to(int64)}};
  sgd.step(std::span<const RowGradient>(all).first(2));
  CHECK(equal(a, zeros({2})));
  CHECK(equal(b, full({2}, 0.5f)));
}
}  // namespace reel::tests
