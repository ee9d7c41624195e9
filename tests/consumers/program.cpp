// SPDX-License-Identifier: BSD-3-Clause
// A program as users write it. It exits with 0 if the library gives the right results.
#include <fmt/format.h>
#include <reel/reel.hpp>

int main() {
  using namespace reel;
  Variable w("w", tensor(3.0f));
  GradientTape tape;
  Tensor y = w * w + 1.0f;
  const float slope = tape.gradient(y, w).item<float>();
  fmt::print("y = {}, dy/dw = {}\n", y, slope);
  return y.item<float>() == 10.0f && slope == 6.0f ? 0 : 1;
}
