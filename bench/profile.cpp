// SPDX-License-Identifier: BSD-3-Clause
// What a profile costs: processor time of the same work without and with it, in turn.
#include <fmt/format.h>
#include <reel/reel.hpp>

#include <algorithm>
#include <ctime>
#include <vector>

using namespace reel;

namespace {
double processor_ns() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}
template <class F>
double time_of(const F& f) {
  const double start = processor_ns();
  f();
  return processor_ns() - start;
}
double median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}
/// Medians of 21 pairs. The profile is whole: with its beginning and its end.
template <class F>
void row(const char* name, int times, const F& f) {
  const auto work = [&] {
    for (int i = 0; i < times; ++i) f();
  };
  work();
  std::vector<double> eager, ratio;
  for (int pair = 0; pair < 21; ++pair) {
    eager.push_back(time_of(work));
    ratio.push_back(time_of([&] { profile(work); }) / eager.back());
  }
  fmt::print("{:32} {:10.2f} us, profiled {:.2f} times\n", name, median(eager) / times * 1e-3,
             median(ratio));
}
}  // namespace

int main() {
  const Tensor x = full({16}, 0.1f);
  const Variable w("w", full({16}, 1.01f)), b("b", full({16}, 0.1f));
  row("chain of 100 ops with gradients", 2000, [&] {
    GradientTape tape;
    Tensor y = x;
    for (int i = 0; i < 100; ++i) y = i % 2 == 0 ? std::move(y) * w : std::move(y) + b;
    tape.gradient(y, w, b);
  });
  nn::Linear first(784, 512, Activation::relu), second(512, 512, Activation::relu), third(512, 10);
  optim::Adam adam(
      {first.weight, first.bias, second.weight, second.bias, third.weight, third.bias});
  const Tensor images = random::normal({64, 784}), labels = random::integers(0, 10, {64});
  row("Adam step of an MLP", 20, [&] {
    GradientTape tape;
    adam.step(tape, nn::cross_entropy(third(second(first(images))), labels));
  });
}
