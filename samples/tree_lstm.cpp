// SPDX-License-Identifier: BSD-3-Clause
// A Tree-LSTM (Tai, Socher and Manning 2015) learns what ListOps expressions are worth. The network
// is a recursive function over each tree; nothing is padded or compiled. batched() runs the ops of
// all trees of a step together.
#include <reel/reel.hpp>

#include <array>

#include "listops.hpp"
#include "options.hpp"

using namespace reel;
using listops::Expression, listops::Node;
using Batch = std::vector<const Expression*>;

struct Options : CommonOptions {
  std::size_t trees = 90000, batch = 16, longest = 50;
  int epochs = 5, hidden = 128;
  double rate = 2e-3;
  bool batched = true;
  std::string test;
};

struct Calculator {
  nn::Embedding embed;
  nn::TreeLSTMCell cell;
  nn::Linear head;
  bool together;
  Calculator(int hidden, bool batched)
      : embed(listops::names.size(), hidden),
        cell(hidden, hidden),
        head(hidden, 10),
        together(batched) {}
  REEL_FIELDS(embed, cell, head)

  /// The states of all words, where the leaves find theirs.
  std::vector<nn::LSTMState> words() const {
    constexpr int count = listops::names.size();
    const nn::LSTMState all = cell.leaf(embed(arange(0, count)));
    const std::vector<Tensor> h = split(all.h, count), c = split(all.c, count);
    std::vector<nn::LSTMState> states;
    for (std::size_t i = 0; i < count; ++i) states.push_back({h[i], c[i]});
    return states;
  }
  /// The state of a tree.
  nn::LSTMState encode(const Node& node, const std::vector<nn::LSTMState>& words) const {
    if (!node.left) return words[static_cast<std::size_t>(node.word)];
    return cell(encode(*node.left, words), encode(*node.right, words));
  }
  /// Scores of the ten digits for each expression: [expressions, 10].
  Tensor operator()(const Batch& batch) const {
    const std::vector<nn::LSTMState> leaves = words();
    const auto root = [&](const Expression* e) { return encode(*e->tree, leaves).h; };
    if (together) return head(concat(batched(batch, root)));
    std::vector<Tensor> roots;
    for (const Expression* e : batch) roots.push_back(root(e));
    return head(concat(roots));
  }
};

auto pointers(const std::vector<Expression>& all) {
  return data::from(all.size(),
                    [&all](std::int64_t i) { return &all[static_cast<std::size_t>(i)]; });
}

/// Prints the share of right answers, in all and by length.
void evaluate(const Calculator& model, const std::vector<Expression>& test) {
  TrainScope evaluating(false);
  constexpr std::array<std::size_t, 6> ends = {10, 30, 100, 300, std::size_t(-1), 0};
  std::array<int, 6> right{}, count{};  // the last one is for all
  for (const Batch& batch : pointers(test).batch(100)) {
    const auto answers = argmax(model(batch), 1).values<std::int64_t>();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      std::size_t bucket = 0;
      while (batch[i]->words.size() > ends[bucket]) ++bucket;
      for (const std::size_t place : {bucket, ends.size() - 1}) {
        ++count[place];
        right[place] += answers[i] == batch[i]->value;
      }
    }
  }
  constexpr std::array names = {"1-10", "11-30", "31-100", "101-300", "over 300", "all"};
  for (std::size_t i = 0; i < names.size(); ++i)
    fmt::print("{}{}: {:.2f} % of {}", i ? "; " : "held out, by length: ", names[i],
               count[i] ? 100.0 * right[i] / count[i] : 0.0, count[i]);
  fmt::print("\n");
}

void train(Calculator& model, const listops::Split& data, const Options& options) {
  auto train = pointers(data.train).shuffle({.seed = options.seed}).batch(options.batch);
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.epochs * train.size(), 0.02));
  const auto loss = [](const Calculator& m, const Batch& batch) {
    std::vector<std::int64_t> values;
    for (const Expression* e : batch) values.push_back(e->value);
    return nn::cross_entropy(m(batch), tensor(values));
  };
  double seconds = 0;
  fit(model, adam, train, loss,
      {.epochs = options.epochs,
       .schedule = &schedule,
       .clip_norm = 1,
       .unconnected = Unconnected::zero,  // a tree of one word uses no cell
       .progress = true,
       .after_epoch = [&](FitEpoch& epoch) {
         seconds += epoch.seconds;
         evaluate(model, data.test);
       }});
  fmt::print("trained {:.0f} s, {:.0f} trees a second\n", seconds,
             static_cast<double>(options.epochs * std::ssize(data.train)) / seconds);
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A Tree-LSTM learns ListOps.", options);
  line.add("--trees", options.trees, "expressions drawn for training")
      ->check(CLI::Range(9, 10000000));
  line.add("--epochs", options.epochs, "passes over them")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of a state")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "trees a step")->check(CLI::PositiveNumber);
  line.add("--batched", options.batched, "the ops of all trees of a step together (1) or not (0)");
  line.add("--longest", options.longest, "train on expressions of at most this many words");
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  line.add("--test", options.test, "test on this file (published format)")
      ->check(CLI::ExistingFile);
  return line.run(argc, argv, [&] {
    listops::Split data = listops::draw_split(options.trees, options.seed, options.test);
    std::erase_if(data.train, [&](auto& e) { return e.words.size() > options.longest; });
    Calculator model(options.hidden, options.batched);
    fmt::print("{} expressions to train on, {} held out\n{}", data.train.size(), data.test.size(),
               summary(model));
    train(model, data, options);
  });
}
