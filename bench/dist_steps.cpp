// SPDX-License-Identifier: BSD-3-Clause
// Steps of data parallel training, by the ranks that mpirun has started: dist_steps MODEL [BATCH].
// Each rank has a batch of its own, so n ranks learn n batches a step.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

using namespace reel;

namespace {
double milliseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

/// Prints the median of the time of a step, and the examples that all ranks learn in a second.
template <class Model>
void measure(const dist::World& world, const char* name, Model model, std::int64_t examples,
             const std::function<Tensor(const Model&)>& loss) {
  optim::SGD sgd(parameters(model), {.learning_rate = 0.01});
  dist::DataParallel replicas(world, sgd, {.bucket_bytes = 1 << 19});
  std::vector<double> times;
  for (int step = 0; step < 24; ++step) {
    world.barrier();
    const double start = milliseconds();
    GradientTape tape;
    replicas.step(tape, loss(model), {.examples = examples});
    if (step >= 4) times.push_back(milliseconds() - start);
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  if (world.rank() == 0)
    std::printf("%s, %lld ranks: a step takes %.2f ms, %.0f examples a second\n", name,
                static_cast<long long>(world.size()), times[10],
                1e3 * static_cast<double>(examples * world.size()) / times[10]);
}

void mlp(const dist::World& world, std::int64_t batch) {
  const auto tanh = Activation::tanh;
  const nn::Sequential model{nn::Linear(784, 512, tanh), nn::Linear(512, 512, tanh),
                             nn::Linear(512, 512, tanh), nn::Linear(512, 512, tanh),
                             nn::Linear(512, 10)};
  const Tensor x = random::normal({batch, 784}), y = random::normal({batch, 10});
  measure<nn::Sequential>(world, "MLP", model, batch,
                          [&](const auto& m) { return mean(square(m(x) - y)); });
}

void cnn(const dist::World& world, std::int64_t batch) {
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return nn::Conv2d(in, out, 3, {.padding = same, .activation = Activation::relu});
  };
  const nn::Sequential model{conv(1, 16),      nn::MaxPool2d{2}, conv(16, 32),
                             nn::MaxPool2d{2}, nn::Flatten(),    nn::Linear(7 * 7 * 32, 10)};
  const Tensor x = random::normal({batch, 28, 28, 1}), y = random::normal({batch, 10});
  measure<nn::Sequential>(world, "CNN", model, batch,
                          [&](const auto& m) { return mean(square(m(x) - y)); });
}

constexpr std::int64_t hidden = 128;

struct Cell {
  nn::TreeLSTMCell cell{hidden, hidden};
  REEL_FIELDS(cell)
  nn::LSTMState operator()(const Tensor& words, std::int64_t from, std::int64_t to) const {
    if (to - from == 1) return cell.leaf(words(range(from, to)));
    const std::int64_t middle = from + (to - from + 2) / 3;
    return cell((*this)(words, from, middle), (*this)(words, middle, to));
  }
};

void tree_lstm(const dist::World& world, std::int64_t batch) {
  const Tensor words = random::normal({batch, 20, hidden});
  measure<Cell>(world, "Tree-LSTM", {}, batch, [&](const Cell& encode) {
    Tensor loss = tensor(0.f);
    for (std::int64_t i = 0; i < batch; ++i) loss = loss + mean(square(encode(words(i), 0, 20).h));
    return loss / static_cast<double>(batch);
  });
}

struct Loop {
  nn::LSTMCell cell{64, 256};
  nn::Linear head{256, 64};
  REEL_FIELDS(cell, head)
};

void char_rnn(const dist::World& world, std::int64_t batch) {
  const Tensor x = random::normal({40, batch, 64});
  measure<Loop>(world, "char-RNN", {}, batch, [&](const Loop& model) {
    nn::LSTMState state = model.cell.initial_state(batch);
    Tensor loss = tensor(0.f);
    for (std::int64_t t = 0; t < 40; ++t) {
      state = model.cell(x(t), state);
      loss = loss + mean(square(model.head(state.h)));
    }
    return loss;
  });
}
}  // namespace

int main(int count, char** arguments) {
  const std::string model = count > 1 ? arguments[1] : "";
  const auto batch = [&](std::int64_t usual) {
    return count > 2 ? std::atoll(arguments[2]) : usual;
  };
  set_num_threads(1);
  const dist::World world;
  seed(1);
  if (model == "mlp") return mlp(world, batch(768)), 0;
  if (model == "cnn") return cnn(world, batch(128)), 0;
  if (model == "tree_lstm") return tree_lstm(world, batch(32)), 0;
  if (model == "char_rnn") return char_rnn(world, batch(32)), 0;
  return std::puts("usage: dist_steps mlp|cnn|tree_lstm|char_rnn [BATCH]"), 1;
}
