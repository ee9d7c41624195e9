// SPDX-License-Identifier: BSD-3-Clause
// Gradients of tables as rows, and optimizers that change these rows only.
#include <cmath>
#include <cstdint>
#include <vector>

#include "lib/body/access.hpp"
#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const void* memory_of(const Variable& w) { return Access::body(Access::cell(w).value)->data; }

/// The gradient as gradient() gives it.
Tensor dense(const RowGradient& g, const Variable& x) {
  if (!g.rows.defined()) return g.values;
  return scatter_add(zeros_like(x), g.rows, g.values);
}
/// Each position occurs once, the others are -1, whose values are 0.
void require_apart(const RowGradient& g) {
  REQUIRE(g.values.shape(0) == g.rows.size());
  std::int64_t last = -1;
  bool ended = false;
  for (std::int64_t i = 0; i < g.rows.size(); ++i) {
    const auto row = g.rows(i).item<std::int64_t>();
    if (row < 0) {
      ended = true;
      CHECK(row == -1);
      CHECK(equal(g.values(i), zeros_like(g.values(i))));
    } else {
      CHECK_FALSE(ended);
      CHECK(row > last);
      last = row;
    }
  }
}

/// Two tables, one of which is read twice in a step, and a layer.
struct Model {
  nn::Embedding first, second;
  nn::Linear head{3, 2, {.dtype = float64}};
  explicit Model(bool sparse)
      : first(7, 3, {.dtype = float64, .sparse = sparse}),
        second(5, 3, {.dtype = float64, .sparse = sparse}) {}
  Tensor loss(const Tensor& a, const Tensor& b) const {
    return sum(square(head(first(a) * second(b) + first(b))));
  }
  REEL_FIELDS(first, second, head)
};
const Tensor a() { return tensor({3, 0, 3, -1}); }
const Tensor b() { return tensor({1, 1, 4, 2}); }
}  // namespace

TEST_CASE("row gradients are the dense ones", "[nn]") {
  const Model model(true);
  const std::vector<Variable> all = parameters(model);
  GradientTape tape({.persistent = true});
  const Tensor loss = model.loss(a(), b());
  const std::vector<Tensor> expected = tape.gradient(loss, all);
  for (int turn = 0; turn < 2; ++turn) {
    const std::vector<RowGradient> got = tape.row_gradients(loss, all);
    REQUIRE(got.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(got[i].rows.defined() == (i < 2));
      require_near(dense(got[i], all[i]), expected[i].to_vector<double>());
    }
    require_apart(got[0]);
    require_apart(got[1]);
    CHECK(equal(got[0].rows, tensor({0, 1, 2, 3, 4, 6, -1, -1})));
    CHECK(equal(got[1].rows, tensor({1, 2, 4, -1})));
    CHECK(got[0].values.shape() == Shape({8, 3}));
  }
  // Of take(), the gradient is dense.
  const Model plain(false);
  GradientTape other;
  const Tensor target = plain.loss(a(), b());
  for (const RowGradient& g : other.row_gradients(target, parameters(plain)))
    CHECK_FALSE(g.rows.defined());
}

TEST_CASE("row gradients of any shape of table and positions", "[nn]") {
  for (const Shape& of : {Shape({6}), Shape({6, 2}), Shape({6, 2, 3}), Shape({6, 0})})
    for (const Tensor& rows : {tensor({2, 2, 5}), tensor({{1, 0}, {1, -6}}), tensor(4), tensor({4}),
                               zeros({0}, int64), zeros({2, 0}, int32)}) {
      const Variable table("table", numbers(of));
      GradientTape tape({.persistent = true});
      const Tensor y = lookup(table, rows);
      CHECK(equal(y, take(table, rows)));
      const Tensor upstream = numbers(y.shape());
      const RowGradient got = tape.row_gradients(y, {table}, {.upstream = upstream})[0];
      CHECK(got.rows.size() == rows.size());
      require_apart(got);
      require_near(dense(got, table),
                   tape.gradient(y, table, {.upstream = upstream}).to_vector<double>());
    }
}

TEST_CASE("a table that changes between lookups has the rows of both", "[nn]") {
  Variable table("table", numbers({4, 2}));
  GradientTape tape({.persistent = true});
  const Tensor before = lookup(table, tensor({1, 3}));
  table.assign(numbers({4, 2}));
  const Tensor loss = sum(before * lookup(table, tensor({3, 0})));
  const RowGradient got = tape.row_gradients(loss, {table})[0];
  CHECK(equal(got.rows, tensor({0, 1, 3, -1})));
  require_near(dense(got, table), tape.gradient(loss, table).to_vector<double>());
}

TEST_CASE("a table that another op reads has no row gradient", "[nn]") {
  const Variable table("words", numbers({4, 2})), unused("unused", numbers({4, 2}));
  {
    GradientTape tape;
    const Tensor loss = sum(lookup(table, tensor({1}))) + sum(square(table));
    require_parts(message<TapeError>([&] { tape.row_gradients(loss, {table}); }),
                  {"gradient: source 0 \"words\" of row_gradients: expected a Variable that only "
                   "lookup() reads",
                   "square (row_gradients.cpp:", "reads too"});
  }
  {  // what does not lead to the target does not count
    GradientTape tape;
    const Tensor loss = sum(lookup(table, tensor({1}))), other = sum(square(table));
    CHECK(tape.row_gradients(loss, {table})[0].rows.defined());
  }
  GradientTape tape({.persistent = true});
  const Tensor loss = sum(lookup(table, tensor({1})));
  require_parts(message<TapeError>([&] {
                  tape.row_gradients(loss, {table, unused});
                }),
                {"source 1 \"unused\"", "a path to the target"});
  const auto zero = tape.row_gradients(loss, {table, unused}, {.unconnected = Unconnected::zero});
  CHECK(equal(zero[1].values, zeros({4, 2})));
  CHECK_FALSE(zero[1].rows.defined());
}

TEST_CASE("row gradients of a table listed twice, under other weights and in a checkpoint",
          "[nn]") {
  const Variable table("table", numbers({6, 3}));
  const Tensor rows = tensor({1, 2, 1});
  const auto alike = [&](const auto& loss) {
    GradientTape tape({.persistent = true});
    const Tensor y = loss();
    const std::vector<RowGradient> got = tape.row_gradients(y, {table, table});
    const Tensor expected = tape.gradient(y, table);
    for (const RowGradient& g : got) {
      CHECK(g.rows.size() == rows.size());
      require_near(dense(g, table), expected.to_vector<double>());
    }
  };
  const auto loss = [&] { return sum(square(lookup(table, rows))); };
  alike(loss);
  alike([&] {
    const Tensor x = lookup(table, rows);
    return checkpoint([](Tensor t) { return sum(tanh(t) * t); })(x);
  });
  const WeightScope weights({table}, {numbers({6, 3}) * 2});
  alike(loss);
}

TEST_CASE("a tape has the gradient of a row gradient", "[nn]") {
  const Variable table("table", numbers({6, 3})), w("w", numbers({3}));
  const auto second = [&](bool sparse) {
    GradientTape outer;
    Tensor total;
    {
      GradientTape inner;
      const Tensor x = lookup(table, tensor({1, 2, 1})), y = sum(square(x) * x * w);
      total = sparse ? sum(square(inner.row_gradients(y, {table})[0].values))
                     : sum(square(inner.gradient(y, table)));
    }
    return outer.gradient(total, {table, w});
  };
  const std::vector<Tensor> got = second(true), expected = second(false);
  for (std::size_t i = 0; i < 2; ++i) require_near(got[i], expected[i].to_vector<double>());
}

TEST_CASE("lazy Adam changes the rows of a step as the formula says", "[optim]") {
  const double rate = 0.1, beta1 = 0.8, beta2 = 0.7, epsilon = 1e-3, decay = 0.2;
  for (const bool amsgrad : {false, true}) {
    Variable table("table", numbers({5, 2}));
    std::vector<double> x = table.value().to_vector<double>(), m(10), v(10), largest(10);
    optim::AdamW adam({table}, {rate, beta1, beta2, epsilon, decay, amsgrad});
    const std::vector<std::vector<std::int64_t>> steps = {{3, 1, 3}, {}, {1}, {4, 0, 1, 4, 4}};
    for (std::size_t t = 1; t <= steps.size(); ++t) {
      const auto n = static_cast<std::int64_t>(steps[t - 1].size());
      const Tensor rows = n ? tensor(steps[t - 1]) : zeros({0}, int64);
      const Tensor upstream = numbers({n, 2});
      GradientTape tape;
      const Tensor y = lookup(table, rows);
      adam.step(tape.row_gradients(y, {table}, {.upstream = upstream}));
      std::vector<double> g(10);
      std::vector<bool> changes(5);
      for (std::size_t i = 0; i < steps[t - 1].size(); ++i)
        for (std::size_t k = 0; k < 2; ++k) {
          const auto row = static_cast<std::size_t>(steps[t - 1][i]);
          g[2 * row + k] += upstream.to_vector<double>()[2 * i + k];
          changes[row] = true;
        }
      const auto time = static_cast<double>(t);
      for (std::size_t i = 0; i < 10; ++i) {
        if (!changes[i / 2]) continue;
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        largest[i] = std::max(largest[i], v[i]);
        const double second = (amsgrad ? largest[i] : v[i]) / (1 - std::pow(beta2, time));
        x[i] -= rate * decay * x[i] +
                rate * m[i] / (1 - std::pow(beta1, time)) / (std::sqrt(second) + epsilon);
      }
      require_near(table, x);
    }
    CHECK(adam.steps().value().item<std::int64_t>() == 4);
  }
}

namespace {
/// Each optimizer, made for these Variables; `f` gets a function that steps, and its state.
template <class F>
void with_optimizers(const F& f) {
  f([](const auto& x) { return optim::SGD(x, {.learning_rate = 0.1, .weight_decay = 0.1}); });
  f([](const auto& x) {
    return optim::SGD(x, {.learning_rate = 0.1, .momentum = 0.5, .nesterov = true});
  });
  f([](const auto& x) { return optim::Adam(x, {.learning_rate = 0.1}); });
  f([](const auto& x) { return optim::Adam(x, {.learning_rate = 0.1, .amsgrad = true}); });
  f([](const auto& x) { return optim::AdamW(x, {.learning_rate = 0.1}); });
  f([](const auto& x) { return optim::Adagrad(x, {.weight_decay = 0.1}); });
  f([](const auto& x) { return optim::RMSprop(x); });
  f([](const auto& x) { return optim::RMSprop(x, {.momentum = 0.5}); });
}
}  // namespace

TEST_CASE("every optimizer changes rows as a dense step of these rows alone does", "[optim]") {
  for (const DType dtype : {float32, float64})
    for (const std::int64_t width : {1, 3, 40})
      with_optimizers([&](const auto& make) {
        const Tensor start = random::normal({6, width}, {.dtype = dtype});
        const std::vector<std::int64_t> picked = {4, 1, 2};
        const Tensor rows =
            tensor(std::vector<std::int64_t>{4, -1, 1, 2, 6, -7});  // 6 and -7: below
        Variable table("table", start), part("part", take(start, tensor(picked)));
        auto some = make(std::vector{table});
        auto all = make(std::vector{part});
        for (int t = 0; t < 3; ++t) {
          const Tensor g = random::normal({3, width}, {.dtype = dtype});
          const Tensor zero = zeros({1, width}, {dtype});
          const Tensor values = concat({g(range(0, 1)), zero, g(range(1, 3))}, 0);
          some.step(std::vector<RowGradient>{{values, rows(range(0, 4))}});
          all.step({g});
          CHECK(equal(take(table, tensor(picked)), part));
          for (const int other : {0, 3, 5}) CHECK(equal(table.value()(other), start(other)));
        }
        const Variable before = table.clone();
        const Tensor g = ones({2, width}, {dtype});
        require_parts(message<IndexError>([&] {
                        some.step(std::vector<RowGradient>{{g, rows(range(3, 5))}});
                      }),
                      {"rows of ", ": expected -1 to 5, got 6 at [1]"});
        require_parts(message<IndexError>([&] {
                        some.step(std::vector<RowGradient>{{g, rows(range(1, 6, 4))}});
                      }),
                      {"rows of ", ": expected -1 to 5, got -7 at [1]"});
        // Other devices find a wrong row late.
        if (table.device() == cpu()) CHECK(equal(table, before));
      });
}

TEST_CASE("values of any layout, and what optimizers refuse", "[optim]") {
  Variable table("table", zeros({4, 3}));
  optim::SGD sgd({table}, {.learning_rate = 1});
  const Tensor values = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}),
               rows = tensor({0, 9, 2}).to(int64);
  sgd.step(std::vector<RowGradient>{{transpose(transpose(values) + 0.0f), rows(range(0, 3, 2))}});
  CHECK(equal(table.value(),
              tensor({{-1.f, -2.f, -3.f}, {0.f, 0.f, 0.f}, {-4.f, -5.f, -6.f}, {0.f, 0.f, 0.f}})));
  const auto step = [&](Tensor of, Tensor at, Caller caller = Caller::here()) {
    return [&, of, at, caller] { sgd.step(std::vector<RowGradient>{{of, at}}, caller); };
  };
  require_parts(message<ShapeError>(step(values, tensor({0, 1, 2}).to(int64))),
                {"SGD: gradient 0 (table)", "(3, 3)", "(2, 3)"});
  require_parts(message<DTypeError>(step(values, tensor({0, 1}).to(int32))),
                {"SGD: rows of gradient 0 (table)", "int64", "int32"});
  require_parts(message<ShapeError>(step(values, zeros({1, 2}, int64))), {"one axis", "(1, 2)"});
  require_parts(message<DTypeError>(step(values.to(float64), tensor({0, 1}).to(int64))),
                {"gradient 0 (table)", "float32", "float64"});
  require_parts(message<Error>(step(Tensor(), tensor({0, 1}).to(int64))),
                {"gradient 0", "nothing"});
  Variable number("number", zeros({}));
  require_parts(
      message<ShapeError>([&] {
        optim::SGD({number}).step(std::vector<RowGradient>{{ones({1}), zeros({1}, int64)}});
      }),
      {"rows of gradient 0 (number)"});
}

TEST_CASE("updates refuse rows that are not in the Variable before they write", "[optim]") {
  const std::vector<Variable> x = {Variable("a", ones({2})), Variable("b", ones({3, 2})),
                                   Variable("c", ones({0, 2}))};
  const auto refused = [&](const RowGradient& b, const RowGradient& c,
                           std::initializer_list<std::string> parts, bool late) {
    const std::vector<Variable> before = {x[0].clone(), x[1].clone(), x[2].clone()};
    const std::vector<RowGradient> all = {{ones({2})}, b, c};
    require_parts(message<Error>([&] { sgd_update(x, all, 0.5); }), parts);
    if (late && x[0].device() != cpu()) return;
    for (std::size_t i = 0; i < 3; ++i) CHECK(equal(x[i], before[i]));
  };
  const RowGradient good = {ones({2, 2}), tensor(std::vector<std::int64_t>{-1, 2})};
  const auto rows = [](std::vector<std::int64_t> list) {
    return RowGradient{ones({static_cast<std::int64_t>(list.size()), 2}), tensor(list)};
  };
  const RowGradient none = {zeros({1, 2}), full({1}, std::int64_t{-1})};
  refused(rows({0, -2}), none, {"sgd_update: rows: expected -1 to 2, got -2 at [1]"}, true);
  refused(rows({3}), none, {"sgd_update: rows: expected -1 to 2, got 3 at [0]"}, true);
  refused(good, rows({0}), {"sgd_update: rows: expected -1 to -1, got 0 at [0]"}, true);
  refused(good, {ones({2, 2}), tensor(std::vector<std::int64_t>{-1})}, {"gradient", "(1, 2)"},
          false);
  refused(good, {ones({1, 2}, float64), none.rows}, {"gradient", "float64"}, false);
  const Tensor before = x[1].value() + 0;
  sgd_update(x, std::vector<RowGradient>{{ones({2})}, good, none}, 0.5);
  CHECK(equal(x[1], before - tensor({0.f, 0.f, 0.5f}).reshape({3, 1})));
}

TEST_CASE("a step of rows writes in place and makes nothing of the table's size", "[optim][cpu]") {
  // The blocks that three steps ask of the system.
  const auto blocks = [](bool sparse) {
    nn::Embedding table(100000, 64, {.sparse = sparse});
    optim::Adam adam({table.table});
    const Tensor words = tensor({5, 700, 5, 3});
    const auto step = [&] {
      GradientTape tape;
      const Tensor loss = sum(square(table(words)));
      adam.step(tape.row_gradients(loss, adam.variables()));
    };
    step();
    const void* const memory = memory_of(table.table);
    trim_memory();
    const std::int64_t before = memory_statistics().large_blocks;
    for (int i = 0; i < 3; ++i) step();
    CHECK(memory_of(table.table) == memory);
    return memory_statistics().large_blocks - before;
  };
  CHECK(blocks(true) == 0);
  CHECK(blocks(false) > 0);
}

TEST_CASE("a held value keeps its rows", "[optim]") {
  with_optimizers([](const auto& make) {
    Variable table("table", numbers({300, 3})), other = table.clone();
    auto optimizer = make(std::vector{table});
    auto same = make(std::vector{other});
    const Tensor held = table, copy = held + 0.0;
    const std::vector<RowGradient> g = {{numbers({2, 3}), tensor({7, 299}).to(int64)}};
    optimizer.step(g);
    same.step(g);
    CHECK(equal(held, copy));
    CHECK_FALSE(equal(table, held));
    CHECK(equal(table, other));
  });
}

TEST_CASE("a traced step of rows is the eager one", "[optim]") {
  with_optimizers([](const auto& make) {
    const Model model(true), traced_model = clone(model);
    CHECK(traced_model.first.sparse);
    auto optimizer = make(parameters(model));
    auto traced_optimizer = make(parameters(traced_model));
    const auto step = [](const Model& m, auto& o, const Tensor& x, const Tensor& y) {
      GradientTape tape;
      const Tensor loss = m.loss(x, y);
      o.step(optim::clip_by_global_norm(tape.row_gradients(loss, o.variables()), 1.0));
      return loss;
    };
    const auto traced = trace([step, m = traced_model, o = traced_optimizer](
                                  Tensor x, Tensor y) mutable { return step(m, o, x, y); });
    for (int t = 0; t < 6; ++t) {
      // The number of different rows changes.
      const Tensor x = t % 2 ? a() : tensor({t, t, t, t}), y = t % 3 ? b() : tensor({0, 0, 4, 0});
      CHECK(equal(traced(x, y), step(model, optimizer, x, y)));
      for (std::size_t i = 0; i < 4; ++i)
        CHECK(equal(parameters(model)[i], parameters(traced_model)[i]));
    }
    CHECK(traced.trace_count() == 1);
    CHECK(traced.explain().find("eagerly") == std::string::npos);
  });
}

TEST_CASE("clipping takes the norm over all rows", "[optim]") {
  const std::vector<RowGradient> clipped = optim::clip_by_global_norm(
      std::vector<RowGradient>{{tensor({{3.f, 0.f}, {0.f, 0.f}}), tensor({1, -1}).to(int64)},
                               {tensor({4.f})}},
      1);
  require_near(clipped[0].values.to(float64), {0.6, 0, 0, 0}, 1e-6);
  CHECK(equal(clipped[0].rows, tensor({1, -1})));
  require_near(clipped[1].values.to(float64), {0.8}, 1e-6);
  CHECK_FALSE(clipped[1].rows.defined());
}

TEST_CASE("two equal positions are one row of a row gradient") {
  const Variable table("table", ones({3, 2}, {.dtype = DType::float64}));
  GradientTape tape({.persistent = true});
  const Tensor both = lookup(table, tensor({1, 1})), apart = lookup(table, tensor({2, 0}));
  const Tensor upstream = tensor({{1.0, 2.0}, {10.0, 20.0}});
  const RowGradient same = tape.row_gradients(both, {table}, {.upstream = upstream})[0];
  CHECK(same.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -1});
  CHECK(equal(same.values, tensor({{11.0, 22.0}, {0.0, 0.0}})));
  const RowGradient other = tape.row_gradients(apart, {table}, {.upstream = upstream})[0];
  CHECK(other.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2});
  CHECK(equal(other.values, tensor({{10.0, 20.0}, {1.0, 2.0}})));
}

TEST_CASE("lookups to which no gradient comes have no rows") {
  const Variable table("table", ones({3, 2}, {.dtype = DType::float64}));
  const auto nothing =
      custom_gradient([](Tensor t) { return std::pair(t * 2, [](Tensor) { return Tensor(); }); });
  GradientTape tape;
  const Tensor y = nothing(lookup(table, tensor({1, 2})));
  const RowGradient got = tape.row_gradients(y, {table}, {.unconnected = Unconnected::zero})[0];
  REQUIRE(got.rows.defined());
  CHECK(got.rows.shape() == Shape{0});
  CHECK(got.values.shape() == Shape{0, 2});
  CHECK(got.values.dtype() == DType::float64);
}

TEST_CASE("an op that only another tape recorded does not read a table for this one") {
  const Variable table("table", tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}));
  GradientTape outer, tape;
  const Tensor rows = lookup(table, tensor({2, 0}));
  Tensor scale;
  {
    const auto pause = tape.pause();
    scale = table * 2;
  }
  tape.watch(scale);
  const Tensor y = sum(rows) * sum(scale);
  const RowGradient got = tape.row_gradients(y, {table})[0];
  REQUIRE(got.rows.defined());
  CHECK(got.rows.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 2});
  CHECK(equal(got.values, full({2, 2}, 42.0)));
}
}  // namespace reel::tests
