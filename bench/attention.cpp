// SPDX-License-Identifier: BSD-3-Clause
// Attention for bench/attention.py: for each line on the input, a line with the processor time of
// each row in ms, on one thread.
#include <reel/reel.hpp>

#include <cstdio>
#include <ctime>

using namespace reel;

namespace {
double now() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}
template <class F>
void row(const F& f) {
  const double begin = now();
  f();
  std::printf("%.3f ", now() - begin);
}
}  // namespace

int main() {
  set_num_threads(1);
  seed(1);
  const Shape shape({1, 8, 2048, 64});
  const Tensor q = random::normal(shape), k = random::normal(shape), v = random::normal(shape);
  const Tensor mask = random::bernoulli(0.9, {2048, 2048}), upstream = random::normal(shape);
  const Tensor one = random::normal({1, 8, 1, 64});
  nn::TransformerEncoderLayer layer(256, 4);
  const Tensor x = random::normal({8, 128, 256});
  const auto backward = [&](const AttentionOptions& options) {
    GradientTape tape;
    for (const Tensor& each : {q, k, v}) tape.watch(each);
    const Tensor y = attention(q, k, v, options);
    row([&] { tape.gradient(y, {q, k, v}, {.upstream = upstream}); });
  };
  while (std::getchar() != EOF) {
    row([&] { attention(q, k, v); });
    row([&] { attention(q, k, v, {.causal = true}); });
    row([&] { attention(q, k, v, {.mask = mask}); });
    backward({});
    backward({.causal = true});
    row([&] {
      for (int i = 0; i < 100; ++i) attention(one, k, v);
    });
    row([&] {
      GradientTape tape;
      tape.gradient(sum(layer(x)), parameters(layer));
    });
    std::printf("\n");
    std::fflush(stdout);
  }
}
