// SPDX-License-Identifier: BSD-3-Clause
// A rank that is stopped at a prompt: the deadlines of the other ranks wait.
#include <chrono>
#include <thread>

#include <reel/dist.hpp>

#include "debug/user.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
using Clock = std::chrono::steady_clock;
/// What a rank does before it meets the other one. `stop` opens a prompt, on rank 0 only.
using Work = std::function<void(bool is_first, const std::function<void()>& stop)>;

void wait_for_prompt(const User& user) {
  for (int i = 0; i < 3000 && !user.is_asked; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}
/// Two ranks meet in barrier() after this work. What the ranks write to stderr.
std::string meet(const Work& work, const char* lines, double timeout, double seconds) {
  const CaughtStderr caught;
  const CaughtCout shown;
  Clock::time_point end = {};
  User user(lines, [&] {  // he stays until the other rank has written, and so many seconds more
    if (!has(caught.text(), "is stopped in a debugger")) return false;
    if (end == Clock::time_point{})
      end = Clock::now() + std::chrono::milliseconds(static_cast<int>(seconds * 1000));
    return Clock::now() >= end;
  });
  dist::run_local(2,
                  [&](dist::World& world) {
                    world.barrier();
                    work(world.rank() == 0, [&] {
                      if (world.rank() == 0) debug::cli();
                    });
                    wait_for_prompt(user);
                    world.barrier();
                  },
                  {.timeout = timeout});
  INFO(shown.text());
  CHECK(user.is_asked);
  return caught.text();
}
const std::string waits = "rank 1 waits in barrier of step 0: rank 0 is stopped in a debugger\n";
}  // namespace

TEST_CASE("ranks wait beyond their deadline for one that is stopped at a prompt, and say which") {
  CHECK(meet([](bool, const auto& stop) { stop(); }, "", 2, 3) == waits);
}

TEST_CASE("ranks wait for one that is stopped in its backward pass") {
  const Work work = [](bool, const auto& stop) {
    const Variable w("w", ones({2}));
    const auto f = custom_gradient([&](Tensor x) {
      return std::pair(x * 2, [&](Tensor dy) {
        stop();
        return dy * 2;
      });
    });
    GradientTape tape;
    tape.gradient(sum(f(w * 1)), w);
  };
  CHECK(meet(work, "", 60, 0) == waits);
}

TEST_CASE("ranks wait for one that is stopped in a function of batched()") {
  const Work work = [](bool, const auto& stop) {
    const std::vector<Tensor> examples = {ones({2}), ones({2})};
    batched(examples, [&](Tensor x) {
      stop();
      return tanh(x);
    });
  };
  CHECK(meet(work, "info\ncont\n", 60, 0) == waits);
}

TEST_CASE("ranks wait for one that is stopped in a replay") {
  const Work work = [](bool is_first, const auto&) {
    auto f = trace([](Tensor x) { return sum(tanh(x * 2)); });
    for (int i = 0; i < 3; ++i) f(ones({2}));
    if (!is_first) return;
    const debug::Watch watch({.stop = "op(\"sum\")", .prompt = true});
    f(ones({2}));
  };
  CHECK(meet(work, "op\nset #3 = 0\ncont\n", 60, 0) == waits);
}

TEST_CASE("replicas wait for one that is stopped at a prompt") {
  const CaughtStderr caught;
  User user("", [&] { return has(caught.text(), "is stopped in a debugger"); });
  dist::run_local(2,
                  [&](dist::World& world) {
                    const Variable w("w", ones({2}));
                    optim::SGD sgd({w}, {.learning_rate = 1});
                    dist::DataParallel replicas(world, sgd);
                    const auto f = custom_gradient([&](Tensor x) {
                      return std::pair(x * 2, [&](Tensor dy) {
                        if (world.rank() == 0) debug::cli();
                        wait_for_prompt(user);
                        return dy * 2;
                      });
                    });
                    GradientTape tape;
                    replicas.step(tape, sum(f(w * 1)));
                    if (!bool(all(w.value() == -1.0f))) throw std::runtime_error("wrong weights");
                  },
                  {.timeout = 60});
  CHECK(caught.text() ==
        "rank 1 waits in DataParallel of step 0: rank 0 is stopped in a debugger\n");
}
}  // namespace reel::tests
