// SPDX-License-Identifier: BSD-3-Clause
// A multilayer perceptron, or a convolutional network, learns to name pictures of clothes
// (Fashion-MNIST): minibatches, Adam with a cosine schedule, dropout, a confusion matrix.
#include <reel/reel.hpp>

#include "fashion.hpp"

using namespace reel;

struct Options : fashion::Options {
  std::int64_t hidden = 256;
  std::string model = "mlp";
  Options() : fashion::Options(10, 1e-3) {}
};

/// Scores of the ten kinds for bytes [batch, 784]: [batch, 10].
nn::Sequential network(const std::string& name, std::int64_t hidden) {
  const auto relu = Activation::relu;
  if (name == "mlp")
    return {[](const Tensor& x) { return x / 255.0; },
            nn::Linear(784, hidden, relu),
            nn::Dropout{0.2},
            nn::Linear(hidden, hidden, relu),
            nn::Dropout{0.2},
            nn::Linear(hidden, fashion::names.size())};
  return {[](const Tensor& x) {
            return reshape(x / 255.0, {-1, 28, 28, 1});
          },
          nn::Conv2d(1, 16, 3, {.padding = same, .activation = relu}),
          nn::MaxPool2d{2},
          nn::Conv2d(16, 32, 3, {.padding = same, .activation = relu}),
          nn::MaxPool2d{2},
          nn::Flatten(),
          nn::Dropout{0.3},
          nn::Linear(7 * 7 * 32, hidden, relu),
          nn::Dropout{0.3},
          nn::Linear(hidden, fashion::names.size())};
}

void evaluate(const nn::Sequential& model, const fashion::Set& test) {
  TrainScope evaluating(false);
  std::vector<Tensor> parts;
  for (const fashion::Set& some : data::rows(test).batch(1000))
    parts.push_back(argmax(model(some.images), 1));
  const Tensor answers = concat(parts);
  const Tensor counts = metrics::confusion_matrix(answers, test.labels, fashion::names.size());
  const plot::ConfusionOptions kinds{.classes = {fashion::names.begin(), fashion::names.end()}};
  fmt::print("\n{}held out: {:.2f} % of {} right\n",
             plot::confusion(counts, kinds).to_text({.width = 120}),
             100 * mean(answers == test.labels).item<float>(), answers.size());
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A perceptron or a convolutional network learns Fashion-MNIST.", options);
  line.add("--model", options.model, "mlp or cnn")->check(CLI::IsMember({"mlp", "cnn"}));
  line.add("--hidden", options.hidden, "width of the hidden layers")->check(CLI::PositiveNumber);
  options.add_to(line);
  return line.run(argc, argv, [&] {
    const fashion::Set test = fashion::test(options.data);
    auto train = data::rows(fashion::train(options.data))
                     .shuffle({.seed = options.seed})
                     .batch(options.batch, {.drop_rest = true})
                     .prefetch({.device = device_named(options.device)});
    const nn::Sequential model = network(options.model, options.hidden);
    fmt::print("{}", summary(model));
    optim::Adam adam(parameters(model), {.learning_rate = options.rate});
    optim::Schedule schedule(adam, optim::cosine_decay(options.epochs * train.size()));
    const auto loss = [](const nn::Sequential& m, const fashion::Set& batch) {
      return cross_entropy(m(batch.images), batch.labels);
    };
    fit(model, adam, train, loss,
        {.epochs = options.epochs, .schedule = &schedule, .progress = true});
    evaluate(model, test);
  });
}
