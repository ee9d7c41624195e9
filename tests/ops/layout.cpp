// SPDX-License-Identifier: BSD-3-Clause
// Elements in another order, repeated or cut off, compared with plain loops.
#include <reel/ops/layout.hpp>

#include <limits>

#include "lib/body/access.hpp"
#include "nn/near.hpp"
#include "ops/moved.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t huge = std::int64_t{1} << 60;

bool shares(const Tensor& x, const Tensor& y) {
  const Body &a = *Access::body(x), &b = *Access::body(y);
  return (b.owner ? b.owner : &b) == (a.owner ? a.owner : &a);
}
std::int64_t rest(std::int64_t x, std::int64_t n) { return (x % n + n) % n; }
}  // namespace

TEST_CASE("axes are exchanged by views") {
  for_each_layout([](const Tensor& x) {
    check_moved(swap_axes(x, 0, -1), x, {4, 3, 2}, [](Position at) {
      return Position{at[2], at[1], at[0]};
    });
    check_moved(swap_axes(x, 1, 1), x, {2, 3, 4}, [](Position at) { return at; });
    check_moved(matrix_transpose(x), x, {2, 4, 3}, [](Position at) {
      return Position{at[0], at[2], at[1]};
    });
    CHECK(shares(x, matrix_transpose(x)));
    CHECK(shares(x, swap_axes(x, 0, 1)));
  });
  CHECK(matrix_transpose(zeros({0, 3})).shape() == Shape{3, 0});
  check_refused<ShapeError>([] { swap_axes(ones({2, 3}), 0, 2); }, "swap_axes: axis");
  check_refused<ShapeError>([] { swap_axes(ones({2, 3}), -3, 0); }, "swap_axes: axis");
  check_refused<ShapeError>([] { matrix_transpose(ones({3})); }, "at least 2 axes, got (3,)");
  check_refused<Error>([] { matrix_transpose(Tensor()); }, "matrix_transpose: x: ");
}

TEST_CASE("unbind gives the slices along an axis") {
  for_each_layout([](const Tensor& x) {
    for (const int axis : {0, 1, 2, -1, -2, -3}) {
      const std::vector<Tensor> slices = unbind(x, axis);
      REQUIRE(static_cast<std::int64_t>(slices.size()) == x.shape(axis));
      for (std::size_t i = 0; i < slices.size(); ++i) {
        CHECK(shares(x, slices[i]));
        CHECK(doubles(slices[i]) == doubles(take(x, static_cast<std::int64_t>(i), axis)));
      }
    }
  });
  CHECK(unbind(arange(0, 3)).at(1).shape() == Shape{});
  CHECK(unbind(zeros({0, 3})).empty());
  CHECK(unbind(zeros({3, 0})).size() == 3);
  CHECK(unbind(ones({2, 3}) * 2, 1)[2].to_vector<float>() == std::vector<float>{2, 2});
  const Variable w("w", numbers({3, 2}));
  check_gradients({w}, [&] {
    const std::vector<Tensor> rows = unbind(w);
    return rows[0] * rows[2] + square(rows[1]);
  });
  check_refused<ShapeError>([] { unbind(tensor(1)); }, "unbind: axis");
  check_refused<ShapeError>([] { unbind(ones({2}), 1); }, "unbind: axis");
}

TEST_CASE("flip reverses axes by a view") {
  for_each_layout([](const Tensor& x) {
    const auto check = [&](const Axes& axes, std::vector<bool> flipped) {
      check_moved(flip(x, axes), x, {2, 3, 4}, [&](Position at) {
        for (std::size_t i = 0; i < 3; ++i)
          if (flipped[i]) at[i] = x.shape().data()[i] - 1 - at[i];
        return at;
      });
      CHECK(shares(x, flip(x, axes)));
    };
    check(Axes::every(), {true, true, true});
    check(0, {true, false, false});
    check({-1, 1}, {false, true, true});
    check(std::span<const int>(), {false, false, false});
  });
  CHECK(flip(tensor(3)).item<int>() == 3);
  CHECK(flip(zeros({0, 2})).shape() == Shape{0, 2});
  const Variable w("w", numbers({3, 4}));
  const Tensor factors = numbers({3, 4});
  check_gradients({w}, [&] { return flip(w, 1) * square(w) * factors; });
  check_refused<ShapeError>([] { flip(ones({2, 3}), 2); }, "flip: axis");
  check_refused<ShapeError>([] { flip(ones({2, 3}), {0, -2}); }, "flip: axes");
}

TEST_CASE("diagonal picks x[i][i + offset] of any two axes") {
  for_each_layout([](const Tensor& x) {
    for (const std::int64_t offset : {0, 1, -1, 2, -2, 3, -3, 4, 9, -9})
      for (const auto& [first, second] :
           {std::pair(0, 1), {1, 2}, {0, 2}, {2, 0}, {2, 1}, {-2, 0}}) {
        const auto row = static_cast<std::size_t>(first < 0 ? first + 3 : first);
        const auto column = static_cast<std::size_t>(second);
        const std::size_t other = 3 - row - column;
        const std::int64_t rows = x.shape().data()[row], columns = x.shape().data()[column];
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < rows; ++i) count += i + offset >= 0 && i + offset < columns;
        INFO(offset << " of axes " << first << " and " << second);
        check_moved(diagonal(x, offset, first, second), x, {x.shape().data()[other], count},
                    [&](Position at) {
                      Position from(3);
                      from[other] = at[0];
                      from[row] = at[1] + (offset < 0 ? -offset : 0);
                      from[column] = at[1] + (offset > 0 ? offset : 0);
                      return from;
                    });
      }
  });
  const Tensor x = arange(0, 12).reshape({3, 4});
  for (const std::int64_t offset : {-huge, std::numeric_limits<std::int64_t>::min(), huge,
                                    std::numeric_limits<std::int64_t>::max()})
    CHECK(diagonal(x, offset).shape() == Shape{0});
  CHECK(shares(x, diagonal(x, 1)));
  CHECK(shares(x, diagonal(x, -1, 1, 0)));
  CHECK(shares(x, diagonal(x.reshape({3, 2, 2}), 0, 0, 1)));
  CHECK(diagonal(zeros({0, 3})).shape() == Shape{0});
  CHECK(diagonal(zeros({3, 0, 2}), 0, 0, 2).shape() == Shape{0, 2});
  const Variable w("w", numbers({3, 4}));
  check_gradients({w}, [&] { return square(diagonal(w, 1)); });
  check_gradients({w}, [&] { return square(diagonal(transpose(w), 1)); });
  check_refused<ShapeError>(
      [] {
        diagonal(ones({2, 3}), 0, 1, -1);
      },
      "two different axes, got 1 and");
  check_refused<ShapeError>([] { diagonal(ones({2, 3}), 0, 0, 2); }, "diagonal: axis");
  check_refused<ShapeError>([] { diagonal(ones({3})); }, "diagonal: x: expected at least 2 axes");
}

TEST_CASE("tril and triu keep a triangle of each matrix") {
  for_each_layout([](const Tensor& x) {
    for (const std::int64_t offset : {0, 1, -1, 2, -2, 3, 7, -7}) {
      INFO(offset);
      const auto check = [&](const Tensor& y, bool lower) {
        check_moved(y, x, {2, 3, 4}, [=](Position at) {
          const bool inside = lower ? at[2] <= at[1] + offset : at[2] >= at[1] + offset;
          return inside ? at : Position{-1, 0, 0};
        });
      };
      check(tril(x, offset), true);
      check(triu(x, offset), false);
    }
  });
  const Tensor bad = full({2, 2}, nan);
  CHECK(tril(bad).to_vector<float>()[1] == 0);
  CHECK(triu(full({2, 2}, INFINITY)).to_vector<float>()[2] == 0);
  CHECK(equal(tril(ones({3, 3}), huge), ones({3, 3})));
  CHECK(equal(triu(ones({3, 3}), std::numeric_limits<std::int64_t>::min()), ones({3, 3})));
  CHECK(equal(tril(ones({3, 3}), std::numeric_limits<std::int64_t>::min()), zeros({3, 3})));
  CHECK(tril(zeros({2, 0, 3})).shape() == Shape{2, 0, 3});
  const Variable w("w", numbers({2, 3, 3}));
  check_gradients({w}, [&] { return square(tril(w, -1)) + triu(w, 1); });
  check_refused<ShapeError>([] { tril(ones({3})); }, "tril: x: expected at least 2 axes");
  check_refused<ShapeError>([] { triu(tensor(1)); }, "triu: x: expected at least 2 axes");
  check_refused<Error>([] { triu(Tensor()); }, "triu: x: ");
}

TEST_CASE("offsets of diagonals have no bounds") {
  const Tensor x = arange(1, 7).reshape({2, 3});
  for (const std::int64_t far : {INT64_MAX, INT64_MAX - 1, std::int64_t{4}}) {
    CHECK(diagonal(x, far).shape() == Shape{0});
    CHECK(diagonal(x, -far).shape() == Shape{0});
    CHECK(diagonal(x, far, 1, 0).shape() == Shape{0});
    CHECK(equal(tril(x, far), x));
    CHECK(equal(triu(x, -far), x));
    CHECK(all(tril(x, -far) == 0));
    CHECK(all(triu(x, far) == 0));
  }
  CHECK(equal(triu(x, INT64_MIN), x));
}

TEST_CASE("roll moves elements in a circle") {
  for_each_layout([](const Tensor& x) {
    for (const int axis : {0, 1, -1})
      for (const std::int64_t shift : {0, 1, -1, 2, 3, -7, 1000}) {
        const auto along = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
        check_moved(roll(x, shift, axis), x, {2, 3, 4}, [&](Position at) {
          at[along] = rest(at[along] - shift, x.shape().data()[along]);
          return at;
        });
      }
  });
  const Tensor rows = arange(0, 3000).reshape({3, 1000});  // long rows, moved by a few bytes
  for (const std::int64_t shift : {1, 2, 15, 16, -1}) {
    const Tensor column = remainder(arange(0, 1000) - shift, 1000);
    CHECK(
        equal(roll(rows, shift, 1), rows(0) * 0 + column + arange(0, 3000, 1000).reshape({3, 1})));
  }
  const Tensor x = arange(0, 5);
  CHECK(equal(roll(x, std::numeric_limits<std::int64_t>::min(), 0), roll(x, 2, 0)));
  CHECK(roll(zeros({0, 2}), 3, 0).shape() == Shape{0, 2});
  const Variable w("w", numbers({3, 4}));
  check_gradients({w}, [&] { return roll(w, 1, 1) * square(w); });
  check_refused<ShapeError>([] { roll(ones({2}), 1, 1); }, "roll: axis");
  check_refused<ShapeError>([] { roll(tensor(1), 1, 0); }, "roll: axis");
}

TEST_CASE("tile repeats the whole, repeat repeats each slice") {
  for_each_layout([](const Tensor& x) {
    for (const Shape& counts : {Shape({1, 1, 1}), Shape({2, 1, 3}), Shape({3}), Shape({2, 2}),
                                Shape(), Shape({2, 1, 2, 2}), Shape({0, 2, 1})}) {
      Shape shape{1, 2, 3, 4};
      for (std::size_t i = 0; i < counts.rank(); ++i)
        shape.data()[i + 4 - counts.rank()] *= counts.data()[i];
      const bool longer = counts.rank() == 4;
      check_moved(tile(x, counts), x, longer ? shape : Shape(std::span(shape.data() + 1, 3)),
                  [&](Position at) {
                    if (longer) at.erase(at.begin());
                    for (std::size_t i = 0; i < 3; ++i) at[i] %= x.shape().data()[i];
                    return at;
                  });
    }
    for (const int axis : {0, 1, -1}) {
      const auto along = static_cast<std::size_t>(axis < 0 ? axis + 3 : axis);
      for (const std::int64_t count : {0, 1, 3}) {
        Shape shape = x.shape();
        shape.data()[along] *= count;
        check_moved(repeat(x, count, axis), x, shape, [=](Position at) {
          at[along] /= count;
          return at;
        });
      }
      const std::vector<std::int64_t> counts{2, 0, 3, 1}, places{0, 0, 2, 2, 2, 3};
      Shape shape = x.shape();
      const std::int64_t length = shape.data()[along];
      shape.data()[along] = length == 2 ? 2 : length == 3 ? 5 : 6;
      check_moved(repeat(x, {counts.begin(), counts.begin() + length}, axis), x, shape,
                  [&](Position at) {
                    at[along] = places[static_cast<std::size_t>(at[along])];
                    return at;
                  });
    }
  });
  const Tensor deep = arange(0, 256).reshape({2, 2, 2, 2, 2, 2, 2, 2});
  CHECK(equal(tile(deep, {2, 1, 1, 1, 1, 1, 1, 1}), concat({deep, deep})));
  CHECK(equal(repeat(deep, 2, 7).reshape({256, 2})(all, 1), arange(0, 256)));
  CHECK(tile(tensor(5), {2, 2}).shape() == Shape{2, 2});
  CHECK(tile(zeros({0, 2}), {3, 2}).shape() == Shape{0, 4});
  CHECK(equal(repeat(tensor({7}), {1}, 0), tensor({7})));
  CHECK(equal(repeat(tensor({{1, 2}, {3, 4}}), {2}, 1), tensor({{1, 1, 2, 2}, {3, 3, 4, 4}})));
  CHECK(repeat(zeros({0, 2}), {3}, 0).shape() == Shape{0, 2});
  CHECK(repeat(ones({3}), {0}, 0).shape() == Shape{0});
  CHECK(repeat(zeros({2, 0}), 1000, 1).shape() == Shape{2, 0});
  CHECK(repeat(zeros({0}), std::vector<std::int64_t>(), 0).shape() == Shape{0});
  const Variable w("w", numbers({2, 3}));
  const Tensor factors = numbers({4, 6}), more = numbers({2, 6});
  check_gradients({w}, [&] { return square(tile(w, {2, 2})) * factors; });
  check_gradients({w}, [&] { return square(repeat(w, 2, 1)) * more; });
  check_gradients({w}, [&] { return square(repeat(w, {0, 4, 2}, 1)) * more; });
  check_refused<ShapeError>([] { tile(ones({2}), {-1}); },
                            "tile: count: expected a count of at least 0, got -1");
  check_refused<ShapeError>([] { tile(ones({16}), {huge / 8}); }, "tile: ");
  check_refused<ShapeError>([] { repeat(ones({2}), -2, 0); }, "repeat: count: expected a count");
  check_refused<ShapeError>([] { repeat(ones({2}), huge, 0); }, "repeat: ");
  check_refused<ShapeError>([] { repeat(ones({2}), 1, 1); }, "repeat: axis");
  check_refused<ShapeError>(
      [] {
        repeat(ones({3}), {1, 2}, 0);
      },
      "repeat: counts: expected 1 or 3 counts, got 2");
  check_refused<ShapeError>([] { repeat(ones({2}), {-1}, 0); }, "repeat: count: expected a count");
  check_refused<ShapeError>(
      [] {
        repeat(ones({2}), {1, 2, 3}, 0);
      },
      "repeat: counts: expected 1 or 2 counts, got 3");
  check_refused<ShapeError>(
      [] {
        repeat(ones({2}), {1, -2}, 0);
      },
      "repeat: count: expected a count");
  check_refused<MemoryError>([] { repeat(ones({2}), {1, huge}, 0); }, "repeat: ");
}

TEST_CASE("linspace divides a distance equally and ends at its stop") {
  for (const std::int64_t count : {2, 3, 10, 49, 1000}) {
    const std::vector<double> x = linspace(0.1, 0.7, count, float64).to_vector<double>();
    REQUIRE(static_cast<std::int64_t>(x.size()) == count);
    CHECK((x.front() == 0.1 && x.back() == 0.7));
    const double step = (0.7 - 0.1) / static_cast<double>(count - 1);
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(std::abs(x[i] - (0.1 + step * static_cast<double>(i))) < 1e-15);
    const std::vector<float> single = linspace(0.1, 0.7, count).to_vector<float>();
    CHECK((single.front() == 0.1f && single.back() == 0.7f));
  }
  CHECK(linspace(3, -1, 5).to_vector<float>() == std::vector<float>{3, 2, 1, 0, -1});
  CHECK(linspace(2, 5, 1).to_vector<float>() == std::vector<float>{2});
  CHECK(linspace(2, 5, 0, float64).shape() == Shape{0});
  CHECK(linspace(2, 5, 4, bfloat16).dtype() == DType::bfloat16);
  CHECK(equal(linspace(2, 5, 4, float16), tensor({2, 3, 4, 5})));
  check_refused<ShapeError>([] { linspace(0, 1, -1); },
                            "linspace: count: expected a count of at least 0");
  check_refused<DTypeError>([] { linspace(0, 1, 3, int32); },
                            "linspace: dtype: expected a floating");
  check_refused<Error>([] { linspace(0, nan, 3); },
                       "linspace: stop: expected a finite number, got nan");
  check_refused<Error>([] { linspace(-INFINITY, 0, 3); }, "linspace: start: expected a finite");
}

TEST_CASE("meshgrid gives the coordinates of a grid as views") {
  const Tensor x = tensor({1, 2}), y = tensor({3.0, 4.0, 5.0}), z = tensor({true});
  const std::vector<Tensor> grids = meshgrid({x, y, z});
  REQUIRE(grids.size() == 3);
  check_moved(grids[0], x, {2, 3, 1}, [](Position at) { return Position{at[0]}; });
  check_moved(grids[1], y, {2, 3, 1}, [](Position at) { return Position{at[1]}; });
  check_moved(grids[2], z, {2, 3, 1}, [](Position at) { return Position{at[2]}; });
  CHECK(shares(y, grids[1]));
  CHECK(meshgrid(std::vector<Tensor>{}).empty());
  CHECK(meshgrid({x, zeros({0})})[0].shape() == Shape{2, 0});
  const Variable w("w", numbers({3}));
  check_gradients({w}, [&] {
    const std::vector<Tensor> both = meshgrid({w, w});
    return both[0] * square(both[1]);
  });
  check_refused<ShapeError>(
      [&] {
        meshgrid({x, ones({2, 2})});
      },
      "meshgrid: part 1: expected one axis, got shape (2, 2)");
  check_refused<ShapeError>([&] { meshgrid({x, x, x, x, x, x, x, x, x}); }, "meshgrid: parts");
  check_refused<Error>([&] { meshgrid({x, Tensor()}); }, "meshgrid: ");
}

TEST_CASE("sequence_mask is true within each length") {
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64}) {
    const Tensor lengths = cast(tensor({{0, 1, 5}, {2, 9, 3}}), dtype);
    const Tensor mask = sequence_mask(lengths, 5);
    CHECK(mask.dtype() == DType::boolean);
    REQUIRE(mask.shape() == Shape{2, 3, 5});
    const std::vector<double> expected = doubles(lengths), got = doubles(mask);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == double(static_cast<double>(i % 5) < expected[i / 5]));
  }
  CHECK_FALSE(bool(any(sequence_mask(tensor({-3}), 4))));
  CHECK(sequence_mask(tensor(2), 3).to_vector<bool>() == std::vector<bool>{true, true, false});
  CHECK(sequence_mask(tensor({1, 2}), 0).shape() == Shape{2, 0});
  check_refused<DTypeError>([] { sequence_mask(ones({2}), 3); },
                            "sequence_mask: lengths: expected uint8");
  check_refused<DTypeError>([] { sequence_mask(tensor({true}), 3); }, "sequence_mask: lengths");
  check_refused<ShapeError>([] { sequence_mask(tensor({1}), -1); }, "sequence_mask: steps");
}
}  // namespace reel::tests
