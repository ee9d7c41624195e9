// SPDX-License-Identifier: BSD-3-Clause
// Random search (Bergstra and Bengio 2012) with successive halving (Jamieson and Talwalkar 2016):
// many models train for a short time, the better half goes on for twice as long, and so on.
// TensorBoard shows all runs and their settings: tensorboard --logdir runs
#include <reel/reel.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  std::int64_t models = 16, steps = 60;
  std::string folder = "runs";
};

struct Example {
  Tensor points, arms;
  REEL_FIELDS(points, arms)
};
/// Points of three spiral arms, with noise.
Example spirals(std::int64_t count) {
  const Tensor arms = random::integers(0, 3, {count});
  const Tensor radius = random::uniform({count}, {.low = 0.1, .high = 1});
  const Tensor angle = 4 * radius + arms.to(float32) * (2 * std::numbers::pi / 3) +
                       random::normal({count}, {.stddev = 0.15});
  return {stack({radius * cos(angle), radius * sin(angle)}, 1), arms};
}

struct Model {
  nn::Linear first, second, head;
  nn::Dropout dropout;
  Model(std::int64_t hidden, double rate)
      : first(2, hidden, Activation::tanh),
        second(hidden, hidden, Activation::tanh),
        head(hidden, 3),
        dropout(rate) {}
  Tensor operator()(const Tensor& x) const { return head(dropout(second(first(x)))); }
  REEL_FIELDS(first, second, head, dropout)
};

/// A model with its settings, which can train again and again.
struct Candidate {
  int number;
  double rate, dropout, loss = 0;
  std::int64_t hidden, steps = 0;
  Model model;
  optim::Adam adam;
  SummaryWriter board;
  data::Pipeline<Example> train;

  Candidate(int i, const Example& examples, const Options& options)
      : number(i),
        rate(std::pow(10, uniform(-4, -1))),
        dropout(uniform(0, 0.5)),
        hidden(static_cast<std::int64_t>(std::pow(2, uniform(2, 7)))),
        model(hidden, dropout),
        adam(parameters(model), {.learning_rate = rate}),
        board(fmt::format("{}/{:02}", options.folder, i)),
        train(data::rows(examples).shuffle({.seed = options.seed}).batch(50).repeat()) {
    board.hparams({{"rate", rate}, {"dropout", dropout}, {"hidden", hidden}}, {"validation/loss"});
  }
  static double uniform(double low, double high) {
    return random::uniform({}, {.low = low, .high = high}).item<float>();
  }
  void train_for(std::int64_t more, std::vector<Example>& valid) {
    const auto score = [](const Model& m, const Example& e) {
      return cross_entropy(m(e.points), e.arms);
    };
    loss =
        fit(model, adam, train, score, {.steps = more, .validate = valid}).epochs.back().validation;
    if (std::isnan(loss)) loss = INFINITY;
    board.scalar("validation/loss", loss, steps += more);
  }
};

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Searches for a learning rate, a width and a dropout rate.", options);
  line.add("--models", options.models, "settings that are drawn")->check(CLI::Range(1, 1000));
  line.add("--steps", options.steps, "steps of the first round")->check(CLI::PositiveNumber);
  line.add("--folder", options.folder, "of the event files");
  return line.run(argc, argv, [&] {
    const Example examples = spirals(1000);
    std::vector<Example> valid = {spirals(500)};
    std::vector<std::unique_ptr<Candidate>> left;
    for (int i = 0; i < options.models; ++i)
      left.push_back(std::make_unique<Candidate>(i, examples, options));
    for (std::int64_t steps = options.steps;; steps *= 2) {
      for (const auto& candidate : left) candidate->train_for(steps, valid);
      std::sort(left.begin(), left.end(),
                [](const auto& a, const auto& b) { return a->loss < b->loss; });
      const Candidate& best = *left.front();
      fmt::print(
          "{:3} models, {:5} steps: the best is {:02} with loss {:.4f}: "
          "rate {:.2g}, hidden {}, dropout {:.2f}\n",
          left.size(), best.steps, best.number, best.loss, best.rate, best.hidden, best.dropout);
      if (left.size() == 1) break;
      left.resize((left.size() + 1) / 2);
    }
  });
}
