// SPDX-License-Identifier: BSD-3-Clause
// Texts of options, names of arguments, and the memory that tapes keep for later.
#include <memory>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/context.hpp"
#include "lib/table/options.hpp"
#include "lib/table/options/device.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/normalize.hpp"
#include "lib/table/options/scan.hpp"
#include "lib/table/options/update.hpp"
#include "support/catch.hpp"
#include "support/refused.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
template <class T>
std::string text_of(const T& options) {
  return to_string(OptionsView(options));
}
}  // namespace

TEST_CASE("options of scans, positions, places and devices are shown, all of them") {
  CHECK(text_of(DeviceOptions{cuda(1), cpu()}) == "device=cuda:1, from=cpu");
  CHECK(text_of(RangeOptions{-4, 3, "rows"}) ==
        "least=-4, most=3, argument=rows, expected=, lowest=0");
  CHECK(text_of(LabelOptions{true, -100}) == "ignores=1, ignored=-100");
  CHECK(text_of(PlaceOptions{4, {2}, {3}}) == "start=4, lengths=(2,), steps=(3,)");
  CHECK(text_of(LimitNormOptions{2.5}) == "norm=2.5");
  CHECK(text_of(AxisScanOptions{1, true}) == "axis=1, reverse=1");
  CHECK(text_of(AxisSortOptions{1, true, 2, 3}) == "axis=1, descending=1, first=2, count=3");
  CHECK(text_of(HistogramOptions{3, -0.5, 1.5}) == "bins=3, low=-0.5, high=1.5");
  CHECK(text_of(SearchSortedOptions{true}) == "right=1");
  CHECK(text_of(RateOptions{true}) == "single=1");
}

TEST_CASE("an argument behind the last name has a number") {
  register_op("corner_of_four", [](const OpCall& call) { return Tensors{call.input(0) * 2.0f}; });
  const Tensor x = ones({2});
  check_refused<Error>(
      [&] {
        call_op("corner_of_four", {x, x, x, Tensor()});
      },
      "corner_of_four: input 3: expected a tensor");
  check_refused<Error>(
      [&] {
        call_op("corner_of_four", {x, x, Tensor(), x});
      },
      "corner_of_four: z: expected a tensor");
}

TEST_CASE("a tape notes some reads by ops without a gradient, and no more") {
  const Variable w("w", ones({3}));
  GradientTape tape;
  for (int i = 0; i < 2'000; ++i) argmax(w, 0);
  CHECK(Context::here().reel->cuts().size() == 256);
}

TEST_CASE("many tapes, one after the other, keep no memory") {
  const Tensor x = ones({3});
  const auto tapes = [&](int count) {
    for (int i = 0; i < count; ++i) {
      GradientTape tape;
      tape.watch(x);
    }
  };
  tapes(1'000);
  const std::int64_t bytes = resident_bytes();
  tapes(sanitized ? 1'000 : 300'000);
  if (!sanitized) CHECK(resident_bytes() - bytes < (1 << 20));
}

TEST_CASE("a record keeps the shapes that it has from records of older tapes") {
  const Tensor s = ones({2, 3}), z = ones({1, 3});
  auto first = std::make_unique<GradientTape>(TapeOptions{.persistent = true});
  first->watch(s);
  const Tensor y = s * 2;
  Tensor rest = s;
  for (int i = 0; i < 4'000; ++i) rest = rest * y;
  GradientTape second({.persistent = true});
  second.watch(z);
  const Tensor both = z * y;
  first.reset();
  CHECK(Context::here().reel->size() < 1'000);
  Tensor more = z;  // the records take the memory of those that have gone
  for (int i = 0; i < 8'000; ++i) more = more * z;
  const std::vector<RecordedOp> ops = second.ops();
  REQUIRE(ops.size() == 8'001);
  CHECK(ops[0].inputs[0] == Shape({1, 3}));
  CHECK(ops[0].inputs[1] == Shape({2, 3}));
  CHECK(ops[0].outputs[0] == Shape({2, 3}));
  CHECK(equal(second.gradient(both, z), full({1, 3}, 4.0f)));
}
}  // namespace reel::tests
