// SPDX-License-Identifier: BSD-3-Clause
// What makes calls of a traced function run eagerly, what does not, and the reason that is given.
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <reel/nn.hpp>
#include <reel/reel.hpp>

#include "lib/trace/words.hpp"
#include "support/catch.hpp"
#include "support/main_heap.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// What explain() says after a few calls.
template <class F>
std::string explained(const F& traced) {
  on_stderr([&] {
    for (int i = 0; i < 5; ++i) traced(ones({3}));
  });
  return traced.explain();
}

struct Owner;
struct Step {
  Owner* owner;
  Tensor operator()(Tensor x) const;
};
struct Owner {
  Variable w{"w", full({3}, 2.0f)};
  decltype(trace(Step{nullptr})) traced = trace(Step{this});
};
Tensor Step::operator()(Tensor x) const { return x * owner->w; }
}  // namespace

TEST_CASE("a constant without elements is not counted") {
  const Tensor none = zeros({0}), one = ones({1});
  CHECK_THAT(explained(trace([none](Tensor x) {
               return concat({x, none}, 0);
             })),
             !Catch::Contains("constants"));
  CHECK_THAT(explained(trace([one](Tensor x) {
               return concat({x, one}, 0);
             })),
             Catch::Contains("constants (1, 4 bytes)"));
}

TEST_CASE("a function that moves or loads Variables runs eagerly, and explain says why") {
  const nn::Linear model(3, 2);
  CHECK_THAT(explained(trace([&](Tensor x) {
               to(model, cpu());
               return x + 1;
             })),
             Catch::Contains("it moves Variables to another device"));
  const Variable w("w", ones({3}));
  CHECK_THAT(explained(trace([&](Tensor x) {
               detail::replace_values({w}, {ones({3}) * 2});
               return x + w;
             })),
             Catch::Contains("it loads values into Variables"));
}

TEST_CASE("a function that reaches its own trace is replayed") {
  Owner owner;
  for (int i = 0; i < 8; ++i) {
    CHECK(equal(owner.traced(ones({3})), owner.w));
    owner.w.assign_add(1);
  }
  CHECK(owner.traced.trace_count() == 1);
  CHECK_THAT(owner.traced.explain(), !Catch::Contains("eagerly"));
}

TEST_CASE("a number beside one that changes does not make calls run eagerly", "[proc]") {
  struct Pair {
    std::int32_t kept = 2, counter = 0;
  };
  const MainHeap main_heap;
  const auto pair = std::make_unique<Pair>();
  const auto traced = trace([&kept = pair->kept](Tensor x) { return x * kept; });
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 100; ++i) {
      pair->counter += 1;
      REQUIRE(traced(ones({2}))[0].item<float>() == 2);
    }
  });
  CHECK((said.empty() || sanitized));  // replays read less there
  CHECK_THAT(traced.explain(), !Catch::Contains("eagerly"));
}

TEST_CASE("a counter on the stack of a thread is named, with its old number first") {
  std::string said;
  bool right = true;
  std::thread([&] {
    int step = 0;
    const auto traced = trace([&step](Tensor x) { return step % 1000 == 999 ? x * 2 : x * 1; });
    said = on_stderr([&] {
      for (; step < 300; ++step) right &= traced(ones({2}))[0].item<float>() == 1;
    });
  }).join();
  CHECK(right);
  INFO(said);
  const std::string words = "leads to changes between calls: it ";
  const std::size_t at = said.find(words);
  REQUIRE(said.find("what its captured pointer or reference number 1 (byte 0") != said.npos);
  REQUIRE(at != said.npos);
  int before = 0, now = 0;
  REQUIRE(std::sscanf(said.c_str() + at + words.size(), "was %d and is %d", &before, &now) == 2);
  CHECK(now > before);
}

TEST_CASE("a change is read as that of floating numbers only if both are usual") {
  const auto bits = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
  const auto whole = [](std::uint64_t before, std::uint64_t now) {
    return "was " + std::to_string(before) + " and is " + std::to_string(now);
  };
  const std::uint64_t large = bits(1e20f), larger = bits(1e21f);
  CHECK(tracing::change_text(bits(1.0f), bits(1.5f)) == "was 1 and is 1.5");
  CHECK(tracing::change_text(large, larger) == whole(large, larger));
  CHECK(tracing::change_text(bits(1.0f), large) == whole(bits(1.0f), large));
  const std::uint64_t first = large << 32 | bits(1.0f), second = larger << 32 | bits(2.0f);
  CHECK(tracing::change_text(first, second) == whole(first, second));
}

#if __has_builtin(__builtin_clear_padding)
TEST_CASE("bytes behind the value of an optional are not read as a pointer", "[cpu]") {
  static std::array<std::uint64_t, 128> noise;
  const auto at = (reinterpret_cast<std::uintptr_t>(noise.data()) + 255) / 256 * 256 + 1;
  std::optional<double> scale = 2.0;
  std::memcpy(reinterpret_cast<std::byte*>(&scale) + sizeof(double), &at, sizeof at);
  REQUIRE(scale == 2.0);  // the first byte says that there is a value
  const auto traced = trace([scale](Tensor x) {
    for (std::uint64_t& each : noise) each += 0x0101010101;
    return x * *scale;
  });
  for (int i = 0; i < 4; ++i) traced(ones({2}));
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("agerly") == std::string::npos);
}
#endif
}  // namespace reel::tests
