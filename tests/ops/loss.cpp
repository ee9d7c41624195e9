// SPDX-License-Identifier: BSD-3-Clause
// Losses against plain loops in double, their gradients against differences, and what they refuse.
#include <cmath>
#include <limits>
#include <vector>

#include <reel/ops/loss.hpp>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Numbers = std::vector<double>;
constexpr float inf = std::numeric_limits<float>::infinity();
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

/// The loss of all reductions against f(x, target) of each element.
template <class Loss, class F>
void check(const Tensor& x, const Tensor& target, const Loss& loss, const F& f) {
  const Numbers xs = x.to_vector<double>(), targets = target.to_vector<double>();
  Numbers expected;
  double total = 0;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    expected.push_back(f(xs[i], targets[i]));
    total += expected.back();
  }
  require_near(loss(x, target, Reduction::none), expected);
  require_near(loss(x, target, Reduction::sum), {total});
  require_near(loss(x, target, Reduction::mean), {total / static_cast<double>(xs.size())});
  REQUIRE(loss(x, target, Reduction::none).shape() == x.shape());
  const Variable w("x", x), y("target", target);
  check_gradients({w, y}, [&] { return loss(w, y, Reduction::none); });
  check_gradients({w, y}, [&] { return loss(w, y, Reduction::mean); });
}
double cosine_of(const Numbers& x, const Numbers& y, std::size_t first, std::size_t width) {
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = first; i < first + width; ++i) {
    xy += x[i] * y[i];
    xx += x[i] * x[i];
    yy += y[i] * y[i];
  }
  return xy / std::sqrt(xx * yy);
}
}  // namespace

TEST_CASE("losses of pairs, their reductions and gradients") {
  seed(3);
  const Tensor x = numbers({3, 4}), y = numbers({4, 3}), target = transpose(y);
  const Tensor p = random::uniform({3, 4}, {.low = 0.1, .high = 0.9, .dtype = DType::float64});
  check(
      x, target, [](Operand a, Operand b, Reduction r) { return mse_loss(a, b, r); },
      [](double a, double b) { return (a - b) * (a - b); });
  check(
      x, target, [](Operand a, Operand b, Reduction r) { return l1_loss(a, b, r); },
      [](double a, double b) { return std::abs(a - b); });
  for (const double delta : {0.3, 1.0, 100.0})
    check(
        x, target,
        [=](Operand a, Operand b, Reduction r) {
          return huber_loss(a, b, {.delta = delta, .reduction = r});
        },
        [=](double a, double b) {
          const double d = std::abs(a - b);
          return d <= delta ? d * d / 2 : delta * (d - delta / 2);
        });
  check(
      p, 1 - p * p, [](Operand a, Operand b, Reduction r) { return binary_cross_entropy(a, b, r); },
      [](double a, double b) { return -(b * std::log(a) + (1 - b) * std::log(1 - a)); });
  check(
      x * 5, p,
      [](Operand a, Operand b, Reduction r) { return binary_cross_entropy_with_logits(a, b, r); },
      [](double a, double b) { return b * softplus(-a) + (1 - b) * softplus(a); });
  check(
      x, where(y > 0, 1, tensor<double>(-1.0)).reshape({3, 4}),
      [](Operand a, Operand b, Reduction r) { return hinge_loss(a, b, r); },
      [](double a, double b) { return std::max(0.0, 1 - a * b); });
}

TEST_CASE("differences of integers do not wrap around, and empty losses are 0 or NaN") {
  const Tensor x = tensor({0, 255}).to(DType::uint8), y = tensor({255, 0}).to(DType::uint8);
  CHECK(equal(l1_loss(x, y), tensor(255.0f)));
  CHECK(equal(mse_loss(tensor({INT32_MAX}), tensor({INT32_MIN})), tensor(0x1p64f)));
  CHECK(equal(mse_loss(tensor({1.0, 3.0}), 1), tensor(2.0f)));
  CHECK(equal(huber_loss(tensor({inf, -inf, -3.0f}), 0, {.reduction = Reduction::none}),
              tensor({inf, inf, 2.5f})));
  CHECK(equal(mse_loss(zeros({0, 3}), zeros({0, 3}), Reduction::sum), tensor(0.0f)));
  CHECK(std::isnan(mse_loss(zeros({0}), zeros({0})).item<float>()));
  // Beside a float64 tensor, an integer is float64.
  const Tensor fine = tensor<double>({1.0, 0.1});
  for (const Tensor& loss : {mse_loss(fine, tensor({1, 0})), mse_loss(tensor({1, 0}), fine)}) {
    CHECK(loss.dtype() == DType::float64);
    CHECK(loss.item<double>() == 0.1 * 0.1 / 2);
  }
}

TEST_CASE("binary cross-entropy is exact for large scores and bounded for probabilities") {
  const auto each = [](const Tensor& x, const Tensor& y) {
    return binary_cross_entropy_with_logits(x, y, Reduction::none).to_vector<double>();
  };
  const Numbers scores = {-800, -50, -1e-3, 0, 1e-3, 20, 800};
  for (const double x : scores) {
    require_near(each(tensor<double>({x}), tensor<double>({1.0})), {softplus(-x)}, 1e-15);
    require_near(each(tensor<double>({x}), tensor<double>({0.0})), {softplus(x)}, 1e-15);
    const Variable w("w", tensor<double>({x}));
    GradientTape tape;
    const double slope =
        tape.gradient(binary_cross_entropy_with_logits(w, 1), w).to_vector<double>()[0];
    const double expected = -1 / (1 + std::exp(x));  // relative error, not absolute
    CHECK(std::abs(slope - expected) <= 1e-14 * std::abs(expected));
  }
  const double small = each(tensor<double>({40.0}), tensor<double>({1.0}))[0];
  CHECK(std::abs(small - std::exp(-40.0)) <= 1e-14 * std::exp(-40.0));
  CHECK(each(tensor<double>({inf, -inf}), tensor<double>({1.0, 0.0})) == Numbers{0, 0});
  CHECK(equal(binary_cross_entropy(tensor({0.0, 1.0, 0.0, 1.0}), tensor({0.0, 1.0, 1.0, 0.0}),
                                   Reduction::none),
              tensor({0.0, 0.0, 100.0, 100.0})));
  CHECK(std::isnan(binary_cross_entropy(tensor({1.5}), tensor({1.0})).item<float>()));
  CHECK(binary_cross_entropy(tensor<double>({1e-300}), tensor<double>({0.0})).item<double>() > 0);
}

TEST_CASE("a weight of positive examples") {
  const Tensor x = numbers({2, 3}), y = tensor({{0, 1, 1}, {1, 0, 1}});
  const Tensor weight = tensor<double>({0.5, 2.0, 3.0});
  const Numbers xs = x.to_vector<double>(), ws = weight.to_vector<double>();
  const std::vector<int> ys = y.to_vector<int>();
  Numbers expected;
  for (std::size_t i = 0; i < 6; ++i)
    expected.push_back(ys[i] ? ws[i % 3] * softplus(-xs[i]) : softplus(xs[i]));
  const BinaryCrossEntropyOptions options{.positive_weight = weight, .reduction = Reduction::none};
  require_near(binary_cross_entropy_with_logits(x, y, options), expected);
  const Variable w("x", x);
  check_gradients({w}, [&] { return binary_cross_entropy_with_logits(w, y, options); });
}

TEST_CASE("divergence of rows") {
  const Tensor x = log_softmax(numbers({3, 4})), target = softmax(numbers({3, 4}));
  const Numbers xs = x.to_vector<double>(), ps = target.to_vector<double>();
  Numbers expected(3);
  for (std::size_t i = 0; i < 12; ++i) expected[i / 4] += ps[i] * (std::log(ps[i]) - xs[i]);
  require_near(kl_divergence(x, target, Reduction::none), expected);
  require_near(kl_divergence(x, target), {(expected[0] + expected[1] + expected[2]) / 3});
  const Variable w("x", x), p("target", target);
  check_gradients({w, p}, [&] { return kl_divergence(w, p); });
  CHECK(equal(kl_divergence(tensor({-inf, 0.0f}), tensor({0.0f, 1.0f})), tensor(0.0f)));
}

TEST_CASE("cosines and distances of rows, also of huge, tiny and zero ones") {
  const Tensor x = numbers({4, 3}), y = numbers({4, 3}), z = numbers({4, 3});
  const Numbers xs = x.to_vector<double>(), ys = y.to_vector<double>(), zs = z.to_vector<double>();
  const Tensor target = tensor({1, -1, 1, -1});
  Numbers cosines, embeddings, triplets;
  for (std::size_t row = 0; row < 4; ++row) {
    cosines.push_back(cosine_of(xs, ys, row * 3, 3));
    embeddings.push_back(row % 2 ? std::max(0.0, cosines[row] - 0.1) : 1 - cosines[row]);
    double near = 0, far = 0;
    for (std::size_t i = row * 3; i < row * 3 + 3; ++i) {
      near += (xs[i] - ys[i]) * (xs[i] - ys[i]);
      far += (xs[i] - zs[i]) * (xs[i] - zs[i]);
    }
    triplets.push_back(std::max(0.0, std::sqrt(near) - std::sqrt(far) + 2));
  }
  require_near(cosine_similarity(x, y), cosines);
  require_near(cosine_similarity(transpose(x), transpose(y), 0), cosines);
  const CosineEmbeddingOptions options{.margin = 0.1, .reduction = Reduction::none};
  require_near(cosine_embedding_loss(x, y, target, options), embeddings);
  require_near(triplet_margin_loss(x, y, z, {.margin = 2, .reduction = Reduction::none}), triplets);
  const Variable u("x", x), v("y", y), w("z", z);
  check_gradients({u, v}, [&] { return cosine_similarity(u, v); });
  check_gradients({u, v}, [&] { return cosine_embedding_loss(u, v, target, options); });
  check_gradients({u, v, w}, [&] { return triplet_margin_loss(u, v, w, {.margin = 2}); });

  const Tensor one = tensor({1.0, 0.0}), between = tensor({0.6, 0.8});
  for (const double margin : {0.0, 0.25, 0.75}) {
    const float loss =
        cosine_embedding_loss(expand_dims(one, 0), expand_dims(between, 0), tensor({-1}), {margin})
            .item<float>();
    CHECK(loss == Approx(std::max(0.0, 0.6 - margin)));
  }
  for (const float size : {1e30f, 1e-30f}) {
    const Tensor a = tensor({3 * size, 4 * size}), b = tensor({4 * size, 3 * size});
    CHECK(allclose(cosine_similarity(a, b), 0.96));
  }
  CHECK(equal(cosine_similarity(zeros({2, 3}), ones({2, 3})), zeros({2})));
  CHECK(cosine_similarity(zeros({2, 0}), zeros({2, 0})).shape() == Shape({2}));
  CHECK(cosine_similarity(zeros({0, 2}), zeros({0, 2})).shape() == Shape({0}));
  GradientTape tape;
  tape.watch(x);
  CHECK(all(tape.gradient(triplet_margin_loss(x, x, x), x) == 0));
  // The gradient by a vector of zeros is that by a vector of length 1.
  const Variable none("x", zeros({1, 2}, wide));
  GradientTape of_none;
  require_near(of_none.gradient(cosine_similarity(none, tensor<double>({{3.0, 4.0}})), none),
               {0.6, 0.8});
}

TEST_CASE("cross_entropy with an ignored label, weights of classes and smoothing") {
  const std::vector<std::int64_t> labels = {2, -100, 0, 3, -100, 1};
  const Tensor scores = numbers({2, 3, 4}), classes = tensor(labels).reshape({2, 3});
  const Tensor logs = log_softmax(scores), weights = tensor<double>({0.5, 1.0, 2.0, 3.0});
  const Numbers ls = logs.to_vector<double>(), ws = weights.to_vector<double>();
  for (const bool weighted : {false, true})
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      Numbers expected;
      double total = 0, share = 0;
      for (std::size_t row = 0; row < 6; ++row) {
        expected.push_back(0);
        if (labels[row] < 0) continue;
        const auto weight = [&](std::size_t c) { return weighted ? ws[c] : 1.0; };
        for (std::size_t c = 0; c < 4; ++c) {
          const double part = smoothing / 4 + (c == std::size_t(labels[row]) ? 1 - smoothing : 0);
          expected[row] -= part * weight(c) * ls[row * 4 + c];
        }
        total += expected[row];
        share += weight(std::size_t(labels[row]));
      }
      CrossEntropyOptions options{.class_weights = weighted ? weights : Tensor(),
                                  .smoothing = smoothing,
                                  .reduction = Reduction::none};
      require_near(cross_entropy(scores, classes, options), expected);
      const Variable w("scores", scores);
      check_gradients({w}, [&] { return cross_entropy(w, classes, options); });
      options.reduction = Reduction::sum;
      require_near(cross_entropy(scores, classes, options), {total});
      options.reduction = Reduction::mean;
      require_near(cross_entropy(scores, classes, options), {total / share});
    }
  const Tensor bytes = tensor({1, 9}).to(DType::uint8);
  CHECK(allclose(cross_entropy(zeros({2, 3}), bytes, {.ignored_label = 9}), std::log(3.0)));
}

TEST_CASE("ignored rows have a gradient of exactly 0, whatever their scores") {
  const double infinity = INFINITY;
  const Tensor bad = tensor<double>({NAN, 1.0, 2.0, infinity, 0.0, -infinity, 1.0, 2.0, 0.5,
                                     -infinity, -infinity, NAN})
                         .reshape({4, 3});
  const Tensor labels = tensor({-1, -1, 1, -1});
  for (const DType dtype : {float32, float64})
    for (const double smoothing : {0.0, 0.2})
      for (const bool weighted : {false, true}) {
        const CrossEntropyOptions options{
            .ignored_label = -1,
            .class_weights = weighted ? tensor({0.5, 2.0, 1.0}).to(dtype) : Tensor(),
            .smoothing = smoothing};
        const Variable all("all", bad.to(dtype)), one("one", bad(range(2, 3)).to(dtype));
        GradientTape outer({.persistent = true}), tape({.persistent = true});
        const Tensor loss = cross_entropy(all, labels, options);
        const Tensor alone = cross_entropy(one, tensor({1}), options);
        CHECK(equal(loss, alone));
        const Tensor dx = tape.gradient(loss, all), dy = tape.gradient(alone, one);
        CHECK(equal(dx, concat({zeros({2, 3}, dtype), dy, zeros({1, 3}, dtype)}, 0)));
        // A gradient of the gradient is made of ops.
        const Tensor second = outer.gradient(sum(square(dx)), all);
        CHECK(equal(second(range(0, 2)), zeros({2, 3}, dtype)));
        CHECK(equal(second(3), zeros({3}, dtype)));
        CHECK(allclose(second(range(2, 3)), outer.gradient(sum(square(dy)), one)));
      }
  // Rows of a class with the weight 0: also beside -inf, as in PyTorch.
  const Variable w("w", tensor<double>({0.0, -infinity, 1.0, 1.0, 2.0, 3.0}).reshape({2, 3}));
  GradientTape tape;
  const Tensor loss =
      cross_entropy(w, tensor({0, 2}), {.class_weights = tensor<double>({0.0, 1.0, 1.0})});
  const Tensor dw = tape.gradient(loss, w);
  CHECK(equal(dw(0), zeros({3}, float64)));
  CHECK(allclose(dw(1), softmax(w(1)) - tensor<double>({0.0, 0.0, 1.0})));
}

TEST_CASE("losses refuse what does not fit, in their own name") {
  const Tensor x = ones({3, 1}), y = ones({3}), labels = tensor({0, 0, 0});
  check_refused<ShapeError>([&] { mse_loss(x, y); },
                            "mse_loss: target: expected the shape of x, (3, 1), got (3,)");
  check_refused<ShapeError>([&] { triplet_margin_loss(x, x, y); }, "triplet_margin_loss: target");
  check_refused<ShapeError>([&] { cosine_embedding_loss(x, x, x); }, "cosine_embedding_loss: targ");
  check_refused<ShapeError>([&] { kl_divergence(1.0, 1.0); },
                            "kl_divergence: x: expected at least one axis");
  check_refused<ShapeError>([&] { kl_divergence(tensor(1.0f), tensor(1.0f)); },
                            "kl_divergence: x: expected at least one axis, got ()");
  check_refused<ShapeError>([&] { cosine_similarity(x, y, 2); }, "cosine_similarity: axis");
  check_refused<Error>([&] { l1_loss(x, Tensor()); }, "l1_loss: ");
  check_refused<Error>([&] { huber_loss(y, y, {.delta = 0}); }, "huber_loss: delta: expected more");
  check_refused<Error>([&] { huber_loss(y, y, {.delta = NAN}); }, "huber_loss: delta");
  check_refused<ShapeError>(
      [&] { binary_cross_entropy_with_logits(y, y, {.positive_weight = ones({2})}); },
      "binary_cross_entropy_with_logits: positive_weight");
  check_refused<ShapeError>([&] { cross_entropy(tensor(1.0), tensor(0)); },
                            "cross_entropy: scores: expected an axis of classes");
  for (const Tensor& wrong : {labels(0), labels(range(0, 2)), expand_dims(labels, 0)})
    check_refused<ShapeError>([&] { cross_entropy(x, wrong); },
                              "cross_entropy: labels: expected shape (3,)");
  check_refused<Error>([&] { cross_entropy(x, labels, {.smoothing = 1.5}); },
                       "cross_entropy: smoothing: expected a number in [0, 1], got 1.5");
  check_refused<ShapeError>([&] { cross_entropy(x, labels, {.class_weights = y}); },
                            "cross_entropy: class_weights: expected (1,), got (3,)");
  check_refused<IndexError>(
      [&] {
        cross_entropy(x, tensor({0, 1, 0}), {.smoothing = 0.1});
      },
      "cross_entropy: labels: expected an index in [0, 1), got 1 at [1]");
}

TEST_CASE("the gradient of a divergence by its target is 0 where the target is 0") {
  const Variable x("x", log_softmax(numbers({2, 3})));
  const std::vector<double> of_p = {0, 0.25, 0.75, 1, 0, 0}, of_x = x.value().to_vector<double>();
  const Variable p("target", from_span(of_p, {2, 3}));
  GradientTape tape;
  const Tensor slope = tape.gradient(kl_divergence(x, p, Reduction::sum), p);
  std::vector<double> expected;
  for (std::size_t i = 0; i < 6; ++i)
    expected.push_back(of_p[i] == 0 ? 0 : std::log(of_p[i]) + 1 - of_x[i]);
  require_near(slope, expected);
}

TEST_CASE("cross_entropy of the probabilities of classes") {
  const Tensor scores = numbers({5, 4}), target = softmax(numbers({5, 4}) * 2);
  const Tensor logs = log_softmax(scores), weights = tensor<double>({0.5, 1.0, 2.0, 3.0});
  const Numbers ls = logs.to_vector<double>(), ps = target.to_vector<double>(),
                ws = weights.to_vector<double>();
  for (const bool weighted : {false, true})
    for (const double smoothing : {0.0, 0.1}) {
      Numbers expected(5);
      double total = 0;
      for (std::size_t i = 0; i < 20; ++i) {
        const double p = (1 - smoothing) * ps[i] + smoothing / 4;
        expected[i / 4] -= p * ls[i] * (weighted ? ws[i % 4] : 1.0);
      }
      for (const double loss : expected) total += loss;
      CrossEntropyOptions options{.class_weights = weighted ? weights : Tensor(),
                                  .smoothing = smoothing,
                                  .reduction = Reduction::none};
      require_near(cross_entropy(scores, target, options), expected);
      const Variable x("scores", scores), p("target", target);
      check_gradients({x, p}, [&] { return cross_entropy(x, p, options); });
      options.reduction = Reduction::sum;
      require_near(cross_entropy(scores, target, options), {total});
      options.reduction = Reduction::mean;
      require_near(cross_entropy(scores, target, options), {total / 5});
    }
  // One class each: the loss of its label, also beside a score of -inf.
  const Tensor labels = tensor({2, 0, 1}), x = tensor({{0.5, -INFINITY, 1.0}}) + zeros({3, 1});
  const Tensor sure = one_hot(tensor({2, 0, 2}), 3);
  CHECK(allclose(cross_entropy(x, sure), cross_entropy(x, tensor({2, 0, 2}))));
  CHECK(allclose(cross_entropy(x, sure, Reduction::sum), 3 * cross_entropy(x, sure)));
  check_refused<DTypeError>([&] { cross_entropy(x, labels.to(float32)); },
                            "cross_entropy: labels: expected uint8, int32 or int64");
}
}  // namespace reel::tests
