// SPDX-License-Identifier: BSD-3-Clause
// A bidirectional LSTM with a conditional random field on top (Huang, Xu and Yu 2015) tags words,
// beside the same LSTM that chooses each tag by itself. The sentences come from a hidden Markov
// chain, so that the learned transitions can be compared with the true ones. With --lattice it
// reads lattices of words instead: text without spaces, and all ways to cut it into words.
#include <reel/reel.hpp>

#include <algorithm>
#include <random>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int sentences = 1000, batch = 20, epochs = 10, hidden = 32;
  double rate = 5e-3;
  bool lattice = false;
};

constexpr int tags = 6, words = 48;

/// A tag is followed by the next one, or now and then by itself; by others never.
int tag_after(int tag, std::mt19937_64& random) { return (tag + (random() % 5 > 0)) % tags; }

/// Sentences as columns: words and tags are [time, sentences]. `runs` is true where there is a
/// word.
struct Batch {
  Tensor words, tags, lengths, runs;
};

/// Sentences of 5 to 25 words. Half of the words fit their tag, the others may be any.
Batch draw(int count, std::mt19937_64& random) {
  std::vector<Tensor> sentences, answers;
  for (int i = 0; i < count; ++i) {
    std::vector<int> sentence, answer;
    auto tag = static_cast<int>(random() % tags);
    for (auto left = 5 + random() % 21; left > 0; --left) {
      const auto word = static_cast<int>(random() % words);
      sentence.push_back(random() % 2 ? word - word % tags + tag : word);
      answer.push_back(tag);
      tag = tag_after(tag, random);
    }
    sentences.push_back(tensor(sentence));
    answers.push_back(tensor(answer));
  }
  const auto [padded, lengths] = nn::pad_sequences(sentences);
  return {padded, nn::pad_sequences(answers).values, lengths,
          arange(0, padded.shape(0))(all, newaxis) < lengths};
}

/// Chooses each tag by itself.
struct Tagger {
  nn::Embedding embed;
  nn::LSTM lstm;
  nn::Linear head;
  explicit Tagger(int hidden)
      : embed(words, hidden),
        lstm(hidden, hidden, {.bidirectional = true}),
        head(2 * hidden, tags) {}
  REEL_FIELDS(embed, lstm, head)

  /// Of each tag for each word: [time, sentences, tags].
  Tensor scores(const Batch& batch) const {
    return head(lstm(embed(batch.words), {}, batch.lengths).outputs);
  }
  Tensor loss(const Batch& batch) const {
    const Tensor costs = cross_entropy(scores(batch), batch.tags, Reduction::none);
    return sum(where(batch.runs, costs, 0)) / sum(batch.lengths);
  }
  Tensor best(const Batch& batch) const { return argmax(scores(batch), 2); }
};

/// Chooses a sequence of tags. Its score is the sum of those of its tags and of its transitions.
struct CRF {
  Tagger tagger;
  Variable transitions{"transitions", zeros({tags, tags})};  // from a tag, to a tag
  explicit CRF(int hidden) : tagger(hidden) {}
  REEL_FIELDS(tagger, transitions)
  /// Minus the log probability of the true sequences: their scores, less the logarithm of the sum
  /// of exp(score) over all sequences (forward algorithm).
  Tensor loss(const Batch& batch) const {
    const Tensor scores = tagger.scores(batch), &y = batch.tags, &runs = batch.runs;
    const Tensor of_tags = pick(scores, y);
    const Tensor of_moves = transitions(y(range(0, -1)), y(range(1, {})));
    Tensor sums = scores(0);  // [sentences, tags]: of the sequences that end with a tag
    for (std::int64_t t = 1; t < scores.shape(0); ++t) {
      const Tensor longer = logsumexp(sums(all, all, newaxis) + transitions, 1) + scores(t);
      sums = where(runs(t)(all, newaxis), longer, sums);
    }
    return (sum(logsumexp(sums, 1)) - sum(where(runs, of_tags, 0)) -
            sum(where(runs(range(1, {})), of_moves, 0))) /
           sum(batch.lengths);
  }
  /// The sequences of the largest score (Viterbi 1967): [time, sentences].
  Tensor best(const Batch& batch) const {
    const Tensor scores = tagger.scores(batch);
    Tensor largest = scores(0);  // [sentences, tags]: of the sequences that end with a tag
    std::vector<Tensor> before;  // the tag before that
    for (std::int64_t t = 1; t < scores.shape(0); ++t) {
      const Tensor paths = largest(all, all, newaxis) + transitions,
                   runs = batch.runs(t)(all, newaxis);
      before.push_back(where(runs, argmax(paths, 1), arange(0, tags)));
      largest = where(runs, max(paths, 1) + scores(t), largest);
    }
    std::vector<Tensor> path = {argmax(largest, 1)};
    for (; !before.empty(); before.pop_back()) path.push_back(pick(before.back(), path.back()));
    std::reverse(path.begin(), path.end());
    return stack(path);
  }
};

template <class Model>
void learn(const char* name, const Model& model, const std::vector<Batch>& data, const Batch& test,
           const Options& options) {
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  const auto steps = options.epochs * std::ssize(data);
  optim::Schedule schedule(adam, optim::cosine_decay(steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    GradientTape tape;
    const Tensor loss = model.loss(data[static_cast<std::size_t>(step % std::ssize(data))]);
    adam.step(optim::clip_by_global_norm(tape.gradient(loss, parameters(model)), 1));
    schedule.step();
  }
  const Tensor answers = model.best(test), right = answers == test.tags;
  const Tensor of_words = sum(right & test.runs) / sum(test.lengths);
  const Tensor of_sentences = mean(all(right | ~test.runs, 0));
  const Tensor moves = (answers(range(1, {})) - answers(range(0, -1))) % tags;
  fmt::print("{}: {:.1f} % of the words, {:.1f} % of the sentences right, {} impossible moves\n",
             name, 100 * of_words, 100 * of_sentences, sum((moves > 1) & test.runs(range(1, {}))));
}

/// Text without spaces: its characters, and the places where its words begin and end. All pieces of
/// up to `longest` characters are the edges of a lattice, where each path cuts the text into words.
struct Text {
  std::vector<std::int64_t> characters, ends;  // ends: [0, ..., characters.size()]
};
constexpr std::int64_t letters = 20, longest = 4;

Text draw_text(std::mt19937_64& random) {
  Text text{{}, {0}};
  for (auto left = 3 + random() % 5; left > 0; --left) {
    // The first character of a word tells its length, except for some that may begin any.
    const auto first = static_cast<std::int64_t>(random() % letters);
    const auto length =
        first < 16 ? 1 + first % longest : 1 + static_cast<std::int64_t>(random() % 2);
    text.characters.push_back(first);
    for (std::int64_t i = 1; i < length; ++i)
      text.characters.push_back(static_cast<std::int64_t>(random() % letters));
    text.ends.push_back(std::ssize(text.characters));
  }
  return text;
}

/// A lattice LSTM (Zhang and Yang 2018, simplified): the state at each place is the mean of those
/// of the words that may end there, each computed from the state where the word begins.
struct Cutter {
  nn::Embedding embed;
  nn::LSTMCell cell;
  nn::Linear score;
  explicit Cutter(int hidden)
      : embed(letters * longest, hidden), cell(hidden, hidden), score(hidden, 1) {}
  REEL_FIELDS(embed, cell, score)

  /// Minus the log probability of the true words: their scores, less the logarithm of the sum of
  /// exp(score) over all paths. The path of the largest score goes to `best`.
  Tensor loss(const Text& text, std::vector<std::int64_t>* best = nullptr) const {
    const std::int64_t size = std::ssize(text.characters);
    std::vector<nn::LSTMState> states = {cell.initial_state(1)};
    std::vector<Tensor> sums = {zeros({1})}, of_true = {zeros({1})};
    std::vector<double> largest = {0};
    std::vector<std::int64_t> before = {0};
    for (std::int64_t end = 1; end <= size; ++end) {
      std::vector<Tensor> h, c, paths;
      largest.push_back(-1e30);
      before.push_back(0);
      for (std::int64_t begin = std::max<std::int64_t>(0, end - longest); begin < end; ++begin) {
        const auto from = static_cast<std::size_t>(begin);
        const Tensor word = tensor({text.characters[from] * longest + end - begin - 1});
        const nn::LSTMState made = cell(embed(word), states[from]);
        const Tensor points = score(made.h)(0);  // [1]
        h.push_back(made.h), c.push_back(made.c), paths.push_back(sums[from] + points);
        const auto at = std::find(text.ends.begin(), text.ends.end(), end);
        if (at != text.ends.end() && at != text.ends.begin() && at[-1] == begin)
          of_true.push_back(points);
        if (!best) continue;
        if (const double total = largest[from] + points.item<float>(); total > largest.back())
          largest.back() = total, before.back() = begin;
      }
      states.push_back({mean(concat(h), 0, Keepdims::yes), mean(concat(c), 0, Keepdims::yes)});
      sums.push_back(logsumexp(stack(paths), 0));
    }
    if (best) {
      for (std::int64_t at = size; at > 0; at = before[static_cast<std::size_t>(at)])
        best->push_back(at);
      best->push_back(0);
      std::reverse(best->begin(), best->end());
    }
    return sums.back() - sum(concat(of_true));
  }
};

void cut(const Options& options) {
  std::mt19937_64 random(options.seed);
  const auto draw_texts = [&](int count) {
    std::vector<Text> texts;
    for (int i = 0; i < count; ++i) texts.push_back(draw_text(random));
    return texts;
  };
  const Cutter model(options.hidden);
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  const int steps = options.epochs * options.sentences / options.batch;
  for (int step = 0; step < steps; ++step) {
    GradientTape tape;
    // Each text has a lattice of its own; their cells run together.
    const auto costs =
        batched(draw_texts(options.batch), [&](const Text& text) { return model.loss(text); });
    adam.step(optim::clip_by_global_norm(tape.gradient(mean(concat(costs)), parameters(model)), 1));
  }
  int right = 0;
  const std::vector<Text> test = draw_texts(options.sentences);
  const auto paths = batched(test, [&](const Text& text) {
    std::vector<std::int64_t> best;
    model.loss(text, &best);
    return best;
  });
  for (std::size_t i = 0; i < test.size(); ++i) right += paths[i] == test[i].ends;
  fmt::print("lattice: {:.1f} % of {} texts cut into the right words\n",
             100.0 * right / static_cast<double>(test.size()), test.size());
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A BiLSTM tags words, with and without a conditional random field.", options);
  line.add("--sentences", options.sentences, "sentences to learn")->check(CLI::PositiveNumber);
  line.add("--epochs", options.epochs, "passes over the sentences")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of the LSTM")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  line.add("--lattice", options.lattice, "cut text into words by lattices (1) or tag words (0)");
  return line.run(argc, argv, [&] {
    if (options.lattice) return cut(options);
    std::mt19937_64 random(options.seed);
    std::vector<Batch> data;
    for (int i = 0; i < options.sentences; i += options.batch)
      data.push_back(draw(options.batch, random));
    const Batch test = draw(options.sentences, random);
    const Tagger plain(options.hidden);
    learn("each tag by itself", plain, data, test, options);
    const CRF crf(options.hidden);
    learn("CRF", crf, data, test, options);
    fmt::print("learned chances of transitions\n{:.2f}\n", softmax(crf.transitions));
  });
}
