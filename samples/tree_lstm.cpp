// SPDX-License-Identifier: BSD-3-Clause
// A Tree-LSTM (Tai, Socher and Manning 2015) learns what ListOps expressions are worth. The network
// is a recursive function over each tree; nothing is padded, batched by shape or compiled.
#include <reel/reel.hpp>

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>

#include "listops.hpp"
#include "options.hpp"

using namespace reel;
using listops::Expression, listops::Node;

struct Options : CommonOptions {
  std::size_t trees = 90000, batch = 16, longest = 50;
  int epochs = 4, hidden = 128;
  double rate = 3e-3;
  std::string test;
};

struct Calculator {
  nn::Embedding embed;
  nn::TreeLSTMCell cell;
  nn::Linear head;
  explicit Calculator(int hidden)
      : embed(listops::names.size(), hidden), cell(hidden, hidden), head(hidden, 10) {}
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
  Tensor operator()(std::span<const Expression> expressions) const {
    const std::vector<nn::LSTMState> leaves = words();
    std::vector<Tensor> roots;
    for (const Expression& e : expressions) roots.push_back(encode(*e.tree, leaves).h);
    return head(concat(roots));
  }
};

std::vector<std::int64_t> values(std::span<const Expression> expressions) {
  std::vector<std::int64_t> out;
  for (const Expression& e : expressions) out.push_back(e.value);
  return out;
}

/// Prints the share of right answers, in all and by length.
void evaluate(const Calculator& model, std::span<const Expression> test) {
  TrainScope evaluating(false);
  constexpr std::array<std::size_t, 5> ends = {10, 30, 100, 300, std::size_t(-1)};
  std::array<int, 5> right{}, count{};
  for (std::size_t first = 0; first < test.size(); first += 100) {
    const auto some = test.subspan(first, std::min<std::size_t>(100, test.size() - first));
    const auto answers = argmax(model(some), 1).values<std::int64_t>();
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto end = std::lower_bound(ends.begin(), ends.end(), some[i].words.size());
      const auto bucket = static_cast<std::size_t>(end - ends.begin());
      ++count[bucket];
      right[bucket] += answers[i] == some[i].value;
    }
  }
  auto percent = [](int part, int whole) { return whole ? 100.0 * part / whole : 0.0; };
  const int all_right = std::accumulate(right.begin(), right.end(), 0);
  const int whole = static_cast<int>(test.size());
  fmt::print("held out: {:.2f} % of {}; by length", percent(all_right, whole), whole);
  constexpr std::array names = {"1-10", "11-30", "31-100", "101-300", "over 300"};
  for (std::size_t i = 0; i < 5; ++i) {
    fmt::print("{} {}: {:.1f} % of {}", i ? "," : "", names[i], percent(right[i], count[i]),
               count[i]);
  }
  fmt::print("\n");
}

void train(Calculator& model, listops::Split& data, const Options& options) {
  std::mt19937_64 random(options.seed);
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  const auto total = options.epochs * std::ssize(data.train);
  bench::Progress progress("trees", total);
  double loss = 2.3, testing = 0;
  std::int64_t done = 0;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    std::shuffle(data.train.begin(), data.train.end(), random);
    for (std::size_t first = 0; first < data.train.size(); first += options.batch) {
      const auto count = std::min(options.batch, data.train.size() - first);
      const auto some = std::span(data.train).subspan(first, count);
      GradientTape tape;
      const Tensor cost = nn::cross_entropy(model(some), tensor(values(some)));
      const double turn = std::numbers::pi * static_cast<double>(done) / static_cast<double>(total);
      adam.learning_rate().assign(options.rate * (0.51 + 0.49 * std::cos(turn)));
      // A tree of one word uses no cell.
      const auto slopes = tape.gradient(cost, parameters(model), Unconnected::zero);
      adam.step(optim::clip_by_global_norm(slopes, 1));
      done += std::ssize(some);
      loss += 0.01 * (cost.item<float>() - loss);
      progress.show(done, fmt::format("epoch {}  loss {:.3f}", epoch, loss));
    }
    progress.end_line();
    const double before = progress.seconds();
    evaluate(model, data.test);
    testing += progress.seconds() - before;
  }
  const double training = progress.seconds() - testing;
  fmt::print("trained {:.0f} s, {:.0f} trees a second; tested {:.0f} s\n", training,
             static_cast<double>(done) / training, testing);
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A Tree-LSTM learns ListOps.", options);
  line.add("--trees", options.trees, "expressions drawn for training")
      ->check(CLI::Range(9, 10000000));
  line.add("--epochs", options.epochs, "passes over them")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of a state")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "trees a step")->check(CLI::PositiveNumber);
  line.add("--longest", options.longest, "train on expressions of at most this many words");
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  line.add("--test", options.test, "test on this file (published format)")
      ->check(CLI::ExistingFile);
  return line.run(argc, argv, [&] {
    listops::Split data = listops::draw_split(options.trees, options.seed, options.test);
    std::erase_if(data.train, [&](auto& e) { return e.words.size() > options.longest; });
    Calculator model(options.hidden);
    fmt::print("{} expressions to train on, {} held out\n{}", data.train.size(), data.test.size(),
               summary(model));
    train(model, data, options);
  });
}
