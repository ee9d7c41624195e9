// SPDX-License-Identifier: BSD-3-Clause
// Flows that share a thread. Each computes the same as it would alone.
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "flow/event_log.hpp"
#include "lib/flow/flow.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
/// Runs f in the flow of a fiber.
template <class F>
void inside(FiberFlow& flow, const F& f) {
  flow.swap();
  f();
  flow.swap();
}

/// A program that can pause between any two of its steps, while scopes and a tape are open.
struct Program {
  explicit Program(int number) : scale(0.5f + static_cast<float>(number)) {
    w = Variable("w" + std::to_string(number), full({3}, scale));
  }
  static constexpr int steps = 7;
  void step(int i) {
    switch (i) {
      case 0:
        seed(static_cast<std::uint64_t>(scale * 10));
        watcher = std::make_unique<ObserverScope>(log);
        if (scale > 1) evaluating = std::make_unique<TrainScope>(false);
        return;
      case 1:
        if (scale > 1) numbers = std::make_unique<GeneratorScope>(Generator(7));
        named = std::make_unique<CallerScope>(Caller::here(), scale > 1 ? "first" : "second");
        tape = std::make_unique<GradientTape>(TapeOptions{.persistent = scale > 1});
        return;
      case 2:
        y = w * random::uniform({3}) + (training() ? 1.0f : 2.0f);
        return;
      case 3:
        y = tanh(y * w) + exp(w);
        return;
      case 4:
        recorded = tape->ops().size();
        y = y + random::normal({3});
        return;
      case 5:
        slope = tape->gradient(sum(y), w);
        try {
          y + ones({5});
        } catch (const ShapeError& error) {
          text = error.what();
        }
        return;
      default:
        tape.reset();
        named.reset();
        numbers.reset();
        evaluating.reset();
        last = random::uniform({3});
        watcher.reset();
    }
  }
  struct Results {
    std::vector<float> y, slope, last;
    std::size_t recorded;
    std::string text;
    Events events;
    friend bool operator==(const Results&, const Results&) = default;
  };
  Results results() const {
    return {y.to_vector<float>(),
            slope.to_vector<float>(),
            last.to_vector<float>(),
            recorded,
            text,
            log.events};
  }
  float scale;
  Variable w{"w", zeros({3})};
  Tensor y, slope, last;
  std::size_t recorded = 0;
  std::string text;
  EventLog log;
  std::unique_ptr<ObserverScope> watcher;
  std::unique_ptr<TrainScope> evaluating;
  std::unique_ptr<GeneratorScope> numbers;
  std::unique_ptr<CallerScope> named;
  std::unique_ptr<GradientTape> tape;
};

/// Runs several programs. Each digit of `order` names the program that makes the next step.
std::vector<Program::Results> run(const std::string& order) {
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::unique_ptr<FiberFlow>> flows;
  std::vector<int> next(2, 0);
  for (int i = 0; i < 2; ++i) {
    programs.push_back(std::make_unique<Program>(i));
    flows.push_back(std::make_unique<FiberFlow>());
  }
  for (const char digit : order) {
    const auto i = static_cast<std::size_t>(digit - '0');
    inside(*flows[i], [&] { programs[i]->step(next[i]++); });
  }
  CHECK((next == std::vector<int>(2, Program::steps)));
  return {programs[0]->results(), programs[1]->results()};
}
}  // namespace

TEST_CASE("two flows on one thread, step by step in turn, do what they do one after the other") {
  const ThreadState before = state();
  const auto expected = run("00000001111111");
  CHECK(expected[0].recorded == 6);
  CHECK(expected[0].text != expected[1].text);
  CHECK(expected[0].y != expected[1].y);
  for (const char* const order :
       {"01010101010101", "00110011001101", "10010110100101", "11111110000000", "01111110000001"}) {
    INFO(order);
    CHECK((run(order) == expected));
  }
  CHECK(state() == before);
}

TEST_CASE("the thread's own flow rests while a fiber's runs") {
  FiberFlow fiber;
  const Variable w("w", ones({2}));
  EventLog log;
  const ObserverScope scope(log);
  GradientTape tape;
  const Tensor y = exp(w);
  const std::size_t events = log.events.size();
  inside(fiber, [&] {
    CHECK(Context::here().mode == 0);
    CHECK(training());
    exp(w);
  });
  CHECK(log.events.size() == events);
  CHECK(tape.ops().size() == 1);
  CHECK(equal(tape.gradient(y, w), exp(w.value())));
}

TEST_CASE("a flow may not use the tape of another one, but may end it") {
  FiberFlow fiber;
  const Variable w("w", ones({2}));
  Reel& reel = *Context::here().reel;
  auto tape = std::make_unique<GradientTape>();
  const Tensor y = w * w;
  inside(fiber, [&] {
    CHECK_THROWS_AS(tape->gradient(y, w), TapeError);
    CHECK_THROWS_AS(tape->watch(w), TapeError);
    tape.reset();
  });
  CHECK(reel.size() > 0);
  { const GradientTape next; }
  CHECK(reel.size() == 0);
  CHECK(reel.alive == 0);
}

TEST_CASE("what a flow computes from a tensor of another flow's tape is no constant there") {
  FiberFlow fiber;
  const Variable w("w", ones({2}));
  GradientTape tape;
  const Tensor y = w * 2.0f;
  Tensor z;
  inside(fiber, [&] { z = y * 3.0f; });
  CHECK_THROWS_AS(z * w, TapeError);
  CHECK(equal(tape.gradient(y * stop_gradient(z), w), full({2}, 12.0f)));
}

TEST_CASE("a flow goes on where another thread runs it") {
  FiberFlow fiber;
  const Variable w("w", full({2}, 3.0f));
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<TrainScope> scope;
  Tensor y;
  inside(fiber, [&] {
    tape = std::make_unique<GradientTape>();
    scope = std::make_unique<TrainScope>(false);
    y = w * w;
  });
  std::thread([&] {
    CHECK(training());
    inside(fiber, [&] {
      CHECK(!training());
      CHECK(equal(tape->gradient(y * 2.0f, w), full({2}, 12.0f)));
      tape.reset();
    });
  }).join();
  scope.reset();  // the flow that made the scope ends it
  inside(fiber, [&] { CHECK(training()); });
}

TEST_CASE("tapes and scopes that outlive their flow may end later") {
  const Variable w("w", ones({2}));
  const std::int64_t records = memory_statistics().live_records;
  auto fiber = std::make_unique<FiberFlow>();
  std::unique_ptr<GradientTape> tape;
  std::unique_ptr<TrainScope> scope;
  inside(*fiber, [&] {
    tape = std::make_unique<GradientTape>();
    scope = std::make_unique<TrainScope>(false);
    w* w;
  });
  CHECK(memory_statistics().live_records > records);
  fiber.reset();
  CHECK(memory_statistics().live_records > records);
  tape.reset();
  scope.reset();
  CHECK(training());
  CHECK(memory_statistics().live_records == records);
}
}  // namespace reel::tests
