// SPDX-License-Identifier: BSD-3-Clause
// Every op gives the result of its reference, through the full gate and on the fast path.
#include "sweep/checker.hpp"

namespace reel::tests {
TEST_CASE("every op agrees with its reference") {
  for (const Op* op : library_ops()) {
    if (op->updates) continue;
    std::size_t number = 0;
    Checker checker({1e-12, 1e-13});
    for (const Sample& sample : samples_of(*op)) {
      INFO(describe(*op, number++, sample));
      Tensor watched;
      {
        const InterceptorScope scope(checker);
        watched = sample.call(sample.inputs);
      }
      CHECK(difference(host_of(sample.call(sample.inputs)), host_of(watched), {}) == "");
    }
    INFO(op->name);
    CHECK(checker.saw(*op));
  }
}

TEST_CASE("every op has samples") {
  for (const Op* op : library_ops()) {
    INFO(op->name);
    CHECK((op->updates || !samples_of(*op).empty()));
  }
}
}  // namespace reel::tests
