// SPDX-License-Identifier: BSD-3-Clause
#include <cstdint>
#include <vector>

#include <reel/reel.hpp>

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
  CHECK(gather(x, zeros({0, 4}, {.dtype = DType::int64}), 0).shape() == Shape({0, 4}));
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

TEST_CASE("one_hot has a 1 at each position, from the end for negative ones") {
  CHECK(equal(one_hot(tensor({1, -1}), 3), tensor({{0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}})));
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
      "take: indices: expected an index in [-3, 3), got 3");
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
  check_refused<DTypeError>([&] { take(x, tensor({0.0f})); }, "take: indices: expected int32 or");
  check_refused<DTypeError>([&] { take(x, tensor({true})); }, "take: indices");
  check_refused<DTypeError>([&] { one_hot(x, 3); }, "one_hot: indices: expected int32 or int64");
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

TEST_CASE("one_hot counts negative positions from the end, as every op does") {
  CHECK(equal(one_hot(tensor({-1, 0}), 3), tensor({{0.0f, 0.0f, 1.0f}, {1.0f, 0.0f, 0.0f}})));
}
}  // namespace reel::tests
