// SPDX-License-Identifier: BSD-3-Clause
// Changes after a run: which are certain, which are doubtful, and what a trace then ignores.
#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// Numbers behind two pointers of a function that captures this.
struct Far {
  std::array<std::unique_ptr<std::int64_t>, 64> words;
  Far() {
    for (auto& word : words) word = std::make_unique<std::int64_t>(0);
  }
};
struct Box {
  Tensor value;
  void fields(auto&& field) { field("value", value); }
};
int calls = 0;  // a trace does not watch globals
bool eager(const auto& traced) {
  return traced.explain().find("runs eagerly: it changes its own state") != std::string::npos;
}
}  // namespace

TEST_CASE("words that change once, far away, are no state") {
  if (sanitized) return;
  for (const int changes : {1, 2, 3, 5, 20}) {
    const auto far = std::make_unique<Far>();
    calls = 0;
    const auto traced = trace([far = far.get(), changes](Tensor x) {
      if (calls < changes) *far->words[static_cast<std::size_t>(calls)] = 7;
      ++calls;
      return x * 2;
    });
    for (int i = 0; i < 40; ++i) CHECK(equal(traced(full({2}, 3.0f)), full({2}, 6.0f)));
    INFO(changes << traced.explain());
    CHECK(traced.trace_count() == 1);
    CHECK_FALSE(eager(traced));
    CHECK(calls < 40);
  }
}

TEST_CASE("words that change again and again, far away, are state") {
  if (sanitized) return;
  for (const std::size_t words : {1u, 2u, 64u}) {
    const auto far = std::make_unique<Far>();
    calls = 0;
    const auto traced = trace([far = far.get(), words](Tensor x) {
      auto& word = *far->words[static_cast<std::size_t>(calls++) % words];
      return x * static_cast<float>(++word);
    });
    for (int i = 0; i < 64; ++i)
      CHECK(
          equal(traced(ones({2})), full({2}, static_cast<float>(i / static_cast<int>(words) + 1))));
    INFO(words << traced.explain());
    CHECK(traced.explain().find("runs eagerly: ") != std::string::npos);
    CHECK(calls == 64);
  }
  // This holds too if no result shows it, and no word changes again soon.
  const auto far = std::make_unique<Far>();
  const auto log = trace([far = far.get()](Tensor x) {
    *far->words[static_cast<std::size_t>(calls++) % 64] += 3;
    return x * 2;
  });
  for (int i = 0; i < 40; ++i) log(ones({2}));
  INFO(log.explain());
  CHECK(eager(log));
}

TEST_CASE("a word that others write between the calls is none of the function's") {
  if (sanitized) return;
  const auto far = std::make_unique<Far>();
  calls = 0;
  const auto traced = trace([far = far.get()](Tensor x) {
    *far->words[9] = ++calls;  // stands for memory that is used for something else
    return x * 2;
  });
  for (int i = 0; i < 20; ++i) {
    CHECK(equal(traced(ones({2})), full({2}, 2.0f)));
    *far->words[9] = -i;
  }
  INFO(traced.explain());
  CHECK(traced.trace_count() == 1);
  CHECK_FALSE(eager(traced));
  CHECK(calls < 20);
}

TEST_CASE("state far away that runs change unseen is state") {
  if (sanitized) return;
  enum class Unseen { under_a_tape, thrown, on_another_thread };
  for (const Unseen how : {Unseen::under_a_tape, Unseen::thrown, Unseen::on_another_thread}) {
    const auto far = std::make_unique<Far>();
    calls = 0;
    const auto traced = trace([far = far.get()](Tensor x) {
      std::int64_t& word = *far->words[9];
      if (calls == -1) throw ++word;
      return ++word % 10 ? x : x * 2;
    });
    int expected = 0;
    const auto call = [&] {
      CHECK(equal(traced(ones({2})), full({2}, ++expected % 10 ? 1.0f : 2.0f)));
    };
    for (int i = 0; i < 60; ++i) {
      call();
      if (i > 2) continue;
      if (how == Unseen::under_a_tape) {
        const GradientTape tape;
        call();
      } else if (how == Unseen::thrown) {
        calls = -1;
        CHECK_THROWS_AS(traced(ones({2})), std::int64_t);
        ++expected;
        calls = 0;
      } else {
        std::thread(call).join();
      }
    }
    INFO(static_cast<int>(how) << traced.explain());
    CHECK(eager(traced));
  }
}

TEST_CASE("a function that changes its state is forgotten, with the memory of its replays") {
  const auto live = [] { return memory_statistics().live_tensors; };
  const Tensor x = ones({2});
  int state = 0;
  calls = 0;
  const auto traced = trace(
      [&](Tensor v) {
        if (++calls == 3) ++state;
        return v + v;
      },
      {.verify = 1});
  const std::int64_t before = live();
  const auto call = [&] { CHECK(equal(traced(x), full({2}, 2.0f))); };
  call(), call();
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("  1 path, 1 steps\n") != std::string::npos);
  call();
  CHECK(traced.trace_count() == 0);
  CHECK(traced.explain().find(" path") == std::string::npos);
  CHECK(traced.explain().find("  a run was not captured: it changes its own state: what its "
                              "captured pointer or reference number ") != std::string::npos);
  CHECK(live() == before);
  call(), call();
  CHECK(traced.trace_count() == 1);
  CHECK_FALSE(eager(traced));
}

TEST_CASE("a tensor behind a pointer argument is an argument") {
  const auto box = std::make_shared<Box>();
  const auto reads =
      trace([](Tensor x, std::shared_ptr<Box> b) { return x * b->value + b->value; });
  for (int i = 0; i < 6; ++i) {
    box->value = full({2}, static_cast<float>(i));
    CHECK(equal(reads(full({2}, 3.0f), box), full({2}, 4.0f * static_cast<float>(i))));
    CHECK(equal(box->value, full({2}, static_cast<float>(i))));
  }
  CHECK(reads.trace_count() == 1);
  CHECK(reads.explain().find("agerly") == std::string::npos);
}
}  // namespace reel::tests
