// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <limits>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
Tensor gradient_of(const Tensor& x, const Tensor& source, GradientTape& tape) {
  return tape.gradient(x, source, {.unconnected = Unconnected::zero});
}
}  // namespace

TEST_CASE("scatter replaces slices; of equal positions the last update counts") {
  const Tensor x = reshape(arange(0, 12), {3, 4});
  CHECK(equal(scatter(x, tensor({2, 0, -1}), reshape(arange(100, 112), {3, 4})),
              tensor({{104, 105, 106, 107}, {4, 5, 6, 7}, {108, 109, 110, 111}})));
  CHECK(equal(scatter(x, tensor({1, 1}), tensor({{1, 2}, {3, 4}, {5, 6}}), 1),
              tensor({{0, 2, 2, 3}, {4, 4, 6, 7}, {8, 6, 10, 11}})));
  CHECK(equal(scatter(x, tensor(1), tensor({7, 7, 7, 7})),
              tensor({{0, 1, 2, 3}, {7, 7, 7, 7}, {8, 9, 10, 11}})));
  CHECK(equal(scatter(x, zeros({0}, int64), zeros({0, 4}, int32)), x));
  CHECK(equal(scatter(zeros({0, 2}), zeros({0}, int64), zeros({0, 2})), zeros({0, 2})));
  CHECK(equal(scatter(tensor({true, false}), tensor({1}), tensor({true})), tensor({true, true})));
  CHECK(scatter(tensor({1.0f}), tensor({0}), tensor({2})).dtype() == DType::float32);
  const Tensor bytes = tensor({1, 2}).to(uint8), first = tensor({0}).to(int64);
  CHECK(equal(scatter(bytes, first, tensor({5})), tensor({5, 2})));  // int32, not int64
  CHECK(scatter(bytes, first, tensor({5})).dtype() == DType::int32);
  CHECK(equal(scatter_add(full({2}, false), tensor({0, 0, 0}), full({3}, true)),
              tensor({true, false})));
  CHECK(scatter(cast(tensor({1.0}), bfloat16), tensor({0}), cast(tensor({2.0}), bfloat16))
            .to(float32)
            .item<float>() == 2);
}

TEST_CASE("scatter_max and scatter_min keep extremes of every dtype, and NaN") {
  for (const DType dtype :
       {DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64}) {
    const Tensor x = cast(tensor({3, 3, 3}), dtype), u = cast(tensor({1, 9, 4, 2}), dtype);
    const Tensor i = tensor({0, 2, 2, 0});
    CHECK(equal(scatter_max(x, i, u), cast(tensor({3, 3, 9}), dtype)));
    CHECK(equal(scatter_min(x, i, u), cast(tensor({1, 3, 3}), dtype)));
    CHECK(scatter_max(x, i, u).dtype() == dtype);
  }
  const Tensor truths = tensor({false, true});
  CHECK(equal(scatter_max(truths, tensor({0}), tensor({true})), tensor({true, true})));
  CHECK(equal(scatter_min(truths, tensor({1}), tensor({false})), tensor({false, false})));
  const Tensor y = scatter_max(tensor({1.0, NAN, 2.0}), tensor({0, 1, 2, 2}),
                               tensor({NAN, 5.0, infinity, -infinity}));
  CHECK(equal(isnan(y), tensor({true, true, false})));
  CHECK(y(2).item<float>() == static_cast<float>(infinity));
  const Tensor least = tensor<std::int64_t>({INT64_MIN, INT64_MAX});
  CHECK(equal(scatter_max(least, tensor({1, 0}), least),
              tensor<std::int64_t>({INT64_MAX, INT64_MAX})));
}

TEST_CASE("equal extremes share the gradient; a replaced element has none") {
  const Tensor x = tensor<double>({2, 5, 1}), u = tensor<double>({2, 4, 5, 5, 2});
  const Tensor i = tensor({0, 1, 1, 1, 0}), w = tensor<double>({3, 6, 7});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  tape.watch(u);
  const Tensor largest = sum(scatter_max(x, i, u) * w);
  CHECK(equal(gradient_of(largest, x, tape), tensor<double>({1, 2, 7})));
  CHECK(equal(gradient_of(largest, u, tape), tensor<double>({1, 0, 2, 2, 1})));
  const Tensor last = sum(scatter(x, i, u) * w);
  CHECK(equal(gradient_of(last, x, tape), tensor<double>({0, 0, 7})));
  CHECK(equal(gradient_of(last, u, tape), tensor<double>({0, 0, 0, 6, 3})));
  const Tensor middle = sum(scatter_mean(x, i, u) * w);
  CHECK(allclose(gradient_of(middle, x, tape), tensor<double>({1, 1.5, 7})));
  CHECK(allclose(gradient_of(middle, u, tape), tensor<double>({1, 1.5, 1.5, 1.5, 1})));
}

TEST_CASE("scatter_mean includes the element itself") {
  CHECK(allclose(scatter_mean(tensor({1.0, 2.0, 3.0}), tensor({0, 0, 2}), tensor({4.0, 1.0, 5.0})),
                 tensor({2.0, 2.0, 4.0})));
  CHECK(allclose(scatter_mean(ones({2, 3}), tensor({-1}), tensor({{3.0}, {5.0}}), 1),
                 tensor({{1.0, 1.0, 2.0}, {1.0, 1.0, 3.0}})));
  CHECK(allclose(scatter_mean(ones({2, 3}), tensor({-1}), tensor({{3.0}, {5.0}}), -1),
                 tensor({{1.0, 1.0, 2.0}, {1.0, 1.0, 3.0}})));
  CHECK(scatter_mean(tensor({1, 2}), tensor({0}), tensor({2})).dtype() == DType::float32);
  const Tensor large = tensor({2'000'000'000});  // the sum is no int32
  CHECK(equal(scatter_mean(large, tensor({0}), large), tensor({2e9f})));
}

TEST_CASE("scatter ops say which of their arguments is wrong") {
  const Tensor x = zeros({3}), places = tensor({0});
  for (const auto f : {scatter, scatter_max, scatter_min})
    for (const int axis : {-2, 1}) CHECK_THROWS_AS(f(x, places, ones({1}), axis), ShapeError);
  check_refused<Error>([&] { scatter(x, places, Tensor()); }, "scatter: updates: expected");
  check_refused<IndexError>(
      [&] {
        segment_sum(ones({3}), tensor({0, -3, 1}), 2);
      },
      "segment_sum: ids: expected 0 to 1, got -3 at [1]");
  check_refused<IndexError>(
      [&] {
        segment_softmax(ones({2}), tensor({0, 2}), 2);
      },
      "segment_softmax: ids: expected 0 to 1, got 2 at [1]");
  for (const auto f : {segment_sum, segment_mean, segment_max, segment_min, segment_softmax})
    check_refused<IndexError>(
        [&] {
          f(ones({2}), tensor({1, -1}), 3);
        },
        ": ids: expected 0 to 2, got -1 at [1]");
  check_refused<IndexError>([&] { segment_sum(ones({1}), tensor({0}), 0); },
                            "segment_sum: ids: expected no number, got 0 at [0]");
  check_refused<Error>([&] { scatter_max(x, Tensor(), ones({1})); },
                       "scatter_max: indices: expected");
  check_refused<Error>([&] { scatter_min(Tensor(), places, ones({1})); },
                       "scatter_min: x: expected");
}

TEST_CASE("many updates give the results of a plain loop, on rows, columns and single elements") {
  constexpr std::int64_t n = 200'000, places = 700;
  const GeneratorScope scope(Generator(1));
  const Tensor i = random::integers(-places, places, {n});
  const auto index = i.to_vector<std::int64_t>();
  for (const std::int64_t width : {1, 3}) {
    const Tensor x = random::normal({places, width}), u = random::normal({n, width});
    auto last = x.to_vector<float>(), most = last, least = last;
    const auto updates = u.to_vector<float>();
    for (std::size_t k = 0; k < index.size(); ++k)
      for (std::int64_t c = 0; c < width; ++c) {
        const std::int64_t place = index[k] < 0 ? index[k] + places : index[k];
        const auto at = static_cast<std::size_t>(place * width + c);
        const float update =
            updates[k * static_cast<std::size_t>(width) + static_cast<std::size_t>(c)];
        last[at] = update;
        most[at] = std::max(most[at], update);
        least[at] = std::min(least[at], update);
      }
    CHECK(scatter(x, i, u).to_vector<float>() == last);
    CHECK(scatter_max(x, i, u).to_vector<float>() == most);
    CHECK(scatter_min(x, i, u).to_vector<float>() == least);
    CHECK(equal(transpose(scatter_max(transpose(x), i, transpose(u), 1)), scatter_max(x, i, u)));
    CHECK(equal(transpose(scatter(transpose(x), i, transpose(u), -1)), scatter(x, i, u)));
  }
}

TEST_CASE("segments have sums, means and extremes; empty ones have their own numbers") {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 0.0}}), ids = tensor({2, 0, 2});
  CHECK(equal(segment_sum(x, ids, 4), tensor({{3.0, 4.0}, {0.0, 0.0}, {6.0, 2.0}, {0.0, 0.0}})));
  CHECK(equal(segment_mean(x, ids, 3), tensor({{3.0, 4.0}, {0.0, 0.0}, {3.0, 1.0}})));
  CHECK(equal(segment_max(x, ids, 3), tensor({{3.0, 4.0}, {-infinity, -infinity}, {5.0, 2.0}})));
  CHECK(equal(segment_min(x, ids, 3), tensor({{3.0, 4.0}, {infinity, infinity}, {1.0, 0.0}})));
  CHECK(equal(segment_sum(tensor({true, true, false}), tensor({0, 0, 1}), 2),
              tensor<std::int64_t>({2, 0})));
  CHECK(equal(segment_max(tensor({-3, -4}), tensor({0, 0}), 2), tensor({-3, INT32_MIN})));
  CHECK(equal(segment_min(cast(tensor({3, 4}), uint8), tensor({1, 1}), 2),
              cast(tensor({255, 3}), uint8)));
  CHECK(equal(segment_max(tensor({true}), tensor({1}), 2), tensor({false, true})));
  CHECK(segment_mean(tensor({1, 2}), tensor({0, 0}), 1).item<float>() == 1.5f);
  CHECK(segment_sum(zeros({0, 3}), zeros({0}, int64), 2).shape() == Shape({2, 3}));
  CHECK(segment_sum(zeros({0, 3}), zeros({0}, int64), 0).shape() == Shape({0, 3}));
}

TEST_CASE("segment_softmax is softmax of each segment, with its gradient") {
  const Tensor x = random::normal({7}, {.stddev = 20, .dtype = float64});
  const Tensor ids = tensor({0, 0, 0, 1, 1, 1, 1}), w = random::normal({7}, {.dtype = float64});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor y = segment_softmax(x, ids, 3);
  const Tensor expected = concat({softmax(x(range(0, 3))), softmax(x(range(3, 7)))});
  CHECK(allclose(y, expected, {.rtol = 1e-12}));
  CHECK(allclose(tape.gradient(sum(y * w), x), tape.gradient(sum(expected * w), x),
                 {.rtol = 1e-9, .atol = 1e-14}));
  const Tensor bytes = tensor({1, 3, 0}).to(uint8);
  CHECK(allclose(segment_softmax(bytes, zeros({3}, int64), 1), softmax(bytes.to(float32))));
  const Tensor columns = random::normal({5, 2}) + 1000;
  CHECK(allclose(segment_softmax(columns, zeros({5}, int64), 1), softmax(columns, 0),
                 {.rtol = 1e-5}));
}

TEST_CASE("scatter and segment ops are traced") {
  auto traced = trace([](Tensor x, Tensor i) {
    return scatter(x, i, scatter_max(x, i, take(x, i) + 1)(i)) + segment_softmax(x, i, 4);
  });
  for (int k = 0; k < 3; ++k) {
    const Tensor x = random::normal({4}), i = random::integers(0, 4, {4});
    const Tensor expected =
        scatter(x, i, scatter_max(x, i, take(x, i) + 1)(i)) + segment_softmax(x, i, 4);
    CHECK(equal(traced(x, i), expected));
  }
}
}  // namespace reel::tests
