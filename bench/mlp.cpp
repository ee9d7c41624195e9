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

Tensor inputs() { return numbers(20, {Task::batch, Task::in}); }

}  // namespace

void add_mlp(harness::Rows& rows) {
  rows.push_back(harness::traced_row<Training<Model, optim::SGD, inputs>>("MLP SGD step", 1));
  rows.push_back(harness::traced_row<Training<Model, optim::Adam, inputs>>("MLP Adam step", 1));
}

}  // namespace rows
