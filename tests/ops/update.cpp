// SPDX-License-Identifier: BSD-3-Clause
// What optimizer steps refuse, and where they write. tests/nn/optim.cpp tests their numbers.
#include <cmath>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/refused.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
const void* memory_of(const Variable& w) { return Access::body(Access::cell(w).value)->data; }
}  // namespace

TEST_CASE("steps write in place, and leave who holds the old value alone") {
  const Tensor start = random::normal({200, 50}), gradient = random::normal({200, 50});
  Variable x("x", start), m("m", zeros_like(start)), v("v", zeros_like(start));
  Variable rate("rate", tensor(0.1f)), step("step", tensor(std::int64_t{1}));
  const void* const memory[] = {memory_of(x), memory_of(m), memory_of(v)};
  const auto blocks = memory_statistics().large_blocks;
  for (int i = 0; i < 5; ++i) {
    sgd_update(x, gradient, rate);
    momentum_update(x, m, gradient, 0.1, {.momentum = 0.5, .nesterov = true});
    adam_update(x, m, v, gradient, rate, step, {.weight_decay = 0.1});
    step.assign_add(1);
  }
  CHECK(memory_of(x) == memory[0]);
  CHECK(memory_of(m) == memory[1]);
  CHECK(memory_of(v) == memory[2]);
  CHECK(memory_statistics().large_blocks == blocks);

  const Tensor held = x, copy = held * 1.0f, m_held = m;
  adam_update(x, m, v, gradient, rate, step);
  CHECK(equal(held, copy));
  CHECK_FALSE(equal(x, copy));
  CHECK(equal(x, x.value() + 0.0f));
  CHECK(memory_of(v) == memory[2]);
  CHECK_FALSE(equal(m, m_held));
}

TEST_CASE("the result is the same in place and beside a held value") {
  const Tensor start = random::normal({37}), g = random::normal({37});
  const auto run = [&](bool hold) {
    Variable x("x", start), m("m", start * 0.5f), v("v", start * start);
    const std::vector<Tensor> held = hold ? std::vector<Tensor>{x, m, v} : std::vector<Tensor>();
    sgd_update(x, g, 0.1);
    momentum_update(x, m, g, 0.1);
    adam_update(x, m, v, g, 0.1, 3);
    return stack({x, m, v});
  };
  CHECK(equal(run(true), run(false)));
}

TEST_CASE("a step of many Variables is that of each") {
  // Small and large Variables, some shared among threads, of both dtypes, with gradients of any
  // layout.
  enum class Updates { at_once, one_by_one, ops };
  const auto run = [](Updates updates) {
    const GeneratorScope here(Generator(7));
    std::vector<Variable> x, m, v;
    std::vector<Tensor> g;
    for (const std::int64_t n : {1, 300, 20, 0, 5'000, 41, 200, 64}) {
      const DType dtype = n == 41 || n == 200 ? DType::float64 : DType::float32;
      for (auto* list : {&x, &m, &v})
        list->emplace_back("x", random::uniform({n, 63}, {.dtype = dtype}));
      g.push_back(n % 3 ? random::normal({n, 63}, {.dtype = dtype})
                        : transpose(random::normal({63, n}, {.dtype = dtype})));
    }
    const Tensor rate = tensor(0.1f), step = tensor(std::int32_t{3});
    if (updates == Updates::at_once) {
      sgd_update(x, g, rate);
      momentum_update(x, m, g, rate, {.nesterov = true});
      adam_update(x, m, v, g, rate, step, {.weight_decay = 0.1});
    } else if (updates == Updates::ops) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Tensor by = rate.to(x[i].dtype());
        x[i].assign_sub(by * g[i]);
        m[i].assign(0.9 * m[i] + g[i]);
        x[i].assign_sub(by * (g[i] + 0.9 * m[i]));
        m[i].assign(0.9 * m[i] + 0.1 * g[i]);
        v[i].assign(0.999 * v[i] + 0.001 * square(g[i]));
        const Tensor second = sqrt(v[i] / (1 - std::pow(0.999, 3)));
        x[i].assign((1 - 0.1 * by) * x[i] - by * (m[i] / (1 - std::pow(0.9, 3))) / (second + 1e-8));
      }
    } else {
      for (std::size_t i = 0; i < x.size(); ++i) {
        sgd_update(x[i], g[i], rate);
        momentum_update(x[i], m[i], g[i], rate, {.nesterov = true});
        adam_update(x[i], m[i], v[i], g[i], rate, step, {.weight_decay = 0.1});
      }
    }
    std::vector<Tensor> all;
    for (const auto* list : {&x, &m, &v})
      for (const Variable& variable : *list) all.push_back(variable.value());
    return all;
  };
  const std::vector<Tensor> one_by_one = run(Updates::one_by_one), by_ops = run(Updates::ops);
  for (std::size_t i = 0; i < by_ops.size(); ++i)
    CHECK(allclose(one_by_one[i], by_ops[i], {.rtol = 1e-4, .atol = 1e-4}));
  for (const int threads : {1, 2, 3}) {
    const KeepThreads before;
    set_num_threads(threads);
    const std::vector<Tensor> at_once = run(Updates::at_once);
    for (std::size_t i = 0; i < at_once.size(); ++i) CHECK(equal(at_once[i], one_by_one[i]));
  }
  sgd_update(std::vector<Variable>(), std::vector<Tensor>(), 0.1);
}

TEST_CASE("the steps of RMSprop, Adagrad, AMSGrad and averages are those of each Variable") {
  // As above; tests/nn/optim_rules.cpp compares their numbers with formulas.
  const auto run = [](bool at_once) {
    const GeneratorScope here(Generator(8));
    std::vector<Variable> x, m, v, most;
    std::vector<Tensor> g;
    for (const std::int64_t n : {1, 300, 20, 0, 2'000, 41, 200}) {
      const DType dtype = n == 41 || n == 200 ? DType::float64 : DType::float32;
      for (auto* list : {&x, &m, &v, &most})
        list->emplace_back("x", random::uniform({n, 63}, {.dtype = dtype}));
      g.push_back(n % 3 ? random::normal({n, 63}, {.dtype = dtype})
                        : transpose(random::normal({63, n}, {.dtype = dtype})));
    }
    const Tensor rate = tensor(0.1f), step = tensor(std::int32_t{3});
    const auto some = [&](std::size_t i, std::size_t count) {
      const auto part = [&](const auto& list) { return std::span(list).subspan(i, count); };
      const std::span<const Variable> a = part(x), b = part(m), c = part(v), d = part(most);
      const std::span<const Tensor> slopes = part(g);
      amsgrad_update(a, b, c, d, slopes, rate, step, {.weight_decay = 0.1});
      rmsprop_update(a, c, slopes, rate, {.weight_decay = 0.1});
      rmsprop_update(a, c, b, slopes, rate, {.momentum = 0.5});
      adagrad_update(a, d, slopes, rate, {.weight_decay = 0.1});
      sgd_update(a, slopes, rate, {.weight_decay = 0.1});
      momentum_update(a, b, slopes, rate, {.weight_decay = 0.1});
      average_update(a, slopes, rate);
    };
    if (at_once)
      some(0, x.size());
    else
      for (std::size_t i = 0; i < x.size(); ++i) some(i, 1);
    std::vector<Tensor> all;
    for (const auto* list : {&x, &m, &v, &most})
      for (const Variable& variable : *list) all.push_back(variable.value());
    return all;
  };
  const std::vector<Tensor> one_by_one = run(false);
  for (const int threads : {1, 2, 3}) {
    const KeepThreads before;
    set_num_threads(threads);
    const std::vector<Tensor> at_once = run(true);
    for (std::size_t i = 0; i < at_once.size(); ++i) CHECK(equal(at_once[i], one_by_one[i]));
  }
}

TEST_CASE("a step of many Variables names the one at fault and changes none") {
  std::vector<Variable> x, m, v;
  for (auto* list : {&x, &m, &v})
    for (int i = 0; i < 3; ++i) list->emplace_back("x", ones({2}));
  const Tensor g = ones({2});
  check_refused<Error>([&] { sgd_update(x, std::vector{g}, 0.1); },
                       "sgd_update: x: expected as many as gradients, 1, got 3");
  check_refused<Error>(
      [&] {
        momentum_update(x, std::span(m).first(2), std::vector{g, g, g}, 0.1);
      },
      "momentum_update: velocity: expected as many as gradients, 3, got 2");
  check_refused<Error>(
      [&] {
        sgd_update(x, std::vector{g, Tensor(), g}, 0.1);
      },
      "gradient 1: expected a tensor, got an undefined Tensor");
  check_refused<ShapeError>(
      [&] {
        adam_update(x, m, v, std::vector{g, g, ones({3})}, 0.1, 1);
      },
      "gradient 2: expected the Variable's shape (2,), got (3,)");
  check_refused<Error>(
      [&] {
        adam_update(x, m, std::vector{v[0], x[2], v[2]}, std::vector{g, g, g}, 0.1, 1);
      },
      "x 2: expected a Variable of its own, got the same Variable as v 1");
  check_refused<Error>([&] { adam_update(x, m, v, std::vector{g, g, g}, 0.1, 0); }, "step");
  check_refused<DTypeError>(
      [&] {
        adam_update(x, m, v, std::vector{g, g, g}, 0.1, 1.5);
      },
      "adam_update: step: expected int32 or int64, got float32");
  check_refused<Error>(
      [&] {
        adam_update(x, m, v, std::vector{g, g, g}, 0.1, Tensor());
      },
      "adam_update: step: expected a number, got an undefined Tensor");
  check_refused<Error>(
      [&] {
        sgd_update(x, std::vector{g, g, g}, 1e300);
      },
      "sgd_update: rate: expected a finite number");
  check_refused<Error>(
      [&] {
        amsgrad_update(x, m, v, v, std::vector{g, g, g}, 0.1, 1);
      },
      "largest 0: expected a Variable of its own, got the same Variable as v 0");
  const std::vector most = {Variable("most", g)}, one = {x[0]}, means = {m[0]}, squares = {v[0]};
  const std::vector slope = {g};
  check_refused<DTypeError>([&] { amsgrad_update(one, means, squares, most, slope, 0.1, 1.5); },
                            "amsgrad_update: step: expected int32 or int64, got float32");
  check_refused<Error>(
      [&] {
        rmsprop_update(x, v, std::vector{g, g, g}, -1);
      },
      "rmsprop_update: rate: expected 0 or more, got -1");
  check_refused<Error>(
      [&] {
        adagrad_update(x, v, std::vector{g, g, g}, 1, {.epsilon = std::nan("")});
      },
      "adagrad_update: epsilon: expected a finite number");
  check_refused<ShapeError>(
      [&] {
        average_update(x, std::vector{g, g, ones({3})}, 1);
      },
      "average_update: value 2: expected the Variable's shape (2,), got (3,)");
  for (const auto* list : {&x, &m, &v})
    for (const Variable& untouched : *list) CHECK(equal(untouched, g));
}

TEST_CASE("a gradient that is a view, or the Variable itself, is read before it is written") {
  Variable x("x", tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}));
  sgd_update(x, transpose(x.value()), 1);
  CHECK(equal(x, tensor({{0.0f, -1.0f}, {1.0f, 0.0f}})));
  sgd_update(x, x, 0.5);
  CHECK(equal(x, tensor({{0.0f, -0.5f}, {0.5f, 0.0f}})));
  sgd_update(x, broadcast_to(tensor({1.0f}), {2, 2}), 1);
  CHECK(equal(x, tensor({{-1.0f, -1.5f}, {-0.5f, -1.0f}})));
}

TEST_CASE("steps are no ops for tapes") {
  Variable x("x", ones({2}));
  GradientTape tape;
  const Tensor y = x * x;
  sgd_update(x, y, 0.5);
  CHECK(tape.ops().size() == 1);
  CHECK(equal(tape.gradient(y, x), full({2}, 2.0f)));
}

TEST_CASE("steps refuse what does not fit and change nothing") {
  Variable x("x", ones({2, 3})), m("m", ones({2, 3})), v("v", ones({2, 3}));
  Variable wide("wide", ones({2, 3}, {.dtype = DType::float64})), whole("n", tensor({1, 2}));
  const Tensor g = ones({2, 3});
  check_refused<ShapeError>([&] { sgd_update(x, ones({3}), 0.1); },
                            "sgd_update: gradient: expected the Variable's shape (2, 3), got (3,)");
  check_refused<ShapeError>([&] { sgd_update(x, g, ones({2})); }, "sgd_update: rate: expected one");
  check_refused<DTypeError>([&] { sgd_update(x, ones_like(wide), 0.1); },
                            "gradient: expected the Variable's float32, got float64");
  check_refused<DTypeError>([&] { sgd_update(whole, tensor({1, 2}), 1); }, "sgd_update: x");
  check_refused<DTypeError>([&] { momentum_update(x, wide, g, 0.1); }, "momentum_update: velocity");
  check_refused<ShapeError>(
      [&] {
        adam_update(x, m, v, g, 0.1, tensor({1, 2}));
      },
      "step: expected one");
  check_refused<DTypeError>([&] { adam_update(x, m, v, g, 0.1, 1.0); }, "adam_update: step");
  check_refused<Error>([&] { momentum_update(x, x, g, 0.1); },
                       "velocity: expected a Variable of its own, got the same Variable as x");
  check_refused<Error>([&] { adam_update(x, m, m, g, 0.1, 1); },
                       "v: expected a Variable of its own");
  check_refused<Error>([&] { sgd_update(x, Tensor(), 0.1); }, "an undefined Tensor");
  check_refused<Error>([&] { sgd_update(x, g, Tensor()); }, "rate: expected a number");
  check_refused<Error>([&] { momentum_update(x, m, g, 0.1, {.momentum = NAN}); },
                       "momentum: expected a finite number");
  check_refused<Error>([&] { adam_update(x, m, v, g, 0.1, 1, {.beta1 = INFINITY}); },
                       "beta1: expected a finite number");
  check_refused<Error>(
      [&] {
        sgd_update(std::vector{x, x}, std::vector{g, g}, 0.1);
      },
      "x 1: expected a Variable of its own, got the same Variable as x 0");
  check_refused<DTypeError>(
      [&] {
        sgd_update(std::vector{x, whole}, std::vector{g, tensor({1, 2})}, 0.1);
      },
      "x 1: expected a floating dtype, got int32");
  for (const Variable& untouched : {x, m, v}) CHECK(equal(untouched, g));
}
}  // namespace reel::tests
