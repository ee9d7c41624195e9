// SPDX-License-Identifier: BSD-3-Clause
// Which events traced functions have. Functions are captured and replayed as without
// observers.
#include <algorithm>
#include <stdexcept>

#include "flow/event_log.hpp"

namespace reel::tests {
namespace {
struct Model {
  Variable w{"w", arange(0, 6).to(DType::float32).reshape({3, 2}) / 6.0f};
  optim::SGD sgd{{w}, {.learning_rate = 0.1}};
  Tensor x = arange(0, 12).to(DType::float32).reshape({4, 3}) / 12.0f, y = ones({4, 2});
  Tensor step(const Tensor& in, const Tensor& out) {
    GradientTape tape;
    const Tensor loss = mean(square(tanh(matmul(in, w)) - out));
    sgd.step({tape.gradient(loss, w)});
    return loss;
  }
};
struct Run {
  std::vector<std::vector<float>> losses;
  std::vector<float> weights;
  std::string explained;
  std::int64_t traces = 0;
  friend bool operator==(const Run&, const Run&) = default;
};
/// Twelve steps of a trace, from its first call on.
Run train(Observer* observer) {
  Model model;
  auto step = trace([&model](Tensor x, Tensor y) { return model.step(x, y); });
  Run run;
  const auto all = [&] {
    for (int i = 0; i < 12; ++i) run.losses.push_back(step(model.x, model.y).to_vector<float>());
  };
  if (observer) {
    const ObserverScope scope(*static_cast<EventLog*>(observer));
    all();
  } else {
    all();
  }
  run.weights = model.w.value().to_vector<float>();
  run.explained = step.explain();
  const std::size_t seconds = run.explained.find(" checks in ") + 11;  // that checks took
  run.explained.erase(seconds, run.explained.find(" ms", seconds) - seconds);
  run.traces = static_cast<std::int64_t>(step.trace_count());
  return run;
}
}  // namespace

TEST_CASE("a traced step is captured, checked and replayed alike with an observer") {
  const Run expected = train(nullptr);
  EventLog log;
  const Run found = train(&log);
  CHECK(found == expected);
  CHECK(found.explained == expected.explained);
  CHECK(found.traces == 1);
  // 12 calls. Calls 2, 3, 5 and 9 are checked: the function runs too, and the
  // result of the replay is dropped.
  CHECK(count(log.events, "begin matmul") > 12);
  CHECK(count(log.events, "write w") == 12);
}

TEST_CASE("a call that is captured tells what an eager one tells") {
  const Variable w("w", ones({3}));
  const auto f = [w](Tensor x) {
    GradientTape tape;
    return tape.gradient(sum(softmax(tanh(x * w))), w);
  };
  const auto traced = trace(f);
  const Tensor x = ones({3});
  const Events expected = events_of([&] { f(x); });
  CHECK(count(expected, "complete 0") == 1);
  CHECK(events_of([&] { traced(x); }) == expected);
}

TEST_CASE("each step of a replay is an op with a beginning and an end") {
  const Variable w("w", ones({3}));
  const auto f = trace([w](Tensor x) { return sum(exp(x * w)) * 2.0f; });
  const Tensor x = ones({3});
  for (int i = 0; i < 6; ++i) f(x);  // call 7 is a replay without a check
  CHECK(events_of([&] { f(x); }) == Events{"read w", "begin multiply", "end multiply (3,)",
                                           "begin exp", "end exp (3,)", "begin sum", "end sum ()",
                                           "begin multiply", "end multiply ()"});
}

TEST_CASE("passes that run block by block begin together, and what lies in no memory is null") {
  const auto f = trace([](Tensor x) { return exp(tanh(x * 2.0f)); });
  const Tensor x = ones({8192});
  for (int i = 0; i < 6; ++i) f(x);
  CHECK(events_of([&] { f(x); }) == Events{"begin multiply", "begin tanh", "begin exp",
                                           "end multiply -", "end tanh -", "end exp (8192,)"});
}

TEST_CASE("gradient kernels, questions and updates of a replay are reported") {
  Variable w("w", ones({3}));
  const auto f = trace([w](Tensor x) mutable {
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(tanh(w * x)), w);
    if (sum(slope) > 100.0f) return slope;
    w.assign_sub(slope * 0.1f);
    return slope;
  });
  const Tensor x = ones({3});
  for (int i = 0; i < 6; ++i) f(x);
  const Events events = events_of([&] { f(x); });
  CHECK(events.front() == "read w");
  CHECK(count(events, "begin tanh'0") == 1);
  CHECK(count(events, "host read") == 1);
  CHECK(count(events, "begin assign_sub") == 1);
  CHECK(count(events, "write w") == 1);
  CHECK(count(events, "backward begins") == 0);
}

namespace {
struct Thrower : Observer {
  std::string op;
  int left = 0;
  bool at_end = true;
  void strike(const GateCall& call) {
    if (call.op.name == op && left-- == 0) throw std::runtime_error("stop");
  }
  void op_begins(const GateCall& call) override {
    if (!at_end) strike(call);
  }
  void op_ends(const GateCall& call) override {
    if (at_end) strike(call);
  }
};
}  // namespace

TEST_CASE("an exception of an observer in a replay leaves the call at the place of the op") {
  for (const int calls : {1, 2, 6, 7}) {  // the function is captured, then checked, then replayed
    for (const char* const op : {"assign_add", "exp", "assign_sub"}) {
      INFO(calls << " " << op);
      Variable v("v", zeros({2})), w("w", zeros({2}));
      const auto f = trace([v, w](Tensor x) mutable {
        v.assign_add(x);
        const Tensor y = exp(x);
        w.assign_sub(y);
        return y;
      });
      const Tensor x = ones({2});
      for (int i = 1; i < calls; ++i) f(x);
      v.assign(0.0f);
      w.assign(0.0f);
      Thrower thrower;
      thrower.op = op;
      {
        const ObserverScope scope(thrower);
        CHECK_THROWS_AS(f(x), std::runtime_error);
      }
      CHECK(v.value().to_vector<float>() == std::vector<float>{1, 1});
      const bool written = std::string(op) == "assign_sub";
      CHECK((w.value().to_vector<float>()[0] != 0) == written);
      CHECK(f(x).to_vector<float>() == exp(x).to_vector<float>());
    }
  }
}

TEST_CASE("a replay tells of what can fail before the updates that it does not need") {
  Variable v("v", zeros({2}));
  const auto f = trace(
      [v, places = tensor({1, 0})](Tensor x) mutable {
        v.assign_add(x);
        return take(x, places, 0);
      },
      {.verify = 0});
  const Tensor x = ones({2});
  for (const bool replayed : {false, true}) {
    const Events events = events_of([&] { f(x); });
    const auto place = [&](const char* event) {
      return std::find(events.begin(), events.end(), event) - events.begin();
    };
    CHECK(count(events, "begin take") == 1);
    CHECK((place("begin take") < place("begin assign_add")) == replayed);
  }
  Thrower thrower;
  thrower.op = "take";
  const ObserverScope scope(thrower);
  CHECK_THROWS_AS(f(x), std::runtime_error);
  CHECK(v.value().to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("what an observer runs while a function is captured is no part of the trace") {
  struct Runner : Observer {
    void op_ends(const GateCall& call) override {
      const Tensor y = Access::share(call.outputs[0]) * 3.0f;
      CHECK(y.to_vector<float>().size() > 0);
    }
  } runner;
  const auto f = trace([](Tensor x) { return exp(x) + 1.0f; });
  const Tensor x = ones({3});
  {
    const ObserverScope scope(runner);
    for (int i = 0; i < 7; ++i) f(x);
  }
  CHECK(f.trace_count() == 1);
  CHECK(events_of([&] { f(x); }) ==
        Events{"begin exp", "end exp (3,)", "begin add", "end add (3,)"});
}

TEST_CASE("an observed replay tells the Variables that it reads and writes") {
  Variable kept("kept", ones({3})), set("set", ones({3}));
  const auto f = trace([kept, set](Tensor x) mutable {
    const Tensor twice = x * 2, old = kept.value();
    kept.assign_add(twice);
    set.assign(twice);
    return old * x;
  });
  const Tensor x = ones({3});
  for (int i = 0; i < 5; ++i) f(x);
  const Events events = events_of([&] { f(x); });
  CHECK(f.trace_count() == 1);
  CHECK(count(events, "write kept") == 1);
  CHECK(count(events, "write set") == 1);
  CHECK(count(events, "read kept") >= 1);
  CHECK(equal(kept, full({3}, 13.0f)));
  CHECK(equal(set, full({3}, 2.0f)));
}

TEST_CASE("calls of a replay say so") {
  struct Listener : Observer {
    int replayed = 0, others = 0;
    void op_ends(const GateCall& call) override { ++(call.is_replayed() ? replayed : others); }
  };
  auto f = trace([](Tensor x) { return sum(tanh(x)) * 2; });
  f(ones({3}));
  f(ones({3}));
  Listener listener;
  const ObserverScope scope(listener);
  for (int i = 0; i < 20; ++i) f(ones({3}));
  CHECK(listener.replayed > 0);
  tanh(ones({3}));
  CHECK(listener.others > 0);
}
}  // namespace reel::tests
