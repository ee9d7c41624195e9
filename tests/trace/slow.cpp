// SPDX-License-Identifier: BSD-3-Clause
// Functions that are faster than their replays. Which is faster depends on the machine, so these
// tests hold in both cases, but for the function that sleeps.
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/environment.hpp"

namespace reel::tests {
namespace {
/// Other tests run with REEL_TRACE=1, which measures nothing.
struct Measured {
  Environment environment{"REEL_TRACE", nullptr};
};
int runs = 0;  // a trace does not watch globals
float at(const Tensor& x, int i) { return x[i].item<float>(); }
template <class T>
bool runs_eagerly(const T& traced) {
  return traced.explain().find("runs eagerly: the function takes ") != std::string::npos;
}
}  // namespace

TEST_CASE("a function that is faster than its replay runs itself, with equal results") {
  const Measured measured;
  runs = 0;
  const auto traced = trace([](const Tensor& x) {
    ++runs;
    return x + 1;
  });
  for (int i = 0; i < 3000; ++i)
    REQUIRE(at(traced(full({2}, static_cast<float>(i))), 1) == static_cast<float>(i + 1));
  if (runs_eagerly(traced))
    CHECK(runs > 2000);
  else
    CHECK(runs < 100);
  CHECK(to_string(graph_of(traced, ones({2}))).find("add") != std::string::npos);
  CHECK(traced.trace_count() == 1);
  traced.clear();
  CHECK(traced.trace_count() == 0);
  CHECK(!runs_eagerly(traced));
  runs = 0;
  for (int i = 0; i < 200; ++i)
    REQUIRE(at(traced(full({2}, static_cast<float>(i))), 0) == static_cast<float>(i + 1));
  CHECK(traced.trace_count() == 1);
  CHECK(runs < 20);
}

TEST_CASE("a function that is slower than its replay is replayed") {
  const Measured measured;
  runs = 0;
  const auto traced = trace([](const Tensor& x) {
    ++runs;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return x + 1;
  });
  for (int i = 0; i < 1000; ++i) traced(ones({2}));
  CHECK(runs < 64);
  CHECK(!runs_eagerly(traced));
}

TEST_CASE("REEL_TRACE=1 measures nothing") {
  runs = 0;
  const Environment environment("REEL_TRACE", "1");
  const auto traced = trace([](const Tensor& x) {
    ++runs;
    return x + 1;
  });
  for (int i = 0; i < 2000; ++i) traced(ones({2}));
  CHECK(runs < 64);
}

TEST_CASE("Variables and random numbers go on where a function begins to run itself") {
  const Measured measured;
  Variable ours("ours", ones({3})), theirs("theirs", ones({3}));
  const auto step = [](Variable& w) {
    return trace([w](const Tensor& x) mutable {
      w.assign(w * 0.5 + x);
      return random::uniform({3}) + w;
    });
  };
  const auto traced = step(ours);
  seed(7);
  std::vector<Tensor> got;
  for (int i = 0; i < 1000; ++i) got.push_back(traced(full({3}, static_cast<float>(i))));
  seed(7);
  for (int i = 0; i < 1000; ++i) {
    theirs.assign(theirs * 0.5 + full({3}, static_cast<float>(i)));
    const Tensor wanted = random::uniform({3}) + theirs;
    for (int k = 0; k < 3; ++k) REQUIRE(at(got[static_cast<std::size_t>(i)], k) == at(wanted, k));
  }
}

TEST_CASE("other shapes, tapes and exceptions come through while a function runs itself") {
  const Measured measured;
  const auto traced = trace([](const Tensor& x) {
    if ((x[0] < 0).item<bool>()) throw std::runtime_error("negative");
    return x * x;
  });
  for (int i = 0; i < 1000; ++i) traced(ones({2}));
  for (int i = 0; i < 600; ++i) {
    const Tensor x = full({2 + i % 3}, static_cast<float>(i));
    REQUIRE(traced(x).shape() == x.shape());
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(traced(x));
    REQUIRE(at(tape.gradient(y, x), 1) == 2 * static_cast<float>(i));
    if (i % 100 == 7) CHECK_THROWS_AS(traced(-ones({2})), std::runtime_error);
  }
}

TEST_CASE("a function that runs itself may replace the handle it was called by") {
  const Measured measured;
  static bool replaces = false;
  static std::optional<Traced<Tensor(const Tensor&)>> handle;
  replaces = false;
  const auto kept = std::make_shared<int>(5);
  handle = trace([kept](const Tensor& x) {
    if (replaces) handle.reset();
    return x + *kept;
  });
  for (int i = 0; i < 1000; ++i) (*handle)(ones({2}));
  replaces = true;
  while (handle) CHECK(at((*handle)(ones({2})), 0) == 6);
  CHECK(kept.use_count() == 1);
}

TEST_CASE("several threads call a function that runs itself") {
  const Measured measured;
  const auto traced = trace([](const Tensor& x) { return x * 2; });
  for (int i = 0; i < 1000; ++i) traced(ones({2}));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i)
        wrong +=
            at(traced(full({2}, static_cast<float>(i + t))), 1) != 2 * static_cast<float>(i + t);
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}
}  // namespace reel::tests
