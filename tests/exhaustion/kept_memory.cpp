// SPDX-License-Identifier: BSD-3-Clause
// R20: tapes and threads keep a limited amount of memory for later, and free all of it at their
// end.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
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
constexpr std::size_t chunk = 64 << 10;  // the size of an arena's chunk

/// How often the call allocates memory.
template <class F>
std::int64_t asked_by(const F& f) {
  const FailingAllocations counting(0, Failing::none);
  f();
  return FailingAllocations::counted();
}
/// The number of blocks that the call does not free.
template <class F>
std::int64_t left_by(const F& f) {
  trim_memory();
  const std::int64_t before = live_allocations();
  f();
  trim_memory();
  return live_allocations() - before;
}
void long_step(int ops) {
  const Tensor x = ones({2});
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < ops; ++i) y = y * x;
  tape.gradient(y, x);
}
}  // namespace

TEST_CASE("what an arena gives is apart, stays as it is, and is used again") {
  Arena arena;
  struct Piece {
    std::byte* at;
    std::size_t bytes;
    int mark;
  };
  std::vector<Piece> pieces;
  int mark = 0;
  const auto take = [&](std::size_t bytes) {
    auto* const at = static_cast<std::byte*>(arena.take(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(at) % 8 == 0);
    std::memset(at, ++mark & 127, bytes);
    pieces.push_back({at, bytes, mark & 127});
    return at;
  };
  const auto whole = [&] {
    for (const Piece& piece : pieces)
      for (std::size_t i = 0; i < piece.bytes; ++i)
        if (piece.at[i] != static_cast<std::byte>(piece.mark)) return false;
    return true;
  };
  for (std::size_t i = 0; i < 3'000; ++i) take(1 + i * 37 % 300);
  take(3 * chunk);  // larger than a chunk
  take(5);
  take(chunk + 1);
  for (std::size_t i = 0; i < 300; ++i) take(1 + i * 91 % 5'000);
  CHECK(whole());
  // Rewinds to a piece in the middle. The pieces before it stay, and its memory is given out again.
  for (const std::size_t to : {3'200u, 3'001u, 2'000u, 1u}) {
    std::byte* const place = pieces[to].at;
    arena.rewind(place);
    pieces.resize(to);
    CHECK(take(8) == place);
    for (std::size_t i = 0; i < 500; ++i) take(1 + i * 53 % 900);
    CHECK(whole());
  }
  arena.clear();
  std::byte* const first = pieces[0].at;
  pieces.clear();
  CHECK(take(16) == first);
}

TEST_CASE("an arena fills its chunks to the last byte") {
  Arena arena;
  auto* const first = static_cast<std::byte*>(arena.take(chunk / 2));
  CHECK(arena.take(chunk / 2 - 8) == first + chunk / 2);
  CHECK(arena.take(8) == first + chunk - 8);
  const std::int64_t asked = asked_by([&] { arena.take(8); });
  if (!sanitized) CHECK(asked >= 1);
  // After reserve(64), one take of 64 bytes or several smaller ones allocate no memory.
  Arena other;
  other.take(chunk - 64);
  other.reserve(64);
  CHECK(asked_by([&] { other.take(64); }) == 0);
  other.reserve(64);
  CHECK(asked_by([&] {
          other.take(24);
          other.take(40);
        }) == 0);
}

TEST_CASE("an arena keeps 64 spare chunks, uses them, and frees all at its end") {
  if (sanitized) SKIP("a sanitizer counts no blocks");
  const std::int64_t before = live_allocations();
  {
    Arena arena;
    // without the list of the chunks
    const auto blocks = [&] { return live_allocations() - before - 1; };
    const auto fill = [&](int count) {
      for (int i = 0; i < count; ++i) arena.take(chunk - 8);
    };
    fill(200);
    CHECK(blocks() == 200);
    arena.clear();
    CHECK(blocks() == 65);  // 64 spare chunks, and one in use
    CHECK(asked_by([&] { fill(65); }) == 0);
    CHECK(asked_by([&] { fill(1); }) >= 1);
    arena.clear();
    CHECK(blocks() == 65);
    arena.free_spare_chunks(3);
    CHECK(blocks() == 4);
    arena.free_spare_chunks(0);
    CHECK(blocks() == 1);
    // A chunk that is too small for a piece is skipped, and used again later.
    arena.take(4 * chunk);
    CHECK(blocks() == 2);
    arena.clear();
    CHECK(asked_by([&] { arena.take(4 * chunk); }) == 0);
  }
  {
    Arena arena;
    void* last = nullptr;
    for (int i = 0; i < 200; ++i) last = arena.take(chunk - 8);
    arena.drop_before(last);
    CHECK(live_allocations() - before == 66);  // with the list of the chunks
  }
  CHECK(live_allocations() == before);
}

TEST_CASE("steps of a tape ask for no memory once there was a longer one") {
  if (sanitized) SKIP("a sanitizer keeps no blocks");
  for (int i = 0; i < 3; ++i) long_step(10'000);
  CHECK(asked_by([] { long_step(10'000); }) < 20);
  CHECK(asked_by([] { long_step(9'000); }) < 20);
}

TEST_CASE("a line that reads another thread's tensors is noted once") {
  const Tensor x = ones({3});
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * 2;
  std::thread([&] {
    const auto read = [&](int times) {
      for (int i = 0; i < times; ++i) h* x;
    };
    read(10);
    const std::int64_t asked = asked_by([&] { read(20'000); });
    if (!sanitized) CHECK(asked < 5);
  }).join();
}

TEST_CASE("a tape that has ended keeps 64 chunks of records, and trim_memory none") {
  if (sanitized) SKIP("a sanitizer counts no blocks");
  std::thread([] {
    long_step(10);
    trim_memory();
    const std::int64_t before = live_allocations();
    long_step(200'000);
    return_blocks_to_system();  // frees the blocks of the values
    const std::int64_t kept = live_allocations() - before;
    CHECK(kept >= 2 * 64);
    CHECK(kept < 2 * 64 + 12);
    trim_memory();
    CHECK(live_allocations() - before < 8);
  }).join();
}

namespace {
/// A new thread frees the tensors while every allocation fails.
void free_without_memory(std::vector<Tensor>& tensors) {
  std::atomic<bool> go = false, done = false;
  std::thread thread([&] {
    while (!go) std::this_thread::yield();
    tensors.clear();
    done = true;
    while (go) std::this_thread::yield();
  });
  {
    const FailingAllocations none(0, Failing::all_from);
    go = true;
    while (!done) std::this_thread::yield();
  }
  go = false;
  thread.join();
}
}  // namespace

TEST_CASE("a thread that only frees needs no memory") {
  // The elements are next to the header, in a block of a size that is kept, or in a larger block.
  bool first = true;  // the library allocates what it keeps during the first round
  for (const std::int64_t length : {2, 2, 5'000, 100'000}) {
    INFO(length);
    trim_memory();
    const std::int64_t blocks = live_allocations();
    const MemoryStatistics before = memory_statistics();
    {
      std::vector<Tensor> given{ones({length})};
      const std::int64_t bytes = memory_statistics().live_bytes - before.live_bytes;
      Tensor base = given[0];
      given.push_back(base(range(0, 1)));
      free_without_memory(given);  // it frees a view, and one of several references
      MemoryStatistics now = memory_statistics();
      CHECK(now.live_tensors == before.live_tensors + 1);
      CHECK(now.live_bytes == before.live_bytes + bytes);
      if (!sanitized) CHECK(now.cached_bytes == 192);
      given.push_back(std::move(base));
      free_without_memory(given);
      now = memory_statistics();
      CHECK(now.live_tensors == before.live_tensors);
      CHECK(now.live_bytes == before.live_bytes);
      if (!sanitized) CHECK(now.cached_bytes == 192 + bytes);
    }
    trim_memory();
    if (!std::exchange(first, false)) CHECK(live_allocations() - blocks <= 0);
  }
}

TEST_CASE("lists of many operands are freed") {
  const std::vector<Tensor> parts(40, ones({2}));
  const auto join = [&] {
    for (int i = 0; i < 10; ++i) concat(parts, 0);
  };
  join();
  CHECK(left_by(join) <= 0);
}

TEST_CASE("linear maps are freed") {
  const Tensor x = ones({2});
  const auto once = [&] { linearize([](Tensor t) { return t * t; }, x).second(x); };
  for (int i = 0; i < 3; ++i) once();
  CHECK(left_by(once) <= 0);
}

TEST_CASE("a row-major copy of a gradient is freed before the next gradient") {
  constexpr std::int64_t n = 512;
  // The bytes that are alive while the gradient function in front of softmax runs. A transposed
  // gradient of softmax is copied.
  const auto bytes_in_front = [](bool transposed) {
    const Tensor x = ones({n, n}), upstream = arange(0, n * n).to(float32).reshape({n, n});
    std::int64_t bytes = 0;
    const auto watching = custom_gradient([&](Tensor t) {
      return std::pair(t * 1.0f, [&](Tensor up) {
        bytes = memory_statistics().live_bytes;
        return up;
      });
    });
    const std::int64_t before = memory_statistics().live_bytes;
    GradientTape tape;
    tape.watch(x);
    const Tensor y = softmax(watching(x));
    tape.gradient(transposed ? transpose(y) : y, x, {.upstream = upstream});
    return bytes - before;
  };
  bytes_in_front(false);
  CHECK(std::abs(bytes_in_front(true) - bytes_in_front(false)) < n * n);
}

namespace {
/// Threads that do the work leave no block behind.
void check_leaves_nothing(const detail::Function<void()>& work) {
  const auto threads = [&] {
    for (int i = 0; i < 3; ++i) std::thread([&] { work(); }).join();
  };
  for (int i = 0; i < 3; ++i) threads();
  std::int64_t left = left_by(threads);
  // A list that the library keeps may have grown, but it does not grow each time.
  for (int again = 0; left > 0 && again < 2; ++again) left = left_by(threads);
  CHECK(left <= 0);
}
}  // namespace

TEST_CASE("a thread leaves no block behind, whatever it did") {
  if (sanitized) SKIP("the sanitizer finds leaks itself");
  const Tensor x = ones({3});
  const auto nothing = [&] { ones({3}); };
  const auto tape = [&] { long_step(1'000); };
  const auto leaves = [&] {
    GradientTape tape({.persistent = true});
    std::vector<Tensor> watched;
    Tensor y = zeros({3});
    for (int i = 0; i < 100; ++i) {
      watched.push_back(ones({3}));
      tape.watch(watched.back());
      y = y + watched.back() * watched.back();
    }
    CHECK(equal(tape.gradient(y, watched[50]), 2.0f * ones({3})));
  };
  const auto cuts = [&] {
    GradientTape tape;
    tape.watch(x);
    Tensor y;
    for (int i = 0; i < 300; ++i) y = argmax(x, 0);  // argmax has no gradient
  };
  const auto kept_tape = [&] {
    GradientTape outer({.persistent = true});
    outer.watch(x);
    const Tensor y = x * x;
    for (int i = 0; i < 50; ++i) long_step(100);
    CHECK(equal(outer.gradient(y, x), 2.0f * x));
  };
  const auto numbers = [&] {
    seed(3);
    random::normal({10});
    const GeneratorScope scope(Generator(5));
    random::normal({10});
  };
  const auto traced = [&] {
    Variable w("w", ones({3}));
    auto f = trace([&](Tensor v) {
      w.assign_add(v);
      return sum(v) > 2.0f ? v * w : v;
    });
    for (int i = 0; i < 5; ++i) f(x), f(x * 0.1f);
    const std::string text = f.explain();
  };
  const auto large = [&] {
    std::vector<Tensor> made;
    for (int i = 0; i < 50; ++i) made.push_back(ones({3'000 + 1'000 * i}));
  };
  const auto refused = [&] {
    CHECK_THROWS_AS(x + ones({4}), ShapeError);
    CHECK_THROWS_AS(Variable("v", Tensor()), Error);
  };
  int number = 0;
  for (const detail::Function<void()>& work :
       {detail::Function<void()>(nothing), detail::Function<void()>(tape),
        detail::Function<void()>(leaves), detail::Function<void()>(cuts),
        detail::Function<void()>(kept_tape), detail::Function<void()>(numbers),
        detail::Function<void()>(traced), detail::Function<void()>(large),
        detail::Function<void()>(refused)}) {
    INFO("work " << number++);
    check_leaves_nothing(work);
  }
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
  check_leaves_nothing([&] {
    use();
    pthread_setspecific(key, &key);
  });
  pthread_key_delete(key);
}
}  // namespace reel::tests
