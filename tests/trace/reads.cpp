// SPDX-License-Identifier: BSD-3-Clause
// reads() makes objects outside of tensors part of the signature.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
struct Schedule {
  double rate = 1;
  int step = 0;
  int unlisted = 0;
  REEL_FIELDS(rate, step)
};
struct Settings {
  std::map<std::string, double> numbers = {{"a", 1}};
  std::optional<float> clip;
  std::string mode = "a text that is longer than a short string";
  std::unique_ptr<Schedule> schedule = std::make_unique<Schedule>();
  std::vector<int> sizes = {3};
  Tensor scale = ones({2});
  Variable w{"w", ones({2})};
  REEL_FIELDS(numbers, clip, mode, schedule, sizes, scale, w)
};
float first(const Tensor& x) { return x[0].item<float>(); }
}  // namespace

TEST_CASE("each change of what reads() lists is another signature, and comes back to its trace") {
  Schedule schedule;
  int runs = 0;
  const auto traced = trace([&](Tensor x) {
                        static int* const count = &runs;
                        ++*count;
                        return x * schedule.rate;
                      }).reads(schedule);
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 200; ++i) {
      schedule.rate = 1 + i / 50 % 2;
      schedule.unlisted = i;
      REQUIRE(first(traced(ones({2}))) == static_cast<float>(schedule.rate));
    }
  });
  CHECK(said.empty());
  CHECK(traced.trace_count() == 2);
  CHECK(runs < 40);
  CHECK_THAT(traced.explain(), Catch::Contains("(float32(2,), reads 2, reads 0), training"));
}

TEST_CASE("leaves of every kind are read, in each call and at any depth") {
  Settings settings;
  const auto f = [&](Tensor x) {
    x = x * settings.numbers.at("a") + settings.clip.value_or(0);
    x = x * static_cast<float>(settings.mode.size()) * settings.schedule->rate;
    return x * static_cast<float>(settings.sizes.back()) * settings.scale * settings.w;
  };
  const std::vector<std::function<void()>> changes = {
      [&] { settings.numbers["a"] = 3; },
      [&] { settings.clip = 2.0f; },
      [&] { settings.mode += "!"; },
      [&] { settings.schedule->rate = 4; },
      [&] { settings.sizes.push_back(7); },
      [&] { settings.scale = settings.scale + 1; },
      [&] { settings.w = Variable("v", ones({2}) * 9); }};
  for (const auto& change : changes) {
    const auto traced = trace(f, {.verify = 0}).reads(settings);
    for (int i = 0; i < 12; ++i) {
      if (i == 7) change();
      settings.w.assign_add(1);  // live
      REQUIRE(equal(traced(ones({2})), f(ones({2}))));
    }
    // What was captured of the Variable that is gone is dropped.
    CHECK(traced.trace_count() == (&change == &changes.back() ? 1 : 2));
  }
}

TEST_CASE("a run that changes what reads() lists is state") {
  Schedule schedule;
  const auto traced =
      trace([&](Tensor x) { return x * static_cast<float>(++schedule.step); }).reads(schedule);
  const std::string said = on_stderr([&] {
    for (int i = 1; i < 9; ++i) REQUIRE(first(traced(ones({2}))) == static_cast<float>(i));
  });
  CHECK_THAT(said, Catch::Contains("it changes \"step\", which reads() lists; keep it in a "
                                   "Variable, or pass it as an argument"));
}

TEST_CASE("after four signatures that differ in listed values alone calls run eagerly") {
  double rate = 0;
  const auto traced = trace([&](Tensor x) { return x * rate; }).reads(rate);
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 40; ++i) {
      rate = i;
      REQUIRE(first(traced(ones({2}))) == static_cast<float>(i));
    }
  });
  CHECK(traced.trace_count() == 4);
  CHECK_THAT(said, Catch::Contains("runs eagerly: what reads() lists has had more than 4 values; "
                                   "make what changes a Live number or a Variable\n"));
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK_THAT(traced.explain(), Catch::Contains("run eagerly: more than 4"));
}

TEST_CASE("copies of a handle share what it reads, and later it is an error") {
  Schedule schedule, other;
  const auto traced = trace([&](Tensor x) { return x * schedule.rate * other.rate; });
  const auto copy = traced;
  traced.reads(schedule, other);
  copy(ones({2}));
  other.rate = 2;
  CHECK(first(copy(ones({2}))) == 2);
  schedule.rate = 3;
  CHECK(first(traced(ones({2}))) == 6);
  CHECK_THROWS_WITH(traced.reads(schedule), Catch::Contains("reads.cpp") &&
                                                Catch::Contains("reads() before the first call"));
}

TEST_CASE("beside reads() what captured pointers lead to is not compared") {
  Schedule schedule;
  const auto step = std::make_unique<int>(0);
  const auto traced = trace([&schedule, step = step.get()](Tensor x) {
                        return step ? x * schedule.rate : x;
                      }).reads(schedule);
  const std::string said = on_stderr([&] {
    for (; *step < 100; ++*step) traced(ones({2}));
  });
  CHECK(said.empty());
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("a captured shared_ptr that changes without effect: calls are replayed with reads()") {
  double rate = 2;
  std::array<int, 2> nodes = {};
  std::shared_ptr<int> tree;
  const auto f = [&rate, &tree](Tensor x) { return tree ? x * rate : x; };
  const auto explained = [&](const auto& traced) {
    on_stderr([&] {
      for (std::size_t i = 0; i < 40; ++i) {
        tree = {std::shared_ptr<int>(), &nodes[i % 2]};
        REQUIRE(first(traced(ones({2}))) == 2);
      }
    });
    return traced.explain();
  };
  if (!sanitized)
    CHECK_THAT(explained(trace(f)), Catch::Contains("runs eagerly: what its captured pointer"));
  const auto mended = trace(f).reads(rate);
  CHECK(explained(mended).find("agerly") == std::string::npos);
  CHECK(mended.trace_count() == 1);
}

TEST_CASE("each signature of reads() has 64 paths of its own") {
  bool up = false;
  const auto traced = trace([&up](Tensor x) {
                        const int way = x.item<int>();
                        return ones({2}) * (up ? way : -way);
                      }).reads(up);
  for (const bool now : {false, true}) {
    up = now;
    for (int way = 0; way < 40; ++way)
      REQUIRE(first(traced(tensor(way))) == static_cast<float>(up ? way : -way));
  }
  CHECK(traced.trace_count() == 80);
  CHECK(traced.explain().find("agerly") == std::string::npos);
}
}  // namespace reel::tests
