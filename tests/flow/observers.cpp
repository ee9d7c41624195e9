// SPDX-License-Identifier: BSD-3-Clause
// What an observer may do, which events there are besides ops, and which flow an observer belongs
// to.
#include <memory>
#include <stdexcept>
#include <thread>

#include "flow/event_log.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
TEST_CASE("all events of a training step come in this order") {
  const Variable w("w", ones({2, 2})), b("b", zeros({2}));
  optim::SGD sgd({w, b}, {.learning_rate = 0.5});
  const Tensor x = ones({3, 2}), y = zeros({3, 2});
  float loss_read = 0;
  const Events found = events_of([&] {
    GradientTape tape;
    const Tensor h = tanh(matmul_add(x, w, b));
    const Tensor loss = mean(square(h - y));
    sgd.step(tape.gradient(loss, {w, b}));
    loss_read = loss.item<float>();
  });
  // clang-format off
  CHECK(found == Events{
      "read w", "read b",
      "begin matmul_add", "end matmul_add (3, 2)", "record matmul_add",
      "begin tanh", "end tanh (3, 2)", "record tanh",
      "begin subtract", "end subtract (3, 2)", "record subtract",
      "begin square", "end square (3, 2)", "record square",
      "begin mean", "end mean ()", "record mean",
      "backward begins",
      "begin divide", "end divide ()", "begin broadcast_to", "end broadcast_to (3, 2)",  // mean
      "begin square'0", "end square'0 (3, 2)",
      "begin tanh'0", "end tanh'0 (3, 2)",
      "begin matmul", "end matmul (2, 2)",
      "begin sum_to", "end sum_to (2,)",
      "complete 0", "complete 1",
      "backward ends",
      "read learning_rate", "begin cast", "end cast ()",
      "read w", "read b", "begin sgd_update", "end sgd_update (2, 2) (2,)", "write w", "write b",
      "host read"});
  // clang-format on
  CHECK(loss_read > 0);
}

TEST_CASE("Variables and host reads are reported") {
  const Tensor two = full({2}, 2.0f);
  CHECK(events_of([&] {
          Variable v("v", zeros({2}));
          v.value();
          v.assign(two);
          v.assign_add(two);
          v + two;
          v.clone();
          v[0].assign(1.0f);
        }).size() > 12);
  Variable v("v", zeros({2}));
  CHECK(events_of([&] { v.value(); }) == Events{"read v"});
  CHECK(events_of([&] { v.assign(two); }) == Events{"begin assign", "end assign (2,)", "write v"});
  CHECK(events_of([&] { v.assign_add(two); }) ==
        Events{"read v", "begin assign_add", "end assign_add (2,)", "write v"});
  CHECK(events_of([&] { Variable("u", zeros({})); }).back() == "made u");
  CHECK(events_of([&] { two.to_vector<float>(); }) == Events{"host read"});
  CHECK(events_of([&] { (void)bool(sum(two)); }) == Events{"begin sum", "end sum ()", "host read"});
  CHECK(events_of([&] { to_string(two); }) == Events{"host read"});
  CHECK(count(events_of([&] { to_string(v); }), "host read") == 1);
}

TEST_CASE("an error is reported, and an op that fails has no end") {
  const Tensor x = ones({2, 3}), wrong = tensor({5});
  CHECK(events_of([&] { CHECK_THROWS_AS(x + ones({4}), ShapeError); }).back() == "error add");
  CHECK(events_of([&] { CHECK_THROWS_AS(take(x, wrong), IndexError); }) ==
        Events{"begin take", "error take"});
  struct Reader : Observer {
    std::string text;
    unsigned line = 0;
    void error(const ErrorEvent& event) override {
      text = event.error.what();
      line = event.caller.line;
      throw std::runtime_error("dropped");
    }
  } reader;
  const ObserverScope scope(reader);
  std::string thrown;
  try {
    matmul(x, x);
  } catch (const ShapeError& error) {
    thrown = error.what();
  }
  CHECK(reader.text == thrown);
  CHECK(reader.line == __LINE__ - 5);
}

TEST_CASE("an exception of an observer leaves the op, and nothing else is lost") {
  struct Thrower : Observer {
    bool at_end = false;
    void op_begins(const GateCall&) override {
      if (!at_end) throw std::runtime_error("begin");
    }
    void op_ends(const GateCall&) override {
      if (at_end) throw std::runtime_error("end");
    }
  } thrower;
  const Tensor x = ones({2, 3});
  const Variable w("w", ones({2, 3}));
  GradientTape tape;
  const Tensor y = exp(w);
  const std::size_t recorded = tape.ops().size();
  const ThreadState before = state();
  for (const bool at_end : {false, true}) {
    const ObserverScope scope(thrower);
    thrower.at_end = at_end;
    CHECK_THROWS_AS(exp(w), std::runtime_error);
    CHECK_THROWS_AS(x + w, std::runtime_error);
    CHECK_THROWS_AS(sum(w), std::runtime_error);
    CHECK_THROWS_AS(x + arange(0, 3), std::runtime_error);
    CHECK_THROWS_AS(transpose(x), std::runtime_error);
    CHECK_THROWS_AS(matmul(x, transpose(x)), std::runtime_error);
  }
  CHECK(tape.ops().size() == recorded);
  CHECK(state() == before);
  CHECK(equal(tape.gradient(y, w), exp(w.value())));
}

TEST_CASE("a NaN check that computes is not observed, recorded or followed itself") {
  struct NaNCheck : Observer {
    int checks = 0;
    void op_ends(const GateCall& call) override {
      const Tensor y = Access::share(call.outputs[0]);
      if (!is_floating(y.dtype()) || bool(all(y - y == 0))) {
        ++checks;
        return;
      }
      throw Error("not finite: " + std::string(call.op.name));
    }
  } check;
  EventLog log;
  const Variable w("w", tensor({1.0f, 0.0f}));
  GradientTape tape;
  const ObserverScope outer(log), inner(check);
  const Tensor y = exp(w);
  CHECK(check.checks == 1);
  CHECK(log.events == Events{"read w", "begin exp", "end exp (2,)", "record exp"});
  CHECK(tape.ops().size() == 1);
  try {
    log.events.clear();
    const Tensor z = y / w;
    CHECK(false);
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "not finite: divide");
  }
}

TEST_CASE("observers belong to a thread, may end in any order, and are off in a pause") {
  EventLog a, b;
  const Tensor x = ones({2});
  auto first = std::make_unique<ObserverScope>(a), second = std::make_unique<ObserverScope>(b);
  std::thread([&] { exp(x); }).join();
  CHECK(a.events.empty());
  first.reset();
  exp(x);
  CHECK(a.events.empty());
  CHECK(b.events.size() == 2);
  {
    const ObserverPause pause(Context::here());
    exp(x);
  }
  CHECK(b.events.size() == 2);
  second.reset();
  CHECK(Context::here().mode == 0);
  CHECK(Context::here().observers == nullptr);
}

TEST_CASE("an observer that makes a tape of its own gets its gradients") {
  struct Taper : Observer {
    std::vector<float> slopes;
    void op_ends(const GateCall& call) override {
      const Tensor y = Access::share(call.outputs[0]) * 1.0f;
      GradientTape tape;
      tape.watch(y);
      slopes = tape.gradient(y * y, y).to_vector<float>();
    }
  } taper;
  const Variable w("w", full({2}, 3.0f));
  GradientTape tape;
  Tensor y;
  {
    const ObserverScope scope(taper);
    y = w * w;
  }
  CHECK(taper.slopes == std::vector<float>{18, 18});
  CHECK(tape.gradient(y, w).to_vector<float>() == std::vector<float>{6, 6});
}

}  // namespace reel::tests
