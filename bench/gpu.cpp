// SPDX-License-Identifier: BSD-3-Clause
// What reel takes on a GPU, beside CUDA by itself: gpu [small]
// Prints lines of a name, a number and its unit, apart by tabs. `small` is for the emulator.
#include "gpu.hpp"

#include <reel/reel.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

namespace {
using namespace reel;

bool small = false;

void show(const std::string& name, double value, const char* unit) {
  std::printf("%s\t%.4g\t%s\n", name.c_str(), value, unit);
  std::fflush(stdout);
}

/// Nanoseconds of one f(): the host waits after `times` of them.
template <class F>
bench::Candidate queued(const std::string& name, int times, F f) {
  return {name, [=]() mutable {
            for (int i = 0; i < times; ++i) bench::keep(f());
            synchronize(cuda(0));
          }};
}
double nanoseconds(const bench::Timing& timing, int times) {
  return timing.nanoseconds.median / times;
}

/// Bytes in a second as a share of those that CUDA's own copy reads and writes.
void measure_bandwidth() {
  constexpr int times = 10;
  const std::int64_t n = small ? 1 << 12 : 1 << 26, width = small ? 64 : 1024;
  const Tensor x = random::normal({n}), y = random::normal({n}), rows = x.reshape({-1, width});
  const Tensor scale = ones({width}), shift = zeros({width});
  Variable variable("x", x);
  const std::vector<Tensor> gradients{y};
  optim::Adam adam({variable}, {.learning_rate = 1e-3});
  const std::vector<bench::Candidate> candidates{
      {"copy",
       [=] {
         for (int i = 0; i < times; ++i) bare::copy(static_cast<std::size_t>(n));
         bare::wait();
       }},
      queued("add", times, [=] { return x + y; }),
      queued("tanh", times, [=] { return tanh(x); }),
      queued("sum", times, [=] { return sum(x); }),
      queued("sum of rows", times, [=] { return sum(rows, 1); }),
      queued("sum of columns", times, [=] { return sum(rows, 0); }),
      queued("softmax", times, [=] { return softmax(rows); }),
      queued("layer_norm", times, [=] { return layer_norm(rows, scale, shift); }),
      queued("Adam", times, [=]() mutable {
        adam.step(gradients);
        return 0;
      })};
  const double floats[] = {2, 3, 2, 1, 1, 1, 2, 2, 7};  // read and written for each element
  const bench::Comparison found = bench::compare(candidates);
  const double copied = 4 * floats[0] * static_cast<double>(n);
  show("copy by CUDA", copied / nanoseconds(found.timings[0], times), "GB/s");
  for (std::size_t i = 1; i < found.timings.size(); ++i)
    show(found.timings[i].name + " 64M", floats[i] / floats[0] / found.timings[i].ratio.median,
         "of the copy's bandwidth");
}

void measure_products(DType dtype) {
  for (const std::int64_t n : small ? std::vector<std::int64_t>{8, 16}
                                    : std::vector<std::int64_t>{256, 512, 1024, 2048, 4096, 8192}) {
    const int times = n <= 1024 ? 100 : 2;
    const Tensor x = random::normal({n, n}, {.dtype = dtype}),
                 y = random::normal({n, n}, {.dtype = dtype});
    const bool halves = dtype == DType::bfloat16;
    const auto found = bench::compare(
        {queued("product", times, [=] { return matmul(x, y); }), {"cuBLAS", [=] {
                                                                    for (int i = 0; i < times; ++i)
                                                                      bare::product(n, halves);
                                                                    bare::wait();
                                                                  }}});
    const double size = static_cast<double>(n);
    const std::string name = (halves ? "product of bfloat16 " : "product ") + std::to_string(n);
    show(name, 2 * size * size * size / nanoseconds(found.timings[0], times), "GFLOP/s");
    show(name, found.timings[1].ratio.median, "of cuBLAS's speed");
  }
}

/// Microseconds of the host for each of the calls that f makes, while the queue of the device has
/// room: the median.
double host_time(int calls, const std::function<void()>& f) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int round = 0; round < (small ? 3 : 101); ++round) {
    bare::wait();
    synchronize(cuda(0));
    const auto start = Clock::now();
    f();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() /
                    calls);
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

void measure_calls() {
  constexpr int calls = 200;
  const Tensor x = random::normal({16});
  const Variable w("w", random::normal({16}));
  const double empty = host_time(calls, [] {
    for (int i = 0; i < calls; ++i) bare::launch();
  });
  const double call = host_time(calls, [&] {
    for (int i = 0; i < calls; ++i) bench::keep(x + x);
  });
  const double recorded = host_time(calls, [&] {
    const GradientTape tape;
    for (int i = 0; i < calls; ++i) bench::keep(w + x);
  });
  show("call of an empty kernel by CUDA", empty, "us");
  show("call of add 16", call, "us");
  show("call of add 16, recorded", recorded, "us");
  show("call of add 16", call / empty, "empty kernels");
  show("call of add 16, recorded", recorded / empty, "empty kernels");
}

struct CharRnnModel {
  nn::Embedding embed;
  nn::LSTMCell cell;
  nn::Linear head;
  void fields(auto&& field) {
    field("embed", embed);
    field("cell", cell);
    field("head", head);
  }
};

/// A step of training on 64 characters of 32 texts, cell by cell (char_rnn.cpp).
struct CharRnn {
  std::int64_t hidden, steps = small ? 3 : 64, batch = small ? 2 : 32, vocabulary = 96;
  CharRnnModel model{{vocabulary, hidden}, {hidden, hidden}, {hidden, vocabulary}};
  std::vector<Variable> variables = parameters(model);
  optim::Adam adam{variables, {.learning_rate = 1e-3}};

  Tensor step(const Tensor& words) {
    GradientTape tape;
    auto state = model.cell.initial_state(batch);
    std::vector<Tensor> states;
    for (std::int64_t t = 0; t < steps; ++t) {
      state = model.cell(model.embed(words(t)), state);
      states.push_back(state.h);
    }
    const Tensor labels = words(range(1, {})).reshape({steps * batch});
    const Tensor loss = cross_entropy(model.head(concat(states)), labels);
    adam.step(tape.gradient(loss, variables));
    return loss;
  }
};

void measure_char_rnn() {
  for (const std::int64_t hidden :
       small ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{256, 1024}) {
    CharRnn eager{hidden}, replayed{hidden};
    const Tensor words = random::integers(0, eager.vocabulary, {eager.steps + 1, eager.batch});
    const auto traced = trace([&replayed](Tensor text) { return replayed.step(text); });
    const auto found = bench::compare({queued("eager", 1, [&] { return eager.step(words); }),
                                       queued("traced", 1, [&] { return traced(words); })});
    for (const bench::Timing& timing : found.timings)
      show("char-RNN step " + std::to_string(hidden) + ", " + timing.name,
           timing.nanoseconds.median / 1e3, "us");
    // One launch of a graph, if all is well.
    show("call of a traced char-RNN step " + std::to_string(hidden),
         host_time(1, [&] { bench::keep(traced(words)); }) / host_time(1, bare::launch),
         "empty kernels");
  }
}

/// A layer over sequences, which PyTorch gives to cuDNN.
void measure_lstm() {
  const std::int64_t steps = small ? 3 : 64, batch = small ? 2 : 32;
  for (const std::int64_t hidden :
       small ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{256, 1024}) {
    const nn::LSTM layer(hidden, hidden);
    const std::vector<Variable> variables = parameters(layer);
    const Tensor x = random::normal({steps, batch, hidden});
    const auto both_ways = [=] {
      GradientTape tape;
      return tape.gradient(sum(layer(x).outputs), variables);
    };
    const auto found = bench::compare({queued("LSTM", 1, both_ways)});
    show("LSTM of 64 steps and its gradients, " + std::to_string(hidden),
         found.timings[0].nanoseconds.median / 1e3, "us");
  }
}
}  // namespace

int main(int argc, char** argv) {
  const std::string asked = argc > 1 ? argv[1] : "";  // "small" shapes, or "lstm" alone
  small = asked == "small";
  if (!cuda_available()) {
    std::fprintf(stderr, "%s\n", cuda_status().c_str());
    return 77;
  }
  // Before the first use of the device, which fails without memory pools.
  show("cudaDevAttrMemoryPoolsSupported", bare::memory_pools(), "property");
  const DeviceScope scope(cuda(0));
  int failures = 0;
  const std::vector<void (*)()> all = {measure_calls,
                                       [] { measure_products(DType::float32); },
                                       [] { measure_products(DType::bfloat16); },
                                       measure_char_rnn,
                                       measure_lstm,
                                       measure_bandwidth};
  for (const auto measure : asked == "lstm" ? std::vector<void (*)()>{measure_lstm} : all) try {
      measure();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "FAILED: %s\n", error.what());
      ++failures;
    }
  return failures;
}
