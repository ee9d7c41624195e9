// SPDX-License-Identifier: BSD-3-Clause
// Random numbers of threads, and ops that they register.
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("each thread has a stream of its own", "[threads]") {
  seed(9);
  const Tensor expected = random::normal({50});
  seed(9);
  std::vector<Tensor> drawn(4);
  std::vector<std::thread> threads;
  for (Tensor& x : drawn)
    threads.emplace_back([&x] {
      seed(9);
      x = random::normal({50});
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& x : drawn) CHECK(equal(x, expected));
  CHECK(equal(random::normal({50}), expected));
}

TEST_CASE("threads draw numbers of their own", "[threads]") {
  Tensor first, second;
  std::thread([&] { first = random::normal({8}); }).join();
  std::thread([&] { second = random::normal({8}); }).join();
  CHECK_FALSE(equal(first, second));
  std::thread([&] { seed(3), first = random::normal({8}); }).join();
  std::thread([&] { seed(3), second = random::normal({8}); }).join();
  CHECK(equal(first, second));
}

TEST_CASE("threads register ops while others call theirs", "[threads]") {
  std::vector<std::thread> threads;
  std::vector<float> sums(4);
  for (std::size_t t = 0; t < sums.size(); ++t)
    threads.emplace_back([&sums, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string name = "own " + std::to_string(t) + " " + std::to_string(i);
        register_op(name, [](const OpCall& call) { return sum(call.input(0)); });
        sums[t] += call_op(name, {ones({4})}).item<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const float total : sums) CHECK(total == 100);
}
}  // namespace reel::tests
