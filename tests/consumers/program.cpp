// SPDX-License-Identifier: BSD-3-Clause
// What a program of someone else looks like: it exits with 0 where the library answers rightly.
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
