// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

using Task = harness::Mlp;

nn::Linear layer(std::size_t in, std::size_t out, std::uint64_t seed) {
  nn::Linear made(in, out);
  made.weight.assign(numbers(seed, {in, out}, 1 / std::sqrt(static_cast<float>(in))));
  return made;
}

struct Model {
  nn::Linear first = layer(Task::in, Task::hidden, 10),
             second = layer(Task::hidden, Task::hidden, 11),
             third = layer(Task::hidden, Task::out, 12);
  Tensor operator()(const Tensor& x) const { return third(relu(second(relu(first(x))))); }
  void fields(auto&& field) {
    field("first", first);
    field("second", second);
    field("third", third);
  }
};

template <class Optimizer>
struct Mlp {
  Model model;
  std::vector<Variable> variables = parameters(model);
  Optimizer optimizer{variables};  // the rates of task.hpp are reel's own
  Tensor x = numbers(20, {Task::batch, Task::in}), labels = digits(Task::batch, Task::out), loss;

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
    Mlp fresh;
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss.template item<float>();
  }
};

}  // namespace

void add_mlp(harness::Rows& rows) {
  rows.push_back(harness::traced_row<Mlp<optim::SGD>>("MLP SGD step", 1));
  rows.push_back(harness::traced_row<Mlp<optim::Adam>>("MLP Adam step", 1));
}

}  // namespace rows
