// SPDX-License-Identifier: BSD-3-Clause
// Usage: program SUBJECT PLACE END [MODULE]. Makes the subject at the place, then ends in the given
// way. The exit status is 0 if there was no error.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "ends/fibers.hpp"
#include "ends/places.hpp"

namespace {
bool in_child = false;
}
#ifdef __SANITIZE_ADDRESS__
// A child of a fork cannot reach what the threads of its parent hold. The leak checker would report
// it.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() { return in_child; }
#endif

namespace reel::tests {
namespace {
constexpr int no_such_name = 2, wrong = 3;

struct Request {
  std::string_view subject, place;
  void operator()() const {
    if (!make(subjects(), subject, place) && !make(fiber_subjects(), subject, place))
      std::_Exit(no_such_name);
  }
};

void check(bool right) {
  if (!right) std::_Exit(wrong);
}

/// Whether a child can train and exit without an error.
bool child_ends_well() {
  const pid_t child = fork();
  if (child == 0) {
    in_child = true;
    check(trains());
    std::thread([] { check(trains()); }).join();
    std::exit(0);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

/// Calls `make_subject` of a module that has a copy of the library.
int use_second_copy(const char* module, const Request& request) {
  void* const library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::fprintf(stderr, "%s\n", dlerror()), no_such_name;
  const auto make_subject =
      reinterpret_cast<bool (*)(const char*, const char*)>(dlsym(library, "make_subject"));
  try {
    if (make_subject) make_subject(request.subject.data(), request.place.data());
  } catch (const Error& error) {
    const std::string_view text = error.what();
    check(trains());  // the first copy works
    constexpr std::string_view expected =
        "process: expected one copy of the library, got a second one in the program";
    return text.find(expected) == text.npos ? wrong : 0;
  }
  return wrong;
}

int end(const Request& request, std::string_view how, const char* module) {
  std::atomic<bool> made = false;
  if (how == "return") {
    request();
  } else if (how == "exit") {
    request();
    std::exit(0);
  } else if (how == "quick_exit") {
    request();
    std::quick_exit(0);
  } else if (how == "exit on a thread") {
    request();
    std::thread([] { std::exit(0); }).join();
  } else if (how == "exit of main alone") {
    request();
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      check(trains());
      std::exit(0);  // needed, because the threads of the pool do not end
    }).detach();
    pthread_exit(nullptr);
  } else if (how == "thread end") {
    std::thread(request).join();
    check(trains());
  } else if (how == "thread beside exit") {
    std::thread([&] {
      request();
      made = true;
      for (;;) pause();
    }).detach();
    while (!made) std::this_thread::yield();
  } else if (how == "fork") {
    request();
    check(child_ends_well() && trains());
  } else if (how == "fork on a thread") {
    std::thread([&] {
      request();
      check(child_ends_well() && trains());
    }).join();
  } else if (how == "fork beside a thread") {
    std::atomic<bool> done = false;
    std::thread other([&] {
      request();
      made = true;
      while (!done) check(trains());
    });
    while (!made) std::this_thread::yield();
    check(child_ends_well());
    done = true;
    other.join();
  } else if (how == "second copy") {
    return use_second_copy(module, request);
  } else {
    return no_such_name;
  }
  return 0;
}
}  // namespace
}  // namespace reel::tests

int main(int count, char** arguments) {
  if (count < 4) return reel::tests::no_such_name;
  return reel::tests::end({arguments[1], arguments[2]}, arguments[3], arguments[4]);
}
