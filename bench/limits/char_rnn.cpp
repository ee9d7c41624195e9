// SPDX-License-Identifier: BSD-3-Clause
#include "../serve.hpp"
#include "../task.hpp"
#include "cell.hpp"
#include "dense.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::Numbers;
using Task = harness::CharRnn;

/// One training step. What does not depend on the step before is one product over all steps:
/// the input projection, the head, all weight gradients.
struct CharRnn {
  static constexpr std::size_t hidden = Task::hidden, columns = 4 * hidden, batch = Task::batch,
                               rows = Task::steps * batch, classes = Task::vocabulary;
  static constexpr float scale = 1.0f / 16;  // 1 / sqrt(hidden)
  Parameter table{Numbers(1).vector(classes * hidden)};
  Parameter weight{Numbers(4).vector(2 * hidden * columns, scale)};
  Parameter bias{Numbers(5).vector(columns, 0.1f)};
  Parameter head{Numbers(6).vector(hidden * classes, scale)};
  Parameter head_bias{std::vector<float>(classes)};
  std::vector<std::size_t> words = text();

  Buffer x{rows * hidden}, gates{rows * columns}, scores{rows * classes};
  Buffer h{(Task::steps + 1) * batch * hidden}, c{(Task::steps + 1) * batch * hidden};
  Buffer tanh_c{rows * hidden}, dh{rows * hidden}, dc{batch * hidden}, dx{rows * hidden};
  Buffer recurrent{hidden * columns}, recurrent_turned{hidden * columns};
  int step = 0;
  float loss = 0;

  static std::vector<std::size_t> text() {
    Numbers numbers(7);
    std::vector<std::size_t> words(rows + batch);
    for (auto& word : words) word = numbers.below(classes);
    return words;
  }
  const float* recurrent_rows() const { return weight.value + hidden * columns; }

  void operator()() {
    pack_recurrent();
    forward();
    backward();
    ++step;
    for (Parameter* p : {&table, &weight, &bias, &head, &head_bias}) {
      p->adam(step, static_cast<float>(harness::adam_rate));
    }
  }

  /// The recurrent weight in panels, as it is and transposed.
  void pack_recurrent() {
    const float* from = recurrent_rows();
    for (std::size_t i = 0; i < hidden; ++i) {
      for (std::size_t j = 0; j < columns; j += panel) {
        std::copy(from + i * columns + j, from + i * columns + j + panel,
                  recurrent + j * hidden + i * panel);
      }
    }
    for (std::size_t first = 0; first < hidden; first += panel) {
      float* to = recurrent_turned + first * columns;
      for (std::size_t j = 0; j < columns; ++j) {
        for (std::size_t i = 0; i < panel; ++i) to[j * panel + i] = from[(first + i) * columns + j];
      }
    }
  }

  void forward() {
    for (std::size_t i = 0; i < rows; ++i) {
      const float* row = table.value + words[i] * hidden;
      std::copy(row, row + hidden, x + i * hidden);
    }
    fill_rows(rows, columns, bias.value, gates);
    dense(rows, columns, hidden, x, Turn::no, weight.value, Turn::no, 1, gates);
    const Gates cell{batch, hidden};
    for (std::size_t t = 0; t < Task::steps; ++t) {
      float* sums = gates + t * batch * columns;
      const std::size_t now = t * batch * hidden, next = now + batch * hidden;
      product(batch, columns, hidden, {h + now, hidden, 1}, packed<const float>(recurrent, hidden),
              row_major(sums, columns), Onto::target);
      cell.forward(sums, c + now, c + next, tanh_c + now, h + next);
    }
    fill_rows(rows, classes, head_bias.value, scores);
    dense(rows, classes, hidden, h + batch * hidden, Turn::no, head.value, Turn::no, 1, scores);
    loss = cross_entropy(rows, classes, scores, words.data() + batch);
  }

  void backward() {
    dense(hidden, classes, rows, h + batch * hidden, Turn::yes, scores, Turn::no, 0, head.gradient);
    std::fill(head_bias.gradient.begin(), head_bias.gradient.end(), 0.0f);
    add_column_sums(rows, classes, scores, head_bias.gradient);
    dense(rows, hidden, classes, scores, Turn::no, head.value, Turn::yes, 0, dh);
    std::fill(dc.begin(), dc.end(), 0.0f);
    const Gates cell{batch, hidden};
    for (std::size_t t = Task::steps; t-- > 0;) {
      float* sums = gates + t * batch * columns;
      const std::size_t now = t * batch * hidden;
      cell.backward(sums, c + now, tanh_c + now, dh + now, dc);
      if (t == 0) break;
      product(batch, hidden, columns, {sums, columns, 1},
              packed<const float>(recurrent_turned, columns),
              row_major<float>(dh + now - batch * hidden, hidden), Onto::target);
    }
    dense(hidden, columns, rows, x, Turn::yes, gates, Turn::no, 0, weight.gradient);
    dense(hidden, columns, rows, h, Turn::yes, gates, Turn::no, 0,
          weight.gradient + hidden * columns);
    std::fill(bias.gradient.begin(), bias.gradient.end(), 0.0f);
    add_column_sums(rows, columns, gates, bias.gradient);
    dense(rows, hidden, columns, gates, Turn::no, weight.value, Turn::yes, 0, dx);
    std::fill(table.gradient.begin(), table.gradient.end(), 0.0f);
    for (std::size_t i = 0; i < rows; ++i) {
      float* row = table.gradient + words[i] * hidden;
      for (std::size_t j = 0; j < hidden; ++j) row[j] += dx[i * hidden + j];
    }
  }

  /// The loss that a fresh model shows in its third step.
  double value() {
    CharRnn fresh;
    for (int i = 0; i < 3; ++i) fresh();
    return fresh.loss;
  }
};

}  // namespace

void add_char_rnn(harness::Rows& rows) {
  for (const char* name : {"char-RNN step", "char-RNN step, nn::LSTM"})
    rows.push_back(harness::row<CharRnn>(name, 1));
}

}  // namespace limits
