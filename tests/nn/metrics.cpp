// SPDX-License-Identifier: BSD-3-Clause
#include <reel/metrics.hpp>

#include <algorithm>
#include <numeric>

#include "nn/near.hpp"

namespace reel::tests {
namespace {
constexpr std::int64_t classes = 4, count = 40;
/// Scores, of which many are equal, and labels.
struct Guesses {
  Tensor scores = random::integers(0, 4, {count, classes}).to(DType::float64) / 4;
  Tensor labels = random::integers(0, classes, {count});
  Tensor predictions = argmax(scores, 1);
};
double number(const Tensor& x) { return x.item<double>(); }
}  // namespace

TEST_CASE("accuracy and top_k_accuracy count the examples", "[metrics]") {
  const Guesses guesses;
  const auto scores = guesses.scores.to_vector<double>();
  const auto labels = guesses.labels.to(DType::int64).to_vector<std::int64_t>();
  for (std::int64_t k = 1; k <= classes + 1; ++k) {
    double right = 0;
    for (std::size_t n = 0; n < count; ++n) {
      std::vector<std::int64_t> order(classes);
      std::iota(order.begin(), order.end(), 0);
      const auto score = [&](std::int64_t c) {
        return scores[n * classes + static_cast<std::size_t>(c)];
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](auto a, auto b) { return score(a) > score(b); });
      const auto place = std::find(order.begin(), order.end(), labels[n]) - order.begin();
      right += place < k ? 1 : 0;
    }
    CHECK(number(metrics::top_k_accuracy(guesses.scores, guesses.labels, k)) == right / count);
    if (k == 1) CHECK(number(metrics::accuracy(guesses.scores, guesses.labels)) == right / count);
  }
  const Tensor cube = guesses.scores.reshape({5, 8, classes}),
               labelled = guesses.labels.reshape({5, 8});
  CHECK(
      equal(metrics::accuracy(cube, labelled), metrics::accuracy(guesses.scores, guesses.labels)));
  CHECK(number(metrics::top_k_accuracy(tensor({std::nan(""), 1.0}), tensor(0), 1)) == 0);
  CHECK(number(metrics::top_k_accuracy(tensor({std::nan(""), 1.0}), tensor(1), 1)) == 0);
  CHECK(number(metrics::accuracy(tensor({std::nan(""), 1.0}), tensor(0))) == 0);
  CHECK(number(metrics::accuracy(tensor({std::nan(""), 1.0}), tensor(1))) == 0);
  CHECK(std::isnan(number(metrics::accuracy(zeros({0, 3}), zeros({0}).to(DType::int64)))));
  require_parts(message<ShapeError>([] {
                  metrics::accuracy(ones({2, 3}), tensor({1, 2, 0}));
                }),
                {"accuracy: labels", "(2,)", "(3,)"});
  require_parts(message<ShapeError>([] { metrics::accuracy(tensor(1.0), tensor(1)); }),
                {"accuracy: scores"});
  require_parts(message<DTypeError>([] {
                  metrics::accuracy(ones({2, 3}), ones({2}));
                }),
                {"accuracy: labels", "integers"});
  require_parts(message<Error>([] {
                  metrics::top_k_accuracy(ones({1, 3}), tensor({1}), 0);
                }),
                {"top_k_accuracy: k"});
  require_parts(message<IndexError>([] {
                  metrics::top_k_accuracy(ones({1, 3}), tensor({3}), 1);
                }),
                {"top_k_accuracy: labels: expected 0 to 2, got 3 at [0]"});
}

TEST_CASE("confusion_matrix and f1 follow their definitions", "[metrics]") {
  const Guesses guesses;
  const auto labels = guesses.labels.to(DType::int64).to_vector<std::int64_t>();
  const auto predictions = guesses.predictions.to(DType::int64).to_vector<std::int64_t>();
  const auto matrix = metrics::confusion_matrix(guesses.predictions, guesses.labels, classes);
  std::vector<double> counts(classes * classes), f1;
  for (std::size_t n = 0; n < count; ++n)
    counts[static_cast<std::size_t>(labels[n] * classes + predictions[n])] += 1;
  require_near(matrix.to(DType::float64), counts, 0);
  double right = 0;
  for (std::size_t c = 0; c < classes; ++c) {
    double t = counts[c * classes + c], f = -2 * t;
    for (std::size_t i = 0; i < classes; ++i)
      f += counts[c * classes + i] + counts[i * classes + c];
    f1.push_back(2 * t / (2 * t + f));
    right += t;
  }
  using metrics::Averaging;
  const auto of = [&](Averaging averaging) {
    return metrics::f1(guesses.predictions, guesses.labels, classes, averaging);
  };
  require_near(of(Averaging::none), f1);
  require_near(of(Averaging::macro), {std::accumulate(f1.begin(), f1.end(), 0.0) / classes});
  require_near(of(Averaging::micro), {right / count});
  const Tensor small = tensor({0, 1}).to(DType::uint8);
  require_near(metrics::f1(small, small, 200, Averaging::none)(range(0, 3)), {1, 1, 0});
  CHECK(equal(metrics::confusion_matrix(tensor({true}), tensor({1}), 2), tensor({{0, 0}, {0, 1}})));
  require_parts(message<IndexError>([] {
                  metrics::confusion_matrix(tensor({{1, 2}}), tensor({{0, 0}}), 2);
                }),
                {"confusion_matrix: predictions: expected 0 to 1, got 2 at [0, 1]"});
  require_parts(message<IndexError>([] {
                  metrics::f1(tensor({1, 0}), tensor({1, -1}), 2);
                }),
                {"f1: labels: expected 0 to 1, got -1 at [1]"});
  require_parts(message<ShapeError>([] {
                  metrics::f1(tensor({1}), tensor({1, 0}), 2);
                }),
                {"f1: labels"});
}

TEST_CASE("auc counts the pairs that are in order", "[metrics]") {
  const Tensor scores = random::integers(0, 6, {30}).to(DType::float32),
               labels = random::bernoulli(0.4, {30}) > 0;
  const auto x = scores.to_vector<float>();
  const auto y = labels.to(DType::int64).to_vector<std::int64_t>();
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < 30; ++i)
    for (std::size_t k = 0; k < 30; ++k) {
      if (!y[i] || y[k]) continue;
      pairs += 1;
      right += x[i] > x[k] ? 1 : x[i] == x[k] ? 0.5 : 0;
    }
  require_near(metrics::auc(scores, labels), {right / pairs});
  CHECK(std::isnan(number(metrics::auc(ones({2}), tensor({1, 1})))));
  CHECK(std::isnan(number(metrics::auc(tensor({1.0, std::nan("")}), tensor({1, 0})))));
  CHECK(number(metrics::auc(tensor({-INFINITY, INFINITY}), tensor({0, 1}))) == 1);
  require_parts(message<Error>([] {
                  metrics::auc(ones({2}), tensor({1, 2}));
                }),
                {"auc: labels: expected 0 and 1, got 2 at [1]"});
  require_parts(message<ShapeError>([] { metrics::auc(ones({2}), tensor({1})); }), {"auc: labels"});
}

TEST_CASE("perplexity is exp of the mean of -log probabilities", "[metrics]") {
  const Guesses guesses;
  const auto scores = guesses.scores.to_vector<double>();
  const auto labels = guesses.labels.to(DType::int64).to_vector<std::int64_t>();
  double total = 0;
  for (std::size_t n = 0; n < count; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(scores[n * classes + c]);
    total += std::log(sum) - scores[n * classes + static_cast<std::size_t>(labels[n])];
  }
  require_near(metrics::perplexity(guesses.scores, guesses.labels), {std::exp(total / count)});
  require_near(metrics::perplexity(zeros({3, 7}), tensor({1, 2, 3})), {7}, 1e-6);
}
}  // namespace reel::tests
