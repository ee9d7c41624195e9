// SPDX-License-Identifier: BSD-3-Clause
// Products that cuBLASLt may refuse.
#include <reel/reel.hpp>

#include <cmath>
#include <tuple>
#include <vector>

#include "cuda/emulated.hpp"
#include "threads/process.hpp"

namespace reel::tests {
TEST_CASE("where cuBLASLt has no algorithm with a bias, the bias is copied first") {
  emulate::refuse_epilogues(true);
  seed(9);
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Shape& size : {Shape({1, 13, 7}), Shape({13, 1, 7}), Shape({17, 19, 23})}) {
      const auto [rows, columns, depth] = std::tuple(size[0], size[1], size[2]);
      INFO(rows << " rows, " << columns << " columns");
      const Tensor x = random::normal({rows, depth}, {.dtype = dtype}),
                   y = random::normal({depth, columns}, {.dtype = dtype}),
                   bias = random::normal({columns}, {.dtype = dtype});
      const Tensor there[] = {x.to(cuda(0)), y.to(cuda(0)), bias.to(cuda(0))};
      for (int i = 0; i < 2; ++i)  // what was found is remembered
        CHECK(allclose(matmul_add(there[0], there[1], there[2]).to(cpu()), matmul_add(x, y, bias)));
      CHECK(allclose(dense(there[0], there[1], there[2], Activation::relu).to(cpu()),
                     dense(x, y, bias, Activation::relu)));
    }
  const DeviceScope scope(cuda(0));
  const nn::Linear layer(29, 31);
  const auto traced = trace([&](Tensor x) { return tanh(layer(x)); });
  const Tensor x = random::normal({3, 29});
  for (int i = 0; i < 6; ++i) CHECK(allclose(traced(x), tanh(layer(x))));
  emulate::refuse_epilogues(false);
}

TEST_CASE("where cuBLASLt has no algorithm for operands as they are, it gets copies of them") {
  emulate::refuse_gaps(true);
  seed(9);
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor wide = random::normal({3, 14, 15}, {.dtype = dtype}),
                 tall = random::normal({15, 11}, {.dtype = dtype}),
                 sums = random::normal({14, 11}, {.dtype = dtype});
    const auto products = [&](Device device) {
      const Tensor x = wide.to(device), y = tall.to(device), z = sums.to(device);
      std::vector<Tensor> all;
      const auto at = [](auto... ranges) { return std::tuple(ranges...); };
      for (const auto& [rows, depth] :
           {at(range(1, {}), range(1, 14)), at(range(0, 5), range(2, 9))}) {
        const Tensor part = x(0, rows, depth), other = y(depth, range(1, {}));
        all.push_back(matmul(part, other));
        all.push_back(matmul(transpose(other), transpose(part)));
        all.push_back(matmul_add(part, other, z(rows, range(1, {}))));
        all.push_back(matmul_add(part, other, z(0, range(1, {}))));
        all.push_back(dense(part, other, z(0, range(1, {})), Activation::relu));
        all.push_back(matmul(x(reel::all, rows, depth), other));
        all.push_back(matmul(x(reel::all, rows, depth),
                             transpose(x(reel::all, range(3, {}), depth), {0, 2, 1})));
        // Sums of gradients, which are added in place.
        GradientTape tape;
        tape.watch(part);
        const Tensor twice = matmul(part, other) * 2 + matmul(part, other);
        all.push_back(tape.gradient(sum(twice * twice), part));
      }
      return all;
    };
    const std::vector<Tensor> expected = products(cpu());
    for (int time = 0; time < 3; ++time) {  // what was found is remembered
      const std::vector<Tensor> got = products(cuda(0));
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("product " << i);
        CHECK(allclose(got[i].to(cpu()), expected[i], {.rtol = 1e-4, .atol = 1e-5}));
      }
    }
  }
  emulate::refuse_gaps(false);
}

namespace {
/// The launches of kernels and products of a layer with ReLU, which is checked.
emulate::Counts counts_of_relu() {
  seed(9);
  const Tensor x = random::normal({13, 8}), y = random::normal({8, 12}), bias = ones({12});
  const Tensor there[] = {x.to(cuda(0)), y.to(cuda(0)), bias.to(cuda(0))};
  const auto layer = [&](const Tensor& from) {
    return dense(from, there[1], there[2], Activation::relu);
  };
  CHECK(allclose(layer(there[0]).to(cpu()), dense(x, y, bias, Activation::relu)));
  GradientTape tape;
  tape.watch(there[0]);
  GradientTape on_host;
  on_host.watch(x);
  CHECK(allclose(tape.gradient(sum(layer(there[0])), there[0]).to(cpu()),
                 on_host.gradient(sum(dense(x, y, bias, Activation::relu)), x)));
  return counts_of([&] { layer(there[0]); });
}
}  // namespace

namespace {
/// Products of 16 bits, on a device: of matrices, batches, transposes, with biases and activations,
/// with gradients that are added in place.
std::vector<Tensor> products_of_halves(DType dtype, Device device) {
  seed(4);
  const Tensor x = random::normal({3, 14, 80}, {.dtype = dtype}).to(device),
               y = random::normal({80, 11}, {.dtype = dtype}).to(device),
               z = random::normal({14, 11}, {.dtype = dtype}).to(device);
  std::vector<Tensor> all = {matmul(x, y),
                             matmul(x(0), y),
                             matmul(x(0, range(1, {}), range(1, 78)), y(range(2, 79), range(3, 8))),
                             matmul(x, transpose(x, {0, 2, 1})),
                             matmul(transpose(y), transpose(x(1))),
                             matmul(x(reel::all, reel::all, range(0, 0)), y(range(0, 0))),
                             matmul_add(x(0), y, z),
                             matmul_add(x(0), y, z(2)),
                             matmul_add(x(0, range(0, 1)), y, z(2)),
                             matmul_add(x(0), y, z(reel::all, range(1, 2))),
                             matmul_add(x(0, reel::all, range(0, 0)), y(range(0, 0)), z)};
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid})
    all.push_back(dense(x(0), y, z(2), activation));
  GradientTape tape;
  const Tensor part = x(1);
  tape.watch(part);
  const Tensor sums = matmul(part, y) + matmul(part, y) * matmul(part, y);
  all.push_back(tape.gradient(sum(sums), part));
  return all;
}
/// The CPU has other bits only where its sums of float32 lie on the other side of a tie.
void check_halves(DType dtype) {
  const double step = dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11;
  const std::vector<Tensor> expected = products_of_halves(dtype, cpu()),
                            got = products_of_halves(dtype, cuda(0));
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO(name_of(dtype) << ", product " << i);
    REQUIRE(got[i].dtype() == dtype);
    const Tensor here = got[i].to(cpu()).to(DType::float32), there = expected[i].to(DType::float32);
    CHECK(allclose(here, there, {.rtol = 2 * step, .atol = 1e-6}));
    const auto differ = sum((here != there).to(DType::int64)).item<std::int64_t>();
    CHECK(differ <= here.size() / 50);
  }
}
}  // namespace

TEST_CASE("products of 16 bits are one product, whose sums are rounded once") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    check_halves(dtype);
    const auto made = [&](Shape shape) { return ones(shape, {.dtype = dtype}).to(cuda(0)); };
    const Tensor x = made({6, 16}), y = made({16, 8}), bias = made({8});
    const emulate::Counts counts = counts_of([&] {
      matmul(x, y);
      matmul_add(x, y, bias);
    });
    CHECK(counts.products == 2);
    CHECK(counts.launches == 0);
    CHECK(counts_of([&] { dense(x, y, bias, Activation::relu); }).launches == 1);
  }
}

TEST_CASE("products of 16 bits that cuBLASLt refuses are computed on copies") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    emulate::refuse_epilogues(true);
    check_halves(dtype);
    emulate::refuse_epilogues(false);
    emulate::refuse_gaps(true);
    check_halves(dtype);
    emulate::refuse_gaps(false);
    emulate::refuse_halves(true);  // copies of float32
    for (int time = 0; time < 3; ++time) check_halves(dtype);
    emulate::refuse_halves(false);
  }
}

TEST_CASE("ReLU of 16 bits keeps NaN and has no negative zero") {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor x = tensor({std::nanf(""), -1.0f, -0.0f, 0.0f, 2.0f, -INFINITY, INFINITY, -1e-7f,
                             -std::nanf("")})
                         .to(dtype),
                 y = dense(reshape(x, {9, 1}).to(cuda(0)),
                           ones({1, 1}, {.dtype = dtype}).to(cuda(0)),
                           zeros({1}, {.dtype = dtype}).to(cuda(0)), Activation::relu)
                         .to(cpu())
                         .to(DType::float32);
    INFO(name_of(dtype));
    CHECK(std::isnan(y(0, 0).item<float>()));
    CHECK(std::isnan(y(8, 0).item<float>()));
    const float expected[] = {0, 0, 0, 0, 2, 0, INFINITY, 0};
    for (int i = 1; i < 8; ++i) {
      CHECK(y(i, 0).item<float>() == expected[i]);
      CHECK(!std::signbit(y(i, 0).item<float>()));
    }
  }
}

TEST_CASE("ReLU is a launch of its own, which keeps NaN") {
  const emulate::Counts counts = counts_of_relu();
  CHECK(counts.products == 1);
  CHECK(counts.launches == 1);
  const Tensor x = full({1, 4}, std::nanf("")).to(cuda(0)), y = ones({4, 4}).to(cuda(0));
  CHECK(std::isnan(sum(dense(x, y, ones({4}).to(cuda(0)), Activation::relu)).item<float>()));
}
TEST_CASE("what a test with REEL_CUDA_FUSED_RELU=1 prints", "[.][fused_relu]") {
  const emulate::Counts counts = counts_of_relu();
  CHECK(counts.products == 1);
  CHECK(counts.launches == 0);
  // Where cuBLASLt has no such product, ReLU is a launch.
  emulate::refuse_epilogues(true);
  const Tensor x = -ones({3, 5}).to(cuda(0)), y = ones({5, 2}).to(cuda(0));
  CHECK(sum(dense(x, y, ones({2}).to(cuda(0)), Activation::relu)).item<float>() == 0);
  emulate::refuse_epilogues(false);
}
TEST_CASE("REEL_CUDA_FUSED_RELU=1 makes ReLU a part of the product") {
  CHECK_THAT(printed_under("[fused_relu]", "REEL_CUDA_FUSED_RELU=1"),
             Catch::Contains("1 passed, 0 failed"));
}
}  // namespace reel::tests
