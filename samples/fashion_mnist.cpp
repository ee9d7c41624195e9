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

struct Perceptron {
  nn::Linear first, second, head;
  nn::Dropout dropout{0.2};
  explicit Perceptron(std::int64_t hidden)
      : first(784, hidden, Activation::relu),
        second(hidden, hidden, Activation::relu),
        head(hidden, fashion::names.size()) {}
  /// Scores of the ten kinds for bytes [batch, 784]: [batch, 10].
  Tensor operator()(const Tensor& images) const {
    return head(dropout(second(dropout(first(images / 255.0)))));
  }
  REEL_FIELDS(first, second, head, dropout)
};

struct Convolutions {
  nn::Conv2d first{1, 16, 3, {.padding = same, .activation = Activation::relu}};
  nn::Conv2d second{16, 32, 3, {.padding = same, .activation = Activation::relu}};
  nn::Linear third, head;
  nn::Dropout dropout{0.3};
  explicit Convolutions(std::int64_t hidden)
      : third(7 * 7 * 32, hidden, Activation::relu), head(hidden, fashion::names.size()) {}
  Tensor operator()(const Tensor& images) const {
    const Tensor x = reshape(images / 255.0, {-1, 28, 28, 1});
    const Tensor y = max_pool2d(second(max_pool2d(first(x), 2)), 2);
    return head(dropout(third(dropout(reshape(y, {y.shape(0), -1})))));
  }
  REEL_FIELDS(first, second, third, head, dropout)
};

template <class Model>
void evaluate(const Model& model, const fashion::Set& test) {
  TrainScope evaluating(false);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < test.images.shape(0); first += 1000)
    parts.push_back(argmax(model(test.images(range(first, first + 1000))), 1));
  const Tensor answers = concat(parts);
  const auto kinds = static_cast<std::int64_t>(fashion::names.size());
  const Tensor table = metrics::confusion_matrix(answers, test.labels, kinds);
  fmt::print("\na row is what a picture shows, a column what the model says\n{:9}", "");
  for (const char* name : fashion::names) fmt::print("{:>9}", name);
  for (std::int64_t i = 0; i < kinds; ++i) {
    fmt::print("\n{:9}", fashion::names[static_cast<std::size_t>(i)]);
    for (const std::int64_t count : table(i).values<std::int64_t>()) fmt::print("{:9}", count);
  }
  const Tensor right = mean(answers == test.labels);
  fmt::print("\nheld out: {:.2f} % of {} right\n", 100 * right.item<float>(), answers.size());
}

template <class Model>
void run(const Options& options) {
  const fashion::Set test = fashion::test(options.data);
  auto train = data::rows(fashion::train(options.data))
                   .shuffle({.seed = options.seed})
                   .batch(options.batch, {.drop_rest = true})
                   .prefetch({.device = device_named(options.device)});
  Model model(options.hidden);
  fmt::print("{}", summary(model));
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.epochs * train.size()));
  const auto loss = [](const Model& m, const fashion::Set& batch) {
    return cross_entropy(m(batch.images), batch.labels);
  };
  fit(model, adam, train, loss,
      {.epochs = options.epochs, .schedule = &schedule, .progress = true});
  evaluate(model, test);
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A perceptron or a convolutional network learns Fashion-MNIST.", options);
  line.add("--model", options.model, "mlp or cnn")->check(CLI::IsMember({"mlp", "cnn"}));
  line.add("--hidden", options.hidden, "width of the hidden layers")->check(CLI::PositiveNumber);
  options.add_to(line);
  return line.run(argc, argv, [&] {
    options.model == "cnn" ? run<Convolutions>(options) : run<Perceptron>(options);
  });
}
