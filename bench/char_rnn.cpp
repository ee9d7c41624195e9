// SPDX-License-Identifier: BSD-3-Clause
#include "rows.hpp"

namespace rows {
namespace {

using Task = harness::CharRnn;

Tensor text() {
  Numbers letters(7);
  std::vector<std::int64_t> words((Task::steps + 1) * Task::batch);
  for (auto& word : words) word = static_cast<std::int64_t>(letters.below(Task::vocabulary));
  return from_span(words, {Task::steps + 1, Task::batch});
}

/// One cell; `cell` of an nn::LSTM of one layer.
template <class Recurrent>
struct Model {
  nn::Embedding embed{Task::vocabulary, Task::hidden};
  Recurrent recurrent{Task::hidden, Task::hidden};
  nn::Linear head{Task::hidden, Task::vocabulary};
  explicit Model(nn::LSTMCell& (*cell)(Recurrent&)) {
    constexpr std::size_t hidden = Task::hidden;
    embed.table.assign(numbers(1, {Task::vocabulary, hidden}));
    cell(recurrent).weight.assign(numbers(4, {2 * hidden, 4 * hidden}, 1.0f / 16));
    cell(recurrent).bias.assign(numbers(5, {4 * hidden}, 0.1f));
    head.weight.assign(numbers(6, {hidden, Task::vocabulary}, 1.0f / 16));
    head.bias.assign(zeros({Task::vocabulary}));
  }
  void fields(auto&& field) {
    field("embed", embed);
    field("recurrent", recurrent);
    field("head", head);
  }
};

/// The loop over time written out.
struct Loop : Model<nn::LSTMCell> {
  Loop() : Model([](nn::LSTMCell& cell) -> nn::LSTMCell& { return cell; }) {}
  Tensor outputs(const Tensor& words) const {
    auto state = recurrent.initial_state(Task::batch);
    std::vector<Tensor> states;
    for (std::size_t t = 0; t < Task::steps; ++t) {
      state = recurrent(embed(words(t)), state);
      states.push_back(state.h);
    }
    return concat(states);
  }
};
/// All steps at once.
struct Sequence : Model<nn::LSTM> {
  Sequence() : Model([](nn::LSTM& lstm) -> nn::LSTMCell& { return lstm.cells[0]; }) {}
  Tensor outputs(const Tensor& words) const {
    return recurrent(embed(words(range(0, -1)))).outputs.reshape({-1, Task::hidden});
  }
};

template <class Network>
struct CharRnn {
  Network model;
  std::vector<Variable> variables = parameters(model);
  optim::Adam adam{variables, {.learning_rate = harness::adam_rate}};
  Tensor words = text(), loss;

  Tensor step(const Tensor& text) {
    GradientTape tape;
    const Tensor labels = text(range(1, {})).reshape({Task::steps * Task::batch});
    const Tensor found = nn::cross_entropy(model.head(model.outputs(text)), labels);
    adam.step(tape.gradient(found, variables));
    return found;
  }
  Traced<Tensor(Tensor)> trace_of_step = trace([this](Tensor text) { return step(text); });
  void operator()() { loss = traced ? trace_of_step(words) : step(words); }
  double value() {
    CharRnn fresh;
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss.template item<float>();
  }
};

}  // namespace

void add_char_rnn(harness::Rows& rows) {
  rows.push_back(harness::traced_row<CharRnn<Loop>>("char-RNN step", 1));
  rows.push_back(harness::traced_row<CharRnn<Sequence>>("char-RNN step, nn::LSTM", 1));
}

}  // namespace rows
