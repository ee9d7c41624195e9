// SPDX-License-Identifier: BSD-3-Clause
// What a traced function keeps of its signatures, and what it drops.
#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t mebibyte = 1 << 20;
/// A function that keeps a constant as large as its argument for each length. No signature is made
/// from others: a root is no line through lengths.
Tensor scaled(const Tensor& x) {
  return x * full(x.shape(), std::sqrt(static_cast<float>(x.size())));
}
Tensor given(int i) { return ones({mebibyte / 4 + i}); }
}  // namespace

TEST_CASE("signatures that were called longest ago give way to new ones", "[cpu]") {
  const auto f = [&](Tensor x) { return scaled(x); };
  const auto traced = trace(f, {.verify = 0, .memory = 5 * mebibyte});
  const auto call = [&](int i) {
    const Tensor x = given(i);
    CHECK(equal(traced(x), f(x)));
    return traced.trace_count();
  };
  const std::string said = on_stderr([&] {
    for (int i = 0; i < 8; ++i) {
      call(i);
      call(i);
      if (i > 1) call(1);  // in use
    }
  });
  CHECK(said.find("evict.cpp:") != said.npos);
  CHECK(said.find("takes more than 5.24 MB") != said.npos);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(traced.trace_count() == 4);
  const auto keeps = [&](int i) {
    return traced.explain().find("(float32(" + std::to_string(mebibyte / 4 + i) + ",))") !=
           std::string::npos;
  };
  CHECK(keeps(1));
  CHECK(keeps(7));
  CHECK_FALSE(keeps(0));
  CHECK_FALSE(keeps(2));
  call(0);
  CHECK(keeps(0));
  CHECK(traced.trace_count() == 4);
}

TEST_CASE("memory that signatures share counts once", "[cpu]") {
  const Tensor table = ones({5, mebibyte / 4});
  const auto f = [&](Tensor x) {
    return x * std::sqrt(static_cast<float>(x.size())) + sum(table * x(0));
  };
  const auto traced = trace(f, {.verify = 0, .memory = 12 * mebibyte});
  for (int i = 1; i <= 10; ++i) CHECK(equal(traced(ones({i})), f(ones({i}))));
  CHECK(traced.trace_count() == 10);
}

TEST_CASE("a signature that is dropped again and again runs eagerly", "[cpu]") {
  const auto traced = trace([](Tensor x) { return scaled(x); }, {.verify = 0, .memory = mebibyte});
  on_stderr([&] {
    for (int time = 0; time < 6; ++time)
      for (int i = 0; i < 2; ++i) CHECK(equal(traced(given(i)), scaled(given(i))));
  });
  CHECK(traced.explain().find("runs eagerly: it was captured and dropped 3 times") !=
        std::string::npos);
  traced.clear();
  CHECK(equal(traced(given(0)), scaled(given(0))));
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("what was captured of models that are gone is dropped", "[cpu]") {
  const auto traced = trace([](const Variable& w, Tensor x) { return sum(w * x); });
  const Tensor x = ones({mebibyte / 4});
  std::int64_t most = 0;
  const std::int64_t before = memory_statistics().live_bytes;
  for (int i = 0; i < 40; ++i) {
    const Variable w("w", full({mebibyte / 4}, static_cast<float>(i)));
    for (int time = 0; time < 3; ++time)
      CHECK(traced(w, x).item<float>() == static_cast<float>(i) * mebibyte / 4);
    most = std::max(most, memory_statistics().live_bytes - before);
  }
  CHECK(most < 12 * mebibyte);
  // A model that lives is kept, whatever becomes of others.
  const Variable kept("kept", x);
  traced(kept, x);
  for (int i = 0; i < 20; ++i) traced(Variable("w", x), x);
  CHECK(traced.trace_count() <= 8);
  CHECK(traced.explain().find("kept") != std::string::npos);
}

TEST_CASE("nothing is dropped that a call, a gradient or a thread may need", "[cpu]") {
  const TraceOptions options = {.verify = 0, .memory = mebibyte / 2};
  on_stderr([&] {
    const auto inner = trace([](Tensor x) { return scaled(x); }, options);
    const auto outer = trace(
        [&](Tensor x) {
          inner(given(1));
          return inner(given(2)) * sum(x);
        },
        options);
    for (int time = 0; time < 3; ++time) CHECK(equal(outer(ones({1})), scaled(given(2))));
    // A replay under a tape waits for gradient() while others are captured.
    const auto taped = trace([](Tensor x) { return scaled(x); }, options);
    for (int time = 0; time < 3; ++time) {
      GradientTape tape;
      const Tensor x = given(3);
      tape.watch(x);
      const Tensor y = taped(x);
      taped(given(4));
      taped(given(5));
      CHECK(equal(tape.gradient(sum(y), x), scaled(ones(x.shape()))));
    }
    const auto shared = trace([](Tensor x) { return scaled(x); }, options);
    const auto work = [&](int first) {
      for (int time = 0; time < 4; ++time)
        for (int i = first; i < first + 3; ++i) CHECK(equal(shared(given(i)), scaled(given(i))));
    };
    std::thread other(work, 3);
    work(0);
    other.join();
  });
}
}  // namespace reel::tests
