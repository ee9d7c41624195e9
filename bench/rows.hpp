// SPDX-License-Identifier: BSD-3-Clause
// The rows as a user of reel would write them: public headers only.
#pragma once
#include <reel/reel.hpp>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "serve.hpp"
#include "task.hpp"

namespace rows {

using harness::keep;
using harness::Numbers;
using namespace reel;

/// Whether the work of this program is replayed instead of run.
inline bool traced = false;

inline Tensor numbers(std::uint64_t seed, std::initializer_list<std::size_t> lengths,
                      float scale = 1) {
  std::size_t count = 1;
  std::vector<std::int64_t> shape;
  for (const std::size_t n : lengths) {
    count *= n;
    shape.push_back(static_cast<std::int64_t>(n));
  }
  return from_span(Numbers(seed).vector(count, scale), Shape(shape));
}

inline Tensor digits(std::size_t count, std::size_t classes) {
  Numbers numbers(21);
  std::vector<std::int64_t> labels(count);
  for (auto& label : labels) label = static_cast<std::int64_t>(numbers.below(classes));
  return tensor(labels);
}

inline double squares(const Tensor& x) {
  double sum = 0;
  for (const float element : x.values<float>()) sum += static_cast<double>(element) * element;
  return sum;
}
template <class Tensors>
double squares_of(const Tensors& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors) sum += squares(x);
  return sum;
}

/// Steps of training a classifier of ten classes on one batch.
template <class Model, class Optimizer, Tensor (*inputs)()>
struct Training {
  Model model;
  std::vector<Variable> variables = parameters(model);
  Optimizer optimizer{variables};  // the rates of task.hpp are reel's own
  Tensor x = inputs(), labels = digits(static_cast<std::size_t>(x.shape()[0]), 10), loss;

  Tensor step(const Tensor& in, const Tensor& classes) {
    GradientTape tape;
    const Tensor found = nn::cross_entropy(model(in), classes);
    optimizer.step(tape.gradient(found, variables));
    return found;
  }
  Traced<Tensor(Tensor, Tensor)> trace_of_step =
      trace([this](Tensor in, Tensor classes) { return step(in, classes); });
  void operator()() { loss = traced ? trace_of_step(x, labels) : step(x, labels); }
  double value() {
    Training fresh;
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss.template item<float>();
  }
};

void add_ops(harness::Rows& rows);
void add_kernels(harness::Rows& rows);
void add_tape(harness::Rows& rows);
void add_lstm(harness::Rows& rows);
void add_char_rnn(harness::Rows& rows);
void add_tree_lstm(harness::Rows& rows);
void add_mlp(harness::Rows& rows);
void add_conv_net(harness::Rows& rows);

}  // namespace rows
