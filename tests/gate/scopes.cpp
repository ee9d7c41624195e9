// SPDX-License-Identifier: BSD-3-Clause
// Interceptors at the gate, and what holds during a scope.
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/interceptor.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/gate.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Counter : Interceptor {
  int before_calls = 0, after_calls = 0;
  bool before(const GateCall&) override { return ++before_calls, true; }
  void after(const GateCall&) override { ++after_calls; }
};
}  // namespace

TEST_CASE("a call notifies every interceptor, the innermost and the outer ones") {
  Counter outer, middle, inner;
  const Tensor x = ones({3});
  const InterceptorScope first(outer);
  x + x;
  {
    const InterceptorScope second(middle);
    x* x;
    {
      const InterceptorScope third(inner);
      exp(x);
    }
    tanh(x);
  }
  x - x;
  CHECK(outer.before_calls == 5);
  CHECK(outer.after_calls == 5);
  CHECK(middle.before_calls == 3);
  CHECK(middle.after_calls == 3);
  CHECK(inner.before_calls == 1);
  CHECK(inner.after_calls == 1);
}

TEST_CASE("interceptors may end in any order") {
  Counter a, b, c;
  const Tensor x = ones({3});
  auto first = std::make_unique<InterceptorScope>(a),
       second = std::make_unique<InterceptorScope>(b),
       third = std::make_unique<InterceptorScope>(c);
  first.reset();
  x + x;
  CHECK(a.before_calls == 0);
  CHECK(b.before_calls == 1);
  CHECK(c.before_calls == 1);
  third.reset();
  x + x;
  CHECK(b.before_calls == 2);
  CHECK(c.before_calls == 1);
  second.reset();
  x + x;
  CHECK(b.before_calls == 2);
  CHECK((Context::here().mode & intercepted) == 0);
}

TEST_CASE("a pause hides calls from interceptors, and its end shows them again") {
  Counter counter;
  const Tensor x = ones({3});
  {
    const InterceptorScope scope(counter);
    {
      const InterceptorPause pause;
      x + x;
      CHECK((Context::here().mode & intercepted) == 0);
    }
    CHECK((Context::here().mode & intercepted) != 0);
    CHECK(counter.before_calls == 0);
    x + x;
    CHECK(counter.before_calls == 1);
  }
  { const InterceptorPause pause; }
  CHECK((Context::here().mode & intercepted) == 0);
}

TEST_CASE("a user's function runs under an interceptor") {
  register_op("tripled", [](const OpCall& call) { return call.input(0) * 3.0f; });
  Counter counter;
  const InterceptorScope scope(counter);
  CHECK(equal(call_op("tripled", {ones({2})}), full({2}, 3.0f)));
  CHECK(counter.after_calls >= 1);
}

TEST_CASE("while ops only infer, no kernel runs and no interceptor is notified") {
  Counter counter;
  const Tensor x = ones({5, 4}), y = ones({4, 3});
  const InterceptorScope interceptor(counter);
  {
    const InferScope scope;
    CHECK(matmul(x, y).shape() == Shape({5, 3}));
    { const InferScope again; }
    CHECK(softmax(x).shape() == Shape({5, 4}));
    CHECK(counter.before_calls == 0);
  }
  CHECK(equal(matmul(x, y), full({5, 3}, 4.0f)));
  CHECK(counter.before_calls > 0);
}

TEST_CASE("a tape records again after a scope in which ops only infer") {
  const Variable w("w", ones({3}));
  GradientTape tape;
  {
    const InferScope scope;
    CHECK((w * 2.0f).shape() == Shape({3}));
    const InferScope again;
  }
  const std::size_t inferred = tape.ops().size();
  const Tensor y = w * 3.0f;
  CHECK(tape.ops().size() == inferred + 1);
  CHECK(equal(tape.gradient(y, w), full({3}, 3.0f)));
}

TEST_CASE("tapes that other threads have ended close with the next tape that ends") {
  const Variable w("w", ones({3}));
  Reel& reel = *Context::here().reel;
  for (int round = 0; round < 3; ++round) {
    auto first = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
    const Tensor x = w * w;
    auto second = std::make_unique<GradientTape>();
    const Tensor y = w * x;
    CHECK(reel.size() > 2);
    std::thread([&] { first.reset(); }).join();
    second.reset();
    CHECK(reel.size() == 0);
    CHECK(reel.alive == 0);
  }
}

TEST_CASE("one interceptor of several defers a kernel, and no observer is notified") {
  struct Deferral : Interceptor {
    bool now = true;
    bool before(const GateCall&) override { return now; }
  };
  struct KernelCount : Observer {
    int begun = 0, ended = 0;
    void op_begins(const GateCall&) override { ++begun; }
    void op_ends(const GateCall&) override { ++ended; }
  };
  const Tensor x = ones({3});
  Variable w("w", zeros({3}));
  for (const bool outer_now : {false, true})
    for (const bool inner_now : {false, true}) {
      KernelCount kernels;
      Deferral outer, inner;
      outer.now = outer_now;
      inner.now = inner_now;
      const ObserverScope watching(kernels);
      const InterceptorScope first(outer), second(inner);
      exp(x);
      w.assign_add(x);
      INFO(outer_now << inner_now);
      CHECK(kernels.begun == (outer_now && inner_now ? 2 : 0));
      CHECK(kernels.ended == kernels.begun);
    }
}

namespace {
/// Counts calls of user code that begin and end, and may give their result.
struct UserCode : Interceptor {
  bool gives = false;
  int begun = 0, ended = 0, failed = 0;
  bool user_code_begins(const CallView&, Tensors& results) override {
    ++begun;
    if (gives) results = Tensors(full({2}, 8.0f));
    return gives;
  }
  void user_code_ends(const GateCall* call) override { ++(call ? ended : failed); }
};
}  // namespace

TEST_CASE("one interceptor of several gives the result of user code, which does not run then") {
  int runs = 0;
  register_op("given", [&](const OpCall& call) {
    ++runs;
    return call.input(0) * 2.0f;
  });
  CHECK(equal(call_op("given", {ones({2})}), full({2}, 2.0f)));
  for (const bool inner_gives : {false, true}) {
    UserCode outer, inner;
    (inner_gives ? inner : outer).gives = true;
    const InterceptorScope first(outer), second(inner);
    CHECK(equal(call_op("given", {ones({2})}), full({2}, 8.0f)));
    CHECK(runs == 1);
    CHECK(outer.ended == 1);
    CHECK(inner.ended == 1);
  }
}

TEST_CASE("interceptors are notified that user code ended by an exception") {
  register_op("throws", [](const OpCall& call) -> Tensors {
    if (call.input_count() == 1) throw std::runtime_error("no result");
    return call.input(0);
  });
  UserCode code;
  const InterceptorScope scope(code);
  CHECK_THROWS_AS(call_op("throws", {ones({2})}), std::runtime_error);
  CHECK(code.begun == 1);
  CHECK(code.ended == 0);
  CHECK(code.failed == 1);
}
}  // namespace reel::tests
