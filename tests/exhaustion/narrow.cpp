// SPDX-License-Identifier: BSD-3-Clause
// R16 and R20 for calls that come first or last: a thread's first tape, its last use of the
// library, and calls that no other op follows.
#include <pthread.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "exhaustion/allocations.hpp"
#include "lib/flow/context.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// Calls f() while allocation k fails. The text of its MemoryError; empty if there was none.
template <class F>
std::string text_without_memory(std::int64_t k, Failing failing, const F& f) {
  std::array<char, 400> text = {};
  {
    const FailingAllocations scope(k, failing);
    try {
      f();
    } catch (const MemoryError& error) {
      std::strncpy(text.data(), error.what(), text.size() - 1);
    } catch (...) {
      std::strncpy(text.data(), "another error", text.size() - 1);
    }
  }
  return text.data();
}
}  // namespace

TEST_CASE("a product of matrices without memory is a MemoryError") {
  if (sanitized) SKIP("AddressSanitizer keeps its own malloc, which cannot be made to fail");
  const Tensor x = ones({40, 40});
  int errors = 0;
  for (std::int64_t k = 0;; ++k) {
    trim_memory();
    const std::string text = text_without_memory(k, Failing::all_from, [&] { matmul(x, x); });
    if (!FailingAllocations::failed()) break;
    INFO("allocation " << k << ": " << text);
    if (text.empty()) continue;
    CHECK(text.find("matmul") != std::string::npos);
    ++errors;
  }
  CHECK(errors > 0);
  CHECK(equal(matmul(x, x), full({40, 40}, 40.0f)));
}

TEST_CASE("a step of a list of Variables without memory names its line") {
  const std::vector<Variable> x = {Variable("x", ones({2})), Variable("y", ones({3}))};
  const std::vector<Tensor> g = {ones({2}), ones({3})};
  for (std::int64_t k = 0;; ++k) {
    unsigned line = 0;
    const std::string text = text_without_memory(k, Failing::all_from, [&] {
      line = __LINE__ + 1;
      sgd_update(x, g, 0.0);
    });
    if (!FailingAllocations::failed()) break;
    INFO("allocation " << k << ": " << text);
    const std::string start = "narrow.cpp:" + std::to_string(line) + ": sgd_update: ";
    if (!text.empty()) CHECK(text.compare(0, start.size(), start) == 0);
  }
  CHECK(equal(x[0], ones({2})));
}

TEST_CASE("a thread's first tape is whole, or not there, when memory ends") {
  const Tensor x = ones({3});
  for (const Failing failing : {Failing::one, Failing::all_from})
    for (std::int64_t k = 0;; ++k) {
      bool failed = false, right = false;
      std::string text;
      std::thread([&] {
        const Tensor y = x * x;  // makes what a thread has without a tape
        text = text_without_memory(k, failing, [&] {
          GradientTape tape;
          tape.watch(x);
          const Tensor z = x * y;
          argmax(z, 0);
        });
        failed = FailingAllocations::failed();
        GradientTape tape;
        tape.watch(x);
        right = equal(tape.gradient(x * x, x), 2.0f * x);
      }).join();
      INFO("allocation " << k << ": " << text);
      CHECK(text != "another error");
      CHECK(right);
      if (!failed) break;
    }
}

TEST_CASE("a read by an op without a gradient, for which there is no memory, is an error") {
  const Tensor x = ones({3});
  bool found = false;
  for (std::int64_t k = 0;; ++k) {
    bool failed = false;
    std::string text;
    std::thread([&] {
      argmax(x * x, 0);
      GradientTape tape;
      tape.watch(x);
      const Tensor y = x * x;
      text = text_without_memory(k, Failing::one, [&] { argmax(y, 0); });
      failed = FailingAllocations::failed();
    }).join();
    found |= text.find("records: expected memory for more of them") != std::string::npos;
    if (!failed) break;
  }
  if (!sanitized) CHECK(found);
}

TEST_CASE("an arena whose first chunks are dropped keeps 64 of them") {
  if (sanitized) SKIP("a sanitizer counts no blocks");
  constexpr std::size_t chunk = 64 << 10;
  const std::int64_t before = live_allocations();
  {
    Arena arena;
    void* last = nullptr;
    for (int i = 0; i < 200; ++i) last = arena.take(chunk - 8);
    CHECK(live_allocations() - before == 201);  // with the list of the chunks
    arena.drop_before(last);
    CHECK(live_allocations() - before == 66);
  }
  CHECK(live_allocations() == before);
}

TEST_CASE("a thread that uses the library again after its end leaves no block behind") {
  if (sanitized) SKIP("the sanitizer finds leaks itself");
  const auto use = [] {
    const Tensor x = ones({90, 90});
    const Variable w("w", x);
    GradientTape tape;
    tape.gradient(sum(matmul(w, x) + sort(w)), w);
  };
  // Keys end in the order in which they were made: the library's comes before this one.
  static pthread_key_t key = 0;
  static void (*again)() = use;
  REQUIRE(pthread_key_create(&key, [](void*) { again(); }) == 0);
  const auto threads = [&] {
    for (int i = 0; i < 3; ++i)
      std::thread([&] {
        use();
        pthread_setspecific(key, &key);
      }).join();
  };
  const auto left = [&] {
    trim_memory();
    const std::int64_t before = live_allocations();
    threads();
    trim_memory();
    return live_allocations() - before;
  };
  for (int i = 0; i < 3; ++i) threads();
  std::int64_t blocks = left();
  // A list that the library keeps may have grown, but it does not grow each time.
  for (int again_left = 0; blocks > 0 && again_left < 2; ++again_left) blocks = left();
  CHECK(blocks <= 0);
  pthread_key_delete(key);
}
}  // namespace reel::tests
