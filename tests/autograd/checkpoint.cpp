// SPDX-License-Identifier: BSD-3-Clause
// checkpoint(): the gradients of the function without it, from a second run.
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr TensorOptions wide{.dtype = DType::float64};
Tensor numbers(Shape shape) { return random::normal(shape, {.dtype = DType::float64}); }

struct Block {
  Variable w{"w", numbers({4, 4})}, b{"b", numbers({4})};
  Tensor operator()(Operand x) const { return tanh(matmul(tanh(x), w) + b) * x; }
  REEL_FIELDS(w, b)
};
void require_alike(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(allclose(a[i], b[i], {.rtol = 1e-10, .atol = 1e-12}));
}
}  // namespace

TEST_CASE(
    "a checkpoint has the gradients of its function: arguments, Variables, captured tensors") {
  const Block block;
  const Tensor x = numbers({3, 4}), start = numbers({3, 4});
  const auto all = [&](bool checkpoints) {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    tape.watch(start);
    const Tensor seen = start * start;  // made by the tape, and captured
    const Tensor read = block.b;        // another header of a Variable
    const auto f = [&](Tensor t) { return block(t) * seen + exp(block(t) * 0.1 + read) * start; };
    const Tensor y = checkpoints ? checkpoint(f)(x) : f(x);
    const Tensor loss = sum(square(y)) + sum(seen * x);
    std::vector<Tensor> found = tape.gradient(loss, {x, start, seen, block.w, block.b});
    const std::vector<Tensor> again = tape.gradient(loss, {x, start, seen, block.w, block.b});
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(equal(found[i], again[i]));
    found.push_back(loss);
    return found;
  };
  require_alike(all(true), all(false));
}

TEST_CASE("a checkpoint leaves one record, and keeps only what its function reads") {
  const Tensor x = ones({100, 100});
  const auto f = [](Tensor t) {
    for (int i = 0; i < 10; ++i) t = tanh(t) * t;
    return t;
  };
  GradientTape plain, lean;
  plain.watch(x);
  const Tensor y = f(x);
  const auto kept = plain.memory().bytes;
  CHECK(plain.gradient(y, x).defined());
  lean.watch(x);
  const Tensor z = checkpoint(f)(x);
  REQUIRE(lean.ops().size() == 1);
  CHECK(lean.ops()[0].name == "checkpoint");
  CHECK(lean.memory().bytes == 0);  // x is watched, and is held by the test
  CHECK(kept >= 10 * 40000);
  GradientTape other;
  other.watch(x);
  CHECK(allclose(lean.gradient(z, x), other.gradient(f(x), x)));
}

TEST_CASE("a chain of checkpoints holds the values inside one of them at a time", "[cpu]") {
  const Tensor x = random::normal({64, 64});
  const auto f = [](Tensor t) {
    for (int i = 0; i < 8; ++i) t = sin(t) + t;
    return t;
  };
  const auto live = [] { return memory_statistics().live_bytes; };
  std::int64_t most = 0;
  const auto watching = custom_gradient([&](Tensor t) {
    most = std::max(most, live());
    return std::pair(t, [](Tensor up) { return up; });
  });
  const std::int64_t before = live(), each = 64 * 64 * 4;
  const auto peak = [&](auto&& g) {
    most = 0;
    GradientTape tape;
    tape.watch(x);
    Tensor t = x;
    for (int i = 0; i < 16; ++i) t = watching(g(t));
    const Tensor slope = tape.gradient(sum(t), x);
    return (most - before) / each;
  };
  const auto plain = peak(f), lean = peak(checkpoint(f));
  CHECK(plain >= 16 * 8);
  CHECK(lean <= 40);
}

TEST_CASE("a checkpoint without a tape is its function") {
  const auto twice = checkpoint([](Tensor t) { return t * 2; });
  const auto before = memory_statistics().live_records;
  CHECK(equal(twice(tensor({1.0f, 2.0f})), tensor({2.0f, 4.0f})));
  CHECK(equal(twice(3.0), tensor(6.0f)));
  CHECK(memory_statistics().live_records == before);
}

TEST_CASE("the second run draws the same numbers in the same mode, and writes nothing") {
  nn::BatchNorm norm(4);
  nn::Dropout dropout(0.5);
  const Generator own(7);
  const Tensor x = random::normal({6, 4});
  int runs = 0;
  bool trained = false;
  const auto f = [&](Tensor t) {
    ++runs;
    trained = training();
    Tensor y = dropout(norm(t * 2));
    const GeneratorScope scope(own);
    return y * dropout(t) + random::normal({6, 4}) * t;
  };
  const auto run = [&](bool checkpoints, bool trains) {
    seed(11);
    Generator state = own;
    state.set_position(0);
    assign(norm, nn::BatchNorm(4));
    GradientTape tape;
    tape.watch(x);
    Tensor y;
    {
      const TrainScope mode(trains);
      y = checkpoints ? checkpoint(f)(x) : f(x);
    }
    const std::uint64_t position = thread_generator().position(), other = own.position();
    std::vector<Tensor> found = {tape.gradient(sum(square(y)), x), y};
    CHECK(trained == trains);
    CHECK(thread_generator().position() == position);
    CHECK(own.position() == other);
    for (const Variable& each : buffers(norm)) found.push_back(each.value() * 1.0);
    return found;
  };
  for (const bool trains : {true, false}) {
    runs = 0;
    const auto expected = run(false, trains);
    CHECK(runs == 1);
    const auto found = run(true, trains);
    CHECK(runs == 3);
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(allclose(found[i], expected[i], {.rtol = 1e-5, .atol = 1e-6}));
  }
}

TEST_CASE("the second run reads the values that Variables had at the first") {
  Variable w("w", tensor({2.0, 3.0}));
  GradientTape tape({.persistent = true});
  const Tensor y = checkpoint([&](Tensor t) { return sum(w * w * t); })(tensor({1.0, 10.0}));
  w.assign(100.0);
  CHECK(equal(tape.gradient(y, w), tensor({4.0, 60.0})));
  CHECK(equal(tape.gradient(y + sum(w * w.value()), w), tensor({204.0, 260.0})));
  CHECK(equal(w.value(), tensor({100.0, 100.0})));
}

TEST_CASE("a Variable that a function reads, writes and reads again has both values again") {
  Variable w("w", tensor({2.0, 3.0})), count("count", tensor(0.0));
  const Tensor x = tensor({1.0, 10.0});
  const auto f = [&](Tensor t) {
    const Tensor first = w * t;
    w.assign_add(first);
    const Tensor second = w * w * t;
    w.assign(t);
    count.assign(count + 1.0);
    return first + second + w * t * count;
  };
  const auto run = [&](const auto& g) {
    w.assign(tensor({2.0, 3.0}));
    GradientTape tape;
    tape.watch(x);
    const Tensor y = g(x);
    std::vector<Tensor> found = tape.gradient(y, {x, w});
    found.push_back(y);
    found.push_back(w * 1.0);
    return found;
  };
  const auto expected = run(f);
  count.assign(0.0);
  const auto found = run(checkpoint(f));
  for (std::size_t i = 0; i < 4; ++i) CHECK(equal(found[i], expected[i]));
  CHECK(count.value().item<float>() == 1);
}

TEST_CASE("second derivatives through checkpoints: inside, outside, and several deep") {
  const Block block;
  const Tensor x = numbers({2, 4});
  const auto f = [&](Tensor t) { return sum(square(block(t) * t)); };
  const auto g = checkpoint(f);
  CHECK(allclose(jacobian(grad(g), x), jacobian(grad(f), x), {.rtol = 1e-9, .atol = 1e-10}));
  const auto deep = checkpoint([&](Tensor t) {
    return sum(checkpoint([&](Tensor u) { return block(u) * u; })(t) * sin(t));
  });
  const auto flat = [&](Tensor t) { return sum(block(t) * t * sin(t)); };
  CHECK(allclose(jacobian(grad(deep), x), jacobian(grad(flat), x), {.rtol = 1e-9, .atol = 1e-10}));
  // A gradient penalty for the Variables, and a gradient inside the checkpoint.
  const auto penalty = [&](const auto& h) {
    GradientTape outer, inner;
    inner.watch(x);
    const Tensor slope = inner.gradient(h(x), x);
    return outer.gradient(sum(square(slope)), parameters(block));
  };
  require_alike(penalty(g), penalty(f));
  require_alike(penalty(checkpoint([&](Tensor t) { return sum(square(grad(f)(t))); })),
                penalty([&](Tensor t) { return sum(square(grad(f)(t))); }));
  CHECK(allclose(hvp(g, x, x), hvp(f, x, x), {.rtol = 1e-9, .atol = 1e-10}));
}

TEST_CASE("results of a checkpoint may be structs, lists and pairs, of which some are not used") {
  nn::LSTM lstm{3, 4};
  const Tensor x = random::normal({5, 2, 3});
  const auto run = [&](auto&& f) {
    GradientTape tape;
    const auto out = f(x);
    std::vector<Tensor> found =
        tape.gradient(sum(out.outputs) + sum(square(out.states[0].c)), parameters(lstm));
    found.push_back(out.outputs);
    return found;
  };
  const auto f = [&](Tensor t) { return lstm(t); };
  const auto found = run(checkpoint(f)), expected = run(f);
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(allclose(found[i], expected[i], {.rtol = 1e-4, .atol = 1e-5}));
  const Tensor p = tensor({1.0, 2.0});
  const auto pairs = checkpoint([](Tensor a, Tensor b) {
    return std::pair(std::vector<Tensor>{a * b, argmax(a)}, a + b);
  });
  GradientTape tape({.persistent = true});
  tape.watch(p);
  const auto [list, total] = pairs(p, p * 3);
  CHECK(equal(tape.gradient(list[0], p), 6 * p));
  CHECK(equal(tape.gradient(total, p), tensor({4.0, 4.0})));
  CHECK(equal(tape.gradient(sum(total) + sum(list[0]), p), 6 * p + 4));
  CHECK(list[1].item<std::int64_t>() == 1);
}

TEST_CASE("each result of a checkpoint adds to the gradient, whichever of them a loss uses") {
  const Variable w("w", numbers({3})), b("b", random::normal({3}));
  const Tensor x = numbers({3});
  const auto f = [&](const Tensor& t) {
    return std::vector<Tensor>{t * w, w * w * w, (t * b).to(DType::float32), t + w, exp(t * w)};
  };
  for (unsigned used = 1; used < 32; ++used) {
    const auto slopes = [&](const auto& g) {
      GradientTape tape;
      tape.watch(x);
      const std::vector<Tensor> results = g(x);
      Tensor loss = tensor<double>(0);
      for (unsigned i = 0; i < 5; ++i)
        if (used >> i & 1) loss = loss + sum(results[i] * std::pow(10.0, i));
      const auto found = tape.gradient(loss, {x, w, b}, Unconnected::zero);
      return std::vector<Tensor>(found.begin(), found.end());
    };
    INFO("results " << used);
    const auto found = slopes(checkpoint(f)), expected = slopes(f);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(allclose(found[i], expected[i], {.rtol = 1e-5, .atol = 1e-6}));
  }
}

TEST_CASE(
    "what a checkpoint writes and does not read is written once, and is no matter to others") {
  Variable w("w", numbers({3})), count("count", zeros({3}, wide));
  const Tensor x = numbers({3}), value = w.value();
  GradientTape tape;
  const Tensor y = checkpoint([&](const Tensor& t) {
    count.assign(t);
    count.assign(t * 2);
    return t * w * w;
  })(x);
  w.assign(0);
  CHECK(allclose(tape.gradient(y, w), 2 * x * value));
  CHECK(equal(count, x * 2));
}

TEST_CASE("a checkpoint writes once what it writes under other weights too") {
  const Variable w("w", numbers({3}));
  Variable sum_of("sum", zeros({3}, wide));
  const Tensor x = numbers({3});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = checkpoint([&](const Tensor& t) {
    const WeightScope scope({w}, {w.value() * 2});
    sum_of.assign(sum_of + t);
    return t * w;
  })(x);
  CHECK(equal(sum_of, x));
  sum_of.assign(7);
  CHECK(allclose(tape.gradient(y, x), w * 2));
  CHECK(equal(sum_of, full({3}, 7.0)));
}

TEST_CASE("a checkpoint writes its own Variables at each run, and they are no matter to others") {
  Variable w("w", numbers({3}));
  const Tensor x = numbers({3}), value = w.value();
  GradientTape tape;
  const Tensor y = checkpoint([&](const Tensor& t) {
    Variable own("own", ones({3}, wide));
    own.assign(own + 1);
    own.assign(own + 1);
    return t * w * w * own;
  })(x);
  w.assign(0);
  CHECK(allclose(tape.gradient(y, w), 6 * x * value));
}

TEST_CASE(
    "a checkpoint of constants has no record, and an error of the second run names its line") {
  const Variable w("w", numbers({3}));
  GradientTape tape;
  const auto f = checkpoint([](const Tensor& t) { return std::pair(t * 2, t + 1); });
  const std::int64_t records = memory_statistics().live_records;
  f(numbers({3}));
  CHECK(tape.ops().empty());
  CHECK(memory_statistics().live_records == records);
  int length = 3;
  const Tensor y = checkpoint([&](const Tensor& t) { return t(range(0, length)); })(w * 1);
  length = 2;
  check_refused<TapeError>([&] { tape.gradient(y, w); },
                           "result 0 of checkpoint: expected as in the first run: (3,), got (2,)");
}

TEST_CASE("a checkpoint that does not depend on a source says so") {
  const Tensor x = tensor({1.0, 2.0}), other = tensor({3.0, 4.0});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  tape.watch(other);
  const Tensor y =
      checkpoint([&](Tensor t) { return sum(t * cast(argmax(other), DType::float64)); })(x);
  CHECK(equal(tape.gradient(y, x), tensor({1.0, 1.0})));
  CHECK_THROWS_AS(tape.gradient(y, other), TapeError);
  CHECK(equal(tape.gradient(y, other, Unconnected::zero), tensor({0.0, 0.0})));
}

TEST_CASE("tapes and gradients of one's own inside a checkpoint work on what it captures") {
  const Block block;
  const Tensor x = numbers({2, 4}), start = numbers({2, 4});
  const auto learn = [&](const auto& wrap, const auto& make) {
    GradientTape tape;
    tape.watch(x);
    tape.watch(start);
    const Tensor seen = start * 2;
    const auto f = make(seen);
    return tape.gradient(sum(wrap(f)(x)), {x, start, block.w, block.b}, Unconnected::zero);
  };
  const auto plain = [](const auto& f) { return f; };
  const auto lean = [](const auto& f) { return checkpoint(f); };
  const auto alike = [&](const auto& make) {
    require_alike(learn(lean, make), learn(plain, make));
  };
  const auto stretched = custom_gradient(
      [](Tensor a) { return std::pair(a * a, [a](Tensor up) { return 10 * up * a; }); });
  register_op("test_checkpoint_cube", [](const OpCall& call) {
    const Tensor& a = call.input(0);
    return a * a * a;
  });
  register_gradient("test_checkpoint_cube", [](const OpCall& call, Tensor upstream) {
    return 7 * upstream * call.input(0);
  });
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) { return stretched(seen) * t + stretched(block(t)); };
  });
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) {
      return call_op("test_checkpoint_cube", {seen}) * call_op("test_checkpoint_cube", {block.b}) *
             t;
    };
  });
  // A gradient for a captured tensor, for an argument, and for Variables.
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) {
      return grad([&](Tensor u) { return sum(square(block(u)) * seen * t); })(seen) * block(t);
    };
  });
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) {
      GradientTape inner;
      const Tensor loss = sum(square(block(t)) * seen);
      const auto slopes = inner.gradient(loss, {block.w, block.b});
      return sum(slopes[0] * block.w) + t * slopes[1];
    };
  });
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) {
      return hvp([&] { return sum(block(t) * seen); }, parameters(block),
                 {block.w.value(), block.b.value()})[1] *
             t;
    };
  });
  alike([&](const Tensor& seen) {
    return [&, seen](Tensor t) {
      GradientTape inner({.watch_variables = false});
      inner.watch(seen);
      inner.watch(block.b);
      return t * sum(inner.gradient(block.b * seen * seen, seen)) *
             functional_call(block, {block.w * 2, block.b + seen(0)}, t);
    };
  });
}

TEST_CASE("a function that does something else at the second run is refused") {
  int runs = 0;
  const Tensor x = tensor({1.0f, 2.0f});
  const auto said = [&](const auto& f) {
    runs = 0;
    GradientTape tape;
    tape.watch(x);
    const auto y = checkpoint(f)(x);
    try {
      tape.gradient(y, x);
    } catch (const TapeError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  has(said([&](Tensor t) { return ++runs == 1 ? t * 2 : sum(t); }),
      "result 0 of checkpoint: expected as in the first run: (2,), got ()");
  has(said([&](Tensor t) { return ++runs == 1 ? t * 2 : dropout(t, 0.5); }),
      "random numbers: expected as in the first run: 0 draws, got one more");
  has(said([&](Tensor t) {
        return ++runs == 1 ? sum(dropout(t, 0.5)) : sum(dropout(concat({t, t}), 0.5));
      }),
      "random numbers: expected as in the first run: (2,), got (4,)");
  check_refused<Error>([&] { checkpoint([](Tensor t) { return t; })(Tensor()); },
                       "argument 0: expected a tensor");
  GradientTape tape;
  tape.watch(x);
  check_refused<Error>([&] { checkpoint([](Tensor) { return Tensor(); })(x); },
                       "result: expected a tensor");
}

TEST_CASE("an exception of the second run leaves gradient(), with the line inside the function") {
  int runs = 0;
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  tape.watch(x);
  unsigned line = 0;
  const Tensor y = checkpoint([&](Tensor t) {
    line = __LINE__ + 1;
    return ++runs == 1 ? t * 2 : t + ones({3});
  })(x);
  std::string text;
  try {
    tape.gradient(y, x);
  } catch (const ShapeError& error) {
    text = error.what();
  }
  INFO(text);
  CHECK(text.find("checkpoint.cpp:" + std::to_string(line)) != text.npos);
}

TEST_CASE("checkpoints of several threads share a model") {
  const Block block;
  const Tensor x = numbers({3, 4});
  const auto slopes = [&](const auto& f) {
    GradientTape tape;
    return tape.gradient(sum(f(x)), parameters(block));
  };
  const auto expected = slopes(block);
  std::vector<std::vector<Tensor>> found(4);
  std::vector<std::thread> threads;
  for (auto& place : found)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) place = slopes(checkpoint(block));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& each : found) require_alike(each, expected);
}

TEST_CASE("a traced step may contain checkpoints, with random numbers and without") {
  const Block block;
  for (const bool drops : {false, true}) {
    const auto step = [&](Tensor x, bool checkpoints) {
      GradientTape tape;
      const auto f = [&](Tensor t) {
        const Tensor y = block(t);
        return drops ? dropout(y, 0.5) * t : y;
      };
      const Tensor loss = sum(square(checkpoints ? checkpoint(f)(x) : f(x)));
      std::vector<Tensor> found = tape.gradient(loss, parameters(block));
      found.push_back(loss);
      return found;
    };
    auto traced = trace([&](Tensor x) { return step(x, true); });
    for (int i = 0; i < 5; ++i) {
      const Tensor x = numbers({3, 4});
      seed(static_cast<std::uint64_t>(i));
      const auto expected = step(x, false);
      seed(static_cast<std::uint64_t>(i));
      require_alike(traced(x), expected);
      for (Variable& w : parameters(block)) w.assign_add(0.1);
    }
    INFO(traced.explain());
    CHECK(traced.trace_count() == 1);
  }
}

TEST_CASE("a traced function inside a checkpoint runs eagerly in it") {
  const Block block;
  auto traced = trace([&](Tensor x) { return block(x); });
  const Tensor x = numbers({3, 4});
  for (int i = 0; i < 4; ++i) traced(x);
  const auto f = [&](Tensor t) { return sum(traced(t) * t); };
  CHECK(allclose(grad(checkpoint(f))(x), grad([&](Tensor t) { return sum(block(t) * t); })(x)));
}

TEST_CASE("a checkpoint reads nothing for a tape from what only a paused tape recorded") {
  const Tensor x = tensor({1.0, 2.0}), other = tensor({3.0, 4.0});
  GradientTape first;
  first.watch(other);
  const Tensor seen = other * 2;
  const auto pause = first.pause();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = checkpoint([&](const Tensor& t) { return t * seen; })(x);
  REQUIRE(tape.ops().size() == 1);
  CHECK(tape.ops()[0].inputs.size() == 1);
  CHECK(tape.memory().bytes == 0);
  CHECK(equal(tape.gradient(y, x), tensor({6.0, 8.0})));
}
}  // namespace reel::tests
