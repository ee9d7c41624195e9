// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"
#include "support/thread_state.hpp"

namespace reel::tests {
namespace {
using Whole = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Floats = std::vector<float>;
Whole whole(const Tensor& x) { return x.to_vector<std::int64_t>(); }
}  // namespace

TEST_CASE("arange counts as NumPy's") {
  CHECK(whole(arange(0, 6, 2)) == Whole{0, 2, 4});
  CHECK(whole(arange(0, 7, 2)) == Whole{0, 2, 4, 6});
  CHECK(whole(arange(5, 0, -2)) == Whole{5, 3, 1});
  CHECK(whole(arange(-3, 2)) == Whole{-3, -2, -1, 0, 1});
  CHECK(whole(arange(3, 3)).empty());
  CHECK(whole(arange(3, 0)).empty());
  CHECK(whole(arange(0, 3, -1)).empty());
  CHECK(whole(arange(0, 3, INT64_MAX)) == Whole{0});
  CHECK(whole(arange(3, 0, -INT64_MAX)) == Whole{3});
  CHECK(arange(0.0, 1.0, 0.25).to_vector<float>() == Floats{0, 0.25f, 0.5f, 0.75f});
  CHECK(arange(0, 1, 0.25, {.dtype = DType::float64}).to_vector<double>() ==
        Reals{0, 0.25, 0.5, 0.75});
  CHECK(arange(0, 3, 1, {.dtype = DType::float32}).to_vector<float>() == Floats{0, 1, 2});
  CHECK(arange(0.0, 1.0, 0.1).size() == 10);
  CHECK(arange(1.0, 1.3, 0.1).size() == 4);  // (1.3 - 1) / 0.1 is a little more than 3
  CHECK(arange(1, 0, -0.5).to_vector<float>() == Floats{1, 0.5f});
  CHECK(arange(0.0f, 3.0f).dtype() == DType::float32);
  CHECK(arange(0.0f, 3.0).dtype() == DType::float32);
  // 0.1 is not rounded to float32 before it is multiplied.
  CHECK(arange(0, 10, 0.1, {.dtype = DType::float64})(3).item<double>() == 3 * 0.1);
  CHECK(arange(0, 10, 0.1)(3).item<float>() == static_cast<float>(3 * 0.1));
  CHECK(arange(0, std::uint8_t{3}).dtype() == DType::int64);
  // Each number is computed from its position, so errors do not add up.
  const Tensor many = arange(0.0f, 1000.0f, 0.1f);
  CHECK(many(-1).item<float>() == Approx(999.9f).epsilon(1e-6));
  CHECK(whole(arange(INT64_MAX - 2, INT64_MAX)) == Whole{INT64_MAX - 2, INT64_MAX - 1});
  CHECK(whole(arange(INT64_MIN, INT64_MAX, INT64_MAX)) == Whole{INT64_MIN, -1, INT64_MAX - 1});
}

TEST_CASE("arange takes the dtype asked for") {
  CHECK(arange(0, 5, 2, int32).to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 2, 4});
  CHECK(arange(255, -1, -255, uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{255, 0});
  CHECK(arange(0, 256, uint8).size() == 256);
  CHECK(arange(300, 300, uint8).size() == 0);
  check_refused<DTypeError>([] { arange(300, 301, 1, uint8); },
                            "arange: value: expected a number that fits uint8, got 300");
  CHECK(arange(0, 3, float32).to_vector<float>() == Floats{0, 1, 2});
  CHECK(arange(0, 2, bfloat16).dtype() == bfloat16);
}

TEST_CASE("ranges that do not end are refused") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  check_refused<Error>([] { arange(0, 5, 0); },
                       "arange: step: expected a finite step other than 0");
  check_refused<Error>([] { arange(0, 5, NAN); }, "arange: step");
  check_refused<Error>([&] { arange(0.0, 3.0, infinity); }, "arange: step");
  check_refused<ShapeError>([&] { arange(0, infinity); }, "arange: stop: expected a finite range");
  check_refused<Error>([] { arange(NAN, 1); }, "arange: start: expected a number");
  check_refused<ShapeError>([] { arange(INT64_MIN, INT64_MAX); }, "arange: stop");
  check_refused<ShapeError>([] { arange(0.0, 1e300); }, "arange: stop");
  CHECK(arange(0, infinity, -1).size() == 0);
}

TEST_CASE("constants have the shape and dtype asked for") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    INFO(dtype);
    const Tensor x = ones({2, 3}, {.dtype = dtype});
    CHECK(x.dtype() == dtype);
    CHECK(sum(x.to(DType::int64)).item<std::int64_t>() == 6);
    CHECK(any(zeros({4}, {.dtype = dtype}) != 0).item<bool>() == false);
    CHECK(equal(ones_like(x), x));
    CHECK(zeros_like(transpose(x)).shape() == Shape({3, 2}));
    CHECK(equal(full_like(x, 1), x));
    CHECK(sum(eye(3, {.dtype = dtype}).to(DType::int64)).item<std::int64_t>() == 3);
  }
  CHECK(full({2}, 7).dtype() == DType::int32);
  CHECK(full({2}, true).dtype() == DType::boolean);
  CHECK(full({2}, 1e300).to_vector<float>()[1] == HUGE_VALF);
  CHECK(full({2}, 1e300, {.dtype = DType::float64}).to_vector<double>()[1] == 1e300);
  CHECK(full({2}, 0.1, {.dtype = DType::float64}).to_vector<double>()[1] == 0.1);
  CHECK(full({2}, 200, {.dtype = DType::uint8}).to_vector<std::uint8_t>()[1] == 200);
  CHECK(full({}, INT64_MIN).item<std::int64_t>() == INT64_MIN);
  CHECK(full_like(tensor({true, true}), 0.5).to_vector<bool>() == std::vector<bool>{true, true});
  CHECK(zeros({0, 3}).size() == 0);
  CHECK(eye(0).shape() == Shape({0, 0}));
  CHECK(equal(eye(2), tensor({{1.0f, 0.0f}, {0.0f, 1.0f}})));
  const Variable w("w", tensor({1.0f, 2.0f}));
  CHECK(equal(zeros_like(w), zeros({2})));
  CHECK(ones_like(3.5).item<float>() == 1);
}

TEST_CASE("shapes that cannot be are refused") {
  const std::int64_t huge = std::int64_t{1} << 40;
  check_refused<ShapeError>([] { zeros({-1}); }, "lengths of at least 0");
  check_refused<ShapeError>([] { ones({2, -3}); }, "a length of at least 0, got -3");
  check_refused<ShapeError>([&] { zeros({huge, huge}); }, "at most 2^58 elements");
  check_refused<ShapeError>([&] { zeros({0, huge, huge}); }, "at most 2^58 elements");
  check_refused<ShapeError>([&] { eye(huge); }, "at most 2^58 elements");
  check_refused<ShapeError>([] { eye(-1); }, "lengths of at least 0");
  check_refused<ShapeError>([] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, "at most 8 axes, got 9");
  check_refused<MemoryError>([&] { zeros({huge << 18}); }, "zeros: result: expected memory");
}

TEST_CASE("what is created is a constant for tapes") {
  GradientTape tape;
  const Tensor x = full({2}, 3.0f);
  tape.watch(x);
  const Tensor y = x * ones_like(x) + eye(2);
  CHECK(equal(tape.gradient(y, x), full({2}, 2.0f)));
}

TEST_CASE("doubles, and lists of them, make a float32 tensor unless their type is named") {
  constexpr DType f32 = DType::float32, f64 = DType::float64;
  const double value = 0.1;
  const Tensor narrow[] = {tensor(0.1),
                           tensor(value),
                           tensor({0.1, value}),
                           tensor({{0.1}, {0.2}}),
                           tensor({{{0.1, 0.2}}}),
                           tensor<float>(0.1),
                           tensor<float>({0.1, 0.2}),
                           tensor({0.1, NAN}),
                           tensor({1.0f, NAN}),
                           tensor({0.1, 2})};
  for (const Tensor& x : narrow) {
    CHECK(x.dtype() == f32);
    const float first = x.to_vector<float>()[0];
    CHECK((first == 0.1f || first == 1.0f));
  }
  const Tensor wide[] = {tensor<double>(0.1),
                         tensor<double>(value),
                         tensor<double>({0.1, value}),
                         tensor<double>({{0.1}, {0.2}}),
                         tensor<double>({{{0.1, 0.2}}}),
                         tensor<double>({0.1, NAN}),
                         tensor<double>({0.1, 2}),
                         tensor(std::vector<double>{0.1}),
                         tensor<double>(std::vector<double>{0.1}),
                         from_span(std::vector<double>{0.1}, {1}),
                         from_span(std::array<double, 1>{0.1}, {1})};
  for (const Tensor& x : wide) {
    CHECK(x.dtype() == f64);
    CHECK(x.to_vector<double>()[0] == 0.1);
  }
  CHECK(to_string(tensor({1.0, NAN, 2.0, INFINITY})) == "[ 1., nan,  2., inf]");
  CHECK(tensor({{1.0}, {2.0}}).shape() == Shape({2, 1}));
  CHECK(tensor({{{1.0, 2.0}}, {{3.0, 4.0}}}).shape() == Shape({2, 1, 2}));
  CHECK(tensor({}).shape() == Shape({0}));
  CHECK(full({}, 0.1).dtype() == f32);
  CHECK(full({}, 0.1).item<float>() == 0.1f);
  CHECK(full_like(tensor<double>(1.0), 0.1).item<double>() == 0.1);
  CHECK(zeros_like(0.5).dtype() == f32);
}

TEST_CASE("integers and bools have the dtype of their C++ type, or of the type that is named") {
  CHECK(tensor(1).dtype() == DType::int32);
  CHECK(tensor({1L, 2L}).dtype() == DType::int64);
  CHECK(tensor({{true}}).dtype() == DType::boolean);
  CHECK(tensor(std::uint8_t{1}).dtype() == DType::uint8);
  CHECK(tensor(std::int8_t{1}).dtype() == DType::int8);
  CHECK(tensor({std::int16_t{1}}).dtype() == DType::int16);
  CHECK(whole(tensor<std::int64_t>({1, -2})) == Whole{1, -2});
  CHECK(whole(tensor<std::int64_t>(std::size_t{7})) == Whole{7});
  CHECK(tensor<std::uint8_t>({0, 255}).to_vector<std::uint8_t>()[1] == 255);
  CHECK(tensor<double>({1, 2}).to_vector<double>() == Reals{1, 2});
  CHECK(tensor<double>({{1, 2}}).dtype() == DType::float64);
  check_refused<DTypeError>(
      [] {
        tensor<std::uint8_t>({1, 256});
      },
      "tensor: value: expected a number that fits uint8, got 256");
  check_refused<DTypeError>([] { tensor<std::uint8_t>(-1); }, "fits uint8, got -1");
  check_refused<DTypeError>([] { tensor<std::int32_t>({{1LL << 40}}); }, "fits int32");
  check_refused<DTypeError>([] { full({2}, 0.5, {.dtype = DType::int32}); },
                            "full: value: expected a number that fits int32, got 0.5");
  check_refused<DTypeError>([] { full({2}, 256, {.dtype = DType::uint8}); }, "fits uint8");
  check_refused<DTypeError>([] { arange(0.0, 3, 1, {.dtype = DType::int32}); },
                            "arange: dtype: expected a floating dtype, as the numbers are not "
                            "integers, got int32");
  check_refused<DTypeError>([] { arange(0, 3, boolean); },
                            "arange: dtype: expected a dtype of numbers, got bool");
  check_refused<DTypeError>([] { arange(0, 257, uint8); },
                            "arange: value: expected a number that fits uint8, got 256");
  check_refused<DTypeError>([] { arange(-1, 3, uint8); }, "fits uint8, got -1");
  check_refused<DTypeError>([] { arange(1, -2, -1, uint8); }, "fits uint8, got -1");
}

TEST_CASE("a list may hold several C++ types, and lists of any depth") {
  const Tensor mixed = tensor({{1, 2}, {3.5, 4}});
  CHECK(mixed.dtype() == float32);
  CHECK(mixed.shape() == Shape({2, 2}));
  CHECK(mixed.to_vector<float>() == Floats{1, 2, 3.5f, 4});
  CHECK(tensor({{1.0}, {2}}).shape() == Shape({2, 1}));
  CHECK(tensor({{1, 2.0f, NAN}}).dtype() == float32);
  CHECK(whole(tensor<std::int64_t>({3000000000, 3})) == Whole{3000000000, 3});
  CHECK(whole(tensor({{3000000000, 3}, {1, 2}})) == Whole{3000000000, 3, 1, 2});
  CHECK(whole(tensor<std::int64_t>({{3000000000u, 3}})) == Whole{3000000000, 3});
  CHECK(tensor({true, 2}).dtype() == int64);
  CHECK(tensor<std::uint8_t>({{1, 2L}}).dtype() == uint8);
  CHECK(tensor<bool>({{1, 0L}}).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(tensor<double>({{1, 0.1}}).to_vector<double>() == Reals{1, 0.1});
  const Tensor deep = tensor({{{{1.0, 2.0}, {3.0, 4.0}}}, {{{5.0, 6.0}, {7.0, 8.0}}}});
  CHECK(deep.shape() == Shape({2, 1, 2, 2}));
  CHECK(deep.to_vector<float>() == Floats{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(tensor({{{{{{{{7}}}}}}}}).shape() == Shape({1, 1, 1, 1, 1, 1, 1, 1}));
  CHECK(tensor({{}, {}}).shape() == Shape({2, 0}));
  CHECK(tensor<int>({{}}).dtype() == int32);
  using Block = std::vector<std::vector<std::vector<std::vector<int>>>>;
  CHECK(tensor(Block{{{{1, 2}, {3, 4}}}}).shape() == Shape({1, 1, 2, 2}));
  CHECK(tensor<float>(Block{}).shape() == Shape({0, 0, 0, 0}));
}

TEST_CASE("lists of different lengths or depths are refused") {
  const char* lengths = "tensor: lists: expected lists of one length, 2, got 1";
  check_refused<ShapeError>([] { tensor({{1, 2}, {3}}); }, lengths);
  check_refused<ShapeError>([] { tensor({{{{1, 2}}, {{3}}}}); }, lengths);
  check_refused<ShapeError>([] { tensor({{}, {1}}); }, "lists of one length, 0, got 1");
  const char* depths = "tensor: lists: expected lists of one depth, got a list beside a number";
  check_refused<ShapeError>([] { tensor({{1}, {{2}}}); }, depths);
  const char* number = "tensor: lists: expected lists of one depth, got a number beside a list";
  check_refused<ShapeError>([] { tensor({{1, {2.5, 3}}}); }, depths);
  check_refused<ShapeError>([] { tensor({{{2.5, 3}, 1}}); }, number);
  check_refused<ShapeError>([] { tensor({{{{{{{{{7}}}}}}}}}); }, "at most 8 axes, got 9");
  check_refused<DTypeError>([] { tensor<std::uint8_t>({{1, 256L}}); }, "fits uint8, got 256");
  check_refused<DTypeError>([] { tensor<std::int64_t>({1, UINT64_MAX}); }, "fits int64");
  using Rows = std::vector<std::vector<std::vector<int>>>;
  check_refused<ShapeError>([] { tensor(Rows{{{1, 2}}, {{3}}}); }, lengths);
}

TEST_CASE("a device that this build does not have is refused by name", "[cpu]") {
  CHECK_FALSE(cuda_available());
  check_refused<DeviceError>([] { const DeviceScope scope(cuda(1)); }, "got cuda:1");
  const Tensor x = ones({2});
  check_refused<DeviceError>([&] { x.to(cuda(3)); }, "got cuda:3");
  CHECK(equal(x.to(cpu()), x));
  const Device second_cpu{Device::Kind::cpu, 1};
  check_refused<DeviceError>([&] { x.to(second_cpu); }, "got cpu:1");
  CHECK_THROWS_WITH(x.to(second_cpu), Catch::Contains("All cores are cpu()."));
  CHECK_THROWS_WITH(x.to(cuda(0)), Catch::Contains("CUDA"));
  check_refused<DeviceError>([&] { const DeviceScope scope(second_cpu); }, "got cpu:1");
  check_refused<Error>([&] { Tensor().to(cpu()); }, "undefined");
  const ThreadState before = state();
  {
    const DeviceScope scope(cpu());
    CHECK(ones({2}).device() == cpu());
    CHECK_FALSE(state() == before);
  }
  CHECK(ones({2}).device() == cpu());
  CHECK(state() == before);
}

TEST_CASE("shapes of too many axes or elements, and axes that they do not have, are refused") {
  const std::vector<std::int64_t> nine(9, 1);
  check_refused<ShapeError>([&] { const Shape shape(nine); }, "at most 8 axes, got 9");
  const Shape shape{2, 3};
  CHECK(shape[-2] == 2);
  CHECK(shape[1] == 3);
  check_refused<ShapeError>([&] { shape[-3]; }, "an axis of (2, 3), got -3");
  check_refused<ShapeError>([&] { shape[2]; }, "an axis of (2, 3), got 2");
  Shape longer = shape;
  longer.resize(4);
  CHECK(longer == Shape{2, 3, 1, 1});
  longer.resize(1);
  CHECK(longer == Shape{2});
  longer.resize(2);
  CHECK(longer == Shape{2, 1});
  const std::int64_t side = (std::int64_t{1} << 30) - 1;
  check_refused<ShapeError>([&] { zeros({side, side}); }, "elements");
  check_refused<ShapeError>(
      [&] {
        zeros({std::int64_t{1} << 29, std::int64_t{1} << 30});
      },
      "elements");
}

TEST_CASE("one element of any dtype is true unless it is 0") {
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    INFO(dtype);
    CHECK(static_cast<bool>(tensor(1).to(dtype)));
    CHECK(static_cast<bool>(ones({1, 1}).to(dtype)));
    CHECK_FALSE(static_cast<bool>(tensor(0).to(dtype)));
  }
  CHECK(static_cast<bool>(tensor(-1)));
  CHECK(static_cast<bool>(tensor(0.5f)));
}

TEST_CASE("a tensor of a vector has the dtype of its elements, or one that is named") {
  const auto is = [](const Tensor& x, DType dtype, std::vector<double> values) {
    return x.dtype() == dtype && x.to(DType::float64).to_vector<double>() == values;
  };
  CHECK(is(tensor(std::vector<double>{0.1, 2}), DType::float64, {0.1, 2}));
  CHECK(is(tensor(std::vector<bool>{true, false}), DType::boolean, {1, 0}));
  CHECK(is(tensor<std::int64_t>(std::vector<std::size_t>{1, 1ul << 40}), DType::int64,
           {1, 1099511627776.0}));
  CHECK(is(tensor<std::uint8_t>(std::vector<int>{255, 0}), DType::uint8, {255, 0}));
  CHECK(is(tensor<float>(std::vector<double>{0.5, 2}), DType::float32, {0.5, 2}));
  CHECK(is(tensor<double>(std::vector<char>{}), DType::float64, {}));
  CHECK(is(tensor(std::vector<std::size_t>{1, 1ul << 40}), DType::int64, {1, 1099511627776.0}));
  CHECK(is(tensor(std::vector<short>{-3}), DType::int16, {-3}));
  CHECK(is(tensor(std::vector<unsigned short>{3}), DType::int64, {3}));
  const std::vector<std::size_t> large = {1, ~std::size_t{0}};
  check_refused<DTypeError>([&] { tensor<std::int64_t>(large); }, "a number that fits int64");
  check_refused<DTypeError>([&] { tensor(large); }, "a number that fits int64");
  check_refused<DTypeError>([] { tensor<std::uint8_t>(std::vector<int>{-1}); }, "-1");
}
TEST_CASE("a vector of vectors is a matrix") {
  CHECK(equal(tensor(std::vector<std::vector<float>>{{1, 2}, {3, 4}}),
              tensor({{1.f, 2.f}, {3.f, 4.f}})));
  const Tensor truths = tensor(std::vector<std::vector<bool>>{{true}, {false}});
  CHECK(truths.dtype() == boolean);
  CHECK(truths.shape() == Shape{2, 1});
  CHECK(tensor<double>(std::vector<std::vector<std::size_t>>{{7}}).dtype() == float64);
  CHECK(tensor(std::vector<std::vector<int>>{}).shape() == Shape{0, 0});
  check_refused<ShapeError>([] { tensor(std::vector<std::vector<int>>{{1, 2}, {3}}); }, "tensor");
}

TEST_CASE("vectors may be three deep") {
  using Rows = std::vector<std::vector<float>>;
  const Tensor x = tensor(std::vector<Rows>{{{1, 2}, {3, 4}, {5, 6}}, {{7, 8}, {9, 10}, {11, 12}}});
  CHECK(equal(x, arange(1, 13, float32).reshape({2, 3, 2})));
  using Sizes = std::vector<std::vector<std::vector<std::size_t>>>;
  CHECK(tensor(Sizes{{{7}}}).dtype() == int64);
  CHECK(tensor<double>(Sizes{{{7}}}).dtype() == float64);
  CHECK(tensor(Sizes{}).shape() == Shape{0, 0, 0});
  CHECK(tensor(Sizes{{}, {}}).shape() == Shape{2, 0, 0});
  check_refused<ShapeError>([] { tensor(Sizes{{{1}, {2}}, {{3}}}); }, "tensor");
  check_refused<ShapeError>([] { tensor(Sizes{{{1}, {2}}, {{3}, {}}}); }, "tensor");
}

TEST_CASE("dtypes stand alone, and unscoped enums are positions") {
  CHECK(zeros({3}, int64).dtype() == DType::int64);
  CHECK(ones({3}, boolean).dtype() == DType::boolean);
  CHECK(full({3}, 2, float64).dtype() == DType::float64);
  CHECK(arange(0, 3, 1, float64).dtype() == DType::float64);
  CHECK(arange(0, 3, float64).to_vector<double>() == Reals{0, 1, 2});
  CHECK(eye(2, int32).dtype() == DType::int32);
  CHECK(zeros({3}, {}).dtype() == DType::float32);
  CHECK(ones({2}).to(uint8).dtype() == DType::uint8);
  enum Tag { noun, verb };
  CHECK(tensor({10, 20})(verb).item<int>() == 20);
  CHECK(equal(tensor(std::vector<Tag>{verb, noun}), tensor({1, 0}).to(int64)));
  const Tensor tags = tensor({1, 0, 1}), rows = arange(0, 6).reshape({3, 2});
  CHECK(equal(tags == verb, tensor({true, false, true})));
  CHECK(equal(where(noun != tags, noun, 5), tensor({0, 5, 0})));
  CHECK(equal(take(rows, verb), tensor({2, 3})));
  CHECK(equal(one_hot(verb, 2), tensor({0, 1})));
  CHECK(full({2}, verb).dtype() == int64);
  enum Sizes { none, one, width };
  const Tensor x = zeros({3, width});
  CHECK(x.shape() == Shape{3, 2});
  CHECK(x.shape()[one] == 2);
  CHECK(equal(rows(all, range(one, width)), tensor({{1}, {3}, {5}})));
  CHECK(zeros({width}).shape() == Shape{2});
  CHECK(arange(none, width).size() == 2);
}

TEST_CASE("shapes and axes come from vectors of any integer") {
  enum Axis { time, batch };
  using Int64s = std::vector<std::int64_t>;
  const Tensor x = arange(0, 6).reshape(std::vector<int>{2, -1});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(zeros(std::vector<std::size_t>{2, 3}).shape() == Shape(Int64s{2, 3}));
  CHECK(sum(x, std::vector<int>{0, -1}).item<std::int64_t>() == 15);
  CHECK(equal(sum(x, std::vector<std::size_t>{1}), tensor({3, 12})));
  CHECK(equal(sum(x, Int64s{0}, keepdims), tensor({{3, 5, 7}})));
  CHECK(equal(transpose(x, std::vector<Axis>{batch, time}), transpose(x)));
  CHECK(equal(sum(x, std::vector<int>{}), x));
  const std::vector<Tensor> parts = split(x, std::vector<int>{1, 2}, 1);
  CHECK(equal(parts[0], tensor({{0}, {3}})));
  CHECK(equal(parts[1], tensor({{1, 2}, {4, 5}})));
  CHECK(split(x, Int64s{1, 1}).size() == 2);
  CHECK(equal(repeat(x, std::vector<std::size_t>{0, 2}, 0), tensor({{3, 4, 5}, {3, 4, 5}})));
  CHECK(equal(repeat(x, Int64s{1, 0}, 0), tensor({{0, 1, 2}})));
  check_refused<ShapeError>([&] { split(x, std::vector<std::size_t>{SIZE_MAX, 1}, 0); }, "split");
  check_refused<ShapeError>([&] { zeros(std::vector<unsigned long>{~0ul}); }, "Shape");
  check_refused<ShapeError>([&] { sum(x, Int64s{1LL << 32}); }, "sum");
  check_refused<ShapeError>([&] { sum(x, std::vector<int>(9)); }, "Axes");
  check_refused<ShapeError>([&] { sum(x, SIZE_MAX); }, "sum");
  check_refused<ShapeError>([&] { sum(x, std::vector<std::size_t>{SIZE_MAX}); }, "sum");
  enum Huge : std::uint64_t { huge = UINT64_MAX };
  check_refused<IndexError>([&] { x(huge); }, "x(...)");
  CHECK(full({2}, huge).dtype() == float32);
}

TEST_CASE("numbers keep their digits where they become tensors") {
  CHECK(cast(0.1, DType::float64).item<double>() == 0.1);
  CHECK(cast(0.1, DType::float32).item<float>() == 0.1f);
  CHECK(cast(2.9, DType::int32).item<std::int32_t>() == 2);
  CHECK(cast(INT64_MAX, DType::int64).item<std::int64_t>() == INT64_MAX);
  // It is above the middle of two float32 numbers by 1, which float64 does not hold.
  const std::int64_t number = (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1;
  CHECK(cast(number, DType::float32).item<float>() == 0x1p54f + 0x1p31f);
  CHECK(cast(-number, DType::float32).item<float>() == -0x1p54f - 0x1p31f);
}
}  // namespace reel::tests
