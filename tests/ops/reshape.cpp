// SPDX-License-Identifier: BSD-3-Clause
// Which results are views, which are copies, and what is refused. tests/sweep tests the values.
#include <cmath>
#include <cstdint>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Whole = std::vector<std::int64_t>;
Whole numbers(const Tensor& x) { return x.to_vector<std::int64_t>(); }

bool shares(const Tensor& x, const Tensor& y) {
  const Body &a = *Access::body(x), &b = *Access::body(y);
  const Body* owner = a.owner ? a.owner : &a;
  return b.owner == owner;
}
constexpr std::int64_t huge = std::int64_t{1} << 40;
}  // namespace

TEST_CASE("reshape is a view wherever the layout allows it") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  for (const Shape& shape : {Shape({24}), Shape({4, 6}), Shape({2, 12}), Shape({1, 24, 1}),
                             Shape({2, 1, 3, 2, 2}), Shape({-1, 8}), Shape({3, -1, 2})}) {
    const Tensor y = x.reshape(shape);
    CHECK(shares(x, y));
    CHECK(numbers(y) == numbers(x));
  }
  const Tensor reversed = x(all, all, range({}, {}, -1));
  CHECK(shares(x, reversed.reshape({6, 4})));
  CHECK(shares(x, reversed.reshape({6, 2, 2})));
  CHECK_FALSE(shares(x, reversed.reshape({24})));
  const Tensor columns = x(all, all, range(0, 4, 2));
  CHECK(shares(x, columns.reshape({12})));
  CHECK(numbers(columns.reshape({12})) == Whole{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22});
  CHECK_FALSE(shares(x, transpose(x).reshape({24})));
  CHECK(numbers(transpose(x).reshape({4, 6})(0)) == Whole{0, 12, 4, 16, 8, 20});
  const Tensor same = broadcast_to(tensor({5}), {4, 6});
  CHECK(shares(same, same.reshape({2, 12})));
}

TEST_CASE("reshape to and from single numbers and nothing") {
  CHECK(tensor({5}).reshape({}).rank() == 0);
  CHECK(tensor(5).reshape({1, 1, 1}).shape() == Shape({1, 1, 1}));
  CHECK(tensor(5).reshape({-1}).shape() == Shape({1}));
  CHECK(zeros({0, 3}).reshape({5, 0, 2}).shape() == Shape({5, 0, 2}));
  CHECK(zeros({0, 3}).reshape({-1, 3}).shape() == Shape({0, 3}));
  CHECK(transpose(zeros({0, 3})).reshape({0}).size() == 0);
}

TEST_CASE("reshape refuses what has another number of elements") {
  const Tensor x = arange(0, 6);
  check_refused<ShapeError>([&] { x.reshape({4}); },
                            "a shape of 6 elements, as x (6,) has, got (4,)");
  check_refused<ShapeError>([&] { reshape(x, {-1, 4}); }, "reshape: shape");
  check_refused<ShapeError>([&] { reshape(x, {-1, -1}); }, "reshape: shape");
  check_refused<ShapeError>([&] { reshape(zeros({0}), {-1, 0}); }, "reshape: shape");
  check_refused<ShapeError>([&] { reshape(x, {-2, 3}); }, "a length of at least 0, got -2");
  check_refused<ShapeError>([&] { reshape(x, {1, 1, 1, 1, 1, 1, 1, 1, 6}); }, "at most 8 axes");
  // The product of the lengths wraps around to the right number.
  check_refused<ShapeError>([&] { reshape(x, {huge, huge, huge, 6}); }, "at most 2^58 elements");
  const std::int64_t odd = 0x5555555555555555;  // 3 odd = -1, 9 odd odd = 1 modulo 2^64
  check_refused<ShapeError>([&] { reshape(x, {-1, odd, odd, 9}); }, "at most 2^58 elements");
  Shape wrapped = {2, 2, 2, 2, 6};
  for (int axis = 0; axis < 4; ++axis) wrapped.data()[axis] = std::int64_t{1} << 16;
  check_refused<ShapeError>([&] { reshape(x, wrapped); }, "");
}

TEST_CASE("transposes, new and dropped axes are views") {
  const Tensor x = arange(0, 24).reshape({2, 3, 4});
  CHECK(transpose(x).shape() == Shape({4, 3, 2}));
  CHECK(transpose(x, {1, 2, 0}).shape() == Shape({3, 4, 2}));
  CHECK(transpose(x, {-1, 0, 1}).shape() == Shape({4, 2, 3}));
  CHECK(numbers(transpose(x, {0, 2, 1})(1, 3)) == Whole{15, 19, 23});
  CHECK(expand_dims(x, {0, -1}).shape() == Shape({1, 2, 3, 4, 1}));
  CHECK(expand_dims(x, 1).shape() == Shape({2, 1, 3, 4}));
  CHECK(squeeze(zeros({1, 2, 1})).shape() == Shape({2}));
  CHECK(squeeze(zeros({1, 2, 1}), -1).shape() == Shape({1, 2}));
  CHECK(squeeze(zeros({1, 2, 1}), {0, 2}).shape() == Shape({2}));
  for (const Tensor& y : {transpose(x), expand_dims(x, 0), squeeze(x(newaxis)),
                          broadcast_to(x, {5, 2, 3, 4}), split(x, 2)[1]})
    CHECK(shares(x, y));
  CHECK(transpose(tensor(1)).rank() == 0);

  check_refused<ShapeError>(
      [&] {
        transpose(x, {0, 1});
      },
      "transpose: axes: expected 3 axes, got 2");
  check_refused<ShapeError>([&] { transpose(x, {0, 1, 1}); }, "each axis once");
  check_refused<ShapeError>([&] { transpose(x, {0, 1, 3}); }, "an axis in [-3, 3), got 3");
  check_refused<ShapeError>([&] { expand_dims(x, 5); }, "expand_dims: axis");
  check_refused<ShapeError>([&] { expand_dims(x, {0, -5}); }, "each axis once");
  check_refused<ShapeError>([&] { squeeze(x, 0); }, "squeeze: axes: expected axes of length 1");
  const Tensor deep = zeros({1, 1, 1, 1, 1, 1, 1, 1});
  check_refused<ShapeError>([&] { expand_dims(deep, 8); }, "at most 8 axes in the result");
  check_refused<ShapeError>([&] { stack({deep, deep}); }, "at most 8 axes in the result");
}

TEST_CASE("broadcasting takes no memory, and stops where nothing could hold the result") {
  const Tensor one = ones({1, 1});
  const Tensor wide = broadcast_to(one, {huge, 1}), high = broadcast_to(one, {1, huge});
  CHECK(wide.size() == huge);
  CHECK(wide(huge - 1, 0).item<float>() == 1);
  check_refused<ShapeError>([&] { wide + high; }, "add: shape: expected at most 2^58 elements");
  check_refused<ShapeError>([&] { matmul(wide, high); }, "at most 2^58 elements");
  check_refused<ShapeError>([&] { broadcast_to(wide, {huge, huge}); }, "at most 2^58 elements");
  const std::vector<Tensor> many(80, broadcast_to(one, {huge << 17, 1}));
  check_refused<ShapeError>([&] { concat(many); }, "concat");
  const Tensor most = broadcast_to(one, {huge << 17, 1});  // 2^59 bytes
  check_refused<MemoryError>([&] { most * 2; }, "multiply: result: expected memory");
  check_refused<MemoryError>([&] { concat({most, one}); }, "concat: result: expected memory");
  CHECK(sum(one).item<float>() == 1);

  CHECK(broadcast_to(zeros({1}), {0}).size() == 0);
  check_refused<ShapeError>([&] { broadcast_to(zeros({3}), {2}); },
                            "a shape that broadcasts to (2,)");
  check_refused<ShapeError>([&] { broadcast_to(zeros({2, 1}), {2}); }, "broadcast_to: x");
  check_refused<ShapeError>([&] { broadcast_to(zeros({2}), {-1, 2}); }, "broadcast_to: x");
}

TEST_CASE("concat, stack and split undo each other") {
  const Tensor x = arange(0, 12).reshape({2, 6});
  const std::vector<Tensor> parts = split(x, 3, 1);
  CHECK(parts.size() == 3);
  CHECK(numbers(parts[2]) == Whole{4, 5, 10, 11});
  CHECK(equal(concat(parts, 1), x));
  const std::vector<Tensor> uneven = split(x, std::vector<std::int64_t>{1, 0, 5}, -1);
  CHECK(uneven[1].shape() == Shape({2, 0}));
  CHECK(equal(concat(uneven, -1), x));
  CHECK(equal(stack({x(0), x(1)}), x));
  CHECK(equal(stack({x(0), x(1)}, -1), transpose(x)));
  CHECK(numbers(stack({tensor(std::int64_t{3}), tensor(std::int64_t{4})})) == Whole{3, 4});
  CHECK(concat({zeros({0, 2}), zeros({3, 2})}).shape() == Shape({3, 2}));
  CHECK(split(zeros({4, 0}), 2)[1].shape() == Shape({2, 0}));
  CHECK(equal(split(x, 1, 1)[0], x));
  Variable w("w", ones({2})), v("v", zeros({2}));
  CHECK(sum(concat({w, v, w})).item<float>() == 4);

  check_refused<ShapeError>([&] { concat({}); }, "concat: parts: expected at least one tensor");
  check_refused<ShapeError>([&] { stack(std::vector<Tensor>()); }, "stack: parts");
  check_refused<ShapeError>([&] { concat({x, x(0)}); }, "concat: part 1");
  check_refused<ShapeError>(
      [&] {
        concat({x, zeros({2, 5})}, 0);
      },
      "(2, 6) but for axis 0, got (2, 5)");
  check_refused<ShapeError>([&] { concat({x, x}, 2); }, "concat: axis");
  check_refused<ShapeError>([&] { concat({tensor(1), tensor(2)}); }, "concat: axis");
  check_refused<ShapeError>(
      [&] {
        stack({x, x(0)});
      },
      "stack: part 1: expected the shape of part 0");
  check_refused<ShapeError>(
      [&] {
        stack({x, x, x(0)});
      },
      "stack: part 2: expected the shape of part 0 (2, 6), got (6,)");
  check_refused<ShapeError>([&] { stack({x, x}, 3); }, "axis");
  check_refused<ShapeError>([&] { split(x, 4, 1); },
                            "split: parts: expected a number that divides");
  check_refused<ShapeError>([&] { split(x, 0); }, "split: parts");
  check_refused<ShapeError>([&] { split(x, 2, 2); }, "axis");
  using Lengths = std::vector<std::int64_t>;
  check_refused<ShapeError>([&] { split(x, Lengths{1, 2}, 1); }, "add up to 6, got 3 less");
  check_refused<ShapeError>([&] { split(x, Lengths{INT64_MAX, INT64_MAX, 8}, 1); }, "got more");
  check_refused<ShapeError>([&] { split(x, Lengths{-1, 7}, 1); }, "add up to 6");
  check_refused<Error>([&] { concat({x, Tensor()}); }, "an undefined Tensor");
}

TEST_CASE("parts along an axis of eight have a gradient") {
  const Tensor deep = arange(0.0, 12.0).reshape({1, 2, 1, 3, 1, 1, 2, 1});
  GradientTape tape;
  tape.watch(deep);
  const std::vector<Tensor> parts = split(deep, std::vector<std::int64_t>{1, 2}, 3);
  CHECK(parts[1].shape() == Shape{1, 2, 1, 2, 1, 1, 2, 1});
  CHECK(equal(sum(parts[0]), 0.0f + 1 + 6 + 7));
  const Tensor slope = tape.gradient(parts[1] * parts[1], deep).reshape({2, 3, 2});
  CHECK(equal(slope(all, 0), zeros({2, 2})));
  CHECK(equal(slope(0, 2), tensor({8.0f, 10.0f})));
}

TEST_CASE("parts of a temporary keep its memory") {
  const std::vector<Tensor> parts = split(ones({4, 1000}) * 2, 4);
  const Tensor other = zeros({4, 1000}) - 1;
  for (const Tensor& part : parts) CHECK(sum(part).item<float>() == 2000);
}

TEST_CASE("casts cut towards zero, stay at the ends and know only 0 as false") {
  const Tensor x = tensor<double>({1.9, -1.9, 300.0, -1e300, std::nan(""), 0.5});
  CHECK(x.to(DType::int32).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, -1, 300, INT32_MIN, 0, 0});
  CHECK(x.to(DType::uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{1, 0, 255, 0, 0, 0});
  CHECK(equal(x.to(DType::boolean), tensor({true, true, true, true, true, true})));
  CHECK(equal(tensor<double>({0.0, -0.0}).to(DType::boolean), tensor({false, false})));
  CHECK(numbers(tensor({true, false}).to(DType::int64)) == Whole{1, 0});
  CHECK(tensor({16777217}).to(DType::float32).to_vector<float>()[0] == 16777216.0f);
  const Tensor same = x.to(DType::float64);
  CHECK(Access::body(same) == Access::body(x));
}
}  // namespace reel::tests
