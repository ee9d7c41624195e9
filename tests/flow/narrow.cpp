// SPDX-License-Identifier: BSD-3-Clause
// What a FiniteScope says of integers, and what an observer hears when a Variable is printed.
#include <cmath>
#include <string>

#include "flow/event_log.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
TEST_CASE("a FiniteScope tells the ranges of floating inputs alone") {
  const Tensor x = tensor({1.0f, NAN}), places = tensor({0, 1}), mask = tensor({true, true});
  const FiniteScope finite;
  CHECK_THAT(error_text([&] { take(x, places); }),
             Catch::Contains("x is between 1 and 1, with nan.") && !Catch::Contains("indices is"));
  CHECK_THAT(
      error_text([&] { where(mask, x, x); }),
      Catch::Contains("y is between 1 and 1, with nan.") && !Catch::Contains("condition is"));
}

TEST_CASE("printing a Variable reads its values on the host") {
  const Variable w("w", ones({3}));
  const Events events = events_of([&] { to_string(w); });
  CHECK(count(events, "host read") == 1);
}

TEST_CASE("an observed replay tells the Variables that it reads and writes") {
  Variable kept("kept", ones({3})), set("set", ones({3}));
  const auto f = trace([kept, set](Tensor x) mutable {
    const Tensor twice = x * 2, old = kept.value();
    kept.assign_add(twice);
    set.assign(twice);
    return old * x;
  });
  const Tensor x = ones({3});
  for (int i = 0; i < 5; ++i) f(x);
  const Events events = events_of([&] { f(x); });
  CHECK(f.trace_count() == 1);
  CHECK(count(events, "write kept") == 1);
  CHECK(count(events, "write set") == 1);
  CHECK(count(events, "read kept") >= 1);
  CHECK(equal(kept, full({3}, 13.0f)));
  CHECK(equal(set, full({3}, 2.0f)));
}
}  // namespace reel::tests
