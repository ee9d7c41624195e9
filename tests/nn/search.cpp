// SPDX-License-Identifier: BSD-3-Clause
// Searches for sequences, against all sequences that there are.
#include <algorithm>
#include <cmath>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr int words = 4;
/// Scores of the next word that depend on the last two words.
struct Chain {
  Tensor scores;
  explicit Chain(std::uint64_t number) {
    const GeneratorScope scope{Generator(number)};
    scores = 2 * random::normal({words, words, words});
  }
  Tensor operator()(const Tensor& tokens) const {
    const Tensor last = tokens(all, -1);
    const Tensor before = tokens.shape(1) > 1 ? tokens(all, -2) : zeros_like(last);
    return scores(before, last);
  }
  double log_probability(int before, int last, int next) const {
    return log_softmax(scores.to(DType::float64))(before, last, next).item<double>();
  }
};
struct Sequence {
  std::vector<int> words;
  double rank;
};
/// All sequences of `steps` words behind `start`, with the best first.
std::vector<Sequence> all_sequences(const Chain& chain, int start, int steps, int end,
                                    double penalty) {
  std::vector<Sequence> found;
  const int count = static_cast<int>(std::pow(words, steps));
  for (int number = 0; number < count; ++number) {
    Sequence sequence{{start}, 0};
    double sum = 0, length = 0;
    bool ended = false, valid = true;
    for (int i = 0, rest = number; i < steps; ++i, rest /= words) {
      const int next = rest % words;
      if (ended && next != end) valid = false;
      if (!ended) {
        const int before = i ? sequence.words[sequence.words.size() - 2] : 0;
        sum += chain.log_probability(before, sequence.words.back(), next);
        ++length;
      }
      ended |= next == end;
      sequence.words.push_back(next);
    }
    sequence.rank = sum / std::pow(length, penalty);
    if (valid) found.push_back(sequence);
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.rank > b.rank; });
  return found;
}
}  // namespace

TEST_CASE("beams that are wide enough find the best sequences", "[nn]") {
  for (const std::uint64_t number : {1, 2})
    for (const int end : {-1, 3})
      for (const double penalty : {0.0, 1.0}) {
        const Chain chain(number);
        const nn::Beams found =
            nn::beam_search(chain, tensor({{0}, {2}}),
                            {.steps = 3, .beams = 16, .end = end, .length_penalty = penalty});
        CHECK(found.tokens.shape() == Shape({2, 16, 4}));
        for (int b : {0, 1}) {
          const auto expected = all_sequences(chain, b ? 2 : 0, 3, end, penalty);
          for (int k = 0; k < 5; ++k) {
            INFO("end " << end << ", penalty " << penalty << ", rank " << k);
            const Sequence& wanted = expected[static_cast<std::size_t>(k)];
            CHECK(std::fabs(found.scores(b, k).item<double>() - wanted.rank) < 1e-6);
            CHECK(equal(found.tokens(b, k), tensor(wanted.words)));
          }
        }
      }
}

TEST_CASE("a greedy search takes the best word, and ends", "[nn]") {
  const Chain chain(4);
  const Tensor start = tensor({{0}, {1}, {2}});
  const Tensor found = nn::greedy_search(chain, start, {.steps = 5});
  Tensor expected = start.to(DType::int64);
  for (int i = 0; i < 5; ++i)
    expected = concat({expected, expand_dims(argmax(chain(expected), 1), 1)}, 1);
  CHECK(equal(found, expected));
  CHECK(equal(nn::beam_search(chain, start, {.steps = 5, .beams = 1}).tokens(all, 0), expected));
  // Words count up to 3, which is the end.
  const auto next = [](Tensor x) { return one_hot(minimum(x(all, -1) + 1, 3), words); };
  CHECK(equal(nn::greedy_search(next, start, {.steps = 9, .end = 3}),
              tensor({{0, 1, 2, 3}, {1, 2, 3, 3}, {2, 3, 3, 3}})));
  CHECK(equal(nn::greedy_search(next, start, {.steps = 0}), start));
  check_refused<ShapeError>(
      [&] {
        nn::greedy_search(next, tensor({1, 2}));
      },
      "greedy_search: start");
  check_refused<DTypeError>([&] { nn::greedy_search(next, ones({1, 2})); }, "greedy_search: start");
  check_refused<Error>([&] { nn::greedy_search(next, start, {.steps = -1}); },
                       "greedy_search: steps");
  check_refused<ShapeError>([&] { nn::beam_search(next, start, {.beams = 0}); },
                            "beam_search: beams");
  check_refused<ShapeError>([&] { nn::greedy_search([](Tensor x) { return x(0); }, start); },
                            "greedy_search: result of step: expected [3, vocabulary]");
}

TEST_CASE("a beam search continues in the caches of its rows", "[nn]") {
  seed(5);
  struct Model {
    nn::Embedding embed{words, 8};
    nn::TransformerEncoderLayer layer{8, 2, {.rotary_base = 100}};
    nn::Linear head{8, words};
  } model;
  const Tensor start = tensor({{0, 1}, {2, 3}});
  const nn::BeamSearchOptions options{.steps = 5, .beams = 3, .end = 2, .length_penalty = 0.5};
  const nn::Beams whole = nn::beam_search(
      [&](Tensor tokens) {
        return model.head(model.layer(4 * model.embed(tokens), {.causal = true}))(all, -1);
      },
      start, options);
  nn::KeyValueCache cache = model.layer.attention.cache(6, 7);
  const nn::Beams steps = nn::beam_search(
      [&](Tensor tokens, Tensor rows) {
        const bool begins = cache.used() == 0;
        if (!begins) cache.reorder(rows);
        const Tensor x = 4 * model.embed(begins ? tokens : tokens(all, range(-1, {})));
        return model.head(model.layer(x, cache))(all, -1);
      },
      start, options);
  CHECK(equal(steps.tokens, whole.tokens));
  CHECK(allclose(steps.scores, whole.scores, {.rtol = 0, .atol = 1e-5}));
}
}  // namespace reel::tests
