// SPDX-License-Identifier: BSD-3-Clause
#include "nn/near.hpp"

namespace reel::tests {
TEST_CASE("Linear is x weight + bias for vectors, matrices and stacks of them", "[nn]") {
  nn::Linear layer(2, 3, wide);
  layer.weight.assign(tensor<double>({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}));
  layer.bias.assign(tensor<double>({0.5, -0.5, 0.0}));
  require_near(layer(tensor<double>({1.0, 10.0})), {41.5, 51.5, 63});
  require_near(layer(tensor<double>({{1.0, 10.0}, {0.0, 1.0}})), {41.5, 51.5, 63, 4.5, 4.5, 6});
  const Tensor stack = layer(ones({2, 1, 2}, wide));
  REQUIRE(stack.shape() == Shape{2, 1, 3});
  require_near(stack, {5.5, 6.5, 9, 5.5, 6.5, 9});
  REQUIRE(layer(zeros({0, 2}, wide)).shape() == Shape{0, 3});
}

TEST_CASE("Gradients of Linear agree with differences", "[nn]") {
  nn::Linear layer(3, 2, wide);
  Variable x("x", numbers({4, 3})), row("row", numbers({3})), stack("stack", numbers({2, 2, 3}));
  for (Variable& input : std::vector<Variable>{x, row, stack}) {
    check_gradients({input, layer.weight, layer.bias}, [&] { return layer(input); });
  }
}

TEST_CASE("Linear and RNNCell apply the activation that they were given", "[nn]") {
  using Function = Tensor (*)(Operand);
  const std::pair<Activation, Function> functions[] = {
      {Activation::relu, relu}, {Activation::sigmoid, sigmoid}, {Activation::tanh, reel::tanh}};
  const nn::Linear plain(3, 2, wide);
  const nn::RNNCell cell(3, 2, Activation::none, wide);
  REQUIRE(nn::RNNCell(3, 2).activation == Activation::tanh);
  REQUIRE(nn::RNNCell(3, 2, {}).activation == Activation::tanh);
  for (const auto& [activation, function] : functions) {
    nn::Linear layer = plain;
    layer.activation = activation;
    for (const Tensor& x : {numbers({3}), numbers({4, 3}), numbers({2, 2, 3})}) {
      const Tensor expected = function(plain(x));
      REQUIRE(layer(x).shape() == expected.shape());
      require_near(layer(x), expected.to_vector<double>());
      check_gradients({layer.weight, layer.bias}, [&] { return layer(x); });
    }
    nn::RNNCell activated = cell;
    activated.activation = activation;
    const Tensor x = numbers({4, 3}), h = numbers({4, 2});
    require_near(activated(x, h), function(cell(x, h)).to_vector<double>());
  }
}

TEST_CASE("Embedding gives rows, and rows used twice gather both gradients", "[nn]") {
  nn::Embedding layer(4, 2, {.dtype = wide.dtype});
  layer.table.assign(tensor<double>({{0.0, 1.0}, {2.0, 3.0}, {4.0, 5.0}, {6.0, 7.0}}));
  const Tensor words = tensor({3, 0, 3});
  require_near(layer(words), {6, 7, 0, 1, 6, 7});
  REQUIRE(layer(tensor({{1, 2}, {3, 0}})).shape() == Shape{2, 2, 2});
  GradientTape tape;
  const Tensor target = sum(layer(words));
  require_near(tape.gradient(target, layer.table), {1, 1, 0, 0, 0, 0, 2, 2});
  check_gradients({layer.table}, [&] { return square(layer(words)); });
}

TEST_CASE("LayerNorm gives rows of mean 0 and variance 1", "[nn]") {
  nn::LayerNorm layer(5, {.epsilon = 1e-12, .dtype = DType::float64});
  const Tensor x = 3 + 10 * numbers({4, 5}), y = layer(x);
  require_near(mean(y, 1), {0, 0, 0, 0}, 1e-9);
  require_near(mean(square(y), 1), {1, 1, 1, 1}, 1e-9);
  layer.scale.assign(tensor<double>({1.0, 2.0, 3.0, 4.0, 5.0}));
  layer.shift.assign(1);
  require_near(layer(x), (y * tensor<double>({1.0, 2.0, 3.0, 4.0, 5.0}) + 1).to_vector<double>());
}

TEST_CASE("Gradients of LayerNorm agree with differences", "[nn]") {
  nn::LayerNorm layer(4, {.dtype = DType::float64});
  layer.scale.assign(numbers({4}));
  Variable x("x", numbers({3, 4}));
  check_gradients({x, layer.scale, layer.shift}, [&] { return layer(x); });
}

TEST_CASE("Dropout keeps the mean while training and everything else while not", "[nn]") {
  seed(5);
  nn::Dropout layer(0.25);
  const Tensor x = ones({200, 200});
  const std::vector<float> dropped = layer(x).to_vector<float>();
  const auto zero = std::count(dropped.begin(), dropped.end(), 0.0f);
  REQUIRE(zero > 9600);
  REQUIRE(zero < 10400);
  for (float y : dropped) REQUIRE((y == 0 || y == Approx(4.0 / 3)));
  {
    TrainScope evaluating(false);
    REQUIRE(equal(layer(x), x));
    REQUIRE(equal(layer(Variable("x", x)), x));
  }
  REQUIRE(!equal(layer(x), x));
}

TEST_CASE("Sequential calls layers, functions and lambdas one after another", "[nn]") {
  nn::Sequential model(
      nn::Linear(2, 3, wide), relu, [](Operand x) { return x * 2; }, nn::Linear(3, 1, wide));
  const Tensor x = numbers({5, 2});
  const auto& first = *model.parts[0].as<nn::Linear>();
  const auto& last = *model.parts[3].as<nn::Linear>();
  REQUIRE(equal(model(x), last(relu(first(x)) * 2)));
  REQUIRE(model.parts[1].as<nn::Linear>() == nullptr);
  REQUIRE(named_parameters(model)[2].first == "3.weight");
  check_gradients(parameters(model), [&] { return model(x); });
}

TEST_CASE("Layers refuse sizes, dtypes and numbers, naming the user's line", "[nn]") {
  require_parts(message<ShapeError>([] { nn::Linear(0, 3); }),
                {"Linear: in: expected 1 or more", "got 0"});
  require_parts(message<ShapeError>([] { nn::Embedding(3, -2); }), {"Embedding: width", "got -2"});
  require_parts(message<DTypeError>([] { nn::LayerNorm(3, {.dtype = DType::int32}); }),
                {"LayerNorm: dtype", "float", "got int32"});
  require_parts(message<Error>([] { nn::Dropout(1.0); }), {"Dropout: probability", "got 1"});
  require_parts(message<Error>([] { nn::Dropout{std::nan("")}; }), {"Dropout", "nan"});
  nn::Linear layer(3, 2);
  require_parts(message<ShapeError>([&] {
                  layer(zeros({4, 5}));
                }),
                {"Linear: x: expected last length 3, got (4, 5)"});
  nn::Embedding embed(3, 2);
  require_parts(message<IndexError>([&] {
                  embed(tensor({0, 3}));
                }),
                {"Embedding: indices: expected", "got 3"});
  require_parts(message<DTypeError>([&] { embed(tensor({0.5f})); }),
                {"Embedding: indices", "float32"});
  nn::Sequential model(embed, layer);
  require_parts(message<ShapeError>([&] { model(tensor({0, 1})); }), {"Linear: x"});
  require_parts(message<Error>([&] { layer(Tensor()); }), {"Linear: x: expected a tensor"});
  require_parts(message<ShapeError>([&] { layer(2.0); }),
                {"Linear: x of dense: expected at least 1 axis"});
  require_parts(message<ShapeError>([&] {
                  nn::Highway(3)(ones({2, 5}));
                }),
                {"Highway: x: expected last length 3, got (2, 5)"});
}

TEST_CASE("cells and sequences name their own arguments", "[nn]") {
  const Tensor x = ones({2, 3});
  const nn::LSTMCell lstm(3, 4);
  require_parts(message<ShapeError>([&] {
                  lstm(ones({2, 5}), lstm.initial_state(2));
                }),
                {"LSTMCell: x: expected shape (batch, 3), got (2, 5)"});
  require_parts(message<ShapeError>([&] { lstm(x, lstm.initial_state(5)); }),
                {"LSTMCell: h: expected shape (2, 4), got (5, 4)"});
  const nn::GRUCell gru(3, 4);
  require_parts(message<ShapeError>([&] { gru(ones({3}), gru.initial_state(2)); }),
                {"GRUCell: x: expected shape (batch, 3), got (3,)"});
  for (const Shape& shape : {Shape({2}), Shape({2, 4, 1}), Shape({2, 4, 4})})
    require_parts(message<ShapeError>([&] { gru(x, ones(shape)); }),
                  {"GRUCell: h: expected shape (2, 4), got "});
  const nn::RNNCell rnn(3, 4);
  require_parts(message<ShapeError>([&] {
                  rnn(x, ones({2, 5}));
                }),
                {"RNNCell: h: expected shape (2, 4), got (2, 5)"});
  require_parts(message<ShapeError>([&] { nn::LSTM(3, 4)(x); }),
                {"LSTM: x: expected shape (time, batch, 3), got (2, 3)"});
  require_parts(message<ShapeError>([&] {
                  nn::GRU(3, 4)(ones({5, 2, 4}));
                }),
                {"GRU: x: expected shape (time, batch, 3), got (5, 2, 4)"});
  require_parts(message<ShapeError>([&] { nn::LayerNorm(4)(x); }),
                {"LayerNorm: x: expected last length 4, got (2, 3)"});
}

TEST_CASE("Layers promote as ops do; gradients have the dtype of the weights", "[nn]") {
  nn::Linear layer(3, 2);
  GradientTape tape;
  const Tensor y = layer(ones({4, 3}, {.dtype = DType::float64}));
  REQUIRE(y.dtype() == DType::float64);
  REQUIRE(tape.gradient(y, layer.weight).dtype() == DType::float32);
}

TEST_CASE("a layer refuses single numbers that a tape has recorded", "[nn]") {
  const nn::Linear layer(3, 2);
  const Variable w("w", tensor(1.0f));
  GradientTape tape;
  Tensor y = w * 2;
  for (int i = 0; i < 8; ++i) {
    require_parts(message<ShapeError>([&] { layer(y); }),
                  {"Linear: x: expected last length 3, got ()"});
    y = y * 2;
  }
}
}  // namespace reel::tests
