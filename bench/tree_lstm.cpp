// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

using Task = harness::TreeTask;

struct Encoder {
  nn::Embedding embed{Task::vocabulary, Task::hidden};
  nn::TreeLSTMCell cell{Task::hidden, Task::hidden};
  Encoder() {
    constexpr std::size_t width = Task::hidden;
    const float scale = 1 / std::sqrt(static_cast<float>(width));
    embed.table.assign(numbers(1, {Task::vocabulary, width}));
    cell.leaf_weight.assign(numbers(4, {width, 3 * width}, scale));
    cell.leaf_bias.assign(numbers(5, {3 * width}, 0.1f));
    cell.weight.assign(numbers(6, {2 * width, 5 * width}, scale));
    cell.bias.assign(numbers(8, {5 * width}, 0.1f));
  }
  nn::LSTMState operator()(const harness::Node& node) const {
    if (node.left) return cell((*this)(*node.left), (*this)(*node.right));
    return cell.leaf(embed(tensor({static_cast<std::int64_t>(node.word)})));
  }
  void fields(auto&& field) {
    field("embed", embed);
    field("cell", cell);
  }
};

struct TreeLstm {
  Encoder encode;
  std::vector<Variable> variables = parameters(encode);
  std::vector<std::unique_ptr<harness::Node>> trees = harness::random_trees();

  std::vector<Tensor> gradients(const harness::Node& tree) {
    GradientTape tape;
    return tape.gradient(sum(encode(tree).h), variables);
  }
  void operator()() {
    for (const auto& tree : trees) keep(gradients(*tree));
  }
  double value() { return squares_of(gradients(*trees.back())); }
};

}  // namespace

void add_tree_lstm(harness::Rows& rows) {
  rows.push_back(harness::row<TreeLstm>("Tree-LSTM, one tree", Task::trees));
}

}  // namespace rows
