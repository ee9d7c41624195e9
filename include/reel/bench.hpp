// SPDX-License-Identifier: BSD-3-Clause
// Timing functions side by side: which is faster, by how much, and how certain that is.
#pragma once            // defined in lib/bench
#include <cstddef>      // std::size_t
#include <string>       // std::string
#include <type_traits>  // std::is_void_v
#include <utility>      // std::move
#include <vector>       // std::vector

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/function.hpp>

namespace reel::bench {

/// Makes the compiler compute `x`, although nothing reads it.
template <class T>
void keep(const T& x) {
  asm volatile("" : : "r"(&x) : "memory");
}

/// A function with its name in the table.
struct Candidate {
  template <class F>
  requires std::is_invocable_v<F&> Candidate(std::string called, F f)
      : name(std::move(called)), repeat([f = std::move(f)](std::size_t times) mutable {
          for (; times > 0; --times) {
            if constexpr (std::is_void_v<decltype(f())>) {
              f();
              asm volatile("" : : : "memory");
            } else {
              keep(f());
            }
          }
        }) {}
  std::string name;
  detail::Function<void(std::size_t times)> repeat;
};

/// Options of compare().
struct CompareOptions {
  int batches = 21;             // rounds; each round times one batch of every candidate
  double batch_seconds = 0.01;  // a batch repeats its function until it takes about this long
  double warm_up_seconds = 0.1;
};

/// Lower quartile, median and upper quartile.
struct Quartiles {
  double lower = 0, median = 0, upper = 0;
};

/// The times of one candidate.
struct Timing {
  std::string name;
  std::size_t calls = 0;  // in a batch
  Quartiles nanoseconds;  // of a call
  Quartiles ratio;        // to the first candidate in the same round
};

/// What compare() returns: a timing for each candidate.
struct Comparison {
  int batches = 0;
  std::vector<Timing> timings;
};

/// Times functions in turn, so that a busy machine slows all of them alike.
///
///     auto f = [&] { return x * w + b; };
///     auto g = [&] { return traced(x, w, b); };
///     std::puts(to_string(bench::compare({{"eager", f}, {"traced", g}})).c_str());
///
/// Each function is warmed up, and repeated until a batch is long enough for the clock. Throws
/// Error without candidates and for fewer than 21 batches. Exceptions of the functions pass
/// through.
REEL_API Comparison compare(const std::vector<Candidate>& candidates, CompareOptions options = {},
                            Caller caller = Caller::here());

/// A table: a line for each candidate, with median, quartiles and ratio to the first.
REEL_API std::string to_string(const Comparison& comparison);

/// The comparison as a JSON object.
REEL_API std::string json(const Comparison& comparison);

}  // namespace reel::bench
