// SPDX-License-Identifier: BSD-3-Clause
#include <reel/reel.hpp>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lib/flow/context.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
ProfileRow row(const Profile& profile, const std::string& name, ProfileBy by = ProfileBy::op) {
  for (const ProfileRow& one : profile.rows(by))
    if (one.name == name) return one;
  return {};
}
std::int64_t calls(const Profile& profile) {
  std::int64_t sum = 0;
  for (const ProfileRow& one : profile.rows()) sum += one.calls;
  return sum;
}
bool is_observed() { return Context::here().mode & observed; }

/// What tests/bench/profile.py looks for in the timeline.
void run_program() {
  Variable w("w", ones({4, 4}));
  const auto f = trace([w](Tensor x) {
    GradientTape tape;
    return tape.gradient(sum(square(tanh(matmul(x, w)) * 2)), w);
  });
  for (int i = 0; i < 5; ++i) f(ones({4, 4}));
#line 7 "odd \"name\" \x01\n<b>.cpp"
  for (int i = 0; i < 3; ++i) exp(w);
#line 45 "../../tests/bench/profile.cpp"
  try {
    matmul(ones({2, 3}), ones({2, 3}));
  } catch (const ShapeError&) {
  }
  std::thread([] {
    for (int i = 0; i < 4; ++i) sqrt(ones({1000}));
  }).join();
}
}  // namespace

TEST_CASE("A profile counts calls and bytes of ops", "[profile]") {
  const Tensor x = ones({100}), y = ones({100});
  const unsigned line = __LINE__ + 2;
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 3; ++i) x + y;
    sum(x);
  });
  const ProfileRow add = row(profile, "add");
  CHECK(add.calls == 3);
  CHECK(add.moved_bytes == 3 * 1200);
  CHECK(add.result_bytes == 3 * 400);
  CHECK(row(profile, "sum").moved_bytes == 404);
  CHECK(calls(profile) == 4);
  const ProfileRow at = row(profile, "profile.cpp:" + std::to_string(line), ProfileBy::line);
  CHECK(at.calls == 3);
  CHECK(at.moved_bytes == add.moved_bytes);
  CHECK(profile.threads() == 1);
  CHECK(!is_observed());
}

TEST_CASE("A view and a result in the memory of an input take no memory", "[profile]") {
  const Tensor x = ones({100});
  const Profile profile = reel::profile([&] {
    Tensor y = x.reshape({10, 10});
    Tensor z = x + 1;
    z = std::move(z) * 2;
  });
  CHECK(row(profile, "reshape").result_bytes == 0);
  CHECK(row(profile, "add").result_bytes == 400);
  CHECK(row(profile, "multiply").result_bytes == 0);
}

TEST_CASE("A profile has the kernels of gradients inside of the backward pass", "[profile]") {
  Variable w("w", ones({100}));
  const Profile profile = reel::profile([&] {
    GradientTape tape;
    tape.gradient(sum(tanh(w)), w);
  });
  CHECK(row(profile, "tanh").calls == 1);
  const ProfileRow pass = row(profile, "backward pass"), kernel = row(profile, "gradient of tanh");
  CHECK(pass.calls == 1);
  CHECK(kernel.calls == 1);
  CHECK(pass.total_seconds >= kernel.total_seconds + pass.self_seconds);
  CHECK(pass.total_seconds < profile.seconds());
}

TEST_CASE("A gradient that is added to another one takes no memory", "[profile]") {
  const auto results = [](auto loss, const char* name, const Variable& w) {
    const Profile profile = reel::profile([&] {
      GradientTape tape;
      tape.gradient(sum(loss()), w);
    });
    return row(profile, name);
  };
  Variable w("w", ones({10, 10}));
  const Tensor x = ones({10, 10});
  const ProfileRow product = results([&] { return w * w; }, "gradient of multiply", w);
  CHECK(product.calls == 2);  // one for each input
  CHECK(product.result_bytes == 400);
  const ProfileRow soft =
      results([&] { return softmax(w) + softmax(w); }, "gradient of softmax", w);
  CHECK(soft.calls == 2);
  CHECK(soft.result_bytes == 400);
  const ProfileRow matrix = results([&] { return matmul(x, w) + matmul(x, w); }, "matmul", w);
  CHECK(matrix.calls == 4);
  CHECK(matrix.result_bytes == 2 * 400 + 400);  // the second product is added to the first
}

TEST_CASE("A profile has the ops of a function inside of the function", "[profile]") {
  const auto twice =
      custom_gradient([](Tensor x) { return std::pair(exp(x) + 1, [](Tensor dy) { return dy; }); });
  const Profile profile = reel::profile([&] { twice(ones({50})); });
  double inside = 0, total = 0, outer = 0;
  for (const ProfileRow& one : profile.rows()) {
    total += one.self_seconds;
    (one.name == "exp" || one.name == "add" ? inside : outer) += one.total_seconds;
  }
  CHECK(row(profile, "exp").calls == 1);
  CHECK(total <= profile.seconds());
  CHECK(inside + outer >= total * 0.999);
}

TEST_CASE("A profile has threads that begin meanwhile", "[profile]") {
  const Profile profile = reel::profile([&] {
    ones({3}) + 1;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([] {
        for (int k = 0; k < 10; ++k) exp(ones({3}));
      });
    for (std::thread& each : threads) each.join();
  });
  CHECK(profile.threads() == 4);
  CHECK(row(profile, "exp").calls == 30);
  CHECK(row(profile, "add").calls == 1);
}

TEST_CASE("A thread may go on after the profile that it is in", "[profile]") {
  std::atomic<bool> began = false, ended = false;
  std::thread other;
  const Profile profile = reel::profile([&] {
    other = std::thread([&] {
      while (!ended) {
        exp(ones({3}));
        began = true;
      }
      exp(ones({3}));
    });
    while (!began) std::this_thread::yield();
  });
  ended = true;
  other.join();
  CHECK(row(profile, "exp").calls >= 1);
  CHECK(profile.threads() == 1);
}

TEST_CASE("A profile shows the steps of a replay", "[profile]") {
  Variable w("w", ones({64}));
  const auto f = trace([w](Tensor x) { return sum(exp(x * w) + 1); }, {.verify = 0});
  const Tensor x = ones({64});
  for (int i = 0; i < 4; ++i) f(x);
  REQUIRE(f.trace_count() == 1);
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 10; ++i) f(x);
  });
  for (const char* const name : {"multiply", "exp", "add", "sum"}) {
    INFO(name);
    CHECK(row(profile, name).calls == 10);
    CHECK(row(profile, name).self_seconds >= 0);
  }
  double self = 0;
  for (const ProfileRow& one : profile.rows()) self += one.self_seconds;
  CHECK(self <= profile.seconds());
  CHECK(f.trace_count() == 1);
}

TEST_CASE("A profile goes on after errors", "[profile]") {
  const Tensor x = ones({3});
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 5000; ++i) {
      try {
        take(x, tensor({7}));  // found by the kernel, in the op
      } catch (const IndexError&) {
      }
      exp(x);
    }
  });
  CHECK(row(profile, "exp").calls == 5000);
  CHECK_THROWS_AS(reel::profile([] { throw std::runtime_error("of the program"); }),
                  std::runtime_error);
  CHECK(!is_observed());
}

TEST_CASE("Profiles may be inside of each other", "[profile]") {
  const Tensor x = ones({3});
  std::int64_t inner = 0;
  const Profile outer = reel::profile([&] {
    exp(x);
    inner = calls(reel::profile([&] { exp(x); }));
    exp(x);
  });
  CHECK(inner == 1);
  CHECK(calls(outer) == 3);
}

TEST_CASE("A profile of very many calls counts them all", "[profile]") {
  const Tensor x = ones({1});
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 1'200'000; ++i) exp(x);
  });
  CHECK(calls(profile) == 1'200'000);
  CHECK(row(profile, "exp").moved_bytes == 1'200'000 * 8);
}

TEST_CASE("Short calls that are not timed are counted", "[profile]") {
  const Tensor x = ones({16}), large = ones({1000}), at = tensor({1}), outside = tensor({16});
  const Tensor wide = ones({8}, float64);  // of as many bytes as x
  int taken = 0;
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 1000; ++i) {
      Tensor y = x + 1;
      y = std::move(y) * 2;
      exp(i % 100 == 99 ? large : x);
      sqrt(i % 2 ? x : wide);
      random::uniform({i % 50 == 49 ? 500 : 5});
      try {
        take(x, i % 3 ? at : outside), ++taken;
      } catch (const IndexError&) {
      }
    }
  });
  CHECK(row(profile, "add").moved_bytes == 1000 * (64 + 64 + 4));
  CHECK(row(profile, "add").result_bytes == 1000 * 64);
  CHECK(row(profile, "multiply").calls == 1000);
  CHECK(row(profile, "multiply").result_bytes == 0);
  CHECK(row(profile, "exp").calls == 1000);
  CHECK(row(profile, "exp").moved_bytes == 2 * (990 * 64 + 10 * 4000));
  CHECK(row(profile, "exp").result_bytes == 990 * 64 + 10 * 4000);
  CHECK(row(profile, "sqrt").moved_bytes == 1000 * 128);
  CHECK(row(profile, "random").result_bytes == 4 * (980 * 5 + 20 * 500));
  CHECK(row(profile, "take").calls == taken);
  for (const ProfileRow& one : profile.rows()) {
    INFO(one.name);
    CHECK(one.total_seconds > 0);
    CHECK(one.self_seconds >= 0);
  }
}

TEST_CASE("Counted calls have exact bytes where a few of them differ", "[profile]") {
  const Tensor x = ones({16}), large = ones({100});
  const Profile profile = reel::profile([&] {
    for (int i = 0; i < 20'000; ++i) {
      Tensor y = x + 1;
      const Tensor kept = i % 40 ? y : Tensor();  // its memory is not taken over
      y = std::move(y) * 2;
      exp(i % 20 == 19 ? large : x);
    }
  });
  CHECK(row(profile, "multiply").calls == 20'000);
  CHECK(row(profile, "multiply").moved_bytes == 20'000 * (64 + 64 + 4));
  CHECK(row(profile, "multiply").result_bytes == (20'000 - 500) * 64);
  CHECK(row(profile, "exp").moved_bytes == 2 * (19'000 * 64 + 1000 * 400));
  CHECK(row(profile, "exp").result_bytes == 19'000 * 64 + 1000 * 400);
}

TEST_CASE("A profile knows the peak of memory", "[profile]") {
  const std::int64_t before = memory_statistics().live_bytes;
  const Profile profile = reel::profile([&] {
    { const Tensor x = ones({1'000'000}), y = exp(x); }
    exp(ones({10}));
  });
  CHECK(profile.peak_bytes() >= before + 8'000'000);
  CHECK(profile.peak_bytes() < before + 9'000'000);
}

TEST_CASE("A profile tells whose tensors are alive at the peak of memory", "[profile]") {
  const auto find = [](const Profile& profile, const std::string& line, const std::string& op) {
    for (const ProfileMemoryRow& each : profile.memory())
      if (each.op == op && each.line == line) return each.bytes;
    return std::int64_t{0};
  };
  constexpr std::int64_t block = 1 << 20;  // of 2^18 floats, without anything beyond them
  const auto here = [](unsigned line) { return "profile.cpp:" + std::to_string(line); };
  const Tensor x = ones({1 << 18});
  const unsigned line = __LINE__;
  const Profile profile = reel::profile([&] {
    Tensor gone = exp(x);
    gone = tensor(std::vector<float>(1 << 18));
    const Tensor a = x + 1, b = x.reshape({512, 512});
    for (int i = 0; i < 3; ++i) const Tensor passing = a * 2;
    { const Tensor c = concat({a, a, x}, 0), d = c(range(0, 100)); }
    Tensor later = tanh(x), moved = std::move(later) * 2;
  });
  CHECK(find(profile, here(line + 2), "exp") == 0);
  CHECK(find(profile, here(line + 3), "no op") == block);
  CHECK(find(profile, here(line + 4), "add") == block);
  CHECK(find(profile, here(line + 5), "multiply") == 0);
  CHECK(find(profile, here(line + 6), "concat") == 3 * block);
  CHECK(find(profile, here(line + 7), "tanh") == 0);
  CHECK(find(profile, "no line", "before the profile") >= block);
  std::int64_t sum = 0;
  for (const ProfileMemoryRow& each : profile.memory()) sum += each.bytes;
  CHECK(sum == profile.peak_bytes());
  CHECK(profile.to_text().find("at the peak of memory: line, op\n    3.1 MB") != std::string::npos);
}

TEST_CASE("Memory at the peak is a gradient's where a gradient has made it", "[profile]") {
  Variable w("w", ones({1 << 18}));
  const Profile profile = reel::profile([&] {
    GradientTape tape;
    const Tensor g = tape.gradient(sum(tanh(exp(w))), w);
  });
  std::int64_t values = 0, gradients = 0;
  for (const ProfileMemoryRow& each : profile.memory()) {
    if (each.op == "exp" || each.op == "tanh") values += each.bytes;
    if (each.op.starts_with("gradient of ")) gradients += each.bytes;
  }
  CHECK(values == 2 << 20);
  CHECK(gradients == 1 << 20);
}

TEST_CASE("Memory at the peak has tensors of other threads and of replays", "[profile]") {
  Variable w("w", ones({1 << 16}));
  const auto f = trace([w](Tensor x) { return exp(x * w) + 1; }, {.verify = 0});
  const Tensor x = ones({1 << 16});
  for (int i = 0; i < 3; ++i) f(x);
  const Profile replay = reel::profile([&] { f(x); });
  CHECK(replay.memory().size() >= 2);
  const Profile profile = reel::profile([&] {
    std::thread([] { const Tensor x = ones({1 << 20}), y = exp(x); }).join();
    exp(ones({10}));
  });
  CHECK(profile.memory()[0].bytes == 4 << 20);
  CHECK(profile.memory()[1].bytes == 4 << 20);
}

TEST_CASE("The table of a profile has the slowest op first", "[profile]") {
  const Tensor x = ones({400, 400}), y = ones({3});
  const Profile profile = reel::profile([&] {
    matmul(x, x);
    for (int i = 0; i < 3; ++i) exp(y);
  });
  const std::string text = profile.to_text();
  CHECK(text.find("on 1 thread: 4 calls take ") != text.npos);
  CHECK(text.find("  matmul\n") < text.find("  exp\n"));
  CHECK(profile.to_text({.rows = 1}).find("and 1 more\n") != text.npos);
  CHECK(profile.to_text({.by = ProfileBy::line}).find("  profile.cpp:") != text.npos);
  CHECK_THROWS_AS(profile.to_text({.rows = 0}), Error);
  CHECK_THROWS_AS(profile.write_chrome_trace("/no/such/folder/x.json"), IoError);
  const Profile empty = reel::profile([] {});
  CHECK(empty.rows().empty());
  CHECK(empty.to_text().find(": 0 calls take 0.0 us") != text.npos);
}

TEST_CASE("timeline of a program", "[.timeline]") {
  const char* const path = std::getenv("REEL_TIMELINE");
  if (!path) return run_program();
  reel::profile(run_program).write_chrome_trace(path);
}
}  // namespace reel::tests
