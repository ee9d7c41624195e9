// SPDX-License-Identifier: BSD-3-Clause
// Scopes, pauses and tapes that end out of order, on another thread, or after the object they
// belong to.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>
#include <reel/share.hpp>

#include "lib/flow/flow.hpp"
#include "support/catch.hpp"
#include "support/stderr.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
/// Runs f on another thread, which then ends.
template <class F>
void elsewhere(const F& f) {
  std::thread(f).join();
}

/// Opens three scopes and ends them in every order. Calls `check(i)` after each end; i is the
/// innermost open scope, or -1.
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
  {
    const Variable w("w", zeros({2}));
    const std::vector<Variable> list = {w};
    end_in_every_order<WeightScope>(
        [&](int i) {
          return std::make_unique<WeightScope>(list, Operands({full({2}, 100.0 + i)}));
        },
        [&](int i) { CHECK(equal(w * 2, full({2}, i < 0 ? 0.0 : 2 * (100.0 + i)))); });
  }
  CHECK(state() == before);
}

TEST_CASE("scopes that watch end in any order and on any thread: each counts while it lives",
          "[threads]") {
  // The thread keeps what has ended elsewhere, so each kind has a thread of its own.
  const Tensor x = tensor({-1.0f});
  elsewhere([&] {
    end_in_every_order<FiniteScope>([](int) { return std::make_unique<FiniteScope>(); },
                                    [&](int i) {
                                      if (i < 0)
                                        CHECK_NOTHROW(log(x));
                                      else
                                        CHECK_THROWS_AS(log(x), Error);
                                    });
  });
  elsewhere([&] {
    const auto lines = [&] {
      const std::string text = on_stderr([&] { exp(x); });
      return std::count(text.begin(), text.end(), '\n');
    };
    for (const bool on_another : {false, true}) {
      auto outer = std::make_unique<DeviceLogScope>(), inner = std::make_unique<DeviceLogScope>();
      CHECK(lines() == 2);
      if (on_another)
        elsewhere([&] { outer.reset(); });
      else
        outer.reset();
      CHECK(lines() == 1);
      inner.reset();
      CHECK(lines() == 0);
    }
  });
  elsewhere([&] {
    end_in_every_order<LockstepScope>([](int) { return std::make_unique<LockstepScope>(); },
                                      [&](int) { CHECK(exp(x).item<float>() < 1); });
  });
}

TEST_CASE("the thread on which a scope ends keeps its own", "[threads]") {
  auto train = std::make_unique<TrainScope>(false);
  auto generator = std::make_unique<GeneratorScope>(Generator(5));
  auto caller = std::make_unique<CallerScope>(Caller{"elsewhere.cpp", 7}, "Elsewhere");
  const Variable w("w", zeros({2}));
  const std::vector<Variable> list = {w};
  auto weights = std::make_unique<WeightScope>(list, Operands({ones({2})}));
  elsewhere([&] {
    const TrainScope evaluate(false);
    const GeneratorScope own(Generator(6));
    const WeightScope own_weights(list, {full({2}, 7.0)});
    const FiniteScope finite;
    const CallerScope here(Caller{"here.cpp", 8}, "Here");
    train.reset();
    generator.reset();
    caller.reset();
    weights.reset();
    CHECK(!training());
    CHECK(equal(w.value(), full({2}, 7.0)));
    CHECK_THROWS_AS(log(tensor({0.0f})), Error);
    CHECK(current_generator().seed() == 6);
    CHECK(std::string(Context::here().outer_caller.file) == "here.cpp");
    CHECK(Context::here().layer_name == "Here");
  });
  CHECK(training());
  CHECK(equal(w.value(), zeros({2})));
  CHECK(Context::here().generator == nullptr);
  CHECK(Context::here().redirects == nullptr);
  CHECK(Context::here().outer_caller.file == nullptr);
  CHECK(Context::here().layer_name.empty());
}

TEST_CASE("scopes and tapes may end after their thread, on one whose memory is the same",
          "[threads]") {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<TrainScope> train;
    std::unique_ptr<DeviceScope> device;
    std::unique_ptr<GeneratorScope> generator;
    std::unique_ptr<CallerScope> caller;
    const Variable w("w", ones({2}));
    const Tensor other = zeros({2});
    std::unique_ptr<WeightScope> weights;
    std::unique_ptr<FiniteScope> finite;
    std::unique_ptr<DeviceLogScope> log;
    std::unique_ptr<LockstepScope> lockstep;
    std::unique_ptr<GradientTape> tape, spent;
    std::unique_ptr<GradientTape::Pause> pause, pause_of_spent;
    elsewhere([&] {
      train = std::make_unique<TrainScope>(false);
      device = std::make_unique<DeviceScope>(cpu());
      generator = std::make_unique<GeneratorScope>(Generator(9));
      caller = std::make_unique<CallerScope>(Caller{"gone.cpp", 1}, "Gone");
      weights = std::make_unique<WeightScope>(std::vector{w}, Operands({other}));
      finite = std::make_unique<FiniteScope>();
      lockstep = std::make_unique<LockstepScope>();
      if (round % 2 == 0) tape = std::make_unique<GradientTape>();
      spent = std::make_unique<GradientTape>();
      const Tensor x = ones({5});
      spent->watch(x);
      if (tape) tape->watch(x);
      spent->gradient(x * x, x);
      pause_of_spent.reset(new GradientTape::Pause(spent->pause()));
      if (tape) pause.reset(new GradientTape::Pause(tape->pause()));
      log = std::make_unique<DeviceLogScope>();
    });
    elsewhere([&] {
      const TrainScope evaluate(false);
      const CallerScope here(Caller{"here.cpp", 8}, "Here");
      const ThreadState before = state();
      train.reset(), device.reset(), generator.reset(), caller.reset();
      weights.reset(), finite.reset(), log.reset(), lockstep.reset();
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

TEST_CASE("a fiber that ends in its scopes leaves them and the thread whole", "[threads]") {
  const Variable w("w", ones({3}));
  const std::vector<Variable> list = {w};
  const Tensor start = first_draw(thread_generator());
  const ThreadState before = state();
  for (const bool on_another : {false, true}) {
    std::unique_ptr<WeightScope> weights;
    std::unique_ptr<GeneratorScope> numbers;
    std::unique_ptr<FiniteScope> finite;
    std::unique_ptr<GradientTape> tape;
    Tensor y;
    {
      FiberFlow flow;
      flow.swap();
      weights = std::make_unique<WeightScope>(list, Operands({full({3}, 2.0)}));
      numbers = std::make_unique<GeneratorScope>(Generator(3));
      finite = std::make_unique<FiniteScope>();
      tape = std::make_unique<GradientTape>();
      y = w * random::uniform({3});
      flow.swap();
      CHECK(equal(w.value(), ones({3})));
      CHECK(Context::here().generator == nullptr);
      if (on_another) {
        elsewhere([&] {
          flow.swap();
          CHECK(equal(tape->gradient(y, w) * 2, y));
          flow.swap();
        });
      }
    }
    if (!on_another) CHECK_THROWS_AS(tape->gradient(y, w), TapeError);
    CHECK(sum(w).item<float>() == 3);
    weights.reset(), numbers.reset(), finite.reset(), tape.reset();
    y = {};
    CHECK(state() == before);
    CHECK(equal(first_draw(thread_generator()), start));
  }
}

TEST_CASE("what a tape holds for others ends with it, on any thread and after its own",
          "[threads]") {
  const auto memory = std::make_shared<std::vector<float>>(3, 2.0f);
  const Variable w("w", ones({3}));
  for (const bool own_thread_ends : {false, true}) {
    std::unique_ptr<GradientTape> tape;
    const auto record = [&] {
      tape = std::make_unique<GradientTape>();
      const Tensor x = share(std::span<const float>(*memory), {3}, memory);
      const auto f = checkpoint([w, memory](const Tensor& at) {
        return tanh(at * w) * static_cast<float>(memory->size());
      });
      return sum(f(x));
    };
    Tensor loss;
    if (own_thread_ends)
      elsewhere([&] { loss = record(); });
    else
      loss = record();
    CHECK(memory.use_count() > 2);
    elsewhere([&] { CHECK_THROWS_AS(tape->gradient(loss, w), TapeError); });
    if (!own_thread_ends) CHECK(tape->gradient(loss, w)(0).item<float>() > 0);
    elsewhere([&] { tape.reset(); });
    loss = {};
    if (!own_thread_ends) GradientTape next;  // it closes what has ended elsewhere
    CHECK(memory.use_count() == 1);
    CHECK(memory_statistics().live_records == 0);
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
  GradientTape next;  // it gets the bit of the tape that has ended
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
      for (int i = 0; i < 2'000; ++i) y = y + x;  // nobody would read the records of these ops
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
