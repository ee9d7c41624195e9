// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

using Task = harness::ConvNet;

template <class Layer>
Layer with_weight(Layer layer, std::uint64_t seed, std::initializer_list<std::size_t> lengths,
                  std::size_t inputs) {
  layer.weight.assign(numbers(seed, lengths, 1 / std::sqrt(static_cast<float>(inputs))));
  return layer;
}

struct Model {
  nn::Conv2d first = with_weight(nn::Conv2d(1, Task::first, 3, options()), 10,
                                 {3, 3, 1, Task::first}, 9),
             second = with_weight(nn::Conv2d(Task::first, Task::second, 3, options()), 11,
                                  {3, 3, Task::first, Task::second}, 9 * Task::first);
  nn::Linear dense = with_weight(nn::Linear(Task::features, Task::out), 12,
                                 {Task::features, Task::out}, Task::features);
  static ConvolutionOptions options() { return {.padding = same, .activation = Activation::relu}; }
  Tensor operator()(const Tensor& x) const {
    const Tensor maps = max_pool2d(second(max_pool2d(first(x), 2)), 2);
    return dense(reshape(maps, {x.shape()[0], -1}));
  }
  void fields(auto&& field) {
    field("first", first);
    field("second", second);
    field("dense", dense);
  }
};

Tensor images() { return numbers(20, {Task::batch, Task::side, Task::side, 1}); }

struct Forward {
  Model model;
  Tensor x = images();
  Traced<Tensor(Tensor)> trace_of_model = trace([this](Tensor in) { return model(in); });
  void operator()() { keep(traced ? trace_of_model(x) : model(x)); }
  double value() { return squares(model(x)); }
};

struct Pool {
  Tensor x = numbers(1, {Task::batch, Task::side, Task::side, Task::first});
  void operator()() { keep(max_pool2d(x, 2)); }
  double value() { return squares(max_pool2d(x, 2)); }
};

}  // namespace

void add_conv_net(harness::Rows& rows) {
  rows.push_back(harness::row<Pool>("max pool 64x28x28x32", 1));
  rows.push_back(harness::traced_row<Forward>("conv net, forward", 1));
  rows.push_back(harness::traced_row<Training<Model, optim::SGD, images>>("conv net, SGD step", 1));
}

}  // namespace rows
