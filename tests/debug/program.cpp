// SPDX-License-Identifier: BSD-3-Clause
// A program that the tests run with REEL_DEBUG: a network whose loss becomes NaN in step 3.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <reel/reel.hpp>

using namespace reel;

int main(int count, char** words) try {
  seed(1);
  const bool until = count > 1 && words[1][0] == '/';      // it steps until this file exists
  int i = 0, steps = count > 1 ? std::atoi(words[1]) : 5;  // without NaN, if given
  nn::Linear hidden(4, 8, Activation::tanh), head(8, 1);
  optim::SGD sgd({hidden.weight, hidden.bias, head.weight, head.bias}, {.learning_rate = 0.1});
  const Tensor x = random::normal({5, 4});
  for (; i < steps || (until && !std::filesystem::exists(words[1])); ++i) {
    GradientTape tape;
    Tensor y = head(hidden(x));
    if (i == 3 && count == 1) y = log(y * 0 - 1);
    sgd.step(tape, mean(square(y)));
  }
  if (until) std::printf("%d\n", i);
  if (count > 1)
    for (const Variable& each : {hidden.weight, hidden.bias, head.weight, head.bias})
      for (const float x : each.value().to_vector<float>())
        std::printf("%a\n", static_cast<double>(x));
  std::puts("the program has ended");
} catch (const Error& error) {
  std::printf("error: %s\n", error.what());
  return 1;
}
