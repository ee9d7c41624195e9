// SPDX-License-Identifier: BSD-3-Clause
// Options of ops as text, in differences of traces and in lists of ops.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/table/options.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/create.hpp"
#include "lib/table/options/device.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/join.hpp"
#include "lib/table/options/matmul.hpp"
#include "lib/table/options/normalize.hpp"
#include "lib/table/options/random.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/options/scan.hpp"
#include "lib/table/options/sequence.hpp"
#include "lib/table/options/update.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
std::string text_of(const T& options) {
  return to_string(OptionsView(options));
}
struct UsersOptions {
  Attributes attributes = {};
  void fields(auto&& field) { field("attributes", attributes); }
};
}  // namespace

TEST_CASE("options are shown by name, all of them") {
  CHECK(text_of(ReduceOptions{Axes({0, 2}), Keepdims::yes}) == "axes={0, 2}, keepdims=1");
  CHECK(text_of(ReduceOptions{}) == "axes=every, keepdims=0");
  CHECK(text_of(AxisOptions{3}) == "axis=3");
  CHECK(text_of(AxesOptions{Axes({1})}) == "axes={1}");
  CHECK(text_of(ShapeOptions{{2, 3}}) == "shape=(2, 3)");
  CHECK(text_of(DTypeOptions{DType::int64}) == "dtype=int64");
  const SliceOptions slice{{1, 0}, {2, 3}, {-1, 1}, 2, 4};
  const std::string sliced = "starts=(1, 0), lengths=(2, 3), steps=(-1, 1), dropped=2, added=4";
  CHECK(text_of(slice) == sliced);
  CHECK(text_of(UnsliceOptions{slice, {5, 6}}) == sliced + ", shape=(5, 6)");
  CHECK(text_of(UnTakeOptions{{4}, 1}) == "shape=(4,), axis=1");
  CHECK(text_of(ActivationOptions{Activation::relu}) ==
        "activation=" + std::to_string(static_cast<int>(Activation::relu)));
  CHECK(text_of(EpsilonOptions{0.25}) == "epsilon=0.25");
  CHECK(text_of(DirectionOptions{true}) == "reverse=1");
  CHECK(text_of(OneHotOptions{7, DType::uint8}) == "depth=7, dtype=uint8");
  CHECK(text_of(RandomOptions{
            RandomOptions::Kind::integers, 1, 2, 0.5, 1.5, 0.25, 3, -3, 4, DType::int32, {6}}) ==
        "kind=2, seed=1, position=2, a=0.5, b=1.5, location=0.25, scale=3, low=-3, high=4, "
        "dtype=int32, shape=(6,)");
  CHECK(text_of(FillOptions{FillOptions::Kind::range, 0.5, 0.25, 1, 2, DType::float64, {8}}) ==
        "kind=1, start=0.5, step=0.25, first=1, stride=2, dtype=float64, shape=(8,)");
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
  CHECK(to_string(OptionsView()).empty());
}

TEST_CASE("options are equal if all their members are") {
  const auto equal = [](const auto& a, const auto& b) {
    return equal_options(options_type<std::remove_cvref_t<decltype(a)>>, &a, &b);
  };
  const SliceOptions slice{{1, 0}, {2, 3}, {-1, 1}, 2, 4};
  CHECK(equal(slice, slice));
  for (const SliceOptions& other :
       {SliceOptions{{1, 1}, {2, 3}, {-1, 1}, 2, 4}, SliceOptions{{1, 0}, {2}, {-1, 1}, 2, 4},
        SliceOptions{{1, 0}, {2, 3}, {-1, 2}, 2, 4}, SliceOptions{{1, 0}, {2, 3}, {-1, 1}, 3, 4},
        SliceOptions{{1, 0}, {2, 3}, {-1, 1}, 2, 5}}) {
    CHECK_FALSE(equal(slice, other));
    CHECK_FALSE(equal(UnsliceOptions{slice, {5, 6}}, UnsliceOptions{other, {5, 6}}));
  }
  CHECK(equal(UnsliceOptions{slice, {5, 6}}, UnsliceOptions{slice, {5, 6}}));
  CHECK_FALSE(equal(UnsliceOptions{slice, {5, 6}}, UnsliceOptions{slice, {5, 7}}));
  CHECK_FALSE(equal(ReduceOptions{Axes({0}), Keepdims::yes}, ReduceOptions{Axes({0})}));
  CHECK_FALSE(equal(ReduceOptions{Axes::every()}, ReduceOptions{Axes({0})}));
  CHECK_FALSE(equal(OneHotOptions{7, DType::uint8}, OneHotOptions{7, DType::int32}));
  CHECK(equal(UsersOptions{{{"times", 4}}}, UsersOptions{{{"times", 4}}}));
  CHECK_FALSE(equal(UsersOptions{{{"times", 4}}}, UsersOptions{{{"times", 5}}}));
}

TEST_CASE("attributes of a user's op are shown by name") {
  const Attributes some = {
      {"by", 0.5}, {"how", "fast"}, {"sizes", std::vector<std::int64_t>{2, 3}}, {"times", 4}};
  CHECK(text_of(UsersOptions{some}) ==
        "attributes={by: 0.5, how: \"fast\", sizes: (2, 3), times: 4}");
  CHECK(text_of(UsersOptions{{{"times", 4}}}) == "attributes={times: 4}");
  CHECK(text_of(UsersOptions{}) == "attributes={}");
}

TEST_CASE("a random op takes as many blocks as its numbers need") {
  const auto blocks = [](RandomOptions::Kind kind, DType dtype, std::int64_t numbers) {
    RandomOptions options;
    options.kind = kind;
    options.dtype = dtype;
    return options.blocks(numbers);
  };
  using Kind = RandomOptions::Kind;
  for (const Kind kind :
       {Kind::uniform, Kind::normal, Kind::exponential, Kind::gumbel, Kind::truncated_normal})
    for (const std::uint64_t n : {0u, 1u, 3u, 4u, 5u, 8u, 1'001u}) {
      const auto count = static_cast<std::int64_t>(n);
      CHECK(blocks(kind, DType::float32, count) == (n + 3) / 4);
      CHECK(blocks(kind, DType::float64, count) == (n + 1) / 2);
      CHECK(blocks(Kind::bernoulli, DType::boolean, count) == (n + 3) / 4);
      CHECK(blocks(Kind::integers, DType::int32, count) == (n + 1) / 2);
      CHECK(blocks(Kind::permutation, DType::int64, count) == (n + 1) / 2);
      CHECK(blocks(Kind::gamma, DType::float32, count) == n);
      CHECK(blocks(Kind::beta, DType::float64, count) == n);
    }
}
}  // namespace reel::tests
