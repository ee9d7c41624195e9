// SPDX-License-Identifier: BSD-3-Clause
// R33 by numbers: of programs with state in C++, how many are found at once, at the next check, and
// never; and how many functions without state run eagerly.
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/main_heap.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
constexpr int calls = 300;
enum class Found { at_once, late, never };

/// Calls change(i), and then f(x), which must be x * number().
template <class F, class Number, class Change>
Found run(F f, Number number, Change change, std::string& explained) {
  const auto traced = trace<Tensor(Tensor)>(f);
  int wrong = 0;
  const std::string said = on_stderr([&] {
    for (int i = 0; i < calls; ++i) {
      change(i);
      const float got = traced(ones({2}))[0].template item<float>();
      const auto right = static_cast<float>(number());
      wrong += std::abs(got - right) > 1e-3f * std::max(1.0f, std::abs(right));
    }
  });
  explained = traced.explain();
  return !wrong ? Found::at_once : said.empty() ? Found::never : Found::late;
}
struct Schedule {
  double rate = 1;
};
struct Model {
  std::string name = "model";
  std::unique_ptr<Schedule> schedule = std::make_unique<Schedule>();
};
struct Config {
  std::array<double, 100> reserved{};
  double rate = 1;
};
double global_rate = 1;
const auto nothing = [](int) {};
}  // namespace

TEST_CASE("state in C++ is found at once, at the next check, or never, as the guide says",
          "[proc]") {
  if (sanitized) return;  // replays read less
  const MainHeap main_heap;
  int at_once = 0, late = 0, never = 0;
  std::string explained;
  const auto note = [&](const char* name, Found expected, Found found) {
    INFO(name << '\n' << explained);
    CHECK(found == expected);
    (found == Found::at_once ? at_once : found == Found::late ? late : never) += 1;
  };
  const auto program = [&](const char* name, Found expected, auto f, auto number, auto change) {
    note(name, expected, run(f, number, change, explained));
  };
  // The function changes the state.
  int n = 0;
  program(
      "a counter", Found::at_once, [&](Tensor x) { return x * ++n; }, [&] { return n; }, nothing);
  auto shared = std::make_shared<int>(0);
  program(
      "a counter behind a pointer", Found::at_once, [shared](Tensor x) { return x * ++*shared; },
      [&] { return *shared; }, nothing);
  Model model;
  program(
      "a rate two pointers away", Found::at_once,
      [&model](Tensor x) { return x * (model.schedule->rate *= 0.99); },
      [&] { return model.schedule->rate; }, nothing);
  std::list<int> list;
  program(
      "a list that grows", Found::at_once,
      [&](Tensor x) {
        list.push_back(1);
        return x * static_cast<double>(list.size());
      },
      [&] { return list.size(); }, nothing);
  std::map<int, double> map = {{1, 1}};
  program(
      "an element of a map", Found::at_once, [&](Tensor x) { return x * (map[1] *= 0.99); },
      [&] { return map[1]; }, nothing);
  // Other code changes the state between the calls.
  double rate = 1;
  program(
      "a rate", Found::at_once, [&](Tensor x) { return x * rate; }, [&] { return rate; },
      [&](int i) { rate = 1 + i / 60; });
  auto settings = std::make_shared<Schedule>();
  program(
      "a rate behind a pointer", Found::at_once,
      [settings](Tensor x) { return x * settings->rate; }, [&] { return settings->rate; },
      [&](int i) { settings->rate = 1 + i / 60; });
  std::string mode = "a";
  program(
      "the length of a text", Found::at_once,
      [&](Tensor x) { return x * static_cast<double>(mode.size()); }, [&] { return mode.size(); },
      [&](int i) {
        if (i % 70 == 69) mode += "b";
      });
  global_rate = 1;
  program(
      "a global", Found::late, [](Tensor x) { return x * global_rate; }, [] { return global_rate; },
      [](int i) { global_rate = 1 + i / 50; });
  Config config;
  program(
      "far into an object", Found::late, [&config](Tensor x) { return x * config.rate; },
      [&] { return config.rate; }, [&](int i) { config.rate = 1 + i / 50; });
  Model other;
  program(
      "two pointers away, set outside", Found::late,
      [&other](Tensor x) { return x * other.schedule->rate; }, [&] { return other.schedule->rate; },
      [&](int i) { other.schedule->rate = 1 + i / 50; });
  // Replays 1, 2, 4, 8 ... are checked; the flag is down then.
  auto flag = std::make_unique<std::array<double, 40>>();
  program(
      "far into an object, back before each check", Found::never,
      [&flag](Tensor x) { return x * (1 + (*flag)[39]); }, [&] { return 1 + (*flag)[39]; },
      [&](int i) { (*flag)[39] = i % 16 == 9; });
  CHECK(at_once == 8);
  CHECK(late == 3);
  CHECK(never == 1);
}

TEST_CASE("functions without state run eagerly with a reason, and reads() mends them", "[proc]") {
  if (sanitized) return;
  const MainHeap main_heap;
  std::string explained;
  const auto eager = [&](auto f, auto change) {
    run(
        f, [] { return 2; }, change, explained);
    return explained.find("runs eagerly: ") != std::string::npos;
  };
  Variable w("w", ones({2}) * 2);
  struct Trainer {
    Variable w{"w", ones({2}) * 2};
    std::vector<double> losses;
    int step = 0;
    double seconds = 0;
  } trainer;
  CHECK_FALSE(eager([&](Tensor x) { return x * w; }, nothing));
  CHECK_FALSE(eager([&](Tensor x) { return x * trainer.w; },
                    [&](int i) {
                      ++trainer.step, trainer.seconds += 0.5;
                      trainer.losses.push_back(i);
                    }));
  const auto heap = std::make_unique<Trainer>();
  CHECK_FALSE(eager([t = heap.get()](Tensor x) { return x * t->w; },
                    [&](int i) {
                      ++heap->step;
                      heap->losses.push_back(i);
                    }));
  std::deque<std::vector<float>> queue;
  CHECK_FALSE(eager([&](Tensor x) { return x * w; },
                    [&](int i) {
                      queue.emplace_back(static_cast<std::size_t>(i % 50));
                      if (queue.size() > 9) queue.pop_front();
                    }));
  // A captured counter of which only the sign matters.
  struct Progress {
    int step = 1;
    bool begun() const { return step > 0; }
  } progress;
  const auto f = [&](Tensor x) { return progress.begun() ? x * 2 : x; };
  CHECK(eager(f, [&](int) { ++progress.step; }));
  CHECK_THAT(explained, Catch::Contains("changes between calls") && Catch::Contains("reads()"));
  const bool begun = progress.begun();
  const auto traced = trace([&](Tensor x) { return begun ? x * 2 : x; }).reads(begun);
  for (int i = 0; i < 40; ++i) traced(ones({2}));
  CHECK(traced.explain().find("agerly") == std::string::npos);
}
}  // namespace reel::tests
