// SPDX-License-Identifier: BSD-3-Clause
// What a flow, its events, generators and marks leave behind, and what they keep where memory ends.
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "exhaustion/allocations.hpp"
#include "lib/flow/context.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// The number of blocks that a hundred calls do not free.
template <class F>
std::int64_t left_by_hundred(const F& f) {
  const auto calls = [&] {
    for (int i = 0; i < 100; ++i) f();
  };
  calls();
  const std::int64_t before = live_allocations();
  calls();
  return live_allocations() - before;
}

/// Another thread computes from tensors that tapes of two threads watch.
void mark_by_two_tapes(const Tensor& x) {
  GradientTape outer;
  outer.watch(x);
  std::promise<void> made, done;
  Tensor h;
  std::thread other([&] {
    const Tensor z = ones({2});
    GradientTape tape;
    tape.watch(z);
    h = z * 2;
    made.set_value();
    done.get_future().wait();
  });
  made.get_future().wait();
  std::thread([&] { h* x; }).join();
  done.set_value();
  other.join();
}
}  // namespace

TEST_CASE("events and generators free their memory") {
  if (sanitized) SKIP("the sanitizer finds leaks itself");
  CHECK(left_by_hundred([] { const Event event(cpu()); }) < 20);
  CHECK(left_by_hundred([] {
          Event event(cpu());
          event = Event(cpu());
        }) < 20);
  CHECK(left_by_hundred([] { const Generator generator(5); }) < 20);
  CHECK(left_by_hundred([] {
          const Generator generator(5);
          const Generator copy = generator, clone = generator.clone();
        }) < 20);
}

TEST_CASE("sets of marks whose tapes have ended leave no memory behind") {
  if (sanitized) SKIP("a sanitizer counts no blocks");
  const Tensor x = ones({2});
  const auto steps = [&] {
    for (int i = 0; i < 600; ++i) mark_by_two_tapes(x);
  };
  for (int i = 0; i < 4; ++i) steps();
  const std::int64_t before = live_allocations();
  for (int i = 0; i < 2; ++i) steps();
  CHECK(live_allocations() - before < 400);  // some of the last sets are still listed
}

TEST_CASE("a temporary keeps its elements where there is no memory for the record") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  // A new thread, whose tapes have no spare memory.
  std::thread([] {
    const Variable w("w", ones({4}));
    GradientTape tape;
    tape.watch(w);
    const Tensor row = w.value();
    int refused = 0;
    for (std::uint32_t i = 0; i < 4 * Reel::chunk_records; ++i) {
      Tensor x = arange(0.0f, 4.0f);
      bool threw = false;
      {
        const FailingAllocations none(0, Failing::all_from);
        try {
          x = std::move(x) + row;
        } catch (const MemoryError&) {
          threw = true;
        }
      }
      if (!threw) continue;
      ++refused;
      REQUIRE(x.defined());
      REQUIRE(equal(x, arange(0.0f, 4.0f)));
      x + row;  // now there is memory
    }
    CHECK(refused > 0);
  }).join();
}

TEST_CASE("trim_memory() frees the records of tapes that other threads have ended") {
  const Variable w("w", ones({3}));
  auto tape = std::make_unique<GradientTape>();
  Tensor y = w * w;
  for (int i = 0; i < 100; ++i) y = y * w;
  CHECK(Context::here().reel->size() >= 100);
  std::thread([&] { tape.reset(); }).join();
  trim_memory();
  CHECK(Context::here().reel->size() == 0);
  CHECK(Context::here().reel->alive == 0);
}
}  // namespace reel::tests
