// SPDX-License-Identifier: BSD-3-Clause
// R33: other code changes what a function captured between its calls. Every call still gives the
// right number, whether or not a check is due.
#include <malloc.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/main_heap.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
constexpr int calls = 300;

/// These calls have no scheduled check, and neither have the calls next to them.
bool changes_at(int call) { return call == 100 || call == 203; }

/// f(x) must be x * number() in every call. change() sets another number.
template <class F, class Number, class Change>
void check_changed(const char* name, F f, Number number, Change change) {
  INFO(name);
  const auto traced = trace<Tensor(Tensor)>(f);
  on_stderr([&] {
    for (int i = 0; i < calls; ++i) {
      if (changes_at(i)) change();
      INFO("call " << i << " " << traced.explain());
      REQUIRE(traced(full({3}, 2.0f))[1].template item<float>() == 2 * number());
    }
  });
  CHECK(traced.explain().find("runs eagerly: ") != std::string::npos);
}

struct Settings {
  int unused = 3;
  float rate = 0.5f;
  Tensor apply(Tensor x) const { return x * rate; }
};
struct Model {
  std::string name = "model";
  std::unique_ptr<Settings> settings = std::make_unique<Settings>();
  Tensor operator()(Tensor x) const { return x * settings->rate; }
};
struct ByPointer {
  const Settings* settings;
  Tensor operator()(Tensor x) const { return x * settings->rate; }
};
}  // namespace

TEST_CASE("a captured value that other code changes is noticed in the next call", "[proc]") {
  const MainHeap main_heap;
  float rate = 1;
  check_changed(
      "a number", [&](Tensor x) { return x * rate; }, [&] { return rate; }, [&] { rate *= 3; });
  check_changed(
      "the same inside of a std::function", std::function([&](Tensor x) { return x * rate; }),
      [&] { return rate; }, [&] { rate += 1; });
  bool flag = false;
  check_changed(
      "a flag", [&](Tensor x) { return flag ? x * 3 : x * 1; }, [&] { return flag ? 3.0f : 1.0f; },
      [&] { flag = !flag; });
  Tensor scale = ones({3});
  check_changed(
      "a tensor", [&](Tensor x) { return x * scale; }, [&] { return scale[0].item<float>(); },
      [&] { scale = scale + 1; });
  std::array<float, 6> rates = {1, 2, 3, 4, 5, 6};
  check_changed(
      "the last of an array", [&](Tensor x) { return x * rates[5]; }, [&] { return rates[5]; },
      [&] { rates[5] += 1; });
  std::optional<float> maybe;
  check_changed(
      "an optional", [&](Tensor x) { return x * maybe.value_or(1); },
      [&] { return maybe.value_or(1); }, [&] { maybe = maybe.value_or(1) + 1; });
  std::variant<float, int> either = 1.0f;
  check_changed(
      "a variant", [&](Tensor x) { return either.index() ? x * 5 : x * 1; },
      [&] { return either.index() ? 5.0f : 1.0f; }, [&] { either = 5; });
  std::string text = "abc";
  check_changed(
      "a text", [&](Tensor x) { return x * static_cast<float>(text.size()); },
      [&] { return static_cast<float>(text.size()); }, [&] { text += "d"; });
  std::vector<float> list = {1, 2};
  check_changed(
      "the length of a vector", [&](Tensor x) { return x * static_cast<float>(list.size()); },
      [&] { return static_cast<float>(list.size()); }, [&] { list.push_back(1); });
  std::deque<float> queue = {1};
  check_changed(
      "the length of a deque", [&](Tensor x) { return x * static_cast<float>(queue.size()); },
      [&] { return static_cast<float>(queue.size()); }, [&] { queue.push_back(1); });
  static float kept;
  kept = 1;
  check_changed(
      "a static by its address", [p = &kept](Tensor x) { return x * *p; }, [&] { return kept; },
      [&] { kept += 1; });
  Settings settings;
  check_changed(
      "a functor's pointer", ByPointer{&settings}, [&] { return settings.rate; },
      [&] { settings.rate += 1; });
  check_changed(
      "a method by std::bind", std::bind(&Settings::apply, &settings, std::placeholders::_1),
      [&] { return settings.rate; }, [&] { settings.rate += 1; });
}

TEST_CASE("a captured value behind pointers is noticed in the next call", "[proc]") {
  const MainHeap main_heap;
  if (sanitized) return;  // AddressSanitizer hides the change
  const auto settings = std::make_shared<Settings>();
  check_changed(
      "a shared object", [settings](Tensor x) { return x * settings->rate; },
      [&] { return settings->rate; }, [&] { settings->rate += 1; });
  Model model;
  check_changed(
      "a model's new settings", [&](Tensor x) { return model(x); },
      [&] { return model.settings->rate; },
      [&] {
        const float rate = model.settings->rate;
        model.settings = std::make_unique<Settings>();
        model.settings->rate = rate + 1;
      });
}

namespace {
struct Rated {
  double rate = 2;
  std::int64_t unused[12] = {};
  REEL_FIELDS(rate)
};
struct Owner {
  std::shared_ptr<Rated> rated = std::make_shared<Rated>();
  REEL_FIELDS(rated)
  Tensor operator()(Tensor x) const { return x * rated->rate; }
};
}  // namespace

TEST_CASE("fields of the function object that other code changes are noticed in the next call",
          "[proc]") {
  const MainHeap main_heap;
  const Owner owner;
  check_changed(
      "a field behind a pointer", owner, [&] { return static_cast<float>(owner.rated->rate); },
      [&] { owner.rated->rate += 1; });
}

TEST_CASE("a line says where replays do not read what a pointer leads to") {
  // malloc() may take a large block from its heap, which replays do read
  void* const mapping =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapping != MAP_FAILED);
  const auto* const flag = static_cast<const char*>(mapping);
  const auto traced = trace([flag](Tensor x) { return *flag ? x * 3 : x * 2; });
  const auto again = [&] {
    for (int i = 0; i < 9; ++i) traced(ones({2}));
  };
  const std::string said = on_stderr(again);
  INFO(said);
  CHECK(said.find("captured.cpp:") != std::string::npos);
  CHECK(said.find("replays of a traced function do not compare what its captured pointer or "
                  "reference number 1 leads to") != std::string::npos);
  CHECK(said.find("list what the function reads: trace(f).reads(x)\n") != std::string::npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  munmap(mapping, 4096);
}

TEST_CASE("a captured value that changes and changes back is noticed") {
  double rate = 2;
  const auto traced = trace([&](Tensor x) { return x * rate; });
  for (int i = 0; i < calls; ++i) {
    if (i == 100) rate = 3;
    if (i == 101) rate = 2;
    REQUIRE(traced(ones({2}))[0].item<float>() == (i == 100 ? 3 : 2));
  }
}

TEST_CASE("a captured counter that other code counts is noticed before it matters") {
  int step = 0;
  const auto traced = trace([&](Tensor x) { return step % 100 == 99 ? x * 2 : x * 1; });
  const std::string said = on_stderr([&] {
    for (; step < calls; ++step)
      REQUIRE(traced(ones({2}))[0].item<float>() == (step % 100 == 99 ? 2 : 1));
  });
  CHECK(said.find("what its captured pointer or reference number 1 (byte 0 of the function object) "
                  "leads to "
                  "changes between calls: it was ") != std::string::npos);
  CHECK(said.find("; list it in reads(), or make it a Live number, a Variable or an argument\n") !=
        std::string::npos);
}

namespace {
template <class Pair>
void check_beside_counter() {
  Pair pair;
  static int runs = 0;
  const auto traced = trace([&pair](Tensor x) {
    ++runs;
    return x * pair.rate;
  });
  on_stderr([&] {
    for (int i = 0; i < calls; ++i) {
      ++pair.counter;
      if (i == 100) CHECK(runs < 50);  // it was replayed so far
      if (changes_at(i)) pair.rate += 1;
      REQUIRE(traced(ones({2}))[0].template item<float>() == pair.rate);
    }
  });
}
}  // namespace

TEST_CASE("a captured value in one word with a counter is noticed in the next call") {
  struct Before {
    double unused = 0;
    std::int32_t counter = 0;
    float rate = 2;
  };
  struct After {
    double unused = 0;
    float rate = 2;
    std::int32_t counter = 0;
  };
  check_beside_counter<Before>();
  check_beside_counter<After>();
}

TEST_CASE("what changes beside the values of a function does not keep it from being replayed") {
  struct Trainer {
    std::string name = "trainer";
    int step = 0;
    double seconds = 0;
    std::vector<float> losses;
    int runs = 0;
    Variable w{"w", ones({2})};
    Tensor run(Tensor x) {
      runs += x.shape().rank() == 2;
      return x * w;
    }
  } trainer;
  static int runs;
  runs = 0;
  const auto traced = trace([&trainer](Tensor x) {
    ++runs;
    return trainer.run(x);
  });
  for (int i = 0; i < 1000; ++i) {
    trainer.losses.push_back(traced(ones({2}))[0].item<float>());
    ++trainer.step;
    trainer.seconds += 0.5;
    if (i % 100 == 0) trainer.name += "!";
  }
  INFO(traced.explain());
  CHECK(traced.explain().find("eagerly") == std::string::npos);
  CHECK(runs < 100);
}

TEST_CASE("what lies behind the end of a captured range is not followed, in any heap") {
  if (sanitized) SKIP("only glibc's malloc() says where a block ends");
  struct Log {
    void* lines[2] = {};
    std::int64_t count = 0;
  };
  static Log log;
  const auto check = [] {
    const std::unique_ptr<void*[], void (*)(void*)> list(static_cast<void**>(std::malloc(40)),
                                                         std::free);
    list[0] = list[1] = nullptr;
    list[2] = &log;  // a word that the list does not use
    const std::pair range(list.get(), list.get() + 2);
    const auto traced = trace([range](Tensor x) {
      ++log.count;
      return range.first[0] ? x : x * 2;
    });
    for (int i = 0; i < 3; ++i) traced(ones({2}));
    CHECK(traced.explain().find("own state") == std::string::npos);
    CHECK(traced.trace_count() == 1);
  };
  check();
  std::thread(check).join();  // whose blocks are in a heap of their own
}

TEST_CASE("captured memory that is gone is not read") {
  const std::size_t bytes = 1 << 16;
  void* const page =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  void* const top = std::malloc(100'000);
  auto* const large = new std::array<char, 1 << 20>;
  std::array<void*, 3> pointers = {page, top, large};
  const auto traced = trace([pointers](Tensor x) { return pointers[0] ? x * 2 : x; });
  for (int i = 0; i < calls; ++i) {
    if (i == 50) {
      munmap(page, bytes);
      std::free(top);
      delete large;
      malloc_trim(0);
    }
    REQUIRE(traced(ones({2}))[0].item<float>() == 2);
  }
  // The function captured a pointer into the stack of a thread that has ended.
  std::optional<Traced<Tensor(Tensor)>> other;
  std::thread([&] {
    int on_stack = 1;
    other = trace([p = &on_stack](Tensor x) { return p ? x * 3 : x; });
    for (int i = 0; i < 10; ++i) (*other)(ones({2}));
  }).join();
  for (int i = 0; i < calls; ++i) REQUIRE((*other)(ones({2}))[0].item<float>() == 3);
}

TEST_CASE("what the main thread has on its stack is compared in calls of other threads") {
  double rate = 2;
  auto traced = trace([&rate](Tensor x) { return x * rate; });
  const auto expect_in_thread = [&](int calls) {
    std::thread([&, calls] {
      for (int i = 0; i < calls; ++i) {
        if (i % 50 == 49) rate += 1;
        CHECK(traced(ones({2}))[0].item<float>() == static_cast<float>(rate));
      }
    }).join();
  };
  for (int i = 0; i < 20; ++i) traced(ones({2}));  // captured on this thread
  rate = 5;
  expect_in_thread(120);
  traced = trace([&rate](Tensor x) { return x * rate; });  // captured on another thread
  expect_in_thread(300);
}

}  // namespace reel::tests
