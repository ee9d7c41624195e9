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
