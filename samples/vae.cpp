// SPDX-License-Identifier: BSD-3-Clause
// A variational autoencoder (Kingma and Welling 2014) learns to draw clothes (Fashion-MNIST): an
// encoder gives a normal distribution of codes for a picture, a decoder draws a picture from a
// code.
#include <reel/reel.hpp>

#include "fashion.hpp"
#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  std::int64_t epochs = 5, batch = 100, hidden = 256, code = 16;
  double rate = 2e-3;
  std::string data = fashion::debian_folder;
};

/// The two parts of minus ELBO, in nats: the mean over pictures.
struct Cost {
  Tensor reconstruction, divergence;
  Tensor total() const { return reconstruction + divergence; }
};

struct Autoencoder {
  nn::Linear read, encode, draw, pixels;
  Autoencoder(std::int64_t hidden, std::int64_t code)
      : read(784, hidden, Activation::relu),
        encode(hidden, 2 * code),
        draw(code, hidden, Activation::relu),
        pixels(hidden, 784) {}
  REEL_FIELDS(read, encode, draw, pixels)

  /// Scores of white for each pixel: [batch, 784].
  Tensor decode(const Tensor& code) const { return pixels(draw(code)); }

  /// x [batch, 784] is 0 or 1.
  Cost operator()(const Tensor& x) const {
    const std::vector<Tensor> parts = split(encode(read(x)), 2, 1);
    const Tensor &mean_code = parts[0], &log_variance = parts[1];
    // Noise enters as a number: gradients flow through mean and variance (reparameterisation).
    const Tensor code = mean_code + exp(log_variance / 2) * random::normal(mean_code.shape());
    const Tensor divergence =
        0.5 * (square(mean_code) + exp(log_variance) - log_variance - 1);  // from a standard normal
    const Tensor surprise = binary_cross_entropy_with_logits(decode(code), x, Reduction::none);
    return {mean(sum(surprise, 1)), mean(sum(divergence, 1))};
  }
};

/// Black and white: [count, 784], 0 or 1.
Tensor binary(const Tensor& images) { return (images > 100).to(DType::float32); }

double evaluate(const Autoencoder& model, const Tensor& test) {
  const Cost cost = model(binary(test));
  const auto divergence = cost.divergence.item<float>(), total = cost.total().item<float>();
  fmt::print("held out: ELBO {:.1f} nats a picture, of which the codes take {:.1f}\n", -total,
             divergence);
  return -total;
}

/// The mean log likelihood of pictures, if each pixel had its own probability of white and depended
/// on no other one: what a model reaches that knows no codes.
double independent_pixels(const Tensor& train, const Tensor& test) {
  const Tensor probability = clip(mean(binary(train), 0), 1e-4, 1 - 1e-4);
  const Tensor x = binary(test);
  const Tensor each = x * log(probability) + (1 - x) * log(1 - probability);
  return mean(sum(each, 1)).item<float>();
}

void train(Autoencoder& model, const fashion::Set& data, const Tensor& test,
           const Options& options) {
  auto train = data::rows(data.images)
                   .shuffle({.seed = options.seed})
                   .batch(options.batch, {.drop_rest = true})
                   .prefetch({.device = device_named(options.device)});
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.epochs * train.size(), 0.05));
  const auto loss = [](const Autoencoder& m, const Tensor& images) {
    return m(binary(images)).total();
  };
  fit(model, adam, train, loss,
      {.epochs = options.epochs,
       .schedule = &schedule,
       .progress = true,
       .after_epoch = [&](FitEpoch&) { evaluate(model, test); }});
}

/// Pictures side by side as letters, two rows of pixels a line.
void show(const Tensor& pictures) {
  const auto levels = (pictures * 4.99).to(DType::int64).reshape({-1, 28, 28});
  for (int row = 0; row < 28; row += 2) {
    std::string line;
    for (int i = 0; i < levels.shape(0); ++i)
      for (const std::int64_t level : levels(i, row).values<std::int64_t>()) line += " .:o#"[level];
    fmt::print("{}\n", line);
  }
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A variational autoencoder learns Fashion-MNIST.", options);
  line.add("--data", options.data, "folder of the four files of Fashion-MNIST");
  line.add("--epochs", options.epochs, "passes over the pictures")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "pictures a step")->check(CLI::Range(1, 60000));
  line.add("--hidden", options.hidden, "width of the hidden layers")->check(CLI::PositiveNumber);
  line.add("--code", options.code, "numbers in a code")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  return line.run(argc, argv, [&] {
    const fashion::Set data = fashion::train(options.data), test = fashion::test(options.data);
    Autoencoder model(options.hidden, options.code);
    fmt::print("{}", summary(model));
    train(model, data, test.images, options);
    fmt::print("without codes, each pixel by itself: {:.1f} nats a picture\n\ndrawn from noise:\n",
               independent_pixels(data.images, test.images));
    show(sigmoid(model.decode(random::normal({4, options.code}))));
  });
}
