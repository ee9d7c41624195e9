// SPDX-License-Identifier: BSD-3-Clause
// A bench program: rows of work, timed batch by batch as run.py asks for them on standard input.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace harness {

/// Work made ready: `run(n)` does it n times, `value()` is a number that shows that it was done.
struct Work {
  std::function<void(std::size_t)> run;
  std::function<double()> value;
};

struct Row {
  std::string name;
  std::function<Work()> prepare;
  double per = 1;       // the time is divided by this: ops in a chain
  bool traced = false;  // reel can run it as a trace
};
using Rows = std::vector<Row>;

/// The compiler must take `x` as used.
template <class T>
void keep(const T& x) {
  asm volatile("" : : "r"(&x) : "memory");
}

/// A row whose state is a Job: `job()` does the work once, `job.value()` checks it.
template <class Job, class... Arguments>
Row row(std::string name, double per, Arguments... arguments) {
  return {std::move(name),
          [arguments...] {
            const std::shared_ptr<Job> job(new Job{arguments...});
            return Work{[job](std::size_t times) {
                          for (std::size_t i = 0; i < times; ++i) (*job)();
                        },
                        [job] { return job->value(); }};
          },
          per};
}
template <class Job, class... Arguments>
Row traced_row(std::string name, double per, Arguments... arguments) {
  Row made = row<Job>(std::move(name), per, arguments...);
  made.traced = true;
  return made;
}

/// Answers `list`, `start ROW MILLISECONDS`, `batch`, `value`, `stop` line by line until end of
/// file. `about` is what is to be known of this program: versions, core types.
int serve(const Rows& rows, const std::vector<std::pair<std::string, std::string>>& about);

}  // namespace harness
