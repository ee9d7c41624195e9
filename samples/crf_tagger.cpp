// SPDX-License-Identifier: BSD-3-Clause
// A bidirectional LSTM with a conditional random field on top (Huang, Xu and Yu 2015) tags words,
// beside the same LSTM that chooses each tag by itself. The sentences come from a hidden Markov
// chain, so that the learned transitions can be compared with the true ones.
#include <reel/reel.hpp>

#include <algorithm>
#include <random>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int sentences = 1000, batch = 20, epochs = 10, hidden = 32;
  double rate = 5e-3;
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

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A BiLSTM tags words, with and without a conditional random field.", options);
  line.add("--sentences", options.sentences, "sentences to learn")->check(CLI::PositiveNumber);
  line.add("--epochs", options.epochs, "passes over the sentences")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width of the LSTM")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "Adam's learning rate at the start");
  return line.run(argc, argv, [&] {
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
