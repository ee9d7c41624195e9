// SPDX-License-Identifier: BSD-3-Clause
// Tapes of threads.
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("each thread has tapes of its own; weights are shared", "[threads]") {
  Variable w("w", tensor({1.0f, 2.0f}));
  std::vector<float> slopes(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < slopes.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        GradientTape tape;
        Tensor y = sum(w * w * static_cast<float>(t));
        slopes[t] = tape.gradient(y, w)(1).item<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < slopes.size(); ++t) CHECK(slopes[t] == 4.0f * static_cast<float>(t));
}

TEST_CASE("a tape belongs to the thread that made it", "[threads]") {
  const Tensor x = tensor({1.0f, 2.0f});
  GradientTape tape;
  std::thread([&] {
    CHECK_THROWS_AS(tape.watch(x), TapeError);
    CHECK_THROWS_AS(tape.pause(), TapeError);
    CHECK_THROWS_AS(tape.ops(), TapeError);
    CHECK_THROWS_AS(tape.gradient(x, x), TapeError);
  }).join();
  tape.watch(x);
  CHECK(equal(tape.gradient(x * x, x), 2.0f * x));
}

TEST_CASE("threads whose tapes watch one weight know it by records of their own", "[threads]") {
  const Variable w("w", tensor({2.0f}));
  const auto learn = [&](int others) {
    for (int round = 0; round < 200; ++round) {
      GradientTape outer;
      const Tensor x = tensor({1.0f});
      outer.watch(x);
      Tensor y = x;
      // so w gets a later number on this thread's reel
      for (int i = 0; i < others; ++i) y = y + 0.0f;
      Tensor z = y * w * w;
      {
        GradientTape inner;
        const Tensor dw = inner.gradient(w * w * w, w);
        if (dw.item<float>() != 12) return false;
        z = z + dw * w;
      }
      // the derivative of w^2 + 3 w^3
      if (outer.gradient(z, w).item<float>() != 4 + 36) return false;
    }
    return true;
  };
  bool right[2] = {};
  std::thread other([&] { right[0] = learn(3); });
  right[1] = learn(7);
  other.join();
  CHECK((right[0] && right[1]));
}
}  // namespace reel::tests
