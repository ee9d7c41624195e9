// SPDX-License-Identifier: BSD-3-Clause
// float16 and bfloat16: conversion, printing, files.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr DType f16 = DType::float16, bf16 = DType::bfloat16;

/// bfloat16 is the upper half of a float32, rounded to nearest, ties to even.
std::uint16_t upper_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
std::uint16_t bits_of(float x, DType dtype) {
  const Tensor y = tensor(x).to(dtype);
  return dtype == f16 ? y.item<Float16>().bits() : y.item<BFloat16>().bits();
}
}  // namespace

TEST_CASE("float16: known values, by IEEE 754") {
  const std::pair<float, std::uint16_t> known[] = {
      {0.0f, 0},           {-0.0f, 0x8000},    {1.0f, 0x3c00},         {-2.0f, 0xc000},
      {65504.0f, 0x7bff},  {65519.9f, 0x7bff}, {65520.0f, 0x7c00},     {1e30f, 0x7c00},
      {0x1p-14f, 0x0400},  {0x1p-24f, 0x0001}, {0x1p-25f, 0x0000},     {0x1.8p-25f, 0x0001},
      {0x1.8p-24f, 2},     {0x1p-26f, 0},      {0.1f, 0x2e66},         {2049.0f, 0x6800},
      {2051.0f, 0x6802},   {1e-40f, 0},        {0x1.ff8p-15f, 0x03ff}, {0x1.ffep-15f, 0x0400},
      {-INFINITY, 0xfc00}, {-1e-30f, 0x8000}};
  for (const auto& [x, bits] : known) {
    INFO(x);
    CHECK(bits_of(x, f16) == bits);
  }
  CHECK((bits_of(NAN, f16) & 0x7fff) > 0x7c00);
  CHECK((bits_of(NAN, bf16) & 0x7fff) > 0x7f80);
  // Rounded once. Rounding to float32 first would give 0x3c00.
  CHECK(tensor<double>(1 + 0x1p-11 + 0x1p-40).to(f16).item<Float16>().bits() == 0x3c01);
}

namespace {
/// Whether a row of any length converts to T and back as single elements do. NaN equals NaN.
template <class T>
bool converts_rows(std::int64_t length) {
  std::vector<T> row;
  std::vector<float> wide;
  for (std::int64_t i = 0; i < length; ++i) {
    row.push_back(T::from_bits(static_cast<std::uint16_t>(i)));
    wide.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(i) * 65537 + 0x7ffe));
  }
  const Tensor floats = from_span(std::span<const T>(row), {length}).to(DType::float32);
  const Tensor halves = from_span(std::span<const float>(wide), {length}).to(dtype_of<T>());
  const auto got_wide = floats.to_vector<float>();
  const auto got_half = halves.to_vector<T>();
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float expected = row[i];
    if (std::isnan(expected) ? !std::isnan(got_wide[i]) : got_wide[i] != expected) return false;
    if (got_half[i].bits() != T(wide[i]).bits()) return false;
  }
  return true;
}
}  // namespace

TEST_CASE("rows of 16 bits convert as single elements do") {
  for (const std::int64_t length : {65536, 1, 7, 15, 31, 65535}) {
    INFO(length);
    CHECK(converts_rows<Float16>(length));
    CHECK(converts_rows<BFloat16>(length));
  }
  // The parts of a row behind its last whole vector begin at every pattern.
  for (std::int64_t length = 31700; length < 31780; ++length)
    REQUIRE(converts_rows<Float16>(length));
}

TEST_CASE("every bit pattern of 16 bits comes back from float32 and float64") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const Float16 x = Float16::from_bits(static_cast<std::uint16_t>(bits));
    const BFloat16 y = BFloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = std::bit_cast<float>(bits << 16);
    REQUIRE((std::isnan(wide) ? std::isnan(y) : wide == y));
    if (!std::isnan(static_cast<float>(x))) REQUIRE(Float16(static_cast<double>(x)).bits() == bits);
    if (!std::isnan(wide)) REQUIRE(BFloat16(wide).bits() == bits);
#ifdef __FLT16_MANT_DIG__
    const auto own = std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits));
    const auto other = static_cast<float>(own);
    REQUIRE((std::isnan(other) ? std::isnan(x) : other == x));
#endif
  }
}

TEST_CASE("random numbers are rounded to 16 bits as the compiler and as a shift do") {
  std::mt19937_64 draw(1);
  for (int i = 0; i < 200000; ++i) {
    const auto x =
        std::bit_cast<double>((draw() & 0x800fffffffffffffu) | (990 + draw() % 60) << 52);
#ifdef __FLT16_MANT_DIG__
    const auto expected = static_cast<_Float16>(x);
    REQUIRE(Float16(x).bits() == std::bit_cast<std::uint16_t>(expected));
#endif
    const auto single = static_cast<float>(x);
    REQUIRE(BFloat16(single).bits() == upper_half(single));
  }
}

TEST_CASE("every dtype is converted to 16 bits and back, also strided and empty") {
  for (const DType half : {f16, bf16}) {
    for (int i = 0; i < dtype_count; ++i) {
      const auto dtype = static_cast<DType>(i);
      INFO(half << " and " << dtype);
      const Tensor x = tensor({{0.0, 1.0, 2.0}, {3.0, 100.0, 255.0}}).to(dtype);
      const Tensor y = x.to(half);
      CHECK(y.dtype() == half);
      CHECK(equal(y.to(DType::float64), x.to(DType::float64)));
      CHECK(equal(y.to(dtype).to(DType::float64), x.to(DType::float64)));
      CHECK(equal(transpose(x).to(half).to(DType::float64), transpose(x).to(DType::float64)));
      CHECK(equal(y(all, range(0, 3, 2)).to(DType::float64),
                  x(all, range(0, 3, 2)).to(DType::float64)));
      CHECK(zeros({0, 3}, {.dtype = dtype}).to(half).shape() == Shape({0, 3}));
    }
    CHECK(tensor({-1.5, 1e9, NAN}).to(half).to(DType::int32).to_vector<int>() ==
          std::vector<int>{-1, half == f16 ? std::numeric_limits<int>::max() : 998244352, 0});
    CHECK(tensor({0.0, -0.0, 0.5, NAN}).to(half).to(DType::boolean).to_vector<bool>() ==
          std::vector<bool>{false, false, true, true});
  }
}

TEST_CASE("tensors of 16 bits are made, moved and read") {
  const Tensor x = arange(0, 6, 1, {.dtype = f16}).reshape({2, 3});
  CHECK(x.to(DType::float32).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  const auto floats = [](const Tensor& t) { return t.to(DType::float32).to_vector<float>(); };
  CHECK(floats(transpose(x)) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(floats(concat({x, x(range(0, 1))})) == std::vector<float>{0, 1, 2, 3, 4, 5, 0, 1, 2});
  CHECK(floats(take(x, tensor({2, 0}), 1)) == std::vector<float>{2, 0, 5, 3});
  CHECK(floats(gather(x, tensor({{2}, {0}}), 1)) == std::vector<float>{2, 3});
  CHECK(floats(broadcast_to(x(0), {2, 3})) == std::vector<float>{0, 1, 2, 0, 1, 2});
  CHECK(floats(full({2}, 0.1, {.dtype = bf16})) ==
        std::vector<float>{0.10009765625f, 0.10009765625f});
  CHECK(floats(eye(2, {.dtype = f16})) == std::vector<float>{1, 0, 0, 1});
  const std::vector<Float16> values = x.to_vector<Float16>();
  CHECK(floats(from_span(values, {3, 2})) == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(floats(tensor(values)) == std::vector<float>{0, 1, 2, 3, 4, 5});
  Variable v("v", zeros({2, 3}, {.dtype = f16}));
  v.assign(x);
  v(0).assign(x(1));
  CHECK(floats(v.value()) == std::vector<float>{3, 4, 5, 3, 4, 5});
  const auto traced = trace([](Tensor t) { return concat({transpose(t), t(all, range(0, 2))}); });
  for (int turn = 0; turn < 4; ++turn)
    CHECK(floats(traced(x)) == floats(concat({transpose(x), x(all, range(0, 2))})));
}

TEST_CASE("a row of 16 bits is computed in float32 and rounded once") {
  // 1 + 2^-9 is no bfloat16: each sum of two is rounded, a sum of a row is not.
  const Tensor x = tensor({1.0, 0x1p-9, 0x1p-9, 0x1p-9, 0x1p-9}).to(bf16);
  CHECK(sum(x).to(DType::float32).item<float>() == 1 + 0x1p-7f);
  CHECK((x(0) + x(1) + x(2) + x(3) + x(4)).to(DType::float32).item<float>() == 1);
  CHECK((x * 2).dtype() == bf16);
  CHECK((2.5 - x).dtype() == bf16);
  CHECK((x < 1).to_vector<bool>() == std::vector<bool>{false, true, true, true, true});
  CHECK((x + x.to(f16)).dtype() == DType::float32);
  CHECK(power(tensor({300.0}).to(f16), 2).item<Float16>().bits() == 0x7c00);
  CHECK(random::normal({3}, {.dtype = bf16}).dtype() == bf16);
  Variable v("v", zeros({2}, {.dtype = bf16}));
  v.assign_add(ones({2}, {.dtype = bf16}));
  CHECK(equal(v.value(), ones({2}, {.dtype = bf16})));
}

TEST_CASE("a traced function of 16 bits gives the bits of the function") {
  for (const DType dtype : {f16, bf16}) {
    seed(3);
    const Tensor x = random::normal({64, 40}).to(dtype), w = random::normal({40}).to(dtype);
    const auto f = [](Tensor a, Tensor b) {
      const Tensor y = tanh(a * b + 0.5) * sigmoid(a) - exp(-a * a);
      return softmax(y) + mean(y, {1}, Keepdims::yes);
    };
    const auto traced = trace(f);
    for (int turn = 0; turn < 4; ++turn) CHECK(equal(traced(x, w), f(x, w)));
  }
}

TEST_CASE("gradients pass through conversions to 16 bits") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = sum(square(x.to(f16).to(DType::float32)));
  CHECK(tape.gradient(y, x).to_vector<float>() == std::vector<float>{2, 4, 6});
}

TEST_CASE("16 bits are printed with the shortest decimals that name them") {
  CHECK(to_string(tensor({0.1, 0.25, 1.0}).to(f16)) == "[0.10, 0.25, 1.00]");
  CHECK(to_string(tensor({1.0 / 3, 2.0 / 3, 1e-3}).to(f16)) == "[0.3333, 0.6665, 0.0010]");
  CHECK(to_string(tensor({0.3}).to(bf16)) == "[0.3]");
  CHECK(to_string(tensor({0.007, 0.7}).to(bf16)) == "[0.007, 0.700]");
  CHECK(to_string(tensor({65504.0, 1.0, 0.5}).to(f16)) == "[6.55e+04, 1.00e+00, 5.00e-01]");
  CHECK(to_string(tensor({NAN, INFINITY, -INFINITY}).to(bf16)) == "[ nan,  inf, -inf]");
}
}  // namespace reel::tests
