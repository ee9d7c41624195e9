// SPDX-License-Identifier: BSD-3-Clause
// Programs that call functions of one kind: each with its gradient, if it has one.
#include <vector>

#include "exhaustion/programs.hpp"

namespace reel::tests {
namespace {
struct Selection : Program {
  Tensor x, sorted, counts;
  Variable w;
  explicit Selection(unsigned variant)
      : x(numbers({side(variant), 5}, variant)),
        sorted(sort(numbers({7}, variant))),
        counts(arange(0, 3 * side(variant)) % 4),
        w("w", x) {}
  void run(Results& results) override {
    results.add(sort(x, 0, {.descending = true}) + argsort(x));
    const TopK best = topk(x, 2);
    results.add(best.values + best.positions);
    results.add(nonzero(x > 0));
    results.add(masked_select(x, x > -0.9));
    results.add(unique(counts));
    results.add(searchsorted(sorted, x, {.right = true}) + bincount(counts, 5));
    results.add(histogram(x, 4, -1, 1));
    results.add(median(x, 1) + quantile(x, 0.3, {1}) + argmin(x, 1) + count_nonzero(x));
    results.add(cumsum(x, 0) + cumprod(x) + cummax(x, 0, {.reverse = true}) + logcumsumexp(x));
    results.add(prod(x, 0) + var(x, 0, Keepdims::no, {.correction = 1}) + stddev(x, 0));
    results.add(norm(x, 1) + norm(x, 1, Keepdims::no, {.p = 3}) + logsumexp(x, 1));
    GradientTape tape;
    const Tensor y = sum(sort(w) * x + cumsum(cumprod(w)) + logcumsumexp(w, 0) + cummax(w)) +
                     sum(topk(w, 2).values * 2) + sum(masked_select(w, x > -0.9) * 3) + median(w) +
                     quantile(w, 0.4) + prod(w) + var(w) + norm(w) + logsumexp(w);
    results.add(tape.gradient(y, w));
  }
};

struct Layout : Program {
  Variable w;
  Tensor start, x, rows, columns, mask, new_rows;
  std::vector<Padding> widths = {{1, 1}, {1, 0}};
  std::vector<Index> indices;
  std::vector<std::int64_t> counts, lengths;
  explicit Layout(unsigned variant)
      : w("w", numbers({side(variant), 3}, variant)),
        start(w.value() * 1),
        x(numbers({side(variant), 3}, variant + 2)),
        rows(tensor({1, 0, 1, -1})),
        columns(tensor({2, 0, 1, 1})),
        mask(x > -0.9),
        new_rows(numbers({4}, variant)),
        indices{rows, columns},
        counts(static_cast<std::size_t>(side(variant)), 2),
        lengths{1, side(variant) - 1} {}
  void reset() override { w.assign(start); }
  void run(Results& results) override {
    for (const Tensor& part : unbind(x, 1)) results.add(part);
    for (const Tensor& part : split(x, lengths)) results.add(part);
    results.add(flip(x, 0) + swap_axes(transpose(x), 0, 1) + matrix_transpose(transpose(x)));
    results.add(diagonal(x) + sum(tril(x, 1) + triu(x)));
    results.add(roll(x, 1, 0) + x);
    results.add(tile(x, {2, 2}));
    results.add(repeat(x, 2, 0) + repeat(x, counts, 0));
    for (const PadMode mode :
         {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular})
      results.add(pad(x, widths, {mode, 2}));
    results.add(pick(x, columns(range(0, 1)) * zeros({x.shape(0)}, {.dtype = DType::int64})));
    results.add(x(rows, columns) + x(indices) + x(rows)(all, 1));
    results.add(x(mask));
    w(0).assign_add(1);
    w.view([](const Tensor& all_of_it) { return diagonal(all_of_it); }).assign_sub(2);
    results.add(w.value());
    GradientTape tape;
    const Tensor y = sum(tile(w, {2}) * 2) + sum(pad(w, widths, {PadMode::reflect}) * 3) +
                     sum(roll(w, 1, 0) * x) + sum(w(rows, columns) * new_rows) + sum(w(mask)) +
                     sum(repeat(w, counts, 0)) + sum(tril(flip(w)) * x) + sum(diagonal(w));
    results.add(tape.gradient(y, w));
  }
};

struct Scatter : Program {
  Variable w, updates;
  Tensor ids, positions, labels = tensor({{1, 2, 1}, {2, 2, 1}}), steps = tensor({5, 5}),
                         counts = tensor({3, 2});
  Variable scores;
  explicit Scatter(unsigned variant)
      : w("w", numbers({5, side(variant)}, variant)),
        updates("updates", numbers({3, side(variant)}, variant + 2)),
        ids(tensor({0, 2, 0, 1, 2})),
        positions(tensor({4, 0, 4})),
        scores("scores", numbers({5, 2, 3}, variant)) {}
  void run(Results& results) override {
    GradientTape tape;
    Tensor y = scatter(w, positions, updates) + scatter_mean(w, positions, updates) +
               scatter_max(w, positions, updates) * scatter_min(w, positions, updates);
    y = y + segment_softmax(w, ids, 3);
    const Tensor parts = segment_sum(w, ids, 3) + segment_mean(w, ids, 3) +
                         segment_max(w, ids, 3) * segment_min(w, ids, 3);
    const Tensor loss = ctc_loss(log_softmax(scores), labels, steps, counts);
    for (const Tensor& slope : tape.gradient(sum(y) + sum(parts) + loss, {w, updates, scores}))
      results.add(slope);
    results.add(y);
    results.add(parts);
    results.add(loss);
  }
};

struct Distributions : Program {
  Tensor x;
  Shape shape;
  Generator own{9};
  random::ChoiceOptions weighted{.weights = tensor({0.0, 1.0, 3.0, 1.0}), .replace = false};
  explicit Distributions(unsigned variant)
      : x(numbers({4, side(variant)}, variant)), shape({side(variant), 2}) {}
  void reset() override {
    seed(4);
    own.restore(9, 0);
  }
  void run(Results& results) override {
    results.add(random::exponential(shape) + random::gumbel(shape, {.scale = 2}));
    results.add(random::truncated_normal(shape) + random::gamma(0.5, shape, {.scale = 2}));
    results.add(random::beta(2, 0.5, shape) + random::gamma(3, shape));
    results.add(random::shuffle(x, 1) + x);
    results.add(random::categorical(x) + sum(random::categorical(x, 3), 1));
    results.add(random::choice(x, 3) + random::choice(x, 3, weighted));
    const Generator copy = own.clone();
    {
      const GeneratorScope scope(copy);
      results.add(random::normal(shape));
      results.add(static_cast<double>(thread_generator().position()));
    }
    Generator mine = thread_generator();
    mine.restore(3, 8);
    results.add(random::uniform(shape));
  }
};

struct Losses : Program {
  Variable w, other;
  Tensor target, labels, signs;
  CrossEntropyOptions options{.ignored_label = 0, .smoothing = 0.1};
  BinaryCrossEntropyOptions weighted;
  explicit Losses(unsigned variant)
      : w("w", numbers({4, side(variant)}, variant)),
        other("other", numbers({4, side(variant)}, variant + 2)),
        target(softmax(numbers({4, side(variant)}, variant + 4))),
        labels(tensor({1, 0, 1, 1})),
        signs(tensor({1, -1, 1, -1})) {
    options.class_weights = weighted.positive_weight = ones({side(variant)});
  }
  void run(Results& results) override {
    GradientTape tape;
    const Tensor between = sigmoid(w);
    Tensor loss = mse_loss(w, target) + l1_loss(w, target) + huber_loss(w, target, {.delta = 0.5});
    loss = loss + binary_cross_entropy(between, target) +
           binary_cross_entropy_with_logits(w, target) +
           binary_cross_entropy_with_logits(w, target, weighted) + hinge_loss(w, 1);
    loss = loss + kl_divergence(log_softmax(w), target) + mean(cosine_similarity(w, other)) +
           cosine_embedding_loss(w, other, signs, {.margin = 0.1}) +
           triplet_margin_loss(w, other, target) + cross_entropy(w, labels, options);
    loss = loss + mean(lgamma(between + 1) + digamma(between + 1) + polygamma(1, between + 1));
    results.add(loss);
    for (const Tensor& slope : tape.gradient(loss, {w, other})) results.add(slope);
    results.add(mse_loss(w, target, Reduction::none) + l1_loss(w, target, Reduction::sum));
  }
};

struct Plots : Program {
  Tensor x;
  std::vector<double> y = {1, 2, 4};
  std::vector<plot::Series> series{{"a name that is on the heap, as long as it is", y, {}}};
  plot::LineOptions options{.title = "a title that is on the heap, as long as it is"};
  std::vector<std::string> names;
  explicit Plots(unsigned variant)
      : x(abs(numbers({3, 3}, variant))), names(3, "the name of a row, which is on the heap") {}
  void run(Results& results) override {
    const auto add = [&](const plot::Plot& plot) {
      results.add(static_cast<double>(plot.to_text().size() + plot.to_svg().size()));
    };
    add(plot::lines(series, options));
    add(plot::lines(x));
    add(plot::histogram(y));
    add(plot::heatmap(x));
    add(plot::confusion(x));
    add(plot::attention(x));
    bench::Progress progress("a unit whose name is on the heap", 1, {.descriptor = -1});
    progress.show(1, names[0]);
  }
};
}  // namespace

std::unique_ptr<Program> plots_program(unsigned variant) { return make<Plots>(variant); }
std::unique_ptr<Program> selection_program(unsigned variant) { return make<Selection>(variant); }
std::unique_ptr<Program> layout_program(unsigned variant) { return make<Layout>(variant); }
std::unique_ptr<Program> scatter_program(unsigned variant) { return make<Scatter>(variant); }
std::unique_ptr<Program> distributions_program(unsigned variant) {
  return make<Distributions>(variant);
}
std::unique_ptr<Program> losses_program(unsigned variant) { return make<Losses>(variant); }
}  // namespace reel::tests
