// SPDX-License-Identifier: BSD-3-Clause
// Programs that train and evaluate models, and functions of functions.
#include <array>
#include <utility>
#include <vector>

#include "exhaustion/programs.hpp"
#include "lib/flow/flow.hpp"

namespace reel::tests {
namespace {
struct Optimizers : Program {
  nn::Linear model;
  std::vector<Tensor> start;
  Tensor x;
  std::vector<optim::Group<optim::RMSpropOptions>> groups;
  optim::OneCycleOptions cycle{.rising = 0.5};
  explicit Optimizers(unsigned variant)
      : model(side(variant), 3, {.dtype = floats[variant % 2]}),
        x(numbers({4, side(variant)}, variant)),
        groups{{{model.weight}, {.momentum = 0.5}}, {{model.bias}, {.weight_decay = 0.1}}} {
    for (const Variable& each : parameters(model)) start.push_back(each.value() * 1);
  }
  void reset() override {
    model.weight.assign(start[0]);
    model.bias.assign(start[1]);
  }
  std::vector<Tensor> slopes() const {
    GradientTape tape;
    return tape.gradient(mean(square(model(x))), parameters(model));
  }
  template <class Optimizer>
  void train(Results& results, Optimizer& optimizer, const optim::Factor& factor) const {
    optim::Schedule schedule(optimizer, factor);
    for (int i = 0; i < 2; ++i) {
      optimizer.step(optim::clip_by_value(slopes(), -1, 1));
      schedule.step();
    }
    results.add(model.weight);
    results.add(optimizer.learning_rate());
  }
  void run(Results& results) override {
    optim::RMSprop rmsprop(groups);
    train(results, rmsprop, optim::warm_up(1, optim::cosine_decay(3)));
    optim::Adagrad adagrad(parameters(model), {.first_sum = 0.1});
    train(results, adagrad, optim::one_cycle(4, cycle));
    optim::AdamW adam(parameters(model), {.amsgrad = true});
    train(results, adam, optim::step_decay(1));
    optim::SGD sgd(parameters(model), {.momentum = 0.5, .nesterov = true});
    train(results, sgd, optim::exponential_decay(0.9));
    optim::ReduceOnPlateau plateau(sgd, {.patience = 0});
    for (int i = 0; i < 2; ++i) plateau.step(sum(model.bias) + i);
    results.add(sgd.learning_rate());

    optim::WeightAverage average(parameters(model), {.decay = 0.5});
    optim::GradientSum total(parameters(model));
    for (int i = 0; i < 2; ++i) total.add(slopes());
    sgd.step(total.take());
    average.update();
    results.add(optim::global_norm(slopes()));
    average.swap();
    results.add(model(x));
    average.swap();
    results.add(static_cast<double>(
        without(parameters(model), average.averages()).size() +
        parameters(model, [](auto path, const auto&) { return path == "bias"; }).size()));
  }
};

struct Layers : Program {
  std::int64_t n;
  nn::Recurrent<nn::LSTMCell> recurrent;
  nn::BatchNorm batch;
  nn::GroupNorm group{2, 6, {.channels = Channels::first}};
  nn::RMSNorm root;
  Tensor x, lengths = tensor({3, 1}), labels = tensor({1, 0}), image;
  std::vector<Tensor> start, sequences;
  REEL_FIELDS(recurrent, batch, group, root)
  explicit Layers(unsigned variant)
      : n(side(variant)),
        recurrent(n, 3, {.layers = 2, .bidirectional = true, .dropout = 0.2}),
        batch(6, {.channels = Channels::first}),
        root(6),
        x(numbers({3, 2, n}, 0)),
        image(numbers({2, 6, n}, 0)),
        sequences{ones({2, n}), zeros({1, n})} {
    start = {batch.mean.value() * 1, batch.variance.value() * 1};
  }
  void reset() override {
    batch.mean.assign(start[0]);
    batch.variance.assign(start[1]);
    seed(3);
  }
  void run(Results& results) override {
    {
      const FiniteScope finite;
      GradientTape tape;
      const auto out = recurrent(x, recurrent.initial_states(2), lengths);
      const Tensor y = batch(group(image))(range(0, 2), all, 0) + root(out.outputs(0));
      for (const Tensor& slope : tape.gradient(sum(y * y), parameters(*this))) results.add(slope);
      results.add(out.states[3].c);
    }
    {
      const TrainScope evaluating(false);
      results.add(batch(image));
      const nn::Recurrent<nn::GRUCell> other(n, 2);
      results.add(static_cast<double>(other(x).outputs.size() + count_parameters(other)));
    }
    results.add(nn::pad_sequences(sequences).values);
    nn::check(
        *this, [this](const Tensor& at) { return root(at); }, image(all, all, 0));
    score(results, image(all, all, 0));
    FiberFlow fiber;
    fiber.swap();
    try {
      results.add(random::normal({2}).size() + batch(image));
    } catch (...) {
      fiber.swap();
      throw;
    }
    fiber.swap();
  }
  void score(Results& results, const Tensor& scores) const {
    const Tensor guess = argmax(scores, 1);
    results.add(metrics::accuracy(scores, labels) + metrics::top_k_accuracy(scores, labels, 2));
    results.add(metrics::confusion_matrix(guess, labels, 6));
    results.add(metrics::f1(guess, labels, 6) + metrics::perplexity(scores, labels));
    results.add(metrics::auc(scores(all, 0), labels));
  }
};

struct Transformers : Program {
  nn::TransformerDecoderLayer layer;
  nn::KeyValueCache cache;
  Tensor x, memory, start = tensor({{0, 1}});
  explicit Transformers(unsigned variant)
      : layer(4, 2,
              {.feed_forward = side(variant),
               .dropout = 0.2,
               .rotary_base = 100,
               .dtype = floats[variant % 2]}),
        cache(layer.attention.cache(2, 4)),
        x(numbers({2, 3, 4}, variant)),
        memory(numbers({2, 2, 4}, variant)) {}
  void reset() override {
    cache.clear();
    seed(3);
  }
  void run(Results& results) override {
    {
      GradientTape tape;
      const Tensor y = layer(x + nn::sinusoidal_positions(3, 4), memory);
      for (const Tensor& slope : tape.gradient(sum(y * y), parameters(layer))) results.add(slope);
    }
    const nn::Beams found = nn::beam_search(
        [this](const Tensor&, const Tensor& rows) {
          if (cache.used()) cache.reorder(rows);
          return layer(x(all, range(0, 1)), memory, cache)(all, 0);
        },
        start, {.steps = 2, .beams = 2, .end = 1});
    results.add(found.tokens);
    results.add(nn::greedy_search([](const Tensor& tokens) { return one_hot(tokens(all, -1), 3); },
                                  start, {.steps = 2}));
  }
};

struct Transforms : Program {
  nn::Linear layer;
  Variable w, kept;
  Tensor x;
  std::vector<Tensor> weights, directions;
  explicit Transforms(unsigned variant)
      : layer(side(variant), 3, {.dtype = floats[variant % 2]}),
        w("w", numbers({side(variant)}, variant)),
        kept("kept", zeros({3})),
        x(numbers({2, side(variant)}, variant)),
        weights{layer.weight * 2, layer.bias + 1},
        directions{ones_like(layer.weight), ones_like(layer.bias)} {}
  void reset() override {
    kept.assign(0);
    seed(2);
  }
  void run(Results& results) override {
    GradientTape tape;
    tape.watch(weights[0]);
    const Tensor y = sum(square(functional_call(layer, weights, x)));
    results.add(tape.gradient(y, weights[0]));
    const auto f = [this](const Tensor& at) { return tanh(layer(at * w)) * 2; };
    const auto [value, map] = linearize(f, x);
    const LinearMap copy = map;
    results.add(copy(x * 2) + copy(x));
    results.add(value_and_grad(f)(x).first);
    for (const Tensor& each :
         hvp([&] { return sum(square(layer(x))); }, parameters(layer), directions))
      results.add(each);
    checkpoints(results);
    const auto all_of_them = custom_gradient([](const Tensors& each) {
      return std::pair(Tensors{each[0] * 2, each[1] * 3}, [](const Tensors& upstream) {
        return Tensors{upstream[0] * 2, upstream[1] * 3};
      });
    });
    GradientTape other;
    const Tensors both = all_of_them({w, w * 2});
    results.add(other.gradient(sum(both[0] + both[1]), w));
  }
  /// Checkpoints that read, write and draw, in one another, with several results, and twice.
  void checkpoints(Results& results) {
    const auto inner = checkpoint([this](const Tensor& at) { return dropout(at * w, 0.3) * w; });
    const auto lean = checkpoint([&](const Tensor& a, const Tensor& b) {
      kept.assign(kept + 1);
      return std::pair(inner(a) * b, layer(a) + kept);
    });
    GradientTape tape({.persistent = true});
    const auto [first, second] = lean(x, x * w);
    const Tensor loss = sum(first) + sum(square(second));
    results.add(static_cast<double>(to_string(tape.memory()).size()));
    results.add(static_cast<double>(tape.explain(loss, w).size()));
    for (int i = 0; i < 2; ++i) results.add(tape.gradient(loss, w));
    results.add(kept.value());
  }
};
}  // namespace

std::unique_ptr<Program> optimizers_program(unsigned variant) { return make<Optimizers>(variant); }
std::unique_ptr<Program> layers_program(unsigned variant) { return make<Layers>(variant); }
std::unique_ptr<Program> transformers_program(unsigned variant) {
  return make<Transformers>(variant);
}
std::unique_ptr<Program> transforms_program(unsigned variant) { return make<Transforms>(variant); }
}  // namespace reel::tests
