// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

using Task = bench::CharRnn;

Tensor text() {
  Numbers letters(7);
  std::vector<std::int64_t> words((Task::steps + 1) * Task::batch);
  for (auto& word : words) word = static_cast<std::int64_t>(letters.below(Task::vocabulary));
  return from_span(words, {Task::steps + 1, Task::batch});
}

struct Model {
  nn::Embedding embed{Task::vocabulary, Task::hidden};
  nn::LSTMCell cell{Task::hidden, Task::hidden};
  nn::Linear head{Task::hidden, Task::vocabulary};
  Model() {
    constexpr std::size_t hidden = Task::hidden;
    embed.table.assign(numbers(1, {Task::vocabulary, hidden}));
    cell.weight.assign(numbers(4, {2 * hidden, 4 * hidden}, 1.0f / 16));
    cell.bias.assign(numbers(5, {4 * hidden}, 0.1f));
    head.weight.assign(numbers(6, {hidden, Task::vocabulary}, 1.0f / 16));
    head.bias.assign(zeros({Task::vocabulary}));
  }
  void fields(auto&& field) {
    field("embed", embed);
    field("cell", cell);
    field("head", head);
  }
};

struct CharRnn {
  Model model;
  std::vector<Variable> variables = parameters(model);
  optim::Adam adam{variables, {.learning_rate = bench::adam_rate}};
  Tensor words = text(), loss;

  void operator()() {
    GradientTape tape;
    auto state = model.cell.initial_state(Task::batch);
    std::vector<Tensor> states;
    for (std::size_t t = 0; t < Task::steps; ++t) {
      state = model.cell(model.embed(words(t)), state);
      states.push_back(state.h);
    }
    const Tensor labels = words(range(1, {})).reshape({Task::steps * Task::batch});
    loss = nn::cross_entropy(model.head(concat(states)), labels);
    adam.step(tape.gradient(loss, variables));
  }
  double value() {
    CharRnn fresh;
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss.item<float>();
  }
};

}  // namespace

void add_char_rnn(bench::Rows& rows) { rows.push_back(bench::row<CharRnn>("char-RNN step", 1)); }

}  // namespace rows
