// SPDX-License-Identifier: BSD-3-Clause
// A program that the tests run with REEL_DEBUG: a network whose loss becomes NaN in step 3.
#include <cstdio>
#include <cstring>

#include <reel/reel.hpp>

using namespace reel;

int main(int count, char** words) try {
  seed(1);
  const bool endless = count > 1 && !std::strcmp(words[1], "endless");
  nn::Linear hidden(4, 8, Activation::tanh), head(8, 1);
  optim::SGD sgd({hidden.weight, hidden.bias, head.weight, head.bias}, {.learning_rate = 0.1});
  const Tensor x = random::normal({5, 4});
  for (int i = 0; i < 5 || endless; ++i) {
    GradientTape tape;
    Tensor y = head(hidden(x));
    if (i == 3 && !endless) y = log(y * 0 - 1);
    sgd.step(tape, mean(square(y)));
  }
  std::puts("the program has ended");
} catch (const Error& error) {
  std::printf("error: %s\n", error.what());
  return 1;
}
