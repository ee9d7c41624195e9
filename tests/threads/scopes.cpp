// SPDX-License-Identifier: BSD-3-Clause
// Scopes, pauses and tapes that end out of order, on another thread, or after what they belong to.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
/// f on another thread, which ends.
template <class F>
void elsewhere(const F& f) {
  std::thread(f).join();
}

/// Opens three scopes and ends them in every order: `check(i)` after each end, with the innermost
/// that is left, or -1.
template <class Scope, class Open, class Check>
void end_in_every_order(const Open& open, const Check& check) {
  std::vector<int> order = {0, 1, 2};
  do
    for (const bool on_another : {false, true}) {
      std::unique_ptr<Scope> scopes[3];
      for (int i = 0; i < 3; ++i) scopes[i] = open(i);
      check(2);
      for (const int i : order) {
        if (on_another)
          elsewhere([&] { scopes[i].reset(); });
        else
          scopes[i].reset();
        int innermost = 2;
        while (innermost >= 0 && !scopes[innermost]) --innermost;
        check(innermost);
      }
    }
  while (std::next_permutation(order.begin(), order.end()));
}

Tensor first_draw(const Generator& generator) {
  const GeneratorScope scope{Generator(generator.seed())};
  return random::uniform({4});
}
}  // namespace

TEST_CASE("scopes end in any order and on any thread: the innermost that lives counts",
          "[threads]") {
  const ThreadState before = state();
  end_in_every_order<TrainScope>([](int i) { return std::make_unique<TrainScope>(i == 1); },
                                 [](int i) { CHECK(training() == (i == 1 || i == -1)); });
  end_in_every_order<DeviceScope>([](int) { return std::make_unique<DeviceScope>(cpu()); },
                                  [](int) { CHECK(Context::here().device == cpu()); });
  end_in_every_order<GeneratorScope>(
      [](int i) { return std::make_unique<GeneratorScope>(Generator(100 + i)); },
      [](int i) {
        Generator& generator = current_generator();
        if (i < 0) {
          CHECK(Context::here().generator == nullptr);
          return;
        }
        CHECK(generator.seed() == static_cast<std::uint64_t>(100 + i));
        generator.set_position(0);
        CHECK(equal(random::uniform({4}), first_draw(generator)));
      });
  CHECK(state() == before);
}

TEST_CASE("the thread on which a scope ends keeps its own", "[threads]") {
  auto train = std::make_unique<TrainScope>(false);
  auto generator = std::make_unique<GeneratorScope>(Generator(5));
  auto caller = std::make_unique<CallerScope>(Caller{"elsewhere.cpp", 7}, "Elsewhere");
  elsewhere([&] {
    const TrainScope evaluate(false);
    const GeneratorScope own(Generator(6));
    const CallerScope here(Caller{"here.cpp", 8}, "Here");
    train.reset();
    generator.reset();
    caller.reset();
    CHECK(!training());
    CHECK(current_generator().seed() == 6);
    CHECK(std::string(Context::here().site.file) == "here.cpp");
    CHECK(Context::here().site_name == "Here");
  });
  CHECK(training());
  CHECK(Context::here().generator == nullptr);
  CHECK(Context::here().site.file == nullptr);
  CHECK(Context::here().site_name.empty());
}

TEST_CASE("scopes and tapes may end after their thread, on one whose memory is the same",
          "[threads]") {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<TrainScope> train;
    std::unique_ptr<DeviceScope> device;
    std::unique_ptr<GeneratorScope> generator;
    std::unique_ptr<CallerScope> caller;
    std::unique_ptr<GradientTape> tape, spent;
    std::unique_ptr<GradientTape::Pause> pause, pause_of_spent;
    elsewhere([&] {
      train = std::make_unique<TrainScope>(false);
      device = std::make_unique<DeviceScope>(cpu());
      generator = std::make_unique<GeneratorScope>(Generator(9));
      caller = std::make_unique<CallerScope>(Caller{"gone.cpp", 1}, "Gone");
      if (round % 2 == 0) tape = std::make_unique<GradientTape>();
      spent = std::make_unique<GradientTape>();
      const Tensor x = ones({5});
      spent->watch(x);
      if (tape) tape->watch(x);
      spent->gradient(x * x, x);
      pause_of_spent.reset(new GradientTape::Pause(spent->pause()));
      if (tape) pause.reset(new GradientTape::Pause(tape->pause()));
    });
    elsewhere([&] {
      const TrainScope evaluate(false);
      const CallerScope here(Caller{"here.cpp", 8}, "Here");
      const ThreadState before = state();
      train.reset(), device.reset(), generator.reset(), caller.reset();
      ThreadState after = state();
      CHECK(after == before);
      if (round % 4 < 2) pause.reset();
      tape.reset(), spent.reset();
      pause.reset(), pause_of_spent.reset();
      CHECK(state().mode == before.mode);
      CHECK(memory_statistics().live_records == 0);
    });
  }
}

TEST_CASE("pauses overlap, end in any order, and may outlive their tape", "[threads]") {
  std::vector<int> order = {0, 1, 2};
  do {
    const Tensor x = tensor({1.0f, 2.0f});
    GradientTape tape({.persistent = true});
    tape.watch(x);
    std::unique_ptr<GradientTape::Pause> pauses[3];
    for (auto& pause : pauses) pause.reset(new GradientTape::Pause(tape.pause()));
    for (const int i : order) {
      CHECK_THROWS_AS(tape.gradient(x * x, x), TapeError);
      pauses[i].reset();
    }
    CHECK(equal(tape.gradient(x * x, x), 2.0f * x));
  } while (std::next_permutation(order.begin(), order.end()));

  std::optional<GradientTape> tape(std::in_place);
  const GradientTape::Pause outlives = tape->pause();
  tape.reset();
  GradientTape next;  // with the bit that the other had
  const Tensor x = tensor({3.0f});
  next.watch(x);
  const Tensor y = x * x;
  { const GradientTape::Pause pause = next.pause(); }
  CHECK(next.gradient(y * x, x).item<float>() == 27);
}

TEST_CASE("a pause that ends on another thread is an error of its tape", "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape, other;
  tape.watch(x);
  other.watch(x);
  std::unique_ptr<GradientTape::Pause> pause(new GradientTape::Pause(tape.pause()));
  std::unique_ptr<GradientTape::Pause> second(new GradientTape::Pause(other.pause()));
  elsewhere([&] {
    GradientTape own;
    pause.reset();
    second.reset();
    const Variable w("w", ones({2}));
    CHECK(equal(own.gradient(w * w, w), 2.0f * ones({2})));
  });
  CHECK_THROWS_WITH(tape.gradient(x * x, x), Catch::Contains("one that ended on another thread"));
  CHECK_THROWS_AS(other.gradient(x * x, x), TapeError);
}

TEST_CASE("tapes end on threads that did not make them", "[threads]") {
  const Tensor x = ones({3});
  SECTION("while their thread goes on") {
    for (int round = 0; round < 3; ++round) {
      auto tape = std::make_unique<GradientTape>();
      tape->watch(x);
      Tensor y = x * x;
      elsewhere([&] { tape.reset(); });
      for (int i = 0; i < 2'000; ++i) y = y + x;  // nobody would read their records
      CHECK(Context::here().reel->size() <= 2 * Reel::chunk_records);
      GradientTape next;
      next.watch(x);
      CHECK(equal(next.gradient(x * y, x), y));
    }
    CHECK(memory_statistics().live_records == 0);
  }
  SECTION("while their thread records") {
    for (int round = 0; round < 50; ++round) {
      auto tape = std::make_unique<GradientTape>();
      tape->watch(x);
      std::thread other([&] { tape.reset(); });
      Tensor y = x;
      for (int i = 0; i < 600; ++i) y = y + x;
      other.join();
    }
    CHECK(memory_statistics().live_records == 0);
  }
  SECTION("after their thread, on several threads at once") {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::unique_ptr<GradientTape>> tapes(8);
      elsewhere([&] {
        Tensor y = x;
        for (auto& tape : tapes) {
          tape = std::make_unique<GradientTape>();
          tape->watch(x);
          for (int i = 0; i < 40; ++i) y = tanh(y * x);
        }
      });
      CHECK(memory_statistics().live_records > 0);
      std::vector<std::thread> threads;
      for (auto& tape : tapes) threads.emplace_back([&tape] { tape.reset(); });
      for (std::thread& thread : threads) thread.join();
      CHECK(memory_statistics().live_records == 0);
    }
  }
}
}  // namespace reel::tests
