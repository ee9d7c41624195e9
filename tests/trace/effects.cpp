// SPDX-License-Identifier: BSD-3-Clause
// Variables, random numbers, tapes and user ops inside of a traced function.
#include <cmath>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/ops/entries.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
TEST_CASE("Variables are read and written in the order of the program") {
  Variable w("w", full({2}, 1.0f));
  auto traced = trace([&](Tensor x) {
    const Tensor before = w;
    w.assign_add(x);
    const Tensor between = w * 10;
    w.assign(w * 2);
    w(0).assign(100);
    return std::vector<Tensor>{before, between, w.value()};
  });
  float value = 1, first = 1;
  for (int i = 0; i < 6; ++i) {
    const std::vector<Tensor> got = traced(full({2}, 3.0f));
    CHECK(got[0][1].item<float>() == value);
    CHECK(got[0][0].item<float>() == first);
    CHECK(got[1][1].item<float>() == (value + 3) * 10);
    value = (value + 3) * 2;
    first = 100;
    CHECK(got[2][1].item<float>() == value);
    CHECK(w.value()[1].item<float>() == value);
    CHECK(w.value()[0].item<float>() == 100);
  }
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("a value that someone holds stays as it is") {
  Variable w("w", zeros({3}));
  auto step = trace([&](Tensor x) {
    w.assign_add(x);
    return w.value();
  });
  std::vector<Tensor> held;
  for (int i = 0; i < 5; ++i) held.push_back(step(ones({3})));
  for (int i = 0; i < 5; ++i)
    CHECK(held[static_cast<std::size_t>(i)][0].item<float>() == static_cast<float>(i + 1));
  const Tensor outside = w.value();
  step(ones({3}));
  CHECK(outside[0].item<float>() == 5);
  // The argument is the Variable's own value.
  step(w), step(w);
  CHECK(w.value()[0].item<float>() == 24);
}

TEST_CASE("a Variable is assigned what views it, and from other Variables") {
  Variable w("w", arange(0, 9).reshape({3, 3})), rate("rate", tensor(1.0f)), v("v", zeros({3}));
  auto turn = trace([&] {
    w.assign(transpose(w.value()));
    w.assign_add(w.value()(all, range({}, {}, -1)));
    v.assign_add(broadcast_to(rate, {3}));
  });
  Tensor expected = w;
  float sum = 0;
  for (int i = 0; i < 6; ++i) {
    rate.assign(static_cast<float>(i));
    sum += static_cast<float>(i);
    turn();
    expected = transpose(expected);
    expected = expected + expected(all, range({}, {}, -1));
    CHECK(equal(w, expected));
    CHECK(v.value()[2].item<float>() == sum);
  }
  optim::SGD sgd({v}, {.learning_rate = 0.0});
  auto step = trace([&](Tensor g) { sgd.step({g}); });
  const Tensor before = v;
  for (int i = 0; i < 4; ++i) step(ones({3}));
  CHECK(equal(v, before));
  sgd.learning_rate().assign(2.0f);
  step(ones({3}));
  CHECK(equal(v, before - 2.0f));
  CHECK(turn.trace_count() + step.trace_count() == 2);
  CHECK((turn.explain() + step.explain()).find("eagerly") == std::string::npos);
}

TEST_CASE("a question after a write: what was written is dropped where the answer is new") {
  Variable count("count", zeros({}, {DType::int64})), total("total", zeros({}));
  auto traced = trace([&](Tensor x) {
    count.assign_add(1);
    total.assign_add(x);
    if (total.value() > 10.0f) total.assign(0.0f);
    return total.value();
  });
  float expected = 0;
  for (int i = 0; i < 30; ++i) {
    const float x = static_cast<float>(i % 7);
    expected = expected + x > 10 ? 0 : expected + x;
    CHECK(traced(tensor(x)).item<float>() == expected);
    CHECK(count.value().item<std::int64_t>() == i + 1);
    CHECK(total.value().item<float>() == expected);
  }
  CHECK(traced.trace_count() == 2);
}

TEST_CASE("a question behind a gradient") {
  Variable w("w", ones({3}));
  auto traced = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(w * x, 0), w);
    if (max(slope) > 0.5f) w.assign_sub(slope);
    return w.value();
  });
  Tensor expected = w;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = full({3}, static_cast<float>(i % 3));
    if (i % 3) expected = expected - x;
    CHECK(equal(traced(x), expected));
  }
  CHECK(traced.trace_count() == 2);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("an op that fails after a write leaves what a run leaves", "[cpu]") {
  Variable seen("seen", zeros({}, {DType::int64}));
  const Tensor table = arange(0, 5);
  auto traced = trace([&](Tensor at) {
    seen.assign_add(1);
    Tensor found = take(table, at);
    seen.assign_add(10);
    return found;
  });
  for (int i = 0; i < 3; ++i) traced(tensor({std::int64_t{2}}));
  CHECK(seen.value().item<std::int64_t>() == 33);
  CHECK_THROWS_AS(traced(tensor({std::int64_t{9}})), IndexError);
  CHECK(seen.value().item<std::int64_t>() == 34);
}

TEST_CASE("an update that fails after another leaves what a run leaves", "[cpu]") {
  Variable v("v", zeros({2})), w("w", zeros({2})), rate("rate", tensor<double>(1.0));
  auto step = trace([&](Tensor g) {
    sgd_update(v, g, tensor(1.0f));
    sgd_update(w, g, rate);
  });
  for (int i = 0; i < 4; ++i) step(ones({2}));
  rate.assign(INFINITY);
  CHECK_THROWS_AS(step(ones({2})), Error);
  CHECK(v.value()[0].item<float>() == -5);
  CHECK(w.value()[0].item<float>() == -4);
  rate.assign(1.0);
  step(ones({2}));
  CHECK(v.value()[0].item<float>() == -6);
  CHECK(w.value()[0].item<float>() == -5);
}

TEST_CASE("random ops draw what a run would draw") {
  const auto noise = [](Tensor x) {
    return dropout(x, 0.3) + random::normal({5}) * random::uniform({1});
  };
  auto traced = trace(noise);
  const Tensor x = ones({5});
  for (std::uint64_t s = 0; s < 5; ++s) {
    seed(s);
    const Tensor a = traced(x), b = traced(x), after = random::normal({2});
    seed(s);
    CHECK(equal(a, noise(x)));
    CHECK(equal(b, noise(x)));
    CHECK(equal(after, random::normal({2})));
    const GeneratorScope scope(Generator(s + 100));
    const Tensor c = traced(x);
    const GeneratorScope again(Generator(s + 100));
    CHECK(equal(c, noise(x)));
  }
  CHECK(traced.trace_count() == 1);

  auto own = trace([] {
    const GeneratorScope scope(Generator(3));
    return random::uniform({2});
  });
  const Tensor first = own();
  for (int i = 0; i < 5; ++i) CHECK(equal(own(), first));
}

TEST_CASE("a training step: forward, backward and update in one trace") {
  const auto learn = [](auto make, int steps) {
    seed(2);
    nn::Linear hidden{3, 16}, out{16, 1};
    std::vector<Variable> weights = parameters(hidden);
    for (const Variable& w : parameters(out)) weights.push_back(w);
    optim::Adam adam(weights, {.learning_rate = 0.05});
    auto step = make([&](Tensor x, Tensor y) {
      GradientTape tape;
      const Tensor loss = mean(square(out(tanh(hidden(x))) - y));
      adam.step(optim::clip_by_global_norm(tape.gradient(loss, weights), 1.0));
      return loss;
    });
    float loss = 0;
    for (int i = 0; i < steps; ++i) {
      const Tensor x = random::normal({32, 3});
      loss = step(x, sum(x * x, 1, keepdims)).template item<float>();
    }
    return loss;
  };
  const float eager = learn([](auto f) { return f; }, 60);
  const float traced = learn([](auto f) { return trace(f); }, 60);
  CHECK(traced == Approx(eager).epsilon(1e-3));
  CHECK(traced < 0.5f * learn([](auto f) { return f; }, 1));
}

TEST_CASE("a step of more Variables than a word has bits") {
  const auto learn = [](auto make) {
    const GeneratorScope here(Generator(4));
    std::vector<Variable> weights;
    for (int i = 0; i < 30; ++i) weights.emplace_back("w", random::normal({i % 4 + 1}));
    optim::Adam adam(weights, {.learning_rate = 0.05});
    auto step = make([&](Tensor x) {
      GradientTape tape;
      Tensor loss = x;
      for (const Variable& w : weights) loss = loss + sum(square(w * x));
      const std::vector<Tensor> gradients = tape.gradient(loss, weights);
      const Tensor held = weights[17];  // the step must not write into it
      adam.step(gradients);
      return loss + sum(held - weights[17]);
    });
    std::vector<Tensor> seen;
    for (int i = 0; i < 5; ++i) seen.push_back(step(tensor(1.0f + 0.1f * static_cast<float>(i))));
    seen.insert(seen.end(), weights.begin(), weights.end());
    return seen;
  };
  const auto eager = learn([](auto f) { return f; });
  const auto traced = learn([](auto f) { return trace(f); });
  for (std::size_t i = 0; i < eager.size(); ++i) CHECK(allclose(traced[i], eager[i]));
}

TEST_CASE("an exception behind any op of a call leaves the thread's state as it was") {
  Variable w("w", full({3}, 0.5f));
  static int left = -1;  // a trace does not watch statics
  const auto alive = [] {
    if (left-- == 0) throw std::runtime_error("planted");
  };
  const auto make = [&] {
    return trace([w, alive](Tensor x) mutable {
      GradientTape tape;
      Tensor y = tanh(x * w);
      alive();
      if (sum(y) > 100.0f) y = y * 2;
      alive();
      y = dropout(y, 0.1) + y;
      alive();
      const Tensor slope = tape.gradient(sum(y), w);
      alive();
      w.assign_sub(slope * 0.1f);
      alive();
      return y;
    });
  };
  const Tensor x = full({3}, 2.0f);
  for (const int before : {0, 1, 2, 5}) {  // calls without an error before: capture, check, replay
    for (int k = 0; k < 6; ++k) {
      const auto traced = make();
      for (int i = 0; i < before; ++i) traced(x);
      const ThreadState at_start = state();
      left = k;
      bool threw = false;
      try {
        traced(x);
      } catch (const std::runtime_error&) {
        threw = true;
      }
      CHECK(threw == (before < 3 && k < 5));  // the first two replays are checked
      left = -1;
      ThreadState at_end = state();
      // a replay has made its frame
      if (before == 1) at_end.tensors = at_start.tensors, at_end.bytes = at_start.bytes;
      if (threw) CHECK(at_end == at_start);
      const Tensor value = w;
      traced(x);
      CHECK_FALSE(equal(w, value));
    }
  }
}

TEST_CASE("second derivatives, custom gradients and sequences inside a trace") {
  auto second =
      trace([](Tensor x) { return grad(grad([](Tensor v) { return sum(v * v * v); }))(x); });
  auto custom = custom_gradient(
      [](Tensor x) { return std::pair(x * 2, [x](Tensor dy) { return Tensors{dy * x}; }); });
  auto through = trace([&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(custom(x) * x), x);
  });
  nn::LSTM lstm{3, 4};
  auto sequence = trace([&](Tensor x) {
    GradientTape tape;
    const Tensor y = sum(square(lstm(x).outputs));
    std::vector<Tensor> all = tape.gradient(y, parameters(lstm));
    all.push_back(y);
    return all;
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({5}), words = random::normal({6, 2, 3});
    CHECK(allclose(second(x), 6 * x * ones({5}), {.rtol = 1e-4, .atol = 1e-4}));
    CHECK(allclose(through(x), 2 * x + x * x, {.rtol = 1e-5, .atol = 1e-5}));
    const std::vector<Tensor> got = sequence(words);
    GradientTape tape;
    const Tensor y = sum(square(lstm(words).outputs));
    CHECK(allclose(got.back(), y, {.rtol = 1e-5, .atol = 1e-5}));
    const std::vector<Tensor> expected = tape.gradient(y, parameters(lstm));
    for (std::size_t k = 0; k < expected.size(); ++k)
      CHECK(allclose(got[k], expected[k], {.rtol = 1e-4, .atol = 1e-5}));
  }
  CHECK(second.trace_count() + through.trace_count() + sequence.trace_count() == 3);
}

TEST_CASE("a function that makes Variables runs eagerly; one that does so once is captured later") {
  auto always = trace([](Tensor x) {
    Variable sum("sum", zeros({2}));
    sum.assign_add(x);
    return sum.value() * 2;
  });
  for (int i = 0; i < 5; ++i)
    CHECK(always(full({2}, 1.0f * static_cast<float>(i)))[0].item<float>() ==
          2.0f * static_cast<float>(i));
  CHECK(always.trace_count() == 0);
  CHECK(always.explain().find("it makes a Variable") != std::string::npos);

  std::vector<Variable> slots;
  auto once = trace([&](Tensor x) {
    if (slots.empty()) slots.emplace_back("slot", zeros({2}));
    slots[0].assign_add(x);
    return slots[0].value();
  });
  for (int i = 1; i < 6; ++i) CHECK(once(ones({2}))[0].item<float>() == static_cast<float>(i));
  CHECK(once.trace_count() == 1);
}

TEST_CASE("ops of a user's: functions, gradients, and kernels that come later", "[cpu]") {
  register_op("test_cube", [](const OpCall& call) {
    const Tensor x = call.input(0);
    return x * x * x;
  });
  register_gradient("test_cube", [](const OpCall& call, Tensor upstream) {
    return 3 * upstream * square(call.input(0));
  });
  register_op("test_itself", [](const OpCall& call) { return call.input(0); });
  register_gradient("test_itself", [](const OpCall&, Tensor upstream) { return upstream * 5; });
  auto traced = trace([](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = call_op("test_itself", {call_op("test_cube", {x})});
    return std::vector<Tensor>{y, tape.gradient(sum(y), x)};
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({4});
    const std::vector<Tensor> got = traced(x);
    CHECK(allclose(got[0], x * x * x));
    CHECK(allclose(got[1], 15 * x * x));
  }
  CHECK(traced.trace_count() == 1);
  // Several names for one value: for an argument, and for the result of a pass.
  auto names = trace([](Tensor x) {
    const Tensor same = call_op("test_itself", {x}), cube = call_op("test_cube", {x});
    return std::vector<Tensor>{sum(same), cube, sum(cube * 2 + 1)};
  });
  auto reversed = custom_gradient(
      [](Tensor x) { return std::pair(x, [](Tensor dy) { return Tensors{-dy}; }); });
  auto back = trace([reversed](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(reversed(x) * x), x);
  });
  for (int i = 0; i < 12; ++i) {
    const std::int64_t n = i % 2 ? 5000 : 5;
    const Tensor x = i < 4 ? zeros({n}) : random::uniform({n});
    const std::vector<Tensor> got = names(x);
    CHECK(equal(got[0], sum(x)));
    CHECK(equal(got[1], x * x * x));
    CHECK(equal(got[2], sum(x * x * x * 2 + 1)));
    CHECK(allclose(back(x), zeros({n}), {.atol = 1e-6}));
  }
  CHECK(names.trace_count() + back.trace_count() == 4);
  CHECK((names.explain() + back.explain()).find("agerly") == std::string::npos);

  auto grown = trace([](Tensor x) { return exp(x) + 1; });
  for (int i = 0; i < 3; ++i) CHECK(grown(zeros({2}))[0].item<float>() == 2);
  // A kernel that reads its input on the host becomes one step.
  static int calls = 0;
  register_kernel("exp", [](const OpCall& call) {
    ++calls;
    std::vector<float> values = call.input(0).to_vector<float>();
    for (float& v : values) v = std::exp(v);
    return from_span(values, call.input(0).shape());
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = random::normal({2});
    CHECK(allclose(grown(x), power(2.718281828f, x) + 1));
  }
  CHECK(calls == 5);  // a check does not call it again
  CHECK(grown.trace_count() == 2);
}

TEST_CASE("a user's code inside of a trace: what it reads is no decision") {
  Variable scale("scale", tensor(1.0f));
  static int calls = 0;
  register_op("test_scaled", [&](const OpCall& call) {  // it reads x and a Variable on the host
    ++calls;
    std::vector<float> x = call.input(0).to_vector<float>();
    const float by = scale.value().item<float>();
    for (float& v : x) v *= by;
    return tensor(x);
  });
  register_gradient("test_scaled", [&](const OpCall& call, Tensor upstream) {
    return upstream * (scale + 0.0f * call.input(0));
  });
  register_kernel("log", [](const OpCall& call) {  // it reads all its inputs on the host
    std::vector<float> x = call.input(0).to_vector<float>();
    for (float& v : x) v = std::log(v);
    return from_span(x, call.input(0).shape());
  });
  const auto f = [&](Tensor x) {
    scale.assign_add(1.0f);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = call_op("test_scaled", {log(x * 2 + 1)});
    return std::vector<Tensor>{y, tape.gradient(sum(y * y), x)};
  };
  const auto traced = trace(f);
  for (int i = 0; i < 80; ++i) {
    const Tensor x = random::uniform({20}), before = scale.value() * 1;
    calls = 0;
    const std::vector<Tensor> got = traced(x);
    CHECK(calls == 1);
    scale.assign(before);
    const std::vector<Tensor> expected = f(x);
    CHECK(allclose(got[0], expected[0]));
    CHECK(allclose(got[1], expected[1], {.rtol = 1e-5}));
  }
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("agerly") == std::string::npos);
}

TEST_CASE("an optimizer's weights are written in place") {
  Variable w("w", zeros({100000}));
  auto step = trace([&](Tensor g) { sgd_update(w, g, tensor(0.5f)); });
  const Tensor g = ones({100000});
  for (int i = 0; i < 3; ++i) step(g);
  const std::int64_t blocks = memory_statistics().large_blocks;
  const std::int64_t bytes = memory_statistics().live_bytes;
  for (int i = 0; i < 5; ++i) step(g);
  // A check runs the function. AddressSanitizer does not reuse blocks.
  CHECK((memory_statistics().large_blocks == blocks || sanitized));
  CHECK((memory_statistics().live_bytes == bytes || sanitized));
  CHECK(w.value()[0].item<float>() == -4);
}

TEST_CASE("what is assigned to a Variable is computed in its memory, if nothing else has it",
          "[cpu]") {
  constexpr std::int64_t count = 100'000;
  Variable w("w", ones({count})), m("m", zeros({count}));
  const auto data_of = [](const Variable& x) { return x.value().values<float>().data(); };
  const auto f = trace([&](Tensor g) {
    m.assign(m * 0.5f + g);
    w.assign(w - m.value() * 0.25f);
    return mean(w);
  });
  const Tensor g = ones({count});
  float moment = 0, weight = 1;
  int in_place = 0, others = 0;
  for (int call = 0; call < 24; ++call) {
    const Tensor held = call % 2 ? w.value() : Tensor();
    const float *const first = data_of(m), *const second = data_of(w);
    const float old = weight;
    const Tensor got = f(g);
    moment = moment * 0.5f + 1, weight -= moment * 0.25f;
    CHECK(got.item<float>() == Approx(weight));
    CHECK(m.value()[count - 1].item<float>() == moment);
    CHECK(w.value()[0].item<float>() == weight);
    if (held.defined()) CHECK(held[0].item<float>() == old);
    in_place += data_of(m) == first && (held.defined() || data_of(w) == second);
    others += held.defined() && data_of(w) == second;
  }
  CHECK((in_place > 12 || sanitized));  // not where a check runs the function
  CHECK(others == 0);
}

TEST_CASE("a value that a Variable's memory takes is kept where the Variable changes again",
          "[cpu]") {
  Variable w("w", zeros({5'000}));
  const auto f = trace([&](Tensor x) {
    const Tensor y = w * 0.5f + x;
    w.assign(y);
    w.assign_add(x);
    w(range(0, 3)).assign(7.0f);
    return y * 2.0f;
  });
  const Tensor x = ones({5'000});
  Tensor wanted = zeros({5'000});
  for (int call = 0; call < 10; ++call) {
    const Tensor y = wanted * 0.5f + x;
    wanted = concat({full({3}, 7.0f), (y + x)(range(3, 5'000))});
    CHECK(equal(f(x), y * 2.0f));
    CHECK(equal(w.value(), wanted));
  }
}

TEST_CASE("an observer of an assignment reads the Variable's old value", "[cpu]") {
  struct Values : Observer {
    std::vector<float> old;
    void op_begins(const GateCall& call) override {
      if (&call.op == &assign_op) old.push_back(*call.inputs[0]->as<float>());
    }
  };
  Variable w("w", zeros({5'000}));
  const auto f = trace([&](Tensor x) { w.assign(w * 2.0f + x); });
  const Tensor x = ones({5'000});
  for (int call = 0; call < 6; ++call) f(x);
  const float before = w.value()[0].item<float>();
  Values values;
  {
    const ObserverScope scope(values);
    f(x);
  }
  CHECK(values.old == std::vector<float>{before});
  CHECK(w.value()[0].item<float>() == before * 2 + 1);
}
}  // namespace reel::tests
