// SPDX-License-Identifier: BSD-3-Clause
// The texts of the first test come from NumPy 2.4 with precision=4, floatmode='maxprec_equal' and
// ", " as separator. They lack NumPy's point after whole numbers, and "True" is "true".
#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include <reel/format.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Golden {
  Tensor (*make)();
  const char* text;
};
const Golden goldens[] = {
    {[] {
       return tensor({1.0f, 2.0f, 3.0f});
     },
     R"([1., 2., 3.])"},
    {[] {
       return tensor({0.1f, 0.25f, 3.0f});
     },
     R"([0.10, 0.25, 3.00])"},
    {[] {
       return tensor<double>({{1.5, -2.25}, {0.125, 10.0}});
     },
     R"([[ 1.500, -2.250],
 [ 0.125, 10.000]])"},
    {[] {
       return tensor({1.0 / 3, 2.0 / 3});
     },
     R"([0.3333, 0.6667])"},
    {[] {
       return tensor<double>({0.50004, 0.5});
     },
     R"([0.5, 0.5])"},
    {[] {
       return tensor<double>({1e-5, 1.0});
     },
     R"([1.e-05, 1.e+00])"},
    {[] {
       return tensor({1e10f, 1.5f});
     },
     R"([1.0e+10, 1.5e+00])"},
    {[] {
       return tensor<double>({1e-300, 2.5e300});
     },
     R"([1.0e-300, 2.5e+300])"},
    {[] {
       return tensor<double>({0.5, 1000.0});
     },
     R"([5.e-01, 1.e+03])"},
    {[] {
       return tensor<double>({0.5, 400.0});
     },
     R"([  0.5, 400.0])"},
    {[] {
       return tensor<double>({1234.5678, 2.0});
     },
     R"([1234.5678,    2.0000])"},
    {[] {
       return tensor({123456.789f, 99999.5f});
     },
     R"([123456.79,  99999.50])"},
    {[] {
       return tensor<double>({std::nan(""), 1.5, -HUGE_VAL, HUGE_VAL});
     },
     R"([ nan,  1.5, -inf,  inf])"},
    {[] {
       return tensor({std::nan(""), -std::nan("")});
     },
     R"([nan, nan])"},
    {[] {
       return tensor({-0.0f, 0.5f});
     },
     R"([-0.0,  0.5])"},
    {[] {
       return tensor({1, -20, 300});
     },
     R"([  1, -20, 300])"},
    {[] {
       return tensor({{true, false}, {false, false}});
     },
     R"([[ true, false],
 [false, false]])"},
    {[] {
       return arange(0, 6).reshape({1, 2, 3});
     },
     R"([[[0, 1, 2],
  [3, 4, 5]]])"},
    {[] {
       return arange(0, 8).reshape({2, 2, 2});
     },
     R"([[[0, 1],
  [2, 3]],

 [[4, 5],
  [6, 7]]])"},
    {[] {
       return arange(0, 16).reshape({2, 2, 1, 4});
     },
     R"([[[[ 0,  1,  2,  3]],

  [[ 4,  5,  6,  7]]],


 [[[ 8,  9, 10, 11]],

  [[12, 13, 14, 15]]]])"},
    {[] { return tensor(std::int64_t{-5}); }, R"(-5)"},
    {[] { return tensor(2.5f); }, R"(2.5)"},
    {[] { return tensor(2.0f); }, R"(2.0)"},
    {[] { return tensor<double>(1e20); }, R"(1.e+20)"},
    {[] { return zeros({0}); }, R"([])"},
    {[] {
       return zeros({2, 0, 3});
     },
     R"([])"},
    {[] {
       return zeros({1, 1}) + 0.5f;
     },
     R"([[0.5]])"},
    {[] { return arange(0, 1000)(range(0, 40)); },
     R"([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,
 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,
 36, 37, 38, 39])"},
    {[] { return arange(0, 1001); }, R"([   0,    1,    2, ...,  998,  999, 1000])"},
    {[] {
       return arange(-1500, 1500).reshape({50, 60});
     },
     R"([[-1500, -1499, -1498, ..., -1443, -1442, -1441],
 [-1440, -1439, -1438, ..., -1383, -1382, -1381],
 [-1380, -1379, -1378, ..., -1323, -1322, -1321],
 ...,
 [ 1320,  1321,  1322, ...,  1377,  1378,  1379],
 [ 1380,  1381,  1382, ...,  1437,  1438,  1439],
 [ 1440,  1441,  1442, ...,  1497,  1498,  1499]])"},
    {[] {
       return arange(0, 2000).reshape({2, 500, 2});
     },
     R"([[[   0,    1],
  [   2,    3],
  [   4,    5],
  ...,
  [ 994,  995],
  [ 996,  997],
  [ 998,  999]],

 [[1000, 1001],
  [1002, 1003],
  [1004, 1005],
  ...,
  [1994, 1995],
  [1996, 1997],
  [1998, 1999]]])"},
    {[] {
       return transpose(arange(0, 6).reshape({2, 3}));
     },
     R"([[0, 3],
 [1, 4],
 [2, 5]])"},
    {[] { return arange(0, 10)(range({}, {}, -3)); }, R"([9, 6, 3, 0])"},
    {[] { return arange(0.0, 30.0) / 8; },
     R"([0.000, 0.125, 0.250, 0.375, 0.500, 0.625, 0.750, 0.875, 1.000, 1.125,
 1.250, 1.375, 1.500, 1.625, 1.750, 1.875, 2.000, 2.125, 2.250, 2.375,
 2.500, 2.625, 2.750, 2.875, 3.000, 3.125, 3.250, 3.375, 3.500, 3.625])"},
    {[] {
       return broadcast_to(arange(0, 3), {2, 3});
     },
     R"([[0, 1, 2],
 [0, 1, 2]])"},
};
}  // namespace

TEST_CASE("tensors print as NumPy's arrays") {
  for (const Golden& golden : goldens) CHECK(to_string(golden.make()) == golden.text);
}

TEST_CASE("whole numbers below 1e8 print without exponents") {
  CHECK(to_string(tensor({1.0f, 20000.0f, 0.0f})) == "[    1., 20000.,     0.]");
  CHECK(to_string(tensor<double>({1.0, 1e8})) == "[1.e+00, 1.e+08]");
}

TEST_CASE("0 / 0 prints as nan") {
  const Tensor zero = zeros({2});
  CHECK(to_string(zero / zero) == "[nan, nan]");
  CHECK(fmt::format("{:.1f}", zero / zero) == "[nan, nan]");
}

TEST_CASE("the format behind the colon is that of each number") {
  CHECK(fmt::format("{:.2f}", tensor({1.0f, 22.0f})) == "[ 1.00, 22.00]");
  CHECK(fmt::format("{:x}", tensor({255, 1})) == "[ff,  1]");
  CHECK(fmt::format("{:+d}", tensor({1, -1})) == "[+1, -1]");
  CHECK(fmt::format("{:.3e}", tensor<double>(1500.0)) == "1.500e+03");
  CHECK_THROWS_AS(to_string(tensor({1.0f}), "d"), Error);
  CHECK_THROWS_AS(to_string(tensor({1}), ".2f}{"), Error);
}

TEST_CASE("Variables print with name, dtype and shape, rows one below the other") {
  const Variable w("w", tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.5f}}));
  CHECK(to_string(w) ==
        "Variable(\"w\", float32 (2, 3), [[1.0, 2.0, 3.0],\n"
        "                               [4.0, 5.0, 6.5]])");
  CHECK(fmt::format("{:.0f}", Variable("b", tensor<double>(3.0))) ==
        "Variable(\"b\", float64 (), 3)");
}

TEST_CASE("streams and fmt write shapes, dtypes, devices and tensors") {
  std::ostringstream out;
  out << Shape() << ' ' << Shape({3}) << ' ' << Shape({2, 0}) << ' ' << DType::boolean << ' '
      << DType::float64 << ' ' << cpu() << ' ' << tensor({1, 2}) << ' ' << Variable("n", tensor(1));
  CHECK(out.str() == "() (3,) (2, 0) bool float64 cpu [1, 2] Variable(\"n\", int32 (), 1)");
  CHECK(fmt::format("{} {} {}", Shape({4, 5}), DType::int32, cpu()) == "(4, 5) int32 cpu");
  CHECK(to_string(Tensor()) == "undefined");
}

TEST_CASE("a view of more elements than memory holds prints its ends") {
  const Tensor x = broadcast_to(tensor({7, 8}), {std::int64_t{1} << 50, 2});
  CHECK(to_string(x) == "[[7, 8],\n [7, 8],\n [7, 8],\n ...,\n [7, 8],\n [7, 8],\n [7, 8]]");
  CHECK(to_string(zeros({std::int64_t{1} << 50, 0})) == "[]");
}

TEST_CASE("printing is recorded by no tape and changes nothing") {
  Variable w("w", tensor({1.0f, 2.0f}));
  GradientTape tape;
  const Tensor y = w * w;
  CHECK(to_string(y) == "[1., 4.]");
  CHECK(to_string(w) == "Variable(\"w\", float32 (2,), [1., 2.])");
  CHECK(tape.ops().size() == 1);
}

TEST_CASE("texts of the smallest numbers, of wide ones and of devices") {
  // 2^-23: 1e-7 is nearer to it than to any other number of 16 bits.
  CHECK(to_string(tensor({0x1p-23f}).to(DType::float16)) == "[1.e-07]");
  const std::string one(77, ' ');
  CHECK(to_string(tensor({1.0f, 2.0f}), "80.1f") == "[" + one + "1.0,\n " + one + "2.0]");
  CHECK(to_string(cpu()) == "cpu");
  CHECK(to_string(cuda(1)) == "cuda:1");
}
}  // namespace reel::tests
