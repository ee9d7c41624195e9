// SPDX-License-Identifier: BSD-3-Clause
// A transformer learns to write: it reads a text character by character and guesses the next one.
// Then it writes with a cache of keys and values. The text is the King James Bible of Debian's
// package bible-kjv, or any file.
#include <reel/reel.hpp>

#include <cmath>
#include <numbers>

#include "letters.hpp"
#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int steps = 500, width = 128, heads = 4, layers = 3, batch = 8, length = 256, sample = 250;
  double rate = 2e-3, temperature = 0.7;
  std::string text;
};

struct Writer {
  nn::Embedding embed;
  std::vector<nn::TransformerEncoderLayer> layers;
  nn::LayerNorm norm;
  nn::Linear head;
  Writer(std::size_t letters, const Options& options)
      : embed(letters, options.width), norm(options.width), head(options.width, letters) {
    for (int i = 0; i < options.layers; ++i)
      layers.emplace_back(options.width, options.heads,
                          nn::TransformerOptions{.activation = gelu, .rotary_base = 10000});
  }
  REEL_FIELDS(embed, layers, norm, head)

  /// The mean loss of guessing letters[:, 1:], in bits a character.
  Tensor bits(const Tensor& letters) const {
    Tensor x = embed(letters(all, range(0, -1)));
    for (const auto& layer : layers) x = layer(x, {.causal = true});
    const Tensor scores = head(norm(x));
    return nn::cross_entropy(reshape(scores, {-1, scores.shape(-1)}),
                             reshape(letters(all, range(1, {})), {-1})) /
           std::numbers::ln2;
  }

  /// Letters drawn one after another. The caches hold the keys and values of earlier letters. The
  /// model has not learned from positions behind options.length.
  std::string write(const std::string& alphabet, const Options& options) const {
    std::string written;
    std::vector<nn::KeyValueCache> caches;
    for (const auto& layer : layers) caches.push_back(layer.attention.cache(1, options.sample));
    Tensor letter = tensor({{static_cast<std::int32_t>(alphabet.find('\n'))}});
    for (int i = 0; i < std::min(options.sample, options.length); ++i) {
      Tensor x = embed(letter);
      for (std::size_t k = 0; k < layers.size(); ++k) x = layers[k](x, caches[k]);
      letter = random::categorical(head(norm(x)) / options.temperature);
      written += alphabet[static_cast<std::size_t>(letter.item<std::int64_t>())];
    }
    return written;
  }
};

double evaluate(const Writer& model, const Tensor& test, const Options& options) {
  TrainScope evaluating(false);
  const std::int64_t length = options.length + 1;
  const std::int64_t batch = std::min<std::int64_t>(test.size() / length, 256);
  return model.bits(test(range(0, batch * length)).reshape({batch, length})).item<float>();
}

void train(Writer& model, const letters::Text& data, const Options& options) {
  optim::AdamW adam(parameters(model), {.learning_rate = options.rate, .weight_decay = 0.01});
  auto step = trace([&](Tensor letters) {
    GradientTape tape;
    const Tensor loss = model.bits(letters);
    adam.step(optim::clip_by_global_norm(tape.gradient(loss, parameters(model)), 1));
    return loss;
  });
  const std::int64_t characters = std::int64_t{options.batch} * options.length;
  bench::Progress progress("characters", options.steps * characters);
  const Tensor reach = arange(0, options.length + 1);
  for (int i = 1; i <= options.steps; ++i) {
    // It rises in the first twentieth, and falls as half a cosine.
    const double share = static_cast<double>(i) / options.steps;
    adam.learning_rate().assign(options.rate * std::min(1.0, 20 * share) *
                                (0.52 + 0.48 * std::cos(std::numbers::pi * share)));
    const Tensor places =
        random::integers(0, data.train.size() - options.length, {options.batch, 1});
    const Tensor loss = step(take(data.train, places + reach));
    progress.show(i * characters, fmt::format("{:.3f} bits a character", loss.item<float>()));
  }
  progress.end_line();
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A transformer learns to write.", options);
  line.add("--text", options.text, "a text to learn from (default: the King James Bible)");
  line.add("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--width", options.width, "width of the layers")->check(CLI::PositiveNumber);
  line.add("--heads", options.heads, "heads, which divide the width")->check(CLI::PositiveNumber);
  line.add("--layers", options.layers, "layers")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "pieces of text a step")->check(CLI::PositiveNumber);
  line.add("--length", options.length, "characters of a piece")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "AdamW's highest learning rate");
  line.add("--sample", options.sample, "characters to write at the end, at most --length");
  line.add("--temperature", options.temperature, "below 1 cautious")->check(CLI::PositiveNumber);
  return line.run(argc, argv, [&] {
    const letters::Text data(options.text);
    if (std::min(data.train.size(), data.test.size()) <= options.length)
      throw std::runtime_error("the text is too short for --length");
    Writer model(data.alphabet.size(), options);
    fmt::print("{} characters, {} different\n{}", data.train.size(), data.alphabet.size(),
               summary(model));
    train(model, data, options);
    fmt::print("held out: {:.3f} bits a character\n{}\n", evaluate(model, data.test, options),
               model.write(data.alphabet, options));
  });
}
