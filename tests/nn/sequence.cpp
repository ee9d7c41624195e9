// SPDX-License-Identifier: BSD-3-Clause
// Values and gradients of nn::LSTM and nn::GRU, compared with loops over their cells.
#include <limits>
#include <optional>

#include "nn/near.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
Tensor h_of(const nn::LSTMState& state) { return state.h; }
Tensor h_of(const Tensor& state) { return state; }
nn::LSTMState chosen(const Tensor& yes, const nn::LSTMState& a, const nn::LSTMState& b) {
  return {where(yes, a.h, b.h), where(yes, a.c, b.c)};
}
Tensor chosen(const Tensor& yes, const Tensor& a, const Tensor& b) { return where(yes, a, b); }

/// Runs a cell over x step by step, for sequences of these lengths.
template <class Cell>
Tensor looped(const Cell& cell, const Tensor& x, const Tensor& lengths, bool reverse) {
  const std::int64_t time = x.shape()[0];
  auto state = cell.initial_state(x.shape()[1]);
  std::vector<Tensor> outputs(static_cast<std::size_t>(time));
  for (std::int64_t s = 0; s < time; ++s) {
    const std::int64_t t = reverse ? time - 1 - s : s;
    const Tensor runs = expand_dims(lengths, 1) > t;
    const auto next = cell(x(t), state);
    outputs[static_cast<std::size_t>(t)] = where(runs, h_of(next), 0);
    state = chosen(runs, next, state);
  }
  return concat({stack(outputs), expand_dims(h_of(state), 0)});
}

/// The outputs, and the state h as one more step.
template <class Layers>
Tensor at_once(const Layers& layers, const Tensor& x, const Tensor& lengths) {
  const auto out = layers(x, {}, lengths);
  return concat({out.outputs, expand_dims(h_of(out.states.back()), 0)});
}

double tolerance(DType dtype) { return dtype == DType::float32 ? 2e-4 : 1e-11; }

template <class Layers>
void check_one_layer(DType dtype, std::int64_t time, std::int64_t batch, std::int64_t in,
                     std::int64_t hidden, bool ragged) {
  INFO(time << " steps of " << batch << ", " << in << " to " << hidden
            << (ragged ? ", ragged" : ""));
  Layers layers(in, hidden, {.dtype = dtype});
  layers.cells[0].bias.assign(cast(numbers(layers.cells[0].bias.shape()), dtype));
  const Variable x("x", cast(numbers({time, batch, in}), dtype));
  const Tensor lengths =
      ragged ? random::integers(0, time + 1, {batch}) : full({batch}, time).to(DType::int64);
  const Tensor weights = cast(numbers({time + 1, batch, hidden}), dtype);
  const auto gradients = [&](auto f) {
    GradientTape tape;
    return tape.gradient(sum(f() * weights), {x, layers.cells[0].weight, layers.cells[0].bias});
  };
  const auto fused = [&] { return at_once(layers, x, ragged ? lengths : Tensor()); };
  const auto plain = [&] { return looped(layers.cells[0], x, lengths, false); };
  const auto near = [&](const Tensor& got, const Tensor& expected) {
    const double scale =
        std::max(1.0, max(abs(expected)).to(DType::float64).template item<double>());
    REQUIRE(max(abs(got - expected)).to(DType::float64).template item<double>() <=
            scale * tolerance(dtype));
  };
  near(fused(), plain());
  const auto got = gradients(fused), expected = gradients(plain);
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("gradient " << i);
    near(got[i], expected[i]);
  }
}

template <class Layers>
void check_loops() {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const bool ragged : {false, true}) {
      check_one_layer<Layers>(dtype, 1, 1, 1, 1, ragged);
      check_one_layer<Layers>(dtype, 5, 3, 4, 7, ragged);
      check_one_layer<Layers>(dtype, 4, 20, 9, 17, ragged);
      check_one_layer<Layers>(dtype, 3, 33, 70, 100, ragged);
    }
  // More steps than the number of products that the tape combines.
  check_one_layer<Layers>(DType::float64, 200, 32, 3, 64, true);
}
}  // namespace

TEST_CASE("nn::LSTM gives what a loop of its cell gives", "[nn]") { check_loops<nn::LSTM>(); }
TEST_CASE("nn::GRU gives what a loop of its cell gives", "[nn]") { check_loops<nn::GRU>(); }

TEST_CASE("GRUCell follows the formula, gates in the order r, z, n", "[nn]") {
  nn::GRUCell cell(2, 3, wide);
  cell.bias.assign(numbers({12}));
  const std::vector<double> x = {0.3, -0.7}, h = {0.1, 0.5, -0.2};
  const auto w = cell.weight.value().to_vector<double>(), b = cell.bias.value().to_vector<double>();
  const auto dot = [&](const std::vector<double>& row, std::size_t first, std::size_t column) {
    double total = 0;
    for (std::size_t i = 0; i < row.size(); ++i) total += row[i] * w[(first + i) * 9 + column];
    return total;
  };
  const auto logistic = [](double a) { return 1 / (1 + std::exp(-a)); };
  std::vector<double> expected;
  for (std::size_t k = 0; k < 3; ++k) {
    const double r = logistic(dot(x, 0, k) + dot(h, 2, k) + b[k]);
    const double z = logistic(dot(x, 0, 3 + k) + dot(h, 2, 3 + k) + b[3 + k]);
    const double n = std::tanh(dot(x, 0, 6 + k) + b[6 + k] + r * (dot(h, 2, 6 + k) + b[9 + k]));
    expected.push_back((1 - z) * n + z * h[k]);
  }
  require_near(cell(tensor(x).reshape({1, 2}), tensor(h).reshape({1, 3})), expected);
  REQUIRE(equal(cell.initial_state(4), zeros({4, 3}, wide)));
}

template <class Layers>
void check_two_layers() {
  const Layers layers(3, 4, {.layers = 2, .bidirectional = true, .dtype = DType::float64});
  REQUIRE(layers.cells.size() == 4);
  REQUIRE(parameters(layers).size() == 8);
  const Tensor x = numbers({5, 3, 3}), lengths = tensor({5, 2, 0});
  const auto out = layers(x, {}, lengths);
  Tensor y = x;
  for (std::size_t i = 0; i < 4; i += 2) {
    const Tensor ahead = looped(layers.cells[i], y, lengths, false);
    const Tensor back = looped(layers.cells[i + 1], y, lengths, true);
    y = concat({ahead, back}, 2);
    REQUIRE(allclose(h_of(out.states[i]), ahead(5)));
    REQUIRE(allclose(h_of(out.states[i + 1]), back(5)));
    y = y(range(0, 5));
  }
  REQUIRE(out.outputs.shape() == Shape{5, 3, 8});
  REQUIRE(allclose(out.outputs, y));
}

TEST_CASE("Layers in both directions are loops of each cell", "[nn]") {
  check_two_layers<nn::LSTM>();
  check_two_layers<nn::GRU>();
}

TEST_CASE("A sequence in two parts is the whole one", "[nn]") {
  const nn::LSTM lstm(2, 3, {.layers = 2, .dtype = DType::float64});
  const Tensor x = numbers({6, 2, 2});
  const nn::LSTMOutput first = lstm(x(range(0, 4))), rest = lstm(x(range(4, {})), first.states);
  REQUIRE(allclose(concat({first.outputs, rest.outputs}), lstm(x).outputs));
}

TEST_CASE("Layers drop between each other while training", "[nn]") {
  const nn::GRU gru(2, 50, {.layers = 2, .dropout = 0.5});
  const Tensor x = random::normal({3, 2, 2});
  REQUIRE(!equal(gru(x).outputs, gru(x).outputs));
  const TrainScope evaluate(false);
  REQUIRE(equal(gru(x).outputs, gru(x).outputs));
}

template <class Layers>
void check_padding(const Layers& layers) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = numbers({4, 2, 3}), lengths = tensor({4, 2});
  const std::vector<Variable> weights = parameters(layers);
  const auto loss = [&](const Tensor& input) {
    return sum(square(layers(input, {}, lengths).outputs));
  };
  const auto gradients = [&](const Tensor& input) {
    GradientTape tape({.persistent = true});
    tape.watch(input);
    const Tensor target = loss(input);
    std::vector<Tensor> found = tape.gradient(target, weights);
    found.push_back(tape.gradient(target, input));
    return found;
  };
  const Tensor past = expand_dims(lengths <= expand_dims(arange(0, 4), 1), 2);
  const Tensor clean = where(past, 0.0, x);
  for (const double padding : {std::nan(""), infinity, -infinity})
    for (const bool listened : {false, true}) {
      INFO("padding " << padding << ", an outer tape: " << listened);
      std::optional<GradientTape> outer;
      if (listened) outer.emplace();
      const Tensor dirty = where(past, padding, x);
      if (outer) outer->watch(dirty);
      const auto expected = gradients(clean), found = gradients(dirty);
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(equal(expected[i], found[i]));
    }
  const Tensor v = ones(x.shape(), wide);
  CHECK(equal(hvp(loss, clean, v), hvp(loss, where(past, std::nan(""), x), v)));
}

TEST_CASE("What x holds behind a sequence's end reaches nothing", "[nn]") {
  const DType dtype = DType::float64;
  check_padding(nn::LSTM(3, 2, {.bidirectional = true, .dtype = dtype}));
  check_padding(nn::GRU(3, 2, {.bidirectional = true, .dtype = dtype}));
  check_padding(nn::Recurrent<nn::GRUCell>(
      3, 2, {.bidirectional = true},
      [](Extent in, Extent hidden) { return nn::GRUCell(in, hidden, {.dtype = DType::float64}); }));
}

TEST_CASE("Layers refuse what does not fit, naming the user's line", "[nn]") {
  const nn::LSTM lstm(2, 3);
  require_parts(message<ShapeError>([&] {
                  lstm(zeros({4, 2}));
                }),
                {"LSTM: x: expected shape (time, batch, 2), got (4, 2)"});
  require_parts(message<ShapeError>([&] {
                  lstm(zeros({4, 1, 5}));
                }),
                {"LSTM: x: expected shape (time, batch, 2), got (4, 1, 5)"});
  require_parts(message<ShapeError>([&] {
                  lstm(zeros({4, 1, 2}), lstm.initial_states(2));
                }),
                {"LSTM: h: expected (1, 3)"});
  require_parts(message<ShapeError>([&] {
                  lstm(zeros({4, 1, 2}), {lstm.initial_states(1)[0], lstm.initial_states(1)[0]});
                }),
                {"LSTM: states", "1, one for each cell"});
  require_parts(message<IndexError>([&] {
                  lstm(zeros({4, 1, 2}), {}, tensor({5}));
                }),
                {"LSTM: lengths", "0 to 4", "5"});
  require_parts(message<ShapeError>([&] { nn::GRU(2, 3, {.layers = 0}); }), {"GRU: layers"});
  require_parts(message<ShapeError>([&] { nn::GRU(2, 0); }), {"GRUCell: hidden"});
  require_parts(message<Error>([&] { nn::LSTM(2, 3, {.dropout = 1}); }), {"LSTM: dropout"});
  // Dropout is between layers: of one layer it would do nothing.
  const std::string alone =
      message<Error>([&] { nn::LSTM(2, 3, {.bidirectional = true, .dropout = 0.5}); });
  require_parts(alone,
                {"LSTM: dropout: expected 0, as one layer has nothing between layers, got 0.5"});
  require_advice(alone, "nn::Dropout");
  require_parts(message<Error>([&] { nn::GRU(2, 3, {.dropout = 0.5}); }), {"GRU: dropout"});
  // x as PyTorch's batch_first has it.
  const Tensor x = zeros({5, 7, 2});
  const auto swapped = [](const std::string& text, const std::string& start) {
    require_parts(text, {start, "and x is (5, 7, 2)"});
    require_advice(text,
                   "x is [time, batch, in]: of [batch, time, in], pass transpose(x, {1, 0, 2}).");
  };
  swapped(message<ShapeError>([&] { lstm(x, {}, ones({5}, {.dtype = DType::int32})); }),
          "LSTM: lengths: expected (7,), one for each sequence, got (5,)");
  swapped(message<ShapeError>([&] { lstm(x, lstm.initial_states(5)); }),
          "LSTM: h: expected (7, 3), [batch, hidden], got (5, 3)");
  const nn::GRU gru(2, 3);
  swapped(message<ShapeError>([&] { gru(x, gru.initial_states(5)); }),
          "GRU: h: expected (7, 3), [batch, hidden], got (5, 3)");
}

TEST_CASE("sequences say that x may be transposed only where its first axis is the batch") {
  const Tensor weight = ones({7, 12}), bias = ones({16});
  const auto text = [&](const Shape& x, const Tensor& h) {
    return error_text([&] { gru(ones(x), h, weight, bias); });
  };
  CHECK_THAT(text({5, 2, 3}, ones({5, 4})), Catch::Contains("pass transpose(x, {1, 0, 2})"));
  CHECK_THAT(text({5, 2, 3}, ones({3, 4})),
             Catch::Contains("gru: h: expected (2, 4)") && !Catch::Contains("transpose"));
  CHECK_THAT(text({0, 2, 3}, tensor(1.0f)),
             Catch::Contains("gru: h: expected (2, 4)") && !Catch::Contains("transpose"));
  check_refused<ShapeError>(
      [&] {
        gru(ones({5, 3}), ones({2, 4}), weight, bias, {.lengths = tensor({5})});
      },
      "gru: x: expected [time, batch, in], got (5, 3)");
}
}  // namespace reel::tests
