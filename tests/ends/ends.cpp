// SPDX-License-Identifier: BSD-3-Clause
// Programs and threads end while objects of the library still exist. Each must end with status 0.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ends/fibers.hpp"
#include "ends/places.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

extern char** environ;

namespace reel::tests {
namespace {
std::string folder() {
  std::array<char, 4096> path = {};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "";
  const std::string self = path.data();
  return self.substr(0, self.rfind('/') + 1);
}

/// Runs as many programs at a time as there are processors. Reports those that did not end well.
class Runs {
 public:
  void start(std::vector<std::string> words) {
    if (running_.size() >= std::max(1u, std::thread::hardware_concurrency())) wait_for_one();
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t child = -1;
    REQUIRE(posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) == 0);
    std::string& name = running_[child];
    for (std::size_t i = 1; i < words.size(); ++i) name += (i > 1 ? ", " : "") + words[i];
    ++count_;
  }
  std::size_t finish() {
    while (!running_.empty()) wait_for_one();
    return count_;
  }

 private:
  void wait_for_one() {
    int status = -1;
    const auto found = running_.find(waitpid(-1, &status, 0));
    REQUIRE(found != running_.end());
    INFO(found->second << ": "
                       << (WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status))
                                             : std::string(strsignal(WTERMSIG(status)))));
    CHECK(status == 0);
    running_.erase(found);
  }
  std::map<pid_t, std::string> running_;
  std::size_t count_ = 0;
};

/// A module has no fibers.
std::size_t run_all(const std::vector<std::string>& ends, const std::string& module = {}) {
  Runs runs;
  std::vector<const Subjects*> kinds = {&subjects()};
  if (module.empty()) kinds.push_back(&fiber_subjects());
  for (const Subjects* const kind : kinds)
    for (const auto& [subject, make_subject] : *kind)
      for (const std::string_view place : places)
        for (const std::string& end : ends) {
          std::vector<std::string> words = {folder() + (module.empty() ? "ends" : "ends_loader"),
                                            std::string(subject), std::string(place), end};
          if (!module.empty()) words.push_back(module);
          runs.start(words);
        }
  return runs.finish();
}
}  // namespace

TEST_CASE("programs end while objects live") {
  std::vector<std::string> ends = {"return", "exit", "quick_exit", "exit on a thread"};
  // If main ends by pthread_exit, the C library leaks the thread_locals of the main thread.
  if (!sanitized) ends.push_back("exit of main alone");
  CHECK(run_all(ends) ==
        (subjects().size() + fiber_subjects().size()) * std::size(places) * ends.size());
}
TEST_CASE("threads end while objects live") {
  CHECK(run_all({"thread end", "thread beside exit"}) > 0);
}
TEST_CASE("children of forks end while objects live") {
  std::vector<std::string> ends = {"fork", "fork on a thread"};
  // the child would inherit a locked allocator
  if (!sanitized) ends.push_back("fork beside a thread");
  CHECK(run_all(ends) > 0);
}
TEST_CASE("plugins are unloaded while objects live") {
  for (const char* module : {"libends_shared.so", "libends_static.so"})
    CHECK(run_all({"dlclose", "dlclose on a thread"}, folder() + module) > 0);
}
TEST_CASE("a second copy of the library in a process is refused") {
  Runs runs;
  for (const char* module : {"libends_shared.so", "libends_static.so"})
    runs.start({folder() + "ends", std::string(subjects().begin()->first), std::string(places[0]),
                "second copy", folder() + module});
  CHECK(runs.finish() == 2);
}
}  // namespace reel::tests
