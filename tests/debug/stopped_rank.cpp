// SPDX-License-Identifier: BSD-3-Clause
// A rank that is stopped at a prompt: the deadlines of the other ranks wait.
#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <streambuf>
#include <thread>

#include <reel/dist.hpp>

#include "debug/support.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// A stdin whose user thinks for a while, and then leaves.
class SlowUser : public std::streambuf {
 public:
  explicit SlowUser(double seconds) : seconds_(seconds), before_(std::cin.rdbuf(this)) {}
  ~SlowUser() override {
    std::cin.rdbuf(before_);
    std::cin.clear();
  }
  std::atomic<bool> is_asked = false;

 private:
  int_type underflow() override {
    is_asked = true;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    return traits_type::eof();
  }
  double seconds_;
  std::streambuf* before_;
};
/// What is written to stderr while it lives.
class CaughtStderr {
 public:
  CaughtStderr()
      : path_((std::filesystem::temp_directory_path() / ("reel_stderr." + std::to_string(getpid())))
                  .string()),
        before_(dup(2)) {
    const int file = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, 2);
    close(file);
  }
  ~CaughtStderr() {
    dup2(before_, 2);
    close(before_);
    std::filesystem::remove(path_);
  }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

 private:
  std::string path_;
  int before_;
};
}  // namespace

TEST_CASE("ranks wait for one that is stopped at a prompt, and say which") {
  for (const bool in_backward : {false, true}) {
    SlowUser user(2.5);
    const CaughtStderr caught;
    dist::run_local(2,
                    [&](dist::World& world) {
                      const Variable w("w", ones({2}));
                      optim::SGD sgd({w}, {.learning_rate = 1});
                      dist::DataParallel replicas(world, sgd);
                      if (world.rank() == 0 && !in_backward) {
                        debug::cli();
                      } else if (!in_backward) {
                        while (!user.is_asked) std::this_thread::yield();
                      }
                      if (!in_backward) world.barrier();
                      const auto f = custom_gradient([&](Tensor x) {
                        return std::pair(x * 2, [&](Tensor dy) {
                          if (in_backward && world.rank() == 0) debug::cli();
                          return dy * 2;
                        });
                      });
                      GradientTape tape;
                      replicas.step(tape, sum(f(w * 1)));
                      if (!bool(all(w.value() == -1.0f))) throw std::runtime_error("wrong weights");
                    },
                    {.timeout = 1.0});
    const std::string text = caught.text();
    INFO(text);
    CHECK(has(text, in_backward
                        ? "rank 1 waits in DataParallel of step 0: rank 0 is stopped in a debugger"
                        : "rank 1 waits in barrier of step 0: rank 0 is stopped in a debugger"));
    CHECK(text.find("waits in") == text.rfind("waits in"));
  }
}
}  // namespace reel::tests
