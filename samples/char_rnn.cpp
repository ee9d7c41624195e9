// SPDX-License-Identifier: BSD-3-Clause
// An LSTM learns to write: it reads a text character by character, in a plain loop, and guesses the
// next one. The text is the King James Bible of Debian's package bible-kjv, or any file. Under
// `mpirun -n 2` two processes share each batch.
#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include <numbers>

#include "letters.hpp"
#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int steps = 500, hidden = 256, batch = 32, length = 64, sample = 400;
  double rate = 4e-3, temperature = 0.7;
  std::string text;
};

struct Writer {
  nn::Embedding embed;
  nn::LSTMCell cell;
  nn::Linear head;
  Writer(std::size_t letters, int hidden)
      : embed(letters, hidden), cell(hidden, hidden), head(hidden, letters) {}
  REEL_FIELDS(embed, cell, head)

  /// The mean loss of guessing letters[:, 1:], in bits a character; `state` moves on.
  Tensor bits(const Tensor& letters, nn::LSTMState& state) const {
    std::vector<Tensor> outputs;
    const auto length = letters.shape(1) - 1;
    for (std::int64_t t = 0; t < length; ++t) {
      state = cell(embed(letters(all, t)), state);
      outputs.push_back(state.h);
    }
    const Tensor next = transpose(letters(all, range(1, {}))).reshape({-1});
    return nn::cross_entropy(head(concat(outputs)), next) / std::numbers::ln2;
  }

  /// Letters drawn one after another.
  std::string write(const std::string& alphabet, const Options& options) const {
    std::string written;
    nn::LSTMState state = cell.initial_state(1);
    Tensor letter = tensor({static_cast<std::int32_t>(alphabet.find('\n'))});
    for (int i = 0; i < options.sample; ++i) {
      state = cell(embed(letter), state);
      letter = random::categorical(head(state.h) / options.temperature);
      written += alphabet[static_cast<std::size_t>(letter.item<std::int64_t>())];
    }
    return written;
  }
};

double evaluate(const Writer& model, const Tensor& test, const Options& options) {
  TrainScope evaluating(false);
  const Tensor text = letters::rows(test, options.batch);
  const auto length = std::min<std::int64_t>(text.shape(1), 1000);
  nn::LSTMState state = model.cell.initial_state(options.batch);
  return model.bits(text(all, range(0, length)), state).item<float>();
}

void train(Writer& model, const letters::Text& data, const Options& options,
           const dist::World& world) {
  const auto first_row = [&](std::int64_t rank) { return options.batch * rank / world.size(); };
  const Tensor text = letters::rows(
      data.train, options.batch)(range(first_row(world.rank()), first_row(world.rank() + 1)));
  const std::int64_t length = options.length;
  auto windows =
      data::range((text.shape(1) - 1) / length)
          .map([=](std::int64_t i) { return text(all, range(i * length, (i + 1) * length + 1)); })
          .repeat();
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::cosine_decay(options.steps, 0.04));
  dist::DataParallel replicas(world, adam, {.clip_norm = 1});
  nn::LSTMState state = model.cell.initial_state(text.shape(0));
  const auto loss = [&state](const Writer& m, const Tensor& window) {
    return m.bits(window, state);
  };
  fit(model, replicas, windows, loss,
      {.steps = options.steps, .schedule = &schedule, .progress = true});
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("An LSTM learns to write.", options);
  line.add("--text", options.text, "a text to learn from (default: the King James Bible)");
  line.add("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of the state")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "places of the text read side by side")
      ->check(CLI::PositiveNumber);
  line.add("--length", options.length, "characters a step")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  line.add("--sample", options.sample, "characters to write at the end");
  line.add("--temperature", options.temperature, "below 1 cautious")->check(CLI::PositiveNumber);
  return line.run(argc, argv, [&] {
    const dist::World world;
    const letters::Text data(options.text);
    Writer model(data.alphabet.size(), options.hidden);
    if (options.batch < world.size()) throw std::invalid_argument("--batch: a row for each rank");
    if (world.rank() == 0)
      fmt::print("{} characters, {} different\n{}", data.train.size(), data.alphabet.size(),
                 summary(model));
    train(model, data, options, world);
    if (world.rank() > 0) return;
    fmt::print("held out: {:.3f} bits a character\n{}\n", evaluate(model, data.test, options),
               model.write(data.alphabet, options));
  });
}
