// SPDX-License-Identifier: BSD-3-Clause
// Products that cuBLASLt may refuse.
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"

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
}  // namespace reel::tests
