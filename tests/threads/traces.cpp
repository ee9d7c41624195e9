// SPDX-License-Identifier: BSD-3-Clause
// trace: several threads call one traced function from its first call on. Threads share long
// passes.
#include <cmath>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("threads capture, check and replay one function at the same time", "[threads]") {
  Variable w("w", random::normal({8, 8}));
  const auto f = [&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = tanh(matmul(x, w));
    if (sum(y) > 0.0f) y = y * 2.0f;
    return std::vector<Tensor>{y, tape.gradient(sum(y * y), x)};
  };
  for (int round = 0; round < 5; ++round) {
    const auto traced = trace(f);
    bool right[4] = {};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        seed(t);
        right[t] = true;
        for (int i = 0; i < 50; ++i) {
          const Tensor x = random::normal({2 + i % 2, 8});
          const std::vector<Tensor> got = traced(x), expected = f(x);
          right[t] &= allclose(got[0], expected[0]) &&
                      allclose(got[1], expected[1], {.rtol = 1e-4, .atol = 1e-5});
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const bool all_right : right) CHECK(all_right);
    CHECK(traced.trace_count() <= 4);
    CHECK(traced.explain().find("eagerly") == std::string::npos);
  }
}

TEST_CASE("a long pass of a replay reads and writes all elements, in any number of blocks",
          "[threads]") {
  constexpr std::int64_t n = 1 << 19;
  const Tensor x = arange(0, n).to(float32) / n, y = 2 - x;
  const auto difference = trace([](Tensor a, Tensor b) { return a - b; });
  for (int call = 0; call < 5; ++call) {
    const std::vector<float> got = difference(x, y).to_vector<float>();
    bool right = true;
    for (std::size_t i = 0; i < got.size(); ++i)
      right &= got[i] == static_cast<float>(i) * 0x1p-18f - 2;  // exact, as all numbers here are
    CHECK(right);
  }
  // The pass of tanh's gradient reads dy and the result, and has no other input. The sum between
  // the passes keeps them apart.
  const auto slopes = trace([](Tensor a, Tensor upstream) {
    GradientTape tape;
    tape.watch(a);
    return tape.gradient(cumsum(tanh(a)), a, {.upstream = upstream});
  });
  for (int call = 0; call < 5; ++call) {
    const std::vector<float> got = slopes(x, ones({n})).to_vector<float>();
    bool right = true;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double t = std::tanh(static_cast<double>(i) * 0x1p-19);
      const double slope = (1 - t * t) * static_cast<double>(got.size() - i);
      right &= std::abs(static_cast<double>(got[i]) - slope) <= 1e-5 * slope;
    }
    CHECK(right);
  }
}

TEST_CASE("threads train models of their own by one traced function", "[threads]") {
  const auto traced = trace([](Variable w, Tensor x) {
    GradientTape tape;
    w.assign_sub(tape.gradient(mean(square(matmul(x, w))), w) * 0.1f);
  });
  std::vector<Tensor> ends(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      seed(3);
      Variable w("w", random::normal({6, 1}));
      for (int i = 0; i < 40; ++i) traced(w, random::normal({10, 6}));
      ends[t] = w;
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& end : ends) CHECK(equal(end, ends[0]));
  CHECK(traced.trace_count() == 4);
}
}  // namespace reel::tests
