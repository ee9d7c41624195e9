// SPDX-License-Identifier: BSD-3-Clause
#include <memory>

#include "../serve.hpp"
#include "../task.hpp"
#include "cell.hpp"
#include "dense.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::Numbers;
using Task = harness::Mlp;

struct Layer {
  Layer(std::size_t in, std::size_t out, std::uint64_t seed)
      : in(in),
        out(out),
        weight(Numbers(seed).vector(in * out, 1 / std::sqrt(static_cast<float>(in)))),
        bias(std::vector<float>(out)),
        y(Task::batch * out),
        dy(Task::batch * out) {}
  std::size_t in, out;
  Parameter weight, bias;
  Buffer y, dy;

  void forward(const float* x, bool relu) {
    fill_rows(Task::batch, out, bias.value, y);
    dense(Task::batch, out, in, x, Turn::no, weight.value, Turn::no, 1, y);
    if (!relu) return;
    for (float& a : y) a = std::max(a, 0.0f);
  }
  void backward(const float* x, const float* gradient) {
    dense(in, out, Task::batch, x, Turn::yes, gradient, Turn::no, 0, weight.gradient);
    std::fill(bias.gradient.begin(), bias.gradient.end(), 0.0f);
    add_column_sums(Task::batch, out, gradient, bias.gradient);
  }
  /// Into the gradient of the layer below, which is cut where its relu was.
  void pass_down(const float* gradient, Layer& below) const {
    dense(Task::batch, in, out, gradient, Turn::no, weight.value, Turn::yes, 0, below.dy);
    for (std::size_t i = 0; i < below.dy.size(); ++i) {
      below.dy[i] = below.y[i] > 0 ? below.dy[i] : 0.0f;
    }
  }
};

struct Mlp {
  explicit Mlp(bool adam) : adam(adam) {
    Numbers numbers(21);
    for (auto& label : labels) label = numbers.below(Task::out);
  }
  bool adam;
  Buffer x{Numbers(20).vector(Task::batch * Task::in)};
  std::vector<std::size_t> labels = std::vector<std::size_t>(Task::batch);
  Layer first{Task::in, Task::hidden, 10}, second{Task::hidden, Task::hidden, 11},
      third{Task::hidden, Task::out, 12};
  int step = 0;
  float loss = 0;

  void operator()() {
    first.forward(x, true);
    second.forward(first.y, true);
    third.forward(second.y, false);
    loss = cross_entropy(Task::batch, Task::out, third.y, labels.data());
    third.backward(second.y, third.y);
    third.pass_down(third.y, second);
    second.backward(first.y, second.dy);
    second.pass_down(second.dy, first);
    first.backward(x, first.dy);
    ++step;
    for (Layer* layer : {&first, &second, &third}) {
      update(layer->weight);
      update(layer->bias);
    }
  }
  void update(Parameter& p) const {
    if (adam) {
      p.adam(step, static_cast<float>(harness::adam_rate));
    } else {
      p.sgd(static_cast<float>(harness::sgd_rate));
    }
  }
  double value() {
    Mlp fresh(adam);
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss;
  }
};

}  // namespace

void add_mlp(harness::Rows& rows) {
  rows.push_back(harness::row<Mlp>("MLP SGD step", 1, false));
  rows.push_back(harness::row<Mlp>("MLP Adam step", 1, true));
}

}  // namespace limits
