// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <vector>

#include <reel/reel.hpp>

#include "support/late.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
Tensor table() { return arange(0.0f, 12.0f).reshape({3, 4}); }
using Numbers = std::vector<float>;
Numbers numbers(const Tensor& x) { return x.to_vector<float>(); }
}  // namespace

TEST_CASE("take replaces an axis by the axes of the positions") {
  const Tensor x = table();
  CHECK(numbers(take(x, tensor({2, 0, -1}))) == Numbers{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11});
  CHECK(numbers(take(x, tensor({3, 0}), 1)) == Numbers{3, 0, 7, 4, 11, 8});
  CHECK(equal(take(x, tensor({3, 0}), -1), take(x, tensor({3, 0}), 1)));
  CHECK(take(x, tensor({{0, 1}, {2, 0}}), 1).shape() == Shape({3, 2, 2}));
  CHECK(take(x, tensor(1)).shape() == Shape({4}));
  CHECK(take(x, 1).shape() == Shape({4}));
  CHECK(take(x, zeros({0}, {.dtype = DType::int64})).shape() == Shape({0, 4}));
  CHECK(take(zeros({0, 4}), zeros({0}, {.dtype = DType::int32})).shape() == Shape({0, 4}));
  CHECK(take(tensor({true, false}), tensor({1, 1, 0})).to_vector<bool>() ==
        std::vector<bool>{false, false, true});
  CHECK(equal(take(transpose(x), tensor({1, 3})), transpose(x)(range(1, 4, 2))));
}

TEST_CASE("gather picks one element for each position") {
  const Tensor x = table();
  CHECK(numbers(gather(x, tensor({{3}, {-4}, {1}}), 1)) == Numbers{3, 4, 9});
  CHECK(numbers(gather(x, tensor({{2, 0, 1}}), 0)) == Numbers{8, 1, 6});
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64}) {
    const auto none = [=](Shape shape) { return zeros(shape, {.dtype = dtype}); };
    CHECK(gather(x, none({0, 4}), 0).shape() == Shape({0, 4}));
    CHECK(gather(x, none({3, 0}), 1).shape() == Shape({3, 0}));
    CHECK(gather(zeros({0, 4}), none({0, 4}), 0).shape() == Shape({0, 4}));
    CHECK(gather(zeros({2, 0, 3}), none({2, 0, 3}), 1).shape() == Shape({2, 0, 3}));
  }
}

TEST_CASE("gather finds its way among many elements, along either axis") {
  constexpr std::int64_t rows = 700, columns = 600;  // enough to be shared among threads
  const Tensor x = arange(0.0f, static_cast<float>(rows * columns)).reshape({rows, columns});
  for (const int axis : {0, 1}) {
    const std::int64_t length = axis == 0 ? rows : columns;
    const Tensor places = arange(std::int64_t{0}, rows * columns) * 7 % length;
    const Tensor y = gather(x, places.reshape({rows, columns}), axis);
    const auto got = y.values<float>();
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const std::int64_t place = i * 7 % length;
      const std::int64_t row = axis == 0 ? place : i / columns;
      const std::int64_t column = axis == 0 ? i % columns : place;
      wrong += got[static_cast<std::size_t>(i)] != static_cast<float>(row * columns + column);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("scatter_add adds up equal positions") {
  const Tensor x = table(), rows = ones({3, 4});
  const Tensor y = scatter_add(x, tensor({1, 1, -3}), rows);
  CHECK(equal(
      y - x,
      tensor({{1.0f, 1.0f, 1.0f, 1.0f}, {2.0f, 2.0f, 2.0f, 2.0f}, {0.0f, 0.0f, 0.0f, 0.0f}})));
  const Tensor z = scatter_add(x, tensor({0, 0}), full({3, 2}, 5.0f), 1);
  CHECK(numbers(z(0)) == Numbers{10, 1, 2, 3});
  CHECK(equal(x, table()));
  CHECK(equal(scatter_add(x, zeros({0}, {.dtype = DType::int64}), zeros({0, 4})), x));
  CHECK(scatter_add(x, tensor({0}), ones({1, 4}, {.dtype = DType::float64})).dtype() ==
        DType::float64);
}

TEST_CASE("one_hot has a 1 at each class") {
  CHECK(equal(one_hot(tensor({1, 2}), 3), tensor({{0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}})));
  CHECK(one_hot(2, 4).shape() == Shape({4}));
  CHECK(one_hot(tensor({{0, 1}}), 2, DType::boolean).dtype() == DType::boolean);
  CHECK(one_hot(zeros({0}, {.dtype = DType::int64}), 0).shape() == Shape({0, 0}));
}

TEST_CASE("gradients of rows taken twice add up, in the order of the positions") {
  Variable rows("rows", table());
  GradientTape tape;
  const Tensor y = take(rows, tensor({2, 0, 2})) * tensor({{1.0f}, {10.0f}, {100.0f}});
  CHECK(equal(tape.gradient(y, rows), tensor({{10.0f}, {0.0f}, {101.0f}}) * ones({3, 4})));
}

TEST_CASE("positions outside their axis are refused, and the tape goes on") {
  const Tensor x = table();
  const std::int64_t end = INT64_MAX;
  GradientTape tape;
  tape.watch(x);
  check_refused<IndexError>(
      [&] {
        take(x, tensor({0, 3}));
      },
      "take: indices: expected an index in [-3, 3), got 3 at [1]");
  const Tensor places = tensor({{0, 1, 2, 0}, {1, 9, 9, 0}});
  check_refused<IndexError>([&] { take(x, places); }, "got 9 at [1, 1]");
  check_refused<IndexError>([&] { take(x, transpose(places)); }, "got 9 at [1, 1]");
  check_refused<IndexError>([&] { gather(x, places(all, range({}, {}, -1)), 1); },
                            "in [-4, 4), got 9 at [1, 1]");
  check_refused<IndexError>([&] { x(places(1, 1)); }, "x(...): ");
  check_refused<IndexError>([&] { take(x, tensor(9)); }, "in [-3, 3), got 9");
  check_refused<IndexError>(
      [&] {
        cross_entropy(x, tensor({0, 1, 4}));
      },
      "cross_entropy: labels: expected an index in [0, 4), got 4 at [2]");
  check_refused<IndexError>([&] { take(x, tensor({-4})); }, "got -4");
  check_refused<IndexError>([&] { take(x, tensor({end, -end - 1}), 1); }, "in [-4, 4)");
  check_refused<IndexError>(
      [&] {
        take(zeros({0, 4}), tensor({0}));
      },
      "expected no index, as there is none, got 0");
  check_refused<IndexError>([&] { gather(x, tensor({{4}}), 1); }, "gather: indices");
  check_refused<IndexError>([&] { scatter_add(x, tensor({3}), ones({1, 4})); }, "got 3");
  check_refused<IndexError>([&] { one_hot(tensor({5}), 5); }, "one_hot: indices");
  check_refused<IndexError>([&] { one_hot(tensor({0}), 0); }, "one_hot: indices");
  CHECK(equal(tape.gradient(take(x, 1) * 2, x)(1), full({4}, 2.0f)));
}

TEST_CASE("arguments that do not fit are refused") {
  const Tensor x = table(), i = tensor({0});
  check_refused<DTypeError>([&] { take(x, tensor({0.0f})); },
                            "take: indices: expected uint8, int32 or");
  check_refused<DTypeError>([&] { take(x, tensor({true})); }, "take: indices");
  check_refused<DTypeError>([&] { gather(x, zeros({3, 4}), 1); }, "gather: indices");
  check_refused<DTypeError>(
      [&] {
        scatter_add(x, zeros({1}), ones({1, 4}));
      },
      "scatter_add: indices");
  check_refused<DTypeError>([&] { one_hot(x, 3); },
                            "one_hot: indices: expected uint8, int32 or int64");
  check_refused<ShapeError>([&] { take(x, i, 2); },
                            "take: axis: expected an axis in [-2, 2), got 2");
  check_refused<ShapeError>([&] { take(tensor(1.0f), i); }, "take: axis");
  check_refused<ShapeError>([&] { gather(x, i, 0); },
                            "gather: indices: expected within shape (3, 4)");
  check_refused<ShapeError>([&] { gather(x, tensor({{0, 0, 0, 0, 0}}), 0); }, "gather: indices");
  check_refused<ShapeError>(
      [&] {
        scatter_add(x, i, ones({2, 4}));
      },
      "updates: expected shape (1, 4)");
  check_refused<ShapeError>([&] { one_hot(i, -1); }, "one_hot: depth");
  const Tensor deep = zeros({1, 1, 1, 1, 1, 1, 1, 1}, {.dtype = DType::int32});
  check_refused<ShapeError>([&] { one_hot(deep, 2); }, "one_hot: indices: expected at most 7 axes");
  check_refused<ShapeError>([&] { take(x, deep); }, "take: indices: expected at most 8 axes");
  check_refused<Error>([&] { take(Tensor(), i); }, "take: x: expected a tensor");
  check_refused<Error>([&] { take(x, Tensor()); }, "take: indices: expected a tensor");
}

TEST_CASE("one_hot refuses negative classes, of any dtype, eager, recorded and traced") {
  for (const DType dtype : {DType::int32, DType::int64})
    for (const std::int64_t depth : {1, 3, 300}) {
      const Tensor classes = tensor({0, -1}).to(dtype);
      const std::string expected =
          "one_hot: indices: expected an index in [0, " + std::to_string(depth) + "), got -1";
      check_refused<IndexError>([&] { one_hot(classes, depth); }, expected);
      check_refused<IndexError>([&] { one_hot(-1, depth); }, expected);
      GradientTape tape;
      check_refused<IndexError>([&] { one_hot(classes, depth); }, expected);
    }
  const auto traced = trace([](Tensor x) { return one_hot(x, 3); });
  for (int i = 0; i < 3; ++i) {
    CHECK(equal(traced(tensor({0, 2})), tensor({{1.0f, 0.0f, 0.0f}, {0.0f, 0.0f, 1.0f}})));
    CHECK_THROWS_AS((traced(tensor({0, -1})), await_errors()), IndexError);
  }
}

TEST_CASE("uint8 positions, labels and lengths are taken as those of int32 and int64") {
  const Tensor x = arange(0, 900 * 2).reshape({900, 2}).to(DType::float32);
  const std::vector<int> places = {0, 255, 128, 127, 3, 3};
  const Tensor as_int = tensor(places);
  for (const DType dtype : {DType::uint8, DType::int64}) {
    const Tensor i = as_int.to(dtype);
    const Tensor column = i.reshape({6, 1});
    CHECK(equal(take(x, i), take(x, as_int)));
    CHECK(equal(x(i), x(as_int)));
    CHECK(equal(x(i, 1), x(as_int, 1)));
    CHECK(equal(gather(x, column, 0), gather(x, as_int.reshape({6, 1}), 0)));
    CHECK(equal(scatter_add(x, i, ones({6, 2})), scatter_add(x, as_int, ones({6, 2}))));
    CHECK(equal(one_hot(i, 256), one_hot(as_int, 256)));
    const Tensor scores = random::normal({6, 256});
    CHECK(equal(cross_entropy(scores, i), cross_entropy(scores, as_int)));
    CHECK(nn::Embedding(256, 2)(i).shape() == Shape({6, 2}));
    const auto slope = [&](const Tensor& at, const auto& f) {
      GradientTape tape;
      tape.watch(x), tape.watch(scores);
      const std::vector<Tensor> sources = {x, scores};
      return tape.gradient(sum(f(at)), GradientSources(sources), Unconnected::zero);
    };
    const auto check = [&](const auto& f) {
      const auto got = slope(i, f), expected = slope(as_int, f);
      CHECK(equal(got[0], expected[0]));
      CHECK(equal(got[1], expected[1]));
    };
    check([&](const Tensor& at) { return square(take(x, at)); });
    check([&](const Tensor& at) { return square(x(at, 0)); });
    check([&](const Tensor& at) { return square(gather(x, at.reshape({6, 1}), 0)); });
    check([&](const Tensor& at) { return cross_entropy(scores, at); });
    check([&](const Tensor& at) { return square(scatter_add(x, at, scores(all, range(0, 2)))); });
    const auto traced = trace([&](Tensor at) { return take(x, at); });
    for (int k = 0; k < 3; ++k) CHECK(equal(traced(i), take(x, as_int)));
  }
  const Tensor steps = random::normal({4, 3, 2});
  const nn::LSTM lstm(2, 3);
  const nn::GRU gru(2, 3);
  const Tensor lengths = tensor({4, 0, 2});
  for (const DType dtype : {DType::uint8, DType::int64}) {
    const auto slopes = [&](const auto& layer, const Tensor& of) {
      GradientTape tape;
      return tape.gradient(sum(square(layer(steps, {}, of).outputs)), parameters(layer));
    };
    CHECK(equal(lstm(steps, {}, lengths.to(dtype)).outputs, lstm(steps, {}, lengths).outputs));
    CHECK(equal(gru(steps, {}, lengths.to(dtype)).outputs, gru(steps, {}, lengths).outputs));
    CHECK(equal(slopes(lstm, lengths.to(dtype))[0], slopes(lstm, lengths)[0]));
    CHECK(equal(slopes(gru, lengths.to(dtype))[0], slopes(gru, lengths)[0]));
  }
  const Tensor byte = tensor({200}).to(DType::uint8);
  check_refused<IndexError>([&] { take(ones({200}), byte); }, "got 200");
  check_refused<IndexError>([&] { one_hot(byte, 200); }, "in [0, 200), got 200");
  check_refused<IndexError>([&] { cross_entropy(ones({1, 200}), byte); }, "got 200");
}

TEST_CASE("scatter_add sums in the dtype of the result and never cuts fractions off") {
  const DType integers[] = {DType::boolean, DType::uint8, DType::int32, DType::int64};
  for (const DType dtype : integers)
    for (const DType floating : {DType::float32, DType::float64}) {
      const std::string expected =
          "scatter_add: updates: expected no fractions, as x is " + std::string(name_of(dtype));
      const Tensor x = zeros({3}, {.dtype = dtype}), updates = ones({1}, {.dtype = floating});
      check_refused<DTypeError>([&] { scatter_add(x, tensor({1}), updates); }, expected);
      const Tensor sums =
          scatter_add(zeros({3}, {.dtype = floating}), tensor({1, 1}), ones({2}, {.dtype = dtype}));
      CHECK(sums.dtype() == floating);
      CHECK(sums(1).to(DType::float64).item<double>() == 2);
    }
  // 4 times 100 does not fit in uint8.
  const Tensor small = full({4}, 100, {.dtype = DType::uint8}), at = zeros({4}, {DType::int32});
  for (const DType dtype : {DType::int32, DType::int64, DType::float32, DType::float64}) {
    const Tensor sums = scatter_add(zeros({2}, {.dtype = dtype}), at, small);
    CHECK(sums.dtype() == dtype);
    CHECK(sums(0).to(DType::int64).item<std::int64_t>() == 400);
  }
  const Tensor x = zeros({2}, {DType::float32}), updates = ones({2}, {DType::float64});
  GradientTape tape;
  tape.watch(x), tape.watch(updates);
  const Tensor y = sum(square(scatter_add(x, tensor({1, 1}), updates)));
  const auto [dx, du] = tape.gradient(y, x, updates);
  CHECK(dx.dtype() == DType::float32);
  CHECK(du.dtype() == DType::float64);
  CHECK(equal(du, tensor({4, 4})));
}
}  // namespace reel::tests
