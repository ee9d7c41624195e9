// SPDX-License-Identifier: BSD-3-Clause
// Products that cuBLASLt may refuse.
#include <reel/reel.hpp>

#include <cmath>

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
