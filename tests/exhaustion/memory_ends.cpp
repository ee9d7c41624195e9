// SPDX-License-Identifier: BSD-3-Clause
// R16: whichever allocation fails, the user gets a MemoryError and nothing leaks. The thread, the
// tapes and the traces are then as if the call had not been made.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "exhaustion/allocations.hpp"
#include "exhaustion/programs.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"
#include "support/thread_state.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
Results results_of(Program& program) {
  Results results;
  program.reset();
  program.run(results);
  return results;
}

enum class Outcome { whole, memory_error, wrong_type };

/// Runs the program while allocations fail. Copies the text of the error to `text`.
Outcome run_short_of_memory(Program& program, std::int64_t k, Failing failing, Results& results,
                            std::array<char, 400>& text) {
  const FailingAllocations scope(k, failing);
  try {
    program.run(results);
    return Outcome::whole;
  } catch (const MemoryError& error) {
    std::strncpy(text.data(), error.what(), text.size() - 1);
    return Outcome::memory_error;
  } catch (const std::exception& error) {
    std::strncpy(text.data(), typeid(error).name(), text.size() - 1);
    return Outcome::wrong_type;
  }
}

struct Point {
  Outcome outcome;
  bool failed, right, as_before;
  std::int64_t left;  // the number of blocks that were not freed
  std::array<char, 400> text;
};

/// Runs the program with a failure of allocation k, then without one.
Point fail_at(Program& program, const Results& wanted, std::int64_t k, Failing failing) {
  Point point = {};
  program.reset();
  trim_memory();
  const ThreadState before = state();
  const std::int64_t blocks = live_allocations();
  Results results;
  point.outcome = run_short_of_memory(program, k, failing, results, point.text);
  point.failed = FailingAllocations::failed();
  point.as_before = state() == before;
  point.right =
      (point.outcome != Outcome::whole || results == wanted) && results_of(program) == wanted;
  program.reset();
  trim_memory();
  point.left = live_allocations() - blocks;
  return point;
}

/// Calls f() while allocation k fails. The text of its MemoryError; empty if there was none.
template <class F>
std::string text_without_memory(std::int64_t k, Failing failing, const F& f) {
  std::array<char, 400> text = {};
  {
    const FailingAllocations scope(k, failing);
    try {
      f();
    } catch (const MemoryError& error) {
      std::strncpy(text.data(), error.what(), text.size() - 1);
    } catch (...) {
      std::strncpy(text.data(), "another error", text.size() - 1);
    }
  }
  return text.data();
}
}  // namespace

int exhaust(const std::string& name, Program& program, Failing failing, std::int64_t step) {
  const Results wanted = results_of(program);
  // A lasting trace keeps what its first calls find out.
  for (int i = 0; i < 3; ++i) REQUIRE(results_of(program) == wanted);
  int points = 0, errors = 0;
  for (std::int64_t k = 0;; k += step) {
    Point point = fail_at(program, wanted, k, failing);
    // A list that the library keeps may have grown, but it does not grow each time.
    for (int again = 0; point.left > 0 && again < 3; ++again)
      point = fail_at(program, wanted, k, failing);
    if (!point.failed) {
      CHECK(point.right);
      break;
    }
    ++points;
    errors += point.outcome == Outcome::memory_error;
    INFO(name << ", allocation " << k << (failing == Failing::one ? " alone" : " and all after it")
              << ": " << point.text.data());
    CHECK(point.outcome != Outcome::wrong_type);
    if (point.outcome == Outcome::memory_error) {
      CHECK(std::strlen(point.text.data()) > 20);
      CHECK(std::strcspn(point.text.data(), "\n") <= 200);
    }
    CHECK(point.as_before);
    CHECK(point.right);
    CHECK(point.left <= 0);
  }
  // A single failure may be without effect: the library frees its spare blocks and allocates again.
  if (failing == Failing::all_from) CHECK(errors > 0);
  return points;
}

TEST_CASE("a program that runs out of memory at any allocation gets a MemoryError and can go on") {
  const bool full = std::getenv("REEL_TEST_LONG") != nullptr;
  int points = 0;
  const int before = num_threads();
  for (const ProgramKind& kind : program_kinds())
    for (unsigned variant = 0; variant < (full ? 5 : 1); ++variant)
      for (const Failing failing : {Failing::one, Failing::all_from}) {
        set_num_threads(1);
        const int found = exhaust(kind.name + (" " + std::to_string(variant)), *kind.make(variant),
                                  failing, full ? 1 : 17);
        if (full) WARN(kind.name << ": " << found);
        points += found;
      }
  set_num_threads(before);
  CHECK(points > (full ? 50'000 : 1'000));
}

TEST_CASE("what a statement keeps is as it was when memory ends in it") {
  const auto check = [](const auto& statement) {
    for (const Failing failing : {Failing::one, Failing::all_from})
      for (std::int64_t k = 0;; ++k) {
        Tensor x = arange(0.0f, 500.0f);
        Variable w("w", arange(0.0f, 500.0f));
        trim_memory();
        bool threw = false;
        {
          GradientTape tape;
          tape.watch(w);
          const Tensor row = w.value();
          const FailingAllocations scope(k, failing);
          try {
            statement(x, w, row);
          } catch (const MemoryError&) {
            threw = true;
          }
        }
        INFO("allocation " << k);
        if (threw) {
          REQUIRE(x.defined());
          REQUIRE(equal(x, arange(0.0f, 500.0f)));
          REQUIRE(equal(w, arange(0.0f, 500.0f)));
        }
        if (!FailingAllocations::failed()) return;
      }
  };
  check([](Tensor& x, Variable&, const Tensor& row) { x += row; });
  check([](Tensor& x, Variable&, const Tensor&) { x *= 2; });
  check([](Tensor& x, Variable&, const Tensor& row) { x = x * row + 1; });
  check([](Tensor& x, Variable& w, const Tensor&) { x = std::move(x) * w; });
  check([](Tensor& x, Variable& w, const Tensor&) { x = std::move(x) + w(range(0, 500)); });
  check([](Tensor& x, Variable& w, const Tensor&) {
    x = reshape(std::move(x), {20, 25}) + w.value()[0];
  });
  check([](Tensor&, Variable& w, const Tensor& row) { w.assign(row * 2); });
  check([](Tensor&, Variable& w, const Tensor&) { w.assign_sub(1); });
  check([](Tensor&, Variable& w, const Tensor&) { w(range(0, 3)).assign(7); });
}

TEST_CASE("memory that ends while a process first uses the library leaves it whole") {
  const bool full = std::getenv("REEL_TEST_LONG") != nullptr;
  for (const char* const failing : {"1", "2"})
    for (int k = 0;; k += full ? 1 : 9) {
      const std::string printed =
          printed_under("[.cold]", std::string("REEL_FAILING=") + failing +
                                       " REEL_ALLOCATION=" + std::to_string(k));
      INFO("allocation " << k << ":\n" << printed);
      REQUIRE(printed.find("1 passed, 0 failed") != printed.npos);
      if (printed.find("nothing failed") != printed.npos) break;
    }
}
TEST_CASE("one process of the test above", "[.cold]") {
  if (!std::getenv("REEL_FAILING")) return;
  const auto failing = static_cast<Failing>(std::atoi(std::getenv("REEL_FAILING")));
  const std::unique_ptr<Program> program = program_kinds()[0].make(0);
  Results results;
  std::array<char, 400> text = {};
  const Outcome outcome = run_short_of_memory(*program, std::atoi(std::getenv("REEL_ALLOCATION")),
                                              failing, results, text);
  const bool failed = FailingAllocations::failed();
  INFO(text.data());
  CHECK(outcome != Outcome::wrong_type);
  const Results again = results_of(*program);
  CHECK(again == results_of(*program));
  if (outcome == Outcome::whole) CHECK(results == again);
  if (!failed) std::puts("nothing failed");
}

TEST_CASE("a thread's first tape is whole, or not there, when memory ends") {
  const Tensor x = ones({3});
  for (const Failing failing : {Failing::one, Failing::all_from})
    for (std::int64_t k = 0;; ++k) {
      bool failed = false, right = false;
      std::string text;
      std::thread([&] {
        const Tensor y = x * x;  // makes what a thread has without a tape
        text = text_without_memory(k, failing, [&] {
          GradientTape tape;
          tape.watch(x);
          const Tensor z = x * y;
          argmax(z, 0);
        });
        failed = FailingAllocations::failed();
        GradientTape tape;
        tape.watch(x);
        right = equal(tape.gradient(x * x, x), 2.0f * x);
      }).join();
      INFO("allocation " << k << ": " << text);
      CHECK(text != "another error");
      CHECK(right);
      if (!failed) break;
    }
}

TEST_CASE("a read by an op without a gradient, for which there is no memory, is an error") {
  const Tensor x = ones({3});
  bool found = false;
  for (std::int64_t k = 0;; ++k) {
    bool failed = false;
    std::string text;
    std::thread([&] {
      argmax(x * x, 0);
      GradientTape tape;
      tape.watch(x);
      const Tensor y = x * x;
      text = text_without_memory(k, Failing::one, [&] { argmax(y, 0); });
      failed = FailingAllocations::failed();
    }).join();
    found |= text.find("records: expected memory for more of them") != std::string::npos;
    if (!failed) break;
  }
  if (!sanitized) CHECK(found);
}

TEST_CASE("a product of matrices without memory is a MemoryError") {
  if (sanitized) SKIP("AddressSanitizer keeps its own malloc, which cannot be made to fail");
  const Tensor x = ones({40, 40});
  int errors = 0;
  for (std::int64_t k = 0;; ++k) {
    trim_memory();
    const std::string text = text_without_memory(k, Failing::all_from, [&] { matmul(x, x); });
    if (!FailingAllocations::failed()) break;
    INFO("allocation " << k << ": " << text);
    if (text.empty()) continue;
    CHECK(text.find("matmul") != std::string::npos);
    ++errors;
  }
  CHECK(errors > 0);
  CHECK(equal(matmul(x, x), full({40, 40}, 40.0f)));
}

TEST_CASE("a step of a list of Variables without memory names its line") {
  const std::vector<Variable> x = {Variable("x", ones({2})), Variable("y", ones({3}))};
  const std::vector<Tensor> g = {ones({2}), ones({3})};
  for (std::int64_t k = 0;; ++k) {
    unsigned line = 0;
    const std::string text = text_without_memory(k, Failing::all_from, [&] {
      line = __LINE__ + 1;
      sgd_update(x, g, 0.0);
    });
    if (!FailingAllocations::failed()) break;
    INFO("allocation " << k << ": " << text);
    const std::string start = "memory_ends.cpp:" + std::to_string(line) + ": sgd_update: ";
    if (!text.empty()) CHECK(text.compare(0, start.size(), start) == 0);
  }
  CHECK(equal(x[0], ones({2})));
}
}  // namespace reel::tests
