// SPDX-License-Identifier: BSD-3-Clause
// Norms, highways, recurrent layers of any cell, and what goes with them.
#include <reel/nn/normalize.hpp>
#include <reel/nn/recurrence.hpp>
#include <reel/nn/select.hpp>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// x [batch, channels, rest], normalised in plain loops: one mean and variance for each pair of
/// batch / `examples` and channel / `channels`.
struct Moments {
  std::vector<double> mean, variance, result;
};
Moments normalised(const Tensor& x, std::int64_t examples, std::int64_t channels,
                   const std::vector<double>& scale, const std::vector<double>& shift,
                   double epsilon) {
  const std::vector<double> values = x.to_vector<double>();
  const std::int64_t width = x.shape()[1], rest = x.size() / (x.shape()[0] * width);
  const std::int64_t groups = width / channels, cells = x.shape()[0] / examples * groups;
  const auto cell = [&](std::int64_t i) {
    const std::int64_t n = i / (width * rest), c = i / rest % width;
    return static_cast<std::size_t>(n / examples * groups + c / channels);
  };
  const double count = static_cast<double>(x.size()) / static_cast<double>(cells);
  Moments out{std::vector<double>(static_cast<std::size_t>(cells)),
              std::vector<double>(static_cast<std::size_t>(cells)), values};
  for (std::int64_t i = 0; i < x.size(); ++i)
    out.mean[cell(i)] += values[static_cast<std::size_t>(i)] / count;
  for (std::int64_t i = 0; i < x.size(); ++i)
    out.variance[cell(i)] +=
        std::pow(values[static_cast<std::size_t>(i)] - out.mean[cell(i)], 2) / count;
  for (std::int64_t i = 0; i < x.size(); ++i) {
    double& value = out.result[static_cast<std::size_t>(i)];
    const std::size_t c = static_cast<std::size_t>(i / rest % width);
    value = (value - out.mean[cell(i)]) / std::sqrt(out.variance[cell(i)] + epsilon) * scale[c] +
            shift[c];
  }
  return out;
}
}  // namespace

TEST_CASE("RMSNorm divides by the root of the mean square", "[nn]") {
  nn::RMSNorm norm(4, {.epsilon = 0.1, .dtype = DType::float64});
  norm.scale.assign(numbers({4}));
  Variable x("x", numbers({2, 3, 4}));
  const std::vector<double> in = x.value().to_vector<double>(),
                            scale = norm.scale.value().to_vector<double>();
  std::vector<double> expected;
  for (std::size_t row = 0; row < 6; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) squares += in[row * 4 + i] * in[row * 4 + i];
    for (std::size_t i = 0; i < 4; ++i)
      expected.push_back(in[row * 4 + i] / std::sqrt(squares / 4 + 0.1) * scale[i]);
  }
  require_near(norm(x), expected);
  require_near(norm(transpose(transpose(x.value()).reshape({4, 6})).reshape({6, 4})),
               norm(x.value().reshape({6, 4}) * 0 + transpose(transpose(x.value()).reshape({4, 6})))
                   .to_vector<double>());
  check_gradients({x, norm.scale}, [&] { return norm(x); });
  CHECK(norm(zeros({0, 4})).shape() == Shape({0, 4}));
  CHECK(std::isnan(norm(full({4}, std::nan(""))).to_vector<double>()[0]));
  require_parts(message<ShapeError>([&] { norm(ones({3})); }), {"RMSNorm: x", "last length 4"});
  require_parts(message<ShapeError>([&] { nn::RMSNorm(0); }), {"RMSNorm: width"});
  require_parts(message<Error>([&] { nn::RMSNorm(2, {.epsilon = -1}); }), {"RMSNorm: epsilon"});
}

TEST_CASE("GroupNorm normalises groups of channels of each example", "[nn]") {
  for (const std::int64_t groups : {1, 2, 6}) {
    for (const Shape& shape : {Shape({3, 6, 2}), Shape({2, 6, 2, 3}), Shape({2, 6})}) {
      if (shape.elements() / (shape[0] * groups) == 1) continue;  // no variance to differentiate
      nn::GroupNorm norm(groups, 6,
                         {.epsilon = 1e-2, .dtype = DType::float64, .channels = Channels::first});
      norm.scale.assign(numbers({6}));
      norm.shift.assign(numbers({6}));
      Variable x("x", numbers(shape));
      require_near(norm(x), normalised(x, 1, 6 / groups, norm.scale.value().to_vector<double>(),
                                       norm.shift.value().to_vector<double>(), 1e-2)
                                .result);
      check_gradients({x, norm.scale, norm.shift}, [&] { return norm(x); });
    }
  }
  nn::GroupNorm norm(2, 4);
  CHECK(norm(zeros({0, 3, 4})).shape() == Shape({0, 3, 4}));
  require_parts(message<ShapeError>([&] {
                  norm(ones({2, 4, 3}));
                }),
                {"GroupNorm: x", "(batch, ..., 4)"});
  require_parts(message<ShapeError>([&] {
                  norm(ones({2, 3}));
                }),
                {"GroupNorm: x", "(batch, ..., 4)"});
  require_parts(message<ShapeError>([&] { norm(ones({4})); }), {"GroupNorm: x"});
  require_parts(message<ShapeError>([&] { nn::GroupNorm(3, 4); }), {"GroupNorm: groups"});
}

TEST_CASE("BatchNorm has the variance of a batch that is far from 0", "[nn]") {
  nn::BatchNorm norm(1, {.momentum = 1});
  const double at = 1e7 + 0.5;  // the mean is rounded to a whole number
  const Tensor x = (at + tensor<double>({{-1.5}, {-0.5}, {0.5}, {1.5}})).to(DType::float32);
  const Tensor y = norm(x);
  CHECK(norm.variance.value().item<float>() == Approx(5 / 3.0));  // 1.25, of a sample
  require_near(y.to(DType::float64), {-1.341635, -0.447212, 0.447212, 1.341635}, 1e-5);
}

TEST_CASE("norms of channels in the last axis are those of channels in axis 1", "[nn]") {
  const Tensor x = numbers({2, 3, 2, 6}), first = transpose(x, {0, 3, 1, 2});
  const auto turned = [](const Tensor& y) { return transpose(y, {0, 2, 3, 1}); };
  const DType dtype = DType::float64;
  const Channels one = Channels::first;
  CHECK(allclose(nn::GroupNorm(2, 6, {.dtype = dtype})(x),
                 turned(nn::GroupNorm(2, 6, {.dtype = dtype, .channels = one})(first))));
  CHECK(allclose(nn::InstanceNorm(6, {.dtype = dtype})(x),
                 turned(nn::GroupNorm(6, 6, {.dtype = dtype, .channels = one})(first))));
  nn::BatchNorm last(6, {.dtype = dtype}), other(6, {.dtype = dtype, .channels = one});
  CHECK(allclose(last(x), turned(other(first))));
  CHECK(allclose(last.variance, other.variance));
  const TrainScope evaluating(false);
  CHECK(allclose(last(x), turned(other(first))));
  require_parts(message<ShapeError>([&] { last(first); }), {"BatchNorm: x", "(batch, ..., 6)"});
  require_parts(message<ShapeError>([&] { other(x); }), {"BatchNorm: x", "(batch, 6, ...)"});
}

TEST_CASE("BatchNorm normalises with the batch while training, else with running numbers", "[nn]") {
  for (const Shape& shape : {Shape({5, 3}), Shape({2, 3, 4}), Shape({2, 3, 2, 2})}) {
    nn::BatchNorm norm(
        3,
        {.epsilon = 1e-2, .momentum = 0.25, .dtype = DType::float64, .channels = Channels::first});
    norm.scale.assign(numbers({3}));
    norm.shift.assign(numbers({3}));
    const std::vector<double> scale = norm.scale.value().to_vector<double>(),
                              shift = norm.shift.value().to_vector<double>();
    Variable x("x", numbers(shape));
    const double count = static_cast<double>(x.size()) / 3;
    std::vector<double> mean(3, 0), variance(3, 1);
    for (int step = 0; step < 3; ++step) {
      x.assign(numbers(shape) * 3 + 1);
      const Moments expected = normalised(x, shape[0], 1, scale, shift, 1e-2);
      require_near(norm(x), expected.result);
      for (std::size_t c = 0; c < 3; ++c) {
        mean[c] += 0.25 * (expected.mean[c] - mean[c]);
        variance[c] += 0.25 * (expected.variance[c] * count / (count - 1) - variance[c]);
      }
      require_near(norm.mean, mean);
      require_near(norm.variance, variance);
    }
    check_gradients({x, norm.scale, norm.shift}, [&] { return norm(x); });
    const TrainScope evaluating(false);
    const std::vector<double> in = x.value().to_vector<double>();
    mean = norm.mean.value().to_vector<double>();
    variance = norm.variance.value().to_vector<double>();
    std::vector<double> expected;
    const std::size_t rest = static_cast<std::size_t>(x.size() / (shape[0] * 3));
    for (std::size_t i = 0; i < in.size(); ++i) {
      const std::size_t c = i / rest % 3;
      expected.push_back((in[i] - mean[c]) / std::sqrt(variance[c] + 1e-2) * scale[c] + shift[c]);
    }
    require_near(norm(x), expected);
    check_gradients({x, norm.scale, norm.shift}, [&] { return norm(x); });
    CHECK(norm(zeros({0, 3}, wide)).shape() == Shape({0, 3}));
    CHECK(equal(norm.mean, tensor(mean)));
  }
  nn::BatchNorm norm(3);
  CHECK(parameters(norm).size() == 2);
  CHECK(buffers(norm).size() == 2);
  require_parts(message<ShapeError>([&] { norm(ones({1, 3})); }), {"BatchNorm: x", "two elements"});
  require_parts(message<ShapeError>([&] { norm(ones({2, 4})); }), {"BatchNorm: x"});
  require_parts(message<Error>([] { nn::BatchNorm(3, {.momentum = 2}); }), {"BatchNorm: momentum"});
}

TEST_CASE("BatchNorm follows its batches in a trace too", "[nn]") {
  seed(4);
  const std::vector<Tensor> batches = {numbers({6, 2}), numbers({6, 2}), numbers({6, 2}),
                                       numbers({6, 2})};
  nn::BatchNorm norm(2, {.dtype = DType::float64});
  nn::BatchNorm other = clone(norm);
  auto traced = trace([&](const Tensor& x) { return norm(x); });
  for (const Tensor& x : batches) CHECK(equal(traced(x), other(x)));
  CHECK(equal(norm.mean, other.mean));
  CHECK(equal(norm.variance, other.variance));
}

TEST_CASE("Linear without bias is a product", "[nn]") {
  nn::Linear linear(3, 2, nn::no_bias, Activation::none, wide);
  CHECK(named_parameters(linear).size() == 1);
  Variable x("x", numbers({4, 3}));
  const std::vector<double> in = x.value().to_vector<double>(),
                            weight = linear.weight.value().to_vector<double>();
  std::vector<double> expected;
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t j = 0; j < 2; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < 3; ++i) sum += in[n * 3 + i] * weight[i * 2 + j];
      expected.push_back(sum);
    }
  require_near(linear(x), expected);
  check_gradients({x, linear.weight}, [&] { return linear(x); });
  CHECK(linear(x.value().reshape({2, 2, 3})).shape() == Shape({2, 2, 2}));
  using Unary = Tensor (*)(Operand);
  for (const auto& [activation, f] : {std::pair<Activation, Unary>(Activation::relu, relu),
                                      {Activation::tanh, tanh},
                                      {Activation::sigmoid, sigmoid}}) {
    nn::Linear active(3, 2, nn::no_bias, activation, wide);
    require_near(active(x), f(matmul(x, active.weight)).to_vector<double>());
  }
  const nn::Linear copy = clone(linear);
  CHECK(equal(copy(x), linear(x)));
}

TEST_CASE("Highway mixes its input with what it makes of it", "[nn]") {
  nn::Highway highway(3, Activation::tanh, wide);
  require_near(highway.gate.bias, {-1, -1, -1});
  Variable x("x", numbers({2, 3}));
  const auto layer = [&](const nn::Linear& of, std::size_t n, std::size_t j, double (*f)(double)) {
    const std::vector<double> in = x.value().to_vector<double>(),
                              weight = of.weight.value().to_vector<double>();
    double sum = of.bias.value().to_vector<double>()[j];
    for (std::size_t i = 0; i < 3; ++i) sum += in[n * 3 + i] * weight[i * 3 + j];
    return f(sum);
  };
  std::vector<double> expected;
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t j = 0; j < 3; ++j) {
      const double t = layer(highway.gate, n, j, [](double s) { return 1 / (1 + std::exp(-s)); });
      const double h = layer(highway.transform, n, j, [](double s) { return std::tanh(s); });
      expected.push_back(t * h + (1 - t) * x.value().to_vector<double>()[n * 3 + j]);
    }
  require_near(highway(x), expected);
  std::vector<Variable> all = parameters(highway);
  CHECK(all.size() == 4);
  all.push_back(x);
  check_gradients(all, [&] { return highway(x); });
  require_parts(message<ShapeError>([&] { highway(ones({2, 4})); }), {"Highway: x"});
}

TEST_CASE("Flatten joins the last axes", "[nn]") {
  const Tensor x = numbers({2, 3, 4});
  CHECK(nn::Flatten()(x).shape() == Shape({2, 12}));
  CHECK(nn::Flatten{0}(x).shape() == Shape({24}));
  CHECK(nn::Flatten{-1}(x).shape() == Shape({2, 3, 4}));
  CHECK(nn::Flatten()(zeros({0, 3, 4})).shape() == Shape({0, 12}));
  CHECK(equal(nn::Flatten()(transpose(x)), transpose(x).reshape({4, 6})));
  nn::Sequential model(nn::Flatten(), nn::Linear(12, 2));
  CHECK(model(cast(x, DType::float32)).shape() == Shape({2, 2}));
  require_parts(message<IndexError>([] { nn::Flatten()(ones({2})); }), {"Flatten: first_axis"});
  require_parts(message<IndexError>([] { nn::Flatten{2}(ones({2, 3})); }), {"got 2"});
}

namespace {
struct PairState {
  Tensor h, count;
  REEL_FIELDS(h, count)
};
/// A cell with a state of its own: it counts its steps.
struct CountingCell {
  nn::RNNCell cell;
  CountingCell(Extent in, Extent hidden) : cell(in, hidden, wide) {}
  PairState initial_state(Extent batch) const {
    return {cell.initial_state(batch), zeros({batch, 1}, wide)};
  }
  PairState operator()(Operand x, const PairState& state) const {
    return {cell(x, state.h), state.count + 1};
  }
  REEL_FIELDS(cell)
};
}  // namespace

TEST_CASE("Recurrent of LSTM and GRU cells gives what nn::LSTM and nn::GRU give", "[nn]") {
  const Tensor x = numbers({5, 3, 2}), lengths = tensor({5, 0, 2});
  const auto compare = [&](auto layers, auto recurrent) {
    recurrent.cells = layers.cells;
    for (const Tensor& of : {Tensor(), lengths}) {
      const auto expected = layers(x, {}, of);
      const auto got = recurrent(x, {}, of);
      require_near(got.outputs, expected.outputs.template to_vector<double>());
      for (std::size_t i = 0; i < layers.cells.size(); ++i)
        require_near(detail::h_of(got.states[i]),
                     detail::h_of(expected.states[i]).template to_vector<double>());
      const auto next = recurrent(x, got.states, of);
      require_near(next.outputs,
                   layers(x, expected.states, of).outputs.template to_vector<double>());
    }
  };
  for (const bool both : {false, true}) {
    compare(nn::LSTM(2, 3, {.layers = 2, .bidirectional = both, .dtype = DType::float64}),
            nn::Recurrent<nn::LSTMCell>(2, 3, {.layers = 2, .bidirectional = both}));
    compare(nn::GRU(2, 3, {.layers = 2, .bidirectional = both, .dtype = DType::float64}),
            nn::Recurrent<nn::GRUCell>(2, 3, {.layers = 2, .bidirectional = both}));
  }
}

TEST_CASE("Recurrent draws no numbers where nothing is dropped, and refuses other inputs", "[nn]") {
  const Tensor x = ones({3, 2, 2});
  const auto draws = [&](double dropout, bool train) {
    const nn::Recurrent<nn::RNNCell> layers(2, 3, {.layers = 2, .dropout = dropout});
    const GeneratorScope scope(Generator(1));
    const TrainScope mode(train);
    layers(x);
    return thread_generator().position();
  };
  CHECK(draws(0, true) == 0);
  CHECK(draws(0.5, false) == 0);
  CHECK(draws(0.5, true) > 0);
  using Layers = nn::Recurrent<nn::RNNCell>;
  require_parts(message<Error>([] { Layers(2, 3, {.layers = 2, .dropout = 1}); }),
                {"Recurrent: dropout"});
  const Layers layers(2, 3);
  require_parts(message<ShapeError>([&] { layers(1.0); }),
                {"Recurrent: x: expected shape (time, batch, in), got a number"});
  require_parts(message<ShapeError>([&] {
                  layers(ones({2, 2}));
                }),
                {"Recurrent: x: expected shape (time, batch, in), got (2, 2)"});
}

TEST_CASE("norms begin with scales of one and may have no epsilon", "[nn]") {
  const nn::RMSNorm root(2, {.epsilon = 0});
  CHECK(equal(root.scale, ones({2})));
  require_near(root(tensor({3.0, 3.0})).to(DType::float64), {1, 1}, 1e-6);
  const nn::GroupNorm group(1, 2, {.epsilon = 0});
  CHECK(equal(group.scale, ones({2})));
  CHECK(equal(group.shift, zeros({2})));
  require_parts(message<Error>([] { nn::RMSNorm(2, {.epsilon = -1}); }), {"RMSNorm: epsilon"});
}

TEST_CASE("Recurrent runs cells of users, and has gradients", "[nn]") {
  nn::Recurrent<CountingCell> layers(2, 3, {.layers = 2, .bidirectional = true});
  CHECK(layers.cells.size() == 4);
  CHECK(named_parameters(layers)[2].first == "cells.1.cell.weight");
  const Tensor x = numbers({4, 2, 2}), lengths = tensor({4, 1});
  const auto out = layers(x, {}, lengths);
  CHECK(out.outputs.shape() == Shape({4, 2, 6}));
  for (const auto& state : out.states) require_near(state.count, {4, 1});
  CHECK(equal(out.outputs(range(1, {}), 1), zeros({3, 6}, wide)));
  std::vector<Variable> all = parameters(layers);
  check_gradients(all, [&] { return layers(x, {}, lengths).outputs; });
  CHECK(layers(zeros({0, 2, 2}, wide)).outputs.shape() == Shape({0, 2, 6}));
  nn::check(layers, [&] { return layers(x).outputs; });

  nn::Recurrent<nn::RNNCell> relus(
      2, 3, {}, [](Extent in, Extent hidden) { return nn::RNNCell(in, hidden, Activation::relu); });
  CHECK(relus.cells[0].activation == Activation::relu);
  require_parts(message<ShapeError>([&] { relus(ones({2, 2})); }), {"Recurrent: x"});
  require_parts(message<ShapeError>([&] { relus(ones({2, 2, 5})); }), {"Recurrent: x"});
  require_parts(message<ShapeError>([&] {
                  relus(ones({2, 2, 2}), {}, tensor({1}));
                }),
                {"Recurrent: lengths"});
  for (const int length : {3, -1})
    require_parts(
        message<IndexError>([&] {
          relus(ones({2, 2, 2}), {}, tensor({1, length}));
        }),
        {"Recurrent: lengths: expected 0 to 2, got " + std::to_string(length) + " at [1]"});
  require_parts(message<DTypeError>([&] {
                  relus(ones({2, 2, 2}), {}, ones({2}));
                }),
                {"Recurrent: lengths: expected uint8, int32 or int64, got float32"});
  require_parts(message<ShapeError>([&] {
                  relus(ones({2, 2, 2}), {ones({2, 3}), ones({2, 3})});
                }),
                {"Recurrent: states"});
  require_parts(message<ShapeError>([] { nn::Recurrent<nn::RNNCell>(2, 0); }),
                {"Recurrent: hidden"});
  require_parts(message<Error>([] { nn::Recurrent<nn::RNNCell>(2, 2, {.dropout = 0.5}); }),
                {"Recurrent: dropout"});
}

TEST_CASE("pad_sequences makes sequences equally long", "[nn]") {
  const auto padded =
      nn::pad_sequences({tensor({1, 2, 3}), tensor({4}), zeros({0}).to(DType::int32)}, -1);
  CHECK(equal(padded.values, tensor({{1, 4, -1}, {2, -1, -1}, {3, -1, -1}})));
  CHECK(equal(padded.lengths, tensor({3, 1, 0})));
  CHECK(padded.values.dtype() == DType::int32);
  Variable x("x", numbers({2, 3}));
  check_gradients({x}, [&] { return nn::pad_sequences({x, numbers({4, 3})}).values(all, 0); });
  CHECK(nn::pad_sequences({zeros({0, 2})}).values.shape() == Shape({0, 1, 2}));
  require_parts(message<ShapeError>([] { nn::pad_sequences({}); }), {"pad_sequences: sequences"});
  require_parts(message<ShapeError>([] { nn::pad_sequences({tensor(1)}); }), {"sequence 0"});
  require_parts(message<ShapeError>([] {
                  nn::pad_sequences({ones({1, 2}), ones({1, 3})});
                }),
                {"pad_sequences: sequence 1"});
}

TEST_CASE("unpad_sequences gives the sequences that pad_sequences was given", "[nn]") {
  const std::vector<Tensor> sequences = {numbers({3, 2}), numbers({1, 2}), zeros({0, 2}, wide)};
  const auto [values, lengths] = nn::pad_sequences(sequences, 7);
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) {
    const auto got = nn::unpad_sequences(values, lengths.to(dtype));
    REQUIRE(got.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(equal(got[i], sequences[i]));
  }
  CHECK(nn::unpad_sequences(zeros({2, 0}), zeros({0}, int64)).empty());
  Variable x("x", numbers({3, 2, 2}));
  check_gradients({x}, [&] {
    const auto parts = nn::unpad_sequences(x, tensor({3, 1}));
    return concat({square(parts[0]), parts[1]});
  });
  require_parts(message<ShapeError>([] { nn::unpad_sequences(ones({2}), tensor({2})); }),
                {"unpad_sequences: values: expected shape (time, batch, ...), got (2,)"});
  require_parts(message<ShapeError>([] {
                  nn::unpad_sequences(ones({2, 3}), tensor({2, 1}));
                }),
                {"unpad_sequences: lengths: expected (3,), one for each sequence, got (2,)"});
  require_parts(message<DTypeError>([] {
                  nn::unpad_sequences(ones({2, 1}), ones({1}));
                }),
                {"unpad_sequences: lengths", "float32"});
  require_parts(message<Error>([] {
                  nn::unpad_sequences(ones({2, 1}), {});
                }),
                {"unpad_sequences: lengths", "undefined"});
  for (const int length : {3, -1})
    require_parts(
        message<IndexError>([&] {
          nn::unpad_sequences(ones({2, 2}), tensor({1, length}));
        }),
        {"unpad_sequences: lengths: expected 0 to 2, got " + std::to_string(length) + " at [1]"});
}

TEST_CASE("parameters are chosen by a test, or as all without some", "[nn]") {
  struct Model {
    nn::Linear hidden{2, 3}, head{3, 1};
    REEL_FIELDS(hidden, head)
  };
  Model model;
  const auto weights = parameters(
      model, [](std::string_view path, const Variable&) { return path.ends_with("weight"); });
  REQUIRE(weights.size() == 2);
  CHECK(weights[1].same_cell(model.head.weight));
  const auto trained = without(parameters(model), parameters(model.hidden));
  REQUIRE(trained.size() == 2);
  CHECK(trained[0].same_cell(model.head.weight));
  const Tensor before = model.hidden.weight;
  optim::SGD sgd(trained);
  GradientTape tape;
  sgd.step(tape.gradient(sum(model.head(model.hidden(ones({1, 2})))), sgd.variables()));
  CHECK(equal(model.hidden.weight, before));
}

TEST_CASE("the padding of an Embedding starts with zeros and gets no gradient") {
  for (const bool sparse : {false, true}) {
    const nn::Embedding embed(4, 3, {.sparse = sparse, .padding = 1});
    CHECK(all(embed.table(1) == 0));
    CHECK(any(embed.table(0) != 0));
    const Tensor words = tensor({{0, 1}, {-3, 3}});
    CHECK(equal(embed(words), take(embed.table, words)));
    GradientTape tape;
    const Tensor slope = tape.gradient(sum(embed(words)), embed.table);
    CHECK(equal(sum(slope, 1), tensor({3.0, 0.0, 0.0, 3.0})));
    optim::AdamW adam(parameters(embed));
    for (int i = 0; i < 2; ++i) {
      GradientTape step;
      adam.step(step, sum(square(embed(words) - 1)));
    }
    CHECK(all(embed.table(1) == 0));
    embed.table(1).assign(7);  // as weights that are loaded
    CHECK(all(embed(tensor({1})) == 7));
  }
  CHECK(any(nn::Embedding(4, 3).table(3) != 0));
  check_refused<IndexError>([] { nn::Embedding(4, 3, {.padding = 4}); },
                            "Embedding: padding: expected -1 to 3, got 4");
}

TEST_CASE("EmbeddingBag: bags in rows, and bags by offsets") {
  nn::EmbeddingBag mean(4, 2), sum(4, 2, nn::Bag::sum), largest(4, 2, nn::Bag::max);
  const Tensor table = tensor({{1.0, -1.0}, {2.0, 5.0}, {3.0, 0.0}, {-4.0, 8.0}});
  for (nn::EmbeddingBag* layer : {&mean, &sum, &largest}) layer->rows.table.assign(table);
  const Tensor words = tensor({{0, 1}, {3, 3}, {2, -1}});
  CHECK(allclose(sum(words), tensor({{3.0, 4.0}, {-8.0, 16.0}, {-1.0, 8.0}})));
  CHECK(allclose(mean(words), tensor({{1.5, 2.0}, {-4.0, 8.0}, {-0.5, 4.0}})));
  CHECK(allclose(largest(words), tensor({{2.0, 5.0}, {-4.0, 8.0}, {3.0, 8.0}})));
  const Tensor list = tensor({0, 1, 2, 3}), offsets = tensor({0, 3, 3});
  CHECK(allclose(sum(list, offsets), tensor({{6.0, 4.0}, {0.0, 0.0}, {-4.0, 8.0}})));
  CHECK(allclose(mean(list, offsets), tensor({{2.0, 4.0 / 3}, {0.0, 0.0}, {-4.0, 8.0}})));
  CHECK(allclose(largest(list, offsets), tensor({{3.0, 5.0}, {0.0, 0.0}, {-4.0, 8.0}})));
  nn::EmbeddingBag padded(4, 2, nn::Bag::mean, {.padding = 3});
  padded.rows.table.assign(table);
  CHECK(allclose(padded(tensor({{0, 3}, {3, -1}, {1, 2}})),
                 tensor({{1.0, -1.0}, {0.0, 0.0}, {2.5, 2.5}})));
  CHECK(allclose(padded(tensor({0, 3, 3, 2}), tensor({0, 2, 3})),
                 tensor({{1.0, -1.0}, {0.0, 0.0}, {3.0, 0.0}})));
  nn::EmbeddingBag rows(4, 2, nn::Bag::sum, {.sparse = true});
  GradientTape tape;
  const auto gradients =
      tape.row_gradients(reel::sum(rows(tensor({{0, 2}, {2, 2}}))), {rows.rows.table});
  CHECK(equal(scatter_add(zeros({4, 2}), gradients[0].rows, gradients[0].values),
              tensor({{1.0, 1.0}, {0.0, 0.0}, {3.0, 3.0}, {0.0, 0.0}})));
  CHECK_THROWS_AS(mean(list), ShapeError);
  CHECK_THROWS_AS(mean(words, offsets), ShapeError);
}
TEST_CASE("EmbeddingBag refuses a word outside of the table", "[cpu]") {
  CHECK_THROWS_AS(nn::EmbeddingBag(4, 2)(tensor({{4}})), IndexError);
}
}  // namespace reel::tests
