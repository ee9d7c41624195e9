// SPDX-License-Identifier: BSD-3-Clause
// A transformer with an encoder and a decoder (Vaswani et al. 2017) learns to translate dates as
// people write them, such as "Thursday, march 5th, 1987", to "1987-03-05". A beam search writes.
#include <reel/reel.hpp>

#include <array>
#include <string>
#include <vector>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  std::int64_t steps = 600, batch = 64, width = 64, heads = 4, layers = 2, beams = 4;
  double rate = 2e-3;
};

/// A symbol is a letter, or the end of a text, which also fills it up, or its beginning.
constexpr std::string_view letters = "-., /0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::int64_t end = 0, begin = 1, first_letter = 2;
constexpr std::int64_t symbols = first_letter + static_cast<std::int64_t>(letters.size());

Tensor encoded(const std::string& text) {
  std::vector<std::int64_t> symbols_of;
  for (const char c : text)
    symbols_of.push_back(first_letter + static_cast<std::int64_t>(letters.find(c)));
  return tensor(symbols_of);
}
std::string decoded(const Tensor& tokens) {
  std::string text;
  for (const std::int64_t token : tokens.values<std::int64_t>())
    if (token >= first_letter) text += letters[static_cast<std::size_t>(token - first_letter)];
  return text;
}

struct Pair {
  std::string words, date;
};
/// A date by this generator.
Pair draw_date(Generator& random) {
  static constexpr std::array months = {"january",   "february", "march",    "april",
                                        "may",       "june",     "july",     "august",
                                        "september", "october",  "november", "december"};
  const GeneratorScope scope(random);
  const auto below = [](int n) {
    return static_cast<int>(random::integers(0, n, {}).item<std::int64_t>());
  };
  const int year = 1950 + below(100), month = below(12), day = 1 + below(28);
  const std::string name = months[static_cast<std::size_t>(month)];
  const char* const th = day % 10 == 1 && day != 11   ? "st"
                         : day % 10 == 2 && day != 12 ? "nd"
                         : day % 10 == 3 && day != 13 ? "rd"
                                                      : "th";
  std::string words;
  switch (below(5)) {
    case 0:
      words = fmt::format("{} {}, {}", name, day, year);
      break;
    case 1:
      words = fmt::format("{} {}{}, {}", name, day, th, year);
      break;
    case 2:
      words = fmt::format("{} {} {}", day, name.substr(0, 3), year);
      break;
    case 3:
      words = fmt::format("{}/{}/{:02}", month + 1, day, year % 100);
      break;
    default:
      words = fmt::format("the {}{} of {} {}", day, th, name, year);
      break;
  }
  // Two digits stand for the years from 1950 to 2049, like all others.
  return {words, fmt::format("{}-{:02}-{:02}", year, month + 1, day)};
}

struct Example {
  Tensor words, date;
  REEL_FIELDS(words, date)
};
using Batch = data::Padded<Example>;

struct Translator {
  nn::Embedding embed;
  std::vector<nn::TransformerEncoderLayer> encoder;
  std::vector<nn::TransformerDecoderLayer> decoder;
  nn::LayerNorm norm;
  nn::Linear head;
  explicit Translator(const Options& o)
      : embed(symbols, o.width), norm(o.width), head(o.width, symbols) {
    for (int i = 0; i < o.layers; ++i) {
      encoder.emplace_back(o.width, o.heads, nn::TransformerOptions{.rotary_base = 10000});
      decoder.emplace_back(o.width, o.heads, nn::TransformerOptions{.rotary_base = 10000});
    }
  }
  REEL_FIELDS(embed, encoder, decoder, norm, head)

  /// What the decoder attends to: [batch, letters, width].
  Tensor read(const Tensor& words, const Tensor& lengths) const {
    Tensor x = embed(words);
    for (const auto& layer : encoder) x = layer(x, {.key_lengths = lengths});
    return x;
  }
  /// Scores of the symbol that follows each of `tokens`: [batch, tokens, symbols].
  Tensor next(const Tensor& tokens, const Tensor& memory, const Tensor& lengths) const {
    Tensor x = embed(tokens);
    for (const auto& layer : decoder)
      x = layer(x, memory, {.causal = true}, {.key_lengths = lengths});
    return head(norm(x));
  }
  Tensor loss(const Batch& batch) const {
    const auto& [words, date] = batch.batch;
    const Tensor start = full({date.shape()[0], 1}, begin, int64);
    const Tensor scores = next(concat({start, date(all, range(0, -1))}, 1),
                               read(words, batch.lengths), batch.lengths);
    return cross_entropy(reshape(scores, {-1, symbols}), reshape(date, {-1}));
  }
  std::string translate(const std::string& words, std::int64_t beams) const {
    const Tensor source = reshape(encoded(words), {1, -1}), length = tensor({source.size()});
    const Tensor memory = read(source, length);
    const auto step = [&](const Tensor& tokens) {
      const std::int64_t rows = tokens.shape()[0];
      const Tensor shared = broadcast_to(memory, {rows, memory.shape()[1], memory.shape()[2]});
      return next(tokens, shared, broadcast_to(length, {rows}))(all, -1);
    };
    return decoded(
        nn::beam_search(step, tensor({{begin}}), {.steps = 11, .beams = beams, .end = end})
            .tokens(0, 0));
  }
};

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A transformer learns to translate dates.", options);
  line.add("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "dates a step")->check(CLI::PositiveNumber);
  line.add("--width", options.width, "width of the layers")->check(CLI::PositiveNumber);
  line.add("--heads", options.heads, "heads of attention")->check(CLI::PositiveNumber);
  line.add("--layers", options.layers, "of the encoder, and of the decoder");
  line.add("--beams", options.beams, "kept by the search")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "AdamW's learning rate at its highest");
  return line.run(argc, argv, [&] {
    auto dates = data::range(1'000'000).map(
        [](std::int64_t, Generator& random) { return draw_date(random); }, {.seed = options.seed});
    auto train = dates.skip(1000)
                     .map([](const Pair& p) {
                       return Example{encoded(p.words), concat({encoded(p.date), tensor({end})})};
                     })
                     .padded_batch(options.batch)
                     .prefetch({.device = device_named(options.device)});
    Translator model(options);
    fmt::print("{}", summary(model));
    optim::AdamW adam(parameters(model), {.learning_rate = options.rate, .weight_decay = 0.01});
    optim::Schedule schedule(adam, optim::warm_up(100, optim::cosine_decay(options.steps, 0.02)));
    const auto loss = [](const Translator& m, const Batch& batch) { return m.loss(batch); };
    fit(model, adam, train, loss,
        {.steps = options.steps, .schedule = &schedule, .clip_norm = 1, .progress = true});

    const TrainScope evaluating(false);
    int right = 0, count = 0;
    for (const Pair& pair : dates.take(200)) {
      const std::string said = model.translate(pair.words, options.beams);
      right += said == pair.date;
      if (count++ < 5) fmt::print("{:32} {}\n", pair.words, said);
    }
    fmt::print("held out: {:.1f} % of {} right\n", 100.0 * right / count, count);
  });
}
