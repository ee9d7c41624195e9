// SPDX-License-Identifier: BSD-3-Clause
// SPINN (Bowman et al. 2016) reads ListOps expressions from left to right: it shifts a word to its
// stack, or reduces the two states on top to one. A tracking LSTM learns to choose, so that the
// network finds the tree of a new expression by itself. batched() runs the ops of all expressions
// of a step together, though each takes steps of its own.
#include <reel/reel.hpp>

#include <algorithm>
#include <span>

#include "listops.hpp"
#include "options.hpp"

using namespace reel;
using listops::Expression, listops::Node;

struct Options : CommonOptions {
  std::size_t trees = 20000, batch = 16, longest = 25;
  int epochs = 3, hidden = 64, tracking = 32;
  double rate = 3e-3;
  bool batched = false;
};

/// The steps that build a tree: 0 shifts a word, 1 reduces.
void add_steps(const Node& node, std::vector<int>& steps) {
  if (node.left) {
    add_steps(*node.left, steps);
    add_steps(*node.right, steps);
  }
  steps.push_back(node.left ? 1 : 0);
}
std::vector<int> steps_of(const Expression& e) {
  std::vector<int> steps;
  add_steps(*e.tree, steps);
  return steps;
}

/// What the network makes of an expression: the state of the whole, [1, hidden], the scores of both
/// choices at each step, [steps, 2], and the steps that it took.
struct Reading {
  Tensor root, scores;
  std::vector<int> steps;
};
struct Spinn {
  nn::Embedding embed;  // h and c of a word
  nn::LSTMCell tracker;
  nn::SPINNCell reduce;
  nn::Linear choose, head;
  std::int64_t hidden;
  bool together;
  explicit Spinn(const Options& options)
      : embed(listops::names.size(), 2 * options.hidden),
        tracker(3 * options.hidden, options.tracking),
        reduce(options.hidden, options.tracking),
        choose(options.tracking, 2),
        head(options.hidden, 10),
        hidden(options.hidden),
        together(options.batched) {}
  REEL_FIELDS(embed, tracker, reduce, choose, head)

  /// Takes the given steps; without any, the ones of the better scores.
  Reading read(const listops::Words& words, std::vector<int> given = {}) const {
    const std::vector<Tensor> rows = split(embed(tensor(words)), words.size());
    const Tensor nothing = zeros({1, hidden});
    std::vector<nn::LSTMState> stack;
    nn::LSTMState track = tracker.initial_state(1);
    std::vector<Tensor> scores;
    std::vector<int> steps;
    const auto from_top = [&](std::size_t i) {
      return i < stack.size() ? stack.end()[-1 - static_cast<std::ptrdiff_t>(i)].h : nothing;
    };
    for (std::size_t next = 0; next < words.size() || stack.size() > 1;) {
      const Tensor coming = next < words.size() ? rows[next](all, range(0, hidden)) : nothing;
      track = tracker(concat({coming, from_top(0), from_top(1)}, 1), track);
      scores.push_back(choose(track.h));
      bool reduces = stack.size() > 1;
      if (!given.empty())
        reduces = given[steps.size()] == 1;
      else if (reduces && next < words.size())
        reduces = bool(scores.back()(0, 1) > scores.back()(0, 0));
      steps.push_back(reduces);
      if (reduces) {
        const nn::LSTMState right = stack.back(), left = stack.end()[-2];
        stack.resize(stack.size() - 2);
        stack.push_back(reduce(left, right, track.h));
      } else {
        stack.push_back({rows[next](all, range(0, hidden)), rows[next](all, range(hidden, {}))});
        ++next;
      }
    }
    return {stack[0].h, concat(scores), steps};
  }
  /// Of each expression, with the steps of its tree or with its own.
  std::vector<Reading> read(std::span<const Expression> all, bool with_steps) const {
    const auto one = [&](const Expression& e) {
      return read(e.words, with_steps ? steps_of(e) : std::vector<int>());
    };
    if (together) return batched(all, one);
    std::vector<Reading> readings;
    for (const Expression& e : all) readings.push_back(one(e));
    return readings;
  }
};

/// Prints the share of right values and of right trees, where the network finds the trees itself.
void evaluate(const Spinn& model, std::span<const Expression> test) {
  TrainScope evaluating(false);
  int right = 0, trees = 0;
  for (std::size_t first = 0; first < test.size(); first += 100) {
    const auto some = test.subspan(first, std::min<std::size_t>(100, test.size() - first));
    const std::vector<Reading> readings = model.read(some, false);
    for (std::size_t i = 0; i < some.size(); ++i) {
      right += argmax(model.head(readings[i].root)(0)).item<std::int64_t>() == some[i].value;
      trees += readings[i].steps == steps_of(some[i]);
    }
  }
  fmt::print("held out: {:.1f} % of {} values right, {:.1f} % of the trees\n",
             100.0 * right / static_cast<double>(test.size()), test.size(),
             100.0 * trees / static_cast<double>(test.size()));
}

void train(const Spinn& model, std::span<const Expression> data, const Options& options) {
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  const auto total = options.epochs * std::ssize(data);
  optim::Schedule schedule(
      adam, optim::cosine_decay(total / static_cast<std::int64_t>(options.batch) + 1));
  bench::Progress progress("trees", total);
  double loss = 3;
  for (std::int64_t done = 0; done < total; done += static_cast<std::int64_t>(options.batch)) {
    GradientTape tape;
    std::vector<Tensor> roots, scores, steps;
    std::vector<std::int64_t> values;
    const auto first = static_cast<std::size_t>(done) % data.size();
    const auto some = data.subspan(first, std::min(options.batch, data.size() - first));
    for (const Reading& reading : model.read(some, true)) {
      roots.push_back(reading.root), scores.push_back(reading.scores);
      steps.push_back(tensor(reading.steps));
    }
    for (const Expression& e : some) values.push_back(e.value);
    const Tensor cost = cross_entropy(model.head(concat(roots)), tensor(values)) +
                        cross_entropy(concat(scores), concat(steps));
    const auto slopes = tape.gradient(cost, parameters(model), Unconnected::zero);
    adam.step(optim::clip_by_global_norm(slopes, 1));
    schedule.step();
    loss += 0.01 * (cost.item<float>() - loss);
    progress.show(done, fmt::format("loss {:.3f}", loss));
  }
  progress.end_line();
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("SPINN learns ListOps, and to find the trees of its expressions.", options);
  line.add("--trees", options.trees, "expressions drawn for training")
      ->check(CLI::Range(9, 10000000));
  line.add("--epochs", options.epochs, "passes over them")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of a state")->check(CLI::PositiveNumber);
  line.add("--batched", options.batched,
           "the ops of all expressions of a step together (1) or not (0)");
  return line.run(argc, argv, [&] {
    listops::Split data = listops::draw_split(options.trees, options.seed, "");
    for (auto* part : {&data.train, &data.test})
      std::erase_if(*part, [&](auto& e) { return e.words.size() > options.longest; });
    const Spinn model(options);
    fmt::print("{} expressions to train on, {} held out\n{}", data.train.size(), data.test.size(),
               summary(model));
    train(model, data.train, options);
    evaluate(model, data.test);
  });
}
