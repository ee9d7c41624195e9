// SPDX-License-Identifier: BSD-3-Clause
// What it costs to look: processor time of the same work without and with a profile or a
// debug::Watch, in turn.
#include <fmt/format.h>
#include <reel/debug.hpp>
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
/// Medians of 7 rounds. A profile and a Watch are whole: with their beginning and their end.
template <class F>
void row(const char* name, int times, const F& f) {
  const auto work = [&] {
    for (int i = 0; i < times; ++i) f();
  };
  const auto watched = [&](const debug::WatchOptions& options) {
    return [&work, options] {
      const debug::Watch watch(options);
      work();
    };
  };
  work();
  std::vector<double> eager, ratios[4];
  const auto add = [&](std::vector<double>& ratio, const auto& g) {
    eager.push_back(time_of(work));
    ratio.push_back(time_of(g) / eager.back());
  };
  for (int round = 0; round < 7; ++round) {
    add(ratios[0], [&] { profile(work); });
    add(ratios[1], watched({}));
    add(ratios[2], watched({.statistics = true}));
    add(ratios[3], watched({.statistics = true, .every = 20}));
  }
  fmt::print("{:32} {:9.1f} us {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n", name,
             median(eager) / times * 1e-3, median(ratios[0]), median(ratios[1]), median(ratios[2]),
             median(ratios[3]));
}
/// A step of a network that reads a text letter by letter.
void char_rnn_row(const char* name, std::int64_t steps, std::int64_t batch, std::int64_t hidden,
                  int times) {
  const nn::Embedding embed(64, hidden);
  const nn::LSTMCell cell(hidden, hidden);
  const nn::Linear head(hidden, 64);
  const std::vector<Variable> weights{embed.table, cell.weight, cell.bias, head.weight, head.bias};
  optim::Adam adam(weights);
  const Tensor words = random::integers(0, 64, {steps + 1, batch});
  row(name, times, [&] {
    GradientTape tape;
    auto state = cell.initial_state(batch);
    std::vector<Tensor> outputs;
    for (std::int64_t t = 0; t < steps; ++t) {
      state = cell(embed(words(t)), state);
      outputs.push_back(state.h);
    }
    const Tensor labels = words(range(1, {})).reshape({steps * batch});
    adam.step(tape.gradient(cross_entropy(head(concat(outputs)), labels), weights));
  });
}
}  // namespace

int main() {
  set_num_threads(1);
  fmt::print("{:32} {:>12} {:>8} {:>8} {:>8} {:>8}\n", "relative to eager", "eager", "profile",
             "NaN", "all", "1 of 20");
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
  char_rnn_row("Adam step of a char-RNN, 64x32x256", 64, 32, 256, 20);
  char_rnn_row("Adam step of a char-RNN, 20x4x128", 20, 4, 128, 20);
}
