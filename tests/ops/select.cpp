// SPDX-License-Identifier: BSD-3-Clause
// Results whose shape depends on values.
#include <reel/ops/select.hpp>

#include <limits>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
}  // namespace

TEST_CASE("nonzero gives the position of each element that is not 0") {
  CHECK(equal(nonzero(tensor({{0, 7}, {5, 0}})), tensor({{0, 1}, {1, 0}})));
  CHECK(nonzero(tensor({{0, 7}, {5, 0}})).dtype() == DType::int64);
  CHECK(equal(nonzero(tensor({nan, 0.0, -0.0, 1.0})), tensor({{0}, {3}})));
  CHECK(nonzero(zeros({2, 3})).shape() == Shape{0, 2});
  CHECK(nonzero(ones({0, 3})).shape() == Shape{0, 2});
  CHECK(nonzero(tensor(3)).shape() == Shape{1, 0});
  CHECK(nonzero(tensor(0)).shape() == Shape{0, 0});
  const Tensor x = random::integers(0, 2, {5, 6, 7});
  const std::vector<std::int64_t> values = x.to_vector<std::int64_t>();
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 5 * 6 * 7; ++i)
    if (values[static_cast<std::size_t>(i)])
      for (const std::int64_t at : {i / 42, i / 7 % 6, i % 7}) expected.push_back(at);
  CHECK(nonzero(x).to_vector<std::int64_t>() == expected);
  CHECK(equal(nonzero(transpose(x)), nonzero(transpose(x) * 3)));
}

TEST_CASE("masked_select keeps order, broadcasts and has a gradient") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(equal(masked_select(x, x > 2), tensor({3, 4, 5, 6})));
  CHECK(equal(masked_select(x, tensor({true, false, true})), tensor({1, 3, 4, 6})));
  CHECK(equal(masked_select(tensor({1, 2, 3}), tensor({{true}, {false}, {true}})),
              tensor({1, 2, 3, 1, 2, 3})));
  CHECK(masked_select(x, x > 9).shape() == Shape{0});
  const Variable w("w", numbers({4, 5}));
  const Tensor mask = w.value() > 0;
  check_gradients({w}, [&] { return square(masked_select(w, mask)); });
  check_refused<DTypeError>([] { masked_select(ones({2}), ones({2})); },
                            "masked_select: mask: expected bool");
  check_refused<ShapeError>([] { masked_select(ones({2}), full({3}, true)); }, "masked_select: ");
  check_refused<Error>([] { masked_select(Tensor(), full({3}, true)); }, "masked_select: x: ");
}

TEST_CASE("an index that is assigned is the other one, with its line") {
  const Tensor x = tensor({10, 20, 30});
  std::vector<Index> list = {Index(tensor({1}))};
  CHECK(equal(x(list), tensor({20})));
  list[0] = Index(2);
  CHECK(x(list).item<int>() == 30);
  list[0] = Index(tensor({0, 2}));
  CHECK(equal(x(list), tensor({10, 30})));
  check_refused<IndexError>([&] { x((list[0] = Index(7), list)); }, "expected");
  check_refused<Error>([&] { masked_select(x, Tensor()); }, "masked_select: y: expected a tensor");
}

TEST_CASE("unique gives each element once, sorted") {
  CHECK(equal(unique(tensor({{3, 1}, {3, 2}})), tensor({1, 2, 3})));
  const std::vector<double> some =
      unique(tensor<double>({nan, 2, -0.0, nan, 0, 2})).to_vector<double>();
  REQUIRE(some.size() == 3);
  CHECK((some[0] == 0 && some[1] == 2 && some[2] != some[2]));
  CHECK(unique(zeros({0, 2})).shape() == Shape{0});
  CHECK(equal(unique(tensor(5)), tensor({5})));
  CHECK(equal(unique(tensor({true, false, true})), tensor({false, true})));
  check_refused<Error>([] { unique(Tensor()); }, "unique: x: expected ");
}

TEST_CASE("a traced function gives the right number of elements each time") {
  const auto f = trace([](Tensor x) { return unique(x) * 2; });
  for (int round = 0; round < 3; ++round)
    for (const Tensor& x : {tensor({1, 1, 2, 3}), tensor({1, 1, 1, 1}), tensor({4, 3, 4, 4})})
      CHECK(equal(f(x), unique(x) * 2));
}
}  // namespace reel::tests
