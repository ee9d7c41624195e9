// SPDX-License-Identifier: BSD-3-Clause
// Model-agnostic meta-learning (Finn, Abbeel and Levine 2017): weights from which one step of
// gradient descent on ten points of a new sine wave gives a good fit. The gradient for these
// weights leads through that step: it is a second derivative.
#include <reel/reel.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  std::int64_t steps = 20000, tasks = 25, points = 10, hidden = 40;
  double rate = 2e-3, inner_rate = 0.01;
};

/// Sine waves of different height and phase, and the places where each is seen: [tasks, points, 1].
struct Waves {
  Tensor height, phase;
  explicit Waves(std::int64_t tasks)
      : height(random::uniform({tasks, 1, 1}, {.low = 0.1, .high = 5})),
        phase(random::uniform({tasks, 1, 1}, {.low = 0, .high = std::numbers::pi})) {}
  Tensor draw(std::int64_t points) const {
    return random::uniform({height.shape(0), points, 1}, {.low = -5, .high = 5});
  }
  Tensor operator()(const Tensor& x) const { return height * sin(x - phase); }
};

/// Matrix, bias, matrix, bias, ...: of one network, or with a first axis of a network for each
/// task.
using Weights = std::vector<Tensor>;

Tensor network(const Weights& weights, Tensor x) {
  for (std::size_t i = 0; i < weights.size(); i += 2) {
    if (i > 0) x = relu(x);
    x = matmul(x, weights[i]) + weights[i + 1];
  }
  return x;
}

Tensor loss(const Weights& weights, const Tensor& x, const Tensor& y) {
  return mean(square(network(weights, x) - y), {1, 2});  // [tasks]
}

/// The weights of each task after a step down its own loss.
Weights adapt(const Weights& shared, const Tensor& x, const Tensor& y, double rate) {
  GradientTape tape;
  Weights own;
  for (const Tensor& w : shared) {
    own.push_back(broadcast_to(w, {x.shape(0), w.shape(0), w.shape(1)}));
    tape.watch(own.back());
  }
  const std::vector<Tensor> slopes = tape.gradient(loss(own, x, y), own);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] -= rate * slopes[i];
  return own;
}

struct Learner {
  std::vector<Variable> variables;
  explicit Learner(std::int64_t hidden) {
    const std::int64_t widths[] = {1, hidden, hidden, 1};
    for (int i = 0; i < 3; ++i) {
      variables.emplace_back("weight", nn::he_normal({widths[i], widths[i + 1]}));
      variables.emplace_back("bias", zeros({1, widths[i + 1]}));
    }
  }
  Weights weights() const { return {variables.begin(), variables.end()}; }
  REEL_FIELDS(variables)
};

void train(Learner& learner, bool meta, const Options& options) {
  optim::Adam adam(parameters(learner), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.steps, 0.05));
  bench::Progress progress("steps", options.steps);
  double average = 3;
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    const Waves waves(options.tasks);
    const Tensor seen = waves.draw(options.points), x = waves.draw(options.points);
    GradientTape tape;  // outside of the one in adapt(), and so it records that gradient
    Weights weights = learner.weights();
    if (meta) weights = adapt(weights, seen, waves(seen), options.inner_rate);
    const Tensor cost = mean(loss(weights, x, waves(x)));
    adam.step(tape.gradient(cost, parameters(learner)));
    schedule.step();
    average += 0.01 * (cost.item<float>() - average);
    progress.show(step, fmt::format("{}: loss {:.3f}", meta ? "MAML" : "plain", average));
  }
  progress.end_line();
}

/// The mean loss on new waves after a step on some points of each.
double evaluate(const Learner& learner, const Options& options, double inner_rate) {
  GeneratorScope same_waves_for_all{Generator(options.seed + 1)};
  const Waves waves(1000);
  const Tensor seen = waves.draw(options.points), x = waves.draw(100);
  const Weights weights = adapt(learner.weights(), seen, waves(seen), inner_rate);
  return mean(loss(weights, x, waves(x))).item<float>();
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A network learns to learn sine waves from ten points.", options);
  line.add("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--tasks", options.tasks, "waves a step")->check(CLI::PositiveNumber);
  line.add("--points", options.points, "seen of each wave")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of the network")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  line.add("--inner-rate", options.inner_rate, "of the step on a wave");
  return line.run(argc, argv, [&] {
    Learner plain(options.hidden), maml(options.hidden);
    train(plain, false, options);
    train(maml, true, options);
    fmt::print(
        "mean squared error on 1000 new waves\n                       MAML   plain training\n");
    fmt::print("before the step     {:7.3f}          {:7.3f}\n", evaluate(maml, options, 0),
               evaluate(plain, options, 0));
    double best = INFINITY;  // plain training has no inner rate: the best one counts
    for (double rate = 1e-4; rate < 1; rate *= 2)
      best = std::min(best, evaluate(plain, options, rate));
    fmt::print("after one step      {:7.3f}          {:7.3f}\n",
               evaluate(maml, options, options.inner_rate), best);
  });
}
