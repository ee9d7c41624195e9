// SPDX-License-Identifier: BSD-3-Clause
// Tensors promote as NumPy's arrays do; C++ numbers take the tensor's dtype where they can.
#include <cmath>
#include <cstdint>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr DType b = DType::boolean, u8 = DType::uint8, i32 = DType::int32, i64 = DType::int64,
                f32 = DType::float32, f64 = DType::float64;
constexpr DType every[] = {b, u8, i32, i64, f32, f64};
// numpy.result_type(row, column), NumPy 2.4.
constexpr DType numpy[6][6] = {{b, u8, i32, i64, f32, f64},    {u8, u8, i32, i64, f32, f64},
                               {i32, i32, i32, i64, f64, f64}, {i64, i64, i64, i64, f64, f64},
                               {f32, f32, f64, f64, f32, f64}, {f64, f64, f64, f64, f64, f64}};

Tensor one(DType dtype) { return ones({2}, {.dtype = dtype}); }
}  // namespace

TEST_CASE("two tensors come to NumPy's dtype, in every op that promotes") {
  for (int i = 0; i < 6; ++i)
    for (int k = 0; k < 6; ++k) {
      const Tensor x = one(every[i]), y = one(every[k]);
      INFO(x.dtype() << " and " << y.dtype());
      CHECK((x + y).dtype() == numpy[i][k]);
      CHECK((x * y).dtype() == numpy[i][k]);
      CHECK(maximum(x, y).dtype() == numpy[i][k]);
      CHECK(where(tensor({true, false}), x, y).dtype() == numpy[i][k]);
      CHECK(concat({x, y}).dtype() == numpy[i][k]);
      CHECK(stack({x, y, x}).dtype() == numpy[i][k]);
      CHECK((x == y).dtype() == b);
      CHECK((x & y).dtype() == b);
      CHECK(equal(x, y));
      // Without fractions there is no quotient.
      const DType floating = is_floating(numpy[i][k]) ? numpy[i][k] : f32;
      CHECK((x / y).dtype() == floating);
      CHECK(power(x, y).dtype() == floating);
    }
}

TEST_CASE("values survive promotion") {
  CHECK((tensor({16777217}) + tensor({0.0f})).to_vector<double>()[0] == 16777217);
  CHECK((tensor({true, false}) + tensor({2.5f, 1.5f})).to_vector<float>()[0] == 3.5f);
  CHECK((full({1}, std::uint8_t{200}) + tensor({100})).to_vector<std::int32_t>()[0] == 300);
  CHECK(
      (full({1}, std::uint8_t{200}) + full({1}, std::uint8_t{100})).to_vector<std::uint8_t>()[0] ==
      44);
}

TEST_CASE("a C++ number takes the tensor's dtype") {
  for (DType dtype : every) {
    INFO(dtype);
    CHECK((one(dtype) * true).dtype() == dtype);
    CHECK((one(dtype) + 1).dtype() == (dtype == b ? i32 : dtype));
    CHECK((2L + one(dtype)).dtype() == (dtype == b ? i64 : dtype));
    const DType with_fraction = is_floating(dtype) ? dtype : f32;
    CHECK((one(dtype) * 0.5f).dtype() == with_fraction);
    CHECK((0.5 - one(dtype)).dtype() == with_fraction);
    CHECK((one(dtype) > 0.5).dtype() == b);
  }
  CHECK((one(i32) * 2.5).to_vector<float>()[0] == 2.5f);
  CHECK((one(f32) * 0.1).to_vector<float>()[0] == 0.1f);
  CHECK((tensor({1, 2, 3}) > 1.5).to_vector<bool>()[1]);
  CHECK(where(tensor({true, false}), one(i64), 7).dtype() == i64);
  CHECK(where(tensor({true, false}), 0.5, 1).dtype() == f64);
}

TEST_CASE("a number that its tensor's dtype cannot hold is refused") {
  check_refused<DTypeError>([] { one(u8) + 300; }, "a number that fits uint8, got 300");
  check_refused<DTypeError>([] { one(u8) - (-1); }, "a number that fits uint8, got -1");
  check_refused<DTypeError>([] { one(i32) + (1LL << 40); }, "a number that fits int32");
  check_refused<DTypeError>([] { full_like(one(i32), 0.5); }, "a number that fits int32");
}

TEST_CASE("ops with fractions make float32 of integers") {
  for (DType dtype : every) {
    INFO(dtype);
    const DType floating = is_floating(dtype) ? dtype : f32;
    for (const Tensor& y : {sqrt(one(dtype)), exp(one(dtype)), tanh(one(dtype)), mean(one(dtype)),
                            softmax(one(dtype)), one(dtype) / 2})
      CHECK(y.dtype() == floating);
    const DType summed = is_floating(dtype) ? dtype : i64;
    CHECK(sum(one(dtype)).dtype() == summed);
    CHECK(max(one(dtype)).dtype() == dtype);
    CHECK(argmax(one(dtype)).dtype() == i64);
  }
  CHECK((tensor({1, 3}) / 2).to_vector<float>()[1] == 1.5f);
  CHECK(mean(tensor({1, 2})).item<float>() == 1.5f);
  CHECK((tensor({7}) / tensor({0})).to_vector<float>()[0] == HUGE_VALF);
}

TEST_CASE("allclose compares integers exactly, beyond what a double holds too") {
  const std::int64_t large = std::int64_t{1} << 53, most = INT64_MAX;
  const Tolerance exact{.rtol = 0, .atol = 0}, by_one{.rtol = 0, .atol = 1};
  CHECK_FALSE(allclose(tensor(large), tensor(large + 1), exact));
  CHECK(allclose(tensor(large), tensor(large + 1), by_one));
  CHECK_FALSE(allclose(tensor(most), tensor(-most), by_one));
  CHECK(allclose(tensor(most), tensor(-most), {.rtol = 3}));
  CHECK(allclose(tensor({true}), tensor({1}), exact));
  CHECK(allclose(cast(tensor({0}), DType::uint8), tensor({1}), by_one));
}
}  // namespace reel::tests
