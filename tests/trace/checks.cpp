// SPDX-License-Identifier: BSD-3-Clause
// Checks, which run the function next to a replay: when they run, which effects they have, and what
// they report.
#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <semaphore>
#include <string>
#include <thread>

#include <reel/reel.hpp>

#include "lib/trace/check.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
int runs = 0;  // a trace does not watch globals
Tensor counted(Tensor x) {
  ++runs;
  return x * 2;
}
int runs_in(int calls, TraceOptions options) {
  runs = 0;
  const auto traced = trace(counted, options);
  for (int i = 0; i < calls; ++i) traced(ones({2}));
  return runs;
}

float global_rate = 0;
}  // namespace

TEST_CASE("checks are beside replays 1, 2, 4, 8 ..., and as often as their share says") {
  CHECK(runs_in(1, {}) == 1);
  CHECK(runs_in(2, {}) == 2);
  CHECK(runs_in(3, {}) == 3);
  CHECK(runs_in(4, {}) == 3);
  CHECK(runs_in(5, {}) == 4);
  CHECK(runs_in(65, {}) == 8);
  CHECK(runs_in(90, {}) == 8);
  CHECK(runs_in(100, {.verify = 0}) == 1);
  CHECK(runs_in(100, {.verify = 1}) == 100);
  for (const double share : {-0.1, 1.5, std::nan("")})
    CHECK_THROWS_WITH(trace(counted, {.verify = share}),
                      Catch::Contains("checks.cpp") && Catch::Contains("verify"));
}

TEST_CASE("checks come again for as long as a function is called") {
  const int many = runs_in(200'000, {});
  CHECK(many > 8);
  CHECK(many < 20'000);
}

TEST_CASE("REEL_TRACE_CHECK sets the share from outside") {
  setenv("REEL_TRACE_CHECK", "1", 1);
  CHECK(runs_in(20, {.verify = 0}) == 20);
  setenv("REEL_TRACE_CHECK", "0", 1);
  CHECK(runs_in(20, {.verify = 1}) == 1);
  const std::string said = on_stderr([] {
    setenv("REEL_TRACE_CHECK", "often", 1);
    CHECK(runs_in(20, {.verify = 1}) == 20);
  });
  CHECK(said.find("REEL_TRACE_CHECK: expected a number in [0, 1], got \"often\"") !=
        std::string::npos);
  CHECK(on_stderr([] {
          setenv("REEL_TRACE_CHECK", "", 1);
          CHECK(runs_in(20, {.verify = 1}) == 20);
          CHECK(runs_in(20, {.verify = 0}) == 1);
        }) == "");
  unsetenv("REEL_TRACE_CHECK");
}

TEST_CASE("a difference names the constant, its values, its line and the calls") {
  global_rate = 0.5f;
  const auto traced = trace([](Tensor x) { return x * global_rate; });
  const std::string said = on_stderr([&] {
    for (int i = 1; i <= 40; ++i) {
      if (i == 20) global_rate = 0.25f;
      const float got = traced(ones({2}))[0].item<float>();
      if (i < 20 || i >= 33) CHECK(got == global_rate);
    }
  });
  for (const std::string& text : {said, traced.explain()}) {
    INFO(text);
    CHECK(text.find("constant of multiply at checks.cpp:") != std::string::npos);
    CHECK(text.find("was 0.5, is 0.25") != std::string::npos);
    CHECK(text.find("calls since number 18 may have been wrong") != std::string::npos);
    CHECK(text.find("runs eagerly") != std::string::npos);
  }
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
}

TEST_CASE("a difference throws where the options ask for it") {
  global_rate = 1;
  Variable total("total", zeros({2}));
  const auto traced = trace(
      [total](Tensor x) mutable {
        total.assign_add(x * global_rate);
        return total.value();
      },
      {.throw_on_difference = true});
  int threw = 0;
  for (int i = 1; i <= 40; ++i) {
    if (i == 34) global_rate = 3;
    try {
      traced(ones({2}));
    } catch (const TraceError& error) {
      ++threw;
      CHECK(std::string(error.what()).find("checks.cpp") != std::string::npos);
      CHECK(std::string(error.what()).find("expected 1, as captured, got 3") != std::string::npos);
    }
  }
  CHECK(threw == 0);  // the next check is beside replay 64
  for (int i = 41; i <= 80; ++i) try {
      traced(ones({2}));
    } catch (const TraceError&) {
      CHECK(i == 65);
      ++threw;
    }
  INFO(traced.explain());
  CHECK(threw == 1);
  // 33 calls at rate 1, 31 wrong calls, and 16 calls at rate 3, including the call that threw.
  CHECK(total.value()[0].item<float>() == 33 + 31 + 16 * 3);
}

TEST_CASE("a check has no effect of its own") {
  static int kernels = 0;
  register_op("test_counted_twice", [](const OpCall& call) {
    ++kernels;
    const std::vector<float> x = call.input(0).to_vector<float>();
    return tensor(x) * 2;
  });
  const auto run = [](auto wrap) {
    kernels = 0;
    seed(3);
    Variable w("w", zeros({3})), seen("seen", zeros({}, {.dtype = DType::int64}));
    auto f = wrap([&](Tensor x) {
      seen.assign_add(1);
      const Tensor y = call_op("test_counted_twice", {x + w});
      if (sum(y) > 50.0f) w.assign(zeros({3}));
      w.assign_add(dropout(y, 0.5) * 0.1f);
      return w.value() + random::normal({3});
    });
    std::vector<Tensor> given;
    for (int i = 0; i < 30; ++i) given.push_back(f(full({3}, static_cast<float>(i % 5))));
    given.push_back(random::normal({3}));
    given.push_back(seen.value());
    return given;
  };
  const std::vector<Tensor> expected = run([](auto f) { return f; });
  CHECK(kernels == 30);
  for (const double share : {0.0, 0.01, 0.5, 1.0}) {
    std::string explained;
    const std::vector<Tensor> got = run([&](auto f) { return trace(f, {.verify = share}); });
    CHECK(kernels == 30);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(allclose(got[i], expected[i]));
  }
}

TEST_CASE("a check allows for the rounding of each dtype") {
  const auto differs = [](DType dtype, double by) {
    const Tensor x = tensor({3.0, -96.0, 0.5});
    const tracing::Compared pair[] = {{"result", cast(x, dtype), cast(x * (1 + by), dtype)}};
    return static_cast<bool>(tracing::compare(pair));
  };
  CHECK(!differs(float32, 1e-5));
  CHECK(differs(float32, 1e-3));
  CHECK(!differs(float16, 1e-3));
  CHECK(differs(float16, 1e-2));
  CHECK(!differs(bfloat16, 8e-3));
  CHECK(differs(bfloat16, 5e-2));
}

TEST_CASE("a check that is slow beside its replay comes seldom, and never twice as late") {
  static int slow_runs;
  slow_runs = 0;
  const auto traced = trace([](Tensor x) {
    ++slow_runs;
    usleep(5'000);  // a replay does not sleep
    return x * 2;
  });
  for (int i = 0; i < 600; ++i) traced(ones({2}));
  CHECK(slow_runs == 11);  // one capture, and checks of replays 1, 2, 4 ... 512
}

TEST_CASE("replays that are timed have their arguments") {
  const auto traced = trace([](Tensor x) { return sum(x); });
  const Tensor x = full({2'000'000}, 0.5f);  // larger than the memory of the replay
  for (int i = 0; i < 70; ++i) CHECK(traced(x).item<float>() == 1e6f);
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("a check sees what another thread has done to a Variable", "[cpu]") {
  // A thread that has already used tensors. The trace does not see what it does.
  static std::function<void()> task;
  static std::binary_semaphore asked(0), done(0);
  Variable w("w", zeros({2}));
  std::thread worker([] {
    ones({2});
    done.release();
    while (asked.acquire(), task) {
      task();
      done.release();
    }
  });
  done.acquire();
  const auto traced = trace([&](Tensor x) {
    w.assign_add(x);
    asked.release(), done.acquire();
    return x * 2;
  });
  task = [w]() mutable { w.assign_add(ones({2})); };
  std::string said;
  for (int i = 0; i < 4; ++i) {
    said += on_stderr([&] { CHECK(equal(traced(ones({2})), full({2}, 2.0f))); });
    CHECK(equal(w, full({2}, 2.0f * static_cast<float>(i + 1))));
  }
  INFO(said);
  CHECK(said.find("runs eagerly: element 0 of Variable \"w\": was 3, is 4; this call, number 2, is "
                  "right\n") != std::string::npos);
  task = nullptr;
  asked.release();
  worker.join();
}

TEST_CASE("a new path that leaves a known one early is a difference too") {
  global_rate = 1;
  const auto traced = trace(
      [](Tensor x) {
        const Tensor y = x * global_rate;
        return sum(y) > 3.0f ? y * 2.0f : y;
      },
      {.verify = 0});
  CHECK(equal(traced(ones({2})), ones({2})));
  CHECK(equal(traced(ones({2})), ones({2})));
  global_rate = 4;
  const std::string said =
      on_stderr([&] { CHECK(equal(traced(full({2}, 5.0f)), full({2}, 40.0f))); });
  INFO(said);
  CHECK(said.find("runs eagerly: constant of multiply at checks.cpp:") != std::string::npos);
  CHECK(said.find("was 1, is 4; this call, number 3, is right\n") != std::string::npos);
  CHECK(equal(traced(ones({2})), full({2}, 8.0f)));
}

TEST_CASE("calls leave no memory behind", "[cpu]") {
  if (sanitized) return;
  Variable w("w", zeros({2}));
  const auto traced = trace([&](Tensor x) { return x * w; }, {.verify = 0});
  const Tensor x = ones({2});
  const auto used = [] { return mallinfo2().uordblks; };
  for (int i = 0; i < 10; ++i) traced(x);
  const auto before = used();
  for (int i = 0; i < 100; ++i) traced(x);
  CHECK(used() == before);
}
}  // namespace reel::tests
