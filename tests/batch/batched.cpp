// SPDX-License-Identifier: BSD-3-Clause
// batched() beside a loop over the examples.
#include <cmath>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "batch/trees.hpp"
#include "support/catch.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
void check_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(allclose(a[i], b[i], {.rtol = 1e-4, .atol = 1e-5}));
}
}  // namespace

TEST_CASE("forests have the values and gradients of a loop, with decisions on values too") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    seed(static_cast<std::uint64_t>(round));
    TreeModel model;
    model.decides = round % 2;
    const auto weights = parameters(model);
    std::vector<Tree> forest;
    for (int i = 0; i < 1 + round % 9; ++i)
      forest.push_back(grow(random, 1 + static_cast<int>(random() % 9)));
    std::vector<Tensor> one_by_one, together;
    GradientTape loop, tape;
    for (const Tree& tree : forest) one_by_one.push_back(model(tree));
    const auto expected =
        loop.gradient(sum(square(concat(one_by_one))), weights, Unconnected::zero);
    together = batched(forest, [&](const Tree& tree) { return model(tree); });
    const auto found = tape.gradient(sum(square(concat(together))), weights, Unconnected::zero);
    check_alike(together, one_by_one);
    check_alike(found, expected);
  }
}

TEST_CASE("copies of one tree launch as many kernels as one") {
  std::mt19937 random(3);
  const Tree tree = grow(random, 8);
  const TreeModel model;
  batched(std::vector<Tree>(2, tree), model);
  const std::int64_t one = batching_report().launches;
  batched(std::vector<Tree>(25, tree), model);
  const BatchingReport report = batching_report();
  CHECK(report.launches == one);
  CHECK(report.examples == 25);
  CHECK(report.calls > 25 * 20);
  for (const BatchedOp& op : report.ops) CHECK(op.alone == 0);
  CHECK(to_string(report).find("tree_lstm_gates") != std::string::npos);
}

namespace {
/// A program of random ops, among them reads that decide what comes next.
Tensor random_program(std::uint32_t number, const Tensor& x, const Variable& w, const Variable& v) {
  std::mt19937 random(number);
  std::vector<Tensor> made{x};
  const auto any = [&] { return made[random() % made.size()]; };
  for (int step = 0; step < 14; ++step) {
    const Tensor a = any(), b = any();
    switch (random() % 13) {
      case 0:
        made.push_back(tanh(matmul(a, w)));
        break;
      case 1:
        made.push_back(a * b);
        break;
      case 2:
        made.push_back(a + v);
        break;
      case 3:
        made.push_back(softmax(a));
        break;
      case 4:
        made.push_back(concat({a(range(0, 2)), b(range(2, 4))}));
        break;
      case 5:
        made.push_back(a - mean(b));
        break;
      case 6:
        made.push_back(where(a > b, a, b * 0.5));
        break;
      case 7:
        made.push_back(stack({sum(a), max(b), a(0), b(-1)}));
        break;
      case 8:
        made.push_back(reshape(transpose(reshape(a, {2, 2})), {4}));
        break;
      case 9:
        made.push_back(take(a, argsort(b)));
        break;
      case 10:
        if (sum(a).item<float>() > 0.1f) made.push_back(a * 0.7);
        break;
      case 11:
        for (int i = 0; i < 3 && bool(max(made.back()) > 0.3); ++i)
          made.push_back(made.back() * 0.5);
        break;
      default:
        made.push_back(cumsum(a) * 0.3);
        break;
    }
  }
  return made.back() + tanh(made[made.size() / 2]);
}
}  // namespace

TEST_CASE("random programs have the values and gradients of a loop") {
  for (std::uint32_t number = 0; number < 200; ++number) {
    INFO("program " << number);
    seed(number);
    const Variable w("w", random::normal({4, 4})), v("v", random::normal({4}));
    std::vector<Tensor> inputs;
    for (int i = 0; i < 6; ++i) inputs.push_back(random::normal({4}));
    // Pairs of examples have the same ops.
    const auto program = [&](std::size_t i) {
      return random_program(number * 100 + static_cast<std::uint32_t>(i / 2), inputs[i], w, v);
    };
    const std::vector<std::size_t> numbers{0, 1, 2, 3, 4, 5};
    GradientTape loop, tape;
    for (const Tensor& x : inputs) {
      loop.watch(x);
      tape.watch(x);
    }
    std::vector<Tensor> one_by_one;
    for (const std::size_t i : numbers) one_by_one.push_back(program(i));
    const Tensor by_loop = sum(square(stack(one_by_one)));
    const auto together = batched(numbers, program);
    const Tensor at_once = sum(square(stack(together)));
    check_alike(together, one_by_one);
    check_alike(tape.gradient(at_once, {w, v, inputs[0], inputs[5]}, Unconnected::zero),
                loop.gradient(by_loop, {w, v, inputs[0], inputs[5]}, Unconnected::zero));
  }
}

TEST_CASE("if examples throw, the others finish, and the first exception leaves") {
  struct Stop : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  const Variable w("w", ones({2}));
  std::vector<int> finished;
  const auto f = [&](int i) {
    const Tensor y = w * i;
    if (sum(y).item<float>() > 100) throw Stop("never");
    if (i == 3 || i == 1) throw Stop(std::to_string(i));
    finished.push_back(i);
    return y;
  };
  std::string what;
  try {
    batched(std::vector<int>{0, 1, 2, 3, 4}, f);
  } catch (const Stop& stop) {
    what = stop.what();
  }
  CHECK(what == "1");
  CHECK(finished == std::vector<int>{0, 2, 4});
  CHECK(batching_report().failed == 1);
  // Everything is as before.
  CHECK(batched(std::vector<int>{2}, f)[0].to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("an error of one example's op leaves the others as they are") {
  const Variable table("table", arange(0, 6).to(float32).reshape({3, 2}));
  std::vector<float> seen;
  const auto f = [&](std::int64_t row) {
    const Tensor y = take(table, tensor({row}));
    seen.push_back(sum(y).item<float>());
    return y;
  };
  const std::string text = error_text([&] { batched(std::vector<std::int64_t>{0, 7, 2}, f); });
  CHECK(text.find("batched.cpp:") == 0);
  CHECK(text.find("take") != std::string::npos);
  CHECK(seen == std::vector<float>{1, 9});
  // Also where f does not read what fails.
  CHECK_THROWS_AS(batched(std::vector<std::int64_t>{0, 7},
                          [&](std::int64_t row) { return take(table, tensor({row})); }),
                  IndexError);
}

TEST_CASE("exceptions may be caught, and values read, inside of a handler") {
  const Variable w("w", ones({2}));
  const auto found = batched(std::vector<int>{1, 2, 3}, [&](int i) {
    try {
      if (sum(w * i).item<float>() > 3) throw std::runtime_error("large");
      return w * i;
    } catch (const std::runtime_error&) {
      try {
        throw std::logic_error("inner");
      } catch (const std::logic_error& inner) {
        const float total = sum(w * (10 * i)).item<float>();  // waits in two handlers
        CHECK(std::string(inner.what()) == "inner");
        return w * total;
      }
    }
  });
  CHECK(found[0].to_vector<float>() == std::vector<float>{1, 1});
  CHECK(found[1].to_vector<float>() == std::vector<float>{40, 40});
  CHECK(found[2].to_vector<float>() == std::vector<float>{60, 60});
  CHECK(std::uncaught_exceptions() == 0);
}

namespace {
float depth_of(const Variable& w, int depth) {
  if (depth == 0) return 0;
  const Tensor x = w * static_cast<float>(depth % 7);
  return depth_of(w, depth - 1) + (x.rank() ? 1.0f : 0.0f);
}
}  // namespace

TEST_CASE("a recursion that is too deep is an error that names its example") {
  const Variable w("w", ones({1}));
  std::vector<int> finished;
  const auto f = [&](int depth) {
    const float found = depth_of(w, depth);
    finished.push_back(depth);
    return found;
  };
  const std::string text = error_text([&] { batched(std::vector<int>{10, 100'000, 20}, f); });
  CHECK(text.find("example 1") != std::string::npos);
  CHECK(text.find(".stack") != std::string::npos);
  CHECK(finished == std::vector<int>{10, 20});
  CHECK(batched(std::vector<int>{100'000, 1}, f, {.stack = std::size_t{1} << 28})[0] == 100'000);
}

TEST_CASE("errors name their example, where f calls and where launches compute") {
  const nn::Embedding words(5, 3);
  const auto error_of = [](const auto& f) {
    return error_text([&] { batched(std::vector<int>{1, 2, 9, 3}, f); });
  };
  const char* const named = "\n  in example 2 of batched()\n  at ";
  const std::string late = error_of([&](int i) { return words(tensor({i})); });
  CHECK(late.find("expected an index in [-5, 5), got 9") != late.npos);
  CHECK(late.find(named) != late.npos);
  CHECK(batching_report().failed == 2);
  CHECK(to_string(batching_report()).find("example 2 threw first\n") != std::string::npos);
  const std::string early = error_of([&](int i) {
    return matmul(ones({2, i == 9 ? 4 : 3}), ones({3, 2}));
  });
  CHECK(early.find(named) != early.npos);
  // Neither a single function nor what comes after has an example.
  const std::string alone = error_text([] {
    parallel([] { return exp(ones({2})); }, [] { return matmul(ones({2, 2}), ones({3, 3})); });
  });
  CHECK(alone.find("in example") == alone.npos);
  CHECK(error_text([] {
          matmul(ones({2, 2}), ones({3, 3}));
        }).find("in example") == std::string::npos);
}

TEST_CASE("examples draw random numbers of their own, whatever the others do") {
  const auto draw = [](int i) {
    const Tensor first = random::normal({2});
    if (i % 2) static_cast<void>(sum(first).item<float>());
    return first + random::normal({2});
  };
  seed(5);
  const auto a = batched(std::vector<int>{0, 1, 2, 3}, draw);
  const auto next = batched(std::vector<int>{0, 1, 2, 3}, draw);
  seed(5);
  const auto b = batched(std::vector<int>{0, 1}, draw);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(a[i].to_vector<float>() == b[i].to_vector<float>());
    CHECK(a[i].to_vector<float>() != next[i].to_vector<float>());
  }
  CHECK(a[0].to_vector<float>() != a[2].to_vector<float>());
  seed(5);
  CHECK(batched(std::vector<int>{0}, draw)[0].to_vector<float>() == a[0].to_vector<float>());
}

TEST_CASE("results are structs, numbers and tensors without ops; no example is no result") {
  struct Pair {
    Tensor x;
    float y;
  };
  const Variable w("w", full({2}, 3.0f));
  const auto pairs = batched(std::vector<int>{1, 2}, [&](int i) {
    const Tensor x = w * i;
    return Pair{x, sum(x).item<float>()};
  });
  CHECK(pairs[1].x.to_vector<float>() == std::vector<float>{6, 6});
  CHECK(pairs[1].y == 12);
  CHECK(batched(std::vector<int>{}, [&](int) { return w.value(); }).empty());
  CHECK(batched(std::vector<int>{7}, [](int i) { return i; }) == std::vector<int>{7});
  // What f leaves elsewhere has its elements, and its place on the tape, too.
  std::vector<Tensor> kept;
  GradientTape tape;
  batched(std::vector<int>{1, 2}, [&](int i) {
    kept.push_back(w * i);
    return 0;
  });
  CHECK(tape.gradient(sum(kept[0] * kept[1]), w).to_vector<float>() == std::vector<float>{12, 12});
}

TEST_CASE("a Variable that f reads as a tensor has its gradient") {
  const Variable w("w", full({2}, 3.0f));
  const Tensor x = full({2}, 2.0f);
  GradientTape tape;
  tape.watch(x);
  const auto found = batched(std::vector<int>{1, 2}, [&](int i) {
    const Tensor value = w.value();
    return value * x * i + value(0);
  });
  const auto slopes = tape.gradient(sum(concat(found)), {GradientSource(w), GradientSource(x)});
  CHECK(slopes[0].to_vector<float>() == std::vector<float>{10, 6});
  CHECK(slopes[1].to_vector<float>() == std::vector<float>{9, 9});
}

TEST_CASE("values of several Variables that f reads as tensors are their own") {
  const Variable w("w", ones({2})), u("u", full({2}, 5.0f)), m("m", ones({2, 2}));
  const Tensor x = ones({2}), five = full({2, 2}, 5.0f);
  const std::vector<int> two{0, 1};
  const auto sums = batched(two, [&](int) {
    Tensor a = x * w.value();
    return a + x * u.value();
  });
  CHECK(sums[1].to_vector<float>() == std::vector<float>{6, 6});
  const auto rows = batched(two, [&](int) {
    { const Tensor value = m.value(); }
    const Tensor row = five(0);
    return row * 2.0f;
  });
  CHECK(rows[1].to_vector<float>() == std::vector<float>{10, 10});
  // What f returns of a Variable is on the tape.
  GradientTape tape;
  const auto values = batched(two, [&](int) { return w.value(); });
  CHECK(tape.gradient(sum(values[0] + values[1]), w).to_vector<float>() ==
        std::vector<float>{2, 2});
}

TEST_CASE("0 and -0 are two numbers, and an undefined tensor is an error of its op") {
  const Variable w("w", tensor({1.0f, -2.0f}));
  const auto found = batched(std::vector<double>{0.0, -0.0}, [&](double d) { return w / d; });
  CHECK(found[0](0).item<float>() > 0);
  CHECK(found[1](0).item<float>() < 0);
  const std::vector<int> two{0, 1};
  check_refused<Error>([&] { batched(two, [&](int) { return w * 1.0f + Tensor(); }); },
                       "undefined Tensor");
}

TEST_CASE("a kernel of the user runs for each example, with its elements") {
  register_kernel("sinh", [](const OpCall& call) { return Tensors(call.input(0) * 100.0f); });
  const Variable w("w", tensor({0.0f, 1.0f}));
  const auto found =
      batched(std::vector<int>{0, 1}, [&](int i) { return sinh(w * static_cast<float>(i + 1)); });
  const Tensor rows = vmap([&](Tensor r) { return sinh(r * 1.0f); })(ones({2, 2}));
  CHECK(found[1].to_vector<float>() == std::vector<float>{0, 200});
  CHECK(rows.to_vector<float>() == std::vector<float>{100, 100, 100, 100});
}

TEST_CASE("observers around batched() see what each example does") {
  const FiniteScope finite;
  CHECK_THROWS_AS(
      batched(std::vector<int>{1, 0}, [](int i) { return ones({2}) / static_cast<float>(i); }),
      Error);
}

TEST_CASE("functions with gradients of your own run example by example, with these gradients") {
  register_op("batched_cube", [](const OpCall& call) {
    const Tensor x = call.input(0);
    return Tensors(x * x * x);
  });
  register_gradient("batched_cube", [](const OpCall& call, const Tensors& up) {
    return Tensors(up[0] * call.input(0) * 100.0f);
  });
  const Variable w("w", tensor({1.0f, 2.0f}));
  for (const std::size_t examples : {1u, 2u, 5u}) {
    const auto f = [&](std::size_t i) {
      const Tensor x = w * static_cast<float>(i + 1), held = stop_gradient(x + 1.0f);
      const auto own = custom_gradient([&](Tensor y) {  // reads what the batch has not computed
        return std::pair(y * y + held, [y](Tensor up) { return up * y * 5.0f; });
      });
      const Tensor values = own(w.value());
      return own(x) + call_op("batched_cube", {x}) + values * 0.5f;
    };
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < examples; ++i) all.push_back(i);
    GradientTape loop, tape;
    std::vector<Tensor> expected;
    for (const std::size_t i : all) expected.push_back(f(i));
    const auto found = batched(all, f);
    CHECK(allclose(stack(found), stack(expected)));
    CHECK(allclose(tape.gradient(sum(stack(found)), w), loop.gradient(sum(stack(expected)), w)));
  }
  const auto own = custom_gradient([](Tensor x) {
    if (sum(x).item<float>() > 4) throw std::runtime_error("large");
    return std::pair(x, [](Tensor up) { return up; });
  });
  int caught = 0;
  batched(std::vector<int>{1, 2}, [&](int i) {
    try {
      return own(w * i);
    } catch (const std::runtime_error&) {
      ++caught;
      return w * 0;
    }
  });
  CHECK(caught == 1);
  GradientTape tape;
  check_refused<Error>(
      [&] {
        vmap([&](Tensor r) { return checkpoint([&](Tensor q) { return q * w; })(r); })(
            ones({3, 2}));
      },
      "outside of vmap()");
}

TEST_CASE("batched() refuses updates, another batched() and small stacks") {
  Variable w("w", ones({2}));
  const std::vector<int> two{1, 2};
  check_refused<Error>([&] { batched(two, [&](int i) { return w.assign_add(i), i; }); },
                       "no update inside of batched()");
  CHECK(w.value().to_vector<float>() == std::vector<float>{1, 1});
  check_refused<Error>(
      [&] { batched(std::vector<int>{1}, [&](int i) { return w.assign_add(i), i; }); },
      "no update inside of batched()");
  w.assign(ones({2}));
  check_refused<Error>(
      [&] { batched(two, [&](int) { return batched(two, [&](int i) { return w * i; }).size(); }); },
      "inside of another");
  check_refused<Error>([&] { batched(two, [&](int i) { return w * i; }, {.stack = 1000}); },
                       "65536");
}

TEST_CASE("modes of the thread hold in f: training, autocast, dtypes", "[threads]") {
  const Variable w("w", ones({4, 4}));
  const TrainScope evaluating(false);
  const auto modes = batched(std::vector<int>{0, 1}, [](int) { return training(); });
  CHECK(modes == std::vector<bool>{false, false});
  const AutocastScope half({bfloat16});
  const auto products = batched(std::vector<int>{0, 1}, [&](int i) {
    return matmul(full({2, 4}, i), w);
  });
  CHECK(products[0].dtype() == bfloat16);
  // Several threads have batches of their own.
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Variable own("own", full({3}, static_cast<float>(t)));
      for (int round = 0; round < 5; ++round)
        for (const Tensor& y : batched(std::vector<int>{1, 2, 3}, [&](int i) {
               const Tensor x = own * i;
               return sum(x).item<float>() >= 0 ? x : x * 0;
             }))
          sums[static_cast<std::size_t>(t)] += sum(y).item<float>();
    });
  for (std::thread& each : threads) each.join();
  for (int t = 0; t < 4; ++t)
    CHECK(sums[static_cast<std::size_t>(t)] == 90.0f * static_cast<float>(t));
}
}  // namespace reel::tests
