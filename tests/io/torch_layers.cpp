// SPDX-License-Identifier: BSD-3-Clause
// Layers of PyTorch become layers of reel with the same outputs.
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// The model that tests/io/golden/make_torch.py builds from PyTorch's layers.
struct Layers {
  nn::BatchNorm batch{4};
  nn::GroupNorm group{2, 4};
  nn::RMSNorm rms{4};
  nn::LayerNorm layer{4};
  nn::Recurrent<nn::RNNCell> rnn{4, 3, {.layers = 2, .bidirectional = true}};
  nn::LSTM lstm{6, 2};
  nn::GRU gru{2, 2};
  nn::LSTMCell lstm_cell{2, 2};
  nn::GRUCell gru_cell{2, 2};
  nn::RNNCell rnn_cell{2, 2};
  Tensor operator()(const Tensor& input) const {
    Tensor x = layer(rms(group(batch(input))));
    x = gru(lstm(rnn(expand_dims(x, 0)).outputs).outputs).outputs[0];
    x = lstm_cell(x, lstm_cell.initial_state(5)).h;
    return rnn_cell(gru_cell(x, gru_cell.initial_state(5)), rnn_cell.initial_state(5));
  }
  void fields(auto&& field) {
    field("batch", batch);
    field("group", group);
    field("rms", rms);
    field("layer", layer);
    field("rnn", rnn);
    field("lstm", lstm);
    field("gru", gru);
    field("cells.lstm", lstm_cell);
    field("cells.gru", gru_cell);
    field("cells.rnn", rnn_cell);
  }
};
/// A file of PyTorch's names and these tensors.
struct State {
  Folder folder;
  std::string path = folder.file("x.pt");
  template <class Model>
  std::string load(const io::NamedTensors& state, const Model& model) const {
    io::save_torch(path, state);
    try {
      const bool complete = io::load_torch(path, model).complete();
      CHECK(complete);
    } catch (const IoError& error) {
      return error.what();
    }
    return {};
  }
};
}  // namespace

TEST_CASE("norms, networks of cells and layers without bias of PyTorch have the same outputs") {
  const auto data = io::load_torch(REEL_GOLDEN "/layered.pt");
  REQUIRE((data[0].first == "x" && data[1].first == "y"));
  const Layers layers;
  for (const Variable& x : parameters(layers)) Variable(x).assign(full(x.shape(), 3));
  CHECK(io::load_torch(REEL_GOLDEN "/layers.pt", layers).complete());
  const TrainScope evaluate(false);
  CHECK(allclose(layers(data[0].second), data[1].second, {.rtol = 0, .atol = 1e-5}));
  CHECK(equal(layers.layer.shift, zeros({4})));
  CHECK(equal(layers.gru.cells[0].bias, zeros({8})));
}

TEST_CASE("transformers of PyTorch have the same outputs") {
  struct Transformers {
    nn::TransformerEncoderLayer first{4, 2, {.feed_forward = 6, .activation = gelu}};
    nn::TransformerEncoderLayer last{
        4, 2, {.feed_forward = 6, .norm_first = false, .bias = nn::Bias::no}};
    nn::TransformerDecoderLayer decoder{4, 2, {.feed_forward = 6, .norm_first = false}};
    nn::MultiHeadAttention attention{4, 2};
    REEL_FIELDS(first, last, decoder, attention)
  };
  const auto data = io::load_torch(REEL_GOLDEN "/transformed.pt");
  REQUIRE((data[0].first == "x" && data[1].first == "memory" && data[2].first == "y"));
  const Transformers model;
  for (const Variable& x : parameters(model)) Variable(x).assign(full(x.shape(), 3));
  CHECK(io::load_torch(REEL_GOLDEN "/transformers.pt", model).complete());
  Tensor x = model.last(model.first(data[0].second), {.key_lengths = tensor({3, 5})});
  x = model.decoder(x, data[1].second);
  x = model.attention(x, data[1].second);
  CHECK(allclose(x, data[2].second, {.rtol = 0, .atol = 1e-5}));

  // In a Sequential, with a bias of keys, which only a layer with rotary positions has.
  const nn::MultiHeadAttention turning(2, 1, {.rotary_base = 100});
  const State state;
  const Tensor w = arange(0.0f, 12.0f).reshape({6, 2}), b = arange(0.0f, 6.0f);
  CHECK(state.load({{"in_proj_weight", w},
                    {"in_proj_bias", b},
                    {"out_proj.weight", w(range(0, 2))},
                    {"out_proj.bias", b(range(0, 2))}},
                   turning) == "");
  CHECK(equal(turning.key.weight, transpose(w(range(2, 4)))));
  CHECK(equal(turning.key.bias, tensor({2.0f, 3.0f})));
  struct Body {
    nn::Sequential net{nn::TransformerEncoderLayer(2, 1, {.feed_forward = 3})};
    REEL_FIELDS(net)
  } body;
  const Tensor wide = ones({3, 2}), line = ones({3}), norm = tensor({1.0f, 2.0f});
  CHECK(state.load({{"net.0.self_attn.in_proj_weight", w},
                    {"net.0.self_attn.in_proj_bias", b},
                    {"net.0.self_attn.out_proj.weight", w(range(0, 2))},
                    {"net.0.self_attn.out_proj.bias", b(range(0, 2))},
                    {"net.0.linear1.weight", wide},
                    {"net.0.linear1.bias", line},
                    {"net.0.linear2.weight", transpose(wide)},
                    {"net.0.linear2.bias", norm},
                    {"net.0.norm1.weight", norm},
                    {"net.0.norm1.bias", norm},
                    {"net.0.norm2.weight", norm},
                    {"net.0.norm2.bias", norm}},
                   body) == "");
  const std::string error = state.load({{"in_proj_weight", ones({5, 2})}}, turning);
  CHECK(error.find("expected rows of three weights of in_proj_weight") != error.npos);
}

TEST_CASE("weights of convolutions become windows of input and output channels") {
  struct Images {
    nn::Conv2d there{2, 4, {3, 2}, {.groups = 2}};
    nn::ConvTranspose1d back{4, 3, 2, {}, nn::no_bias};
    nn::Sequential body{nn::Conv1d(3, 2, 5), relu};
    REEL_FIELDS(there, back, body)
  } model;
  const Tensor there = arange(0.0f, 24.0f).reshape({4, 1, 3, 2});  // [out, in / groups, 3, 2]
  const Tensor back = arange(0.0f, 24.0f).reshape({4, 3, 2});      // [in, out, 2]
  const Tensor line = arange(0.0f, 30.0f).reshape({2, 3, 5});
  const State state;
  CHECK(state.load({{"there.weight", there},
                    {"there.bias", arange(0.0f, 4.0f)},
                    {"back.weight", back},
                    {"body.0.weight", line},
                    {"body.0.bias", zeros({2})}},
                   model) == "");
  CHECK(equal(model.there.weight, transpose(there, {2, 3, 1, 0})));
  CHECK(model.there.weight(2, 1, 0, 3).item<float>() == there(3, 0, 2, 1).item<float>());
  CHECK(equal(model.there.bias, arange(0.0f, 4.0f)));
  CHECK(model.back.weight(1, 2, 3).item<float>() == back(3, 2, 1).item<float>());
  CHECK(equal(parameters(model)[3], transpose(line, {2, 1, 0})));
}

TEST_CASE("a Linear behind a flattened image of PyTorch has its inputs in our order") {
  struct Network {
    nn::Conv2d conv{2, 3, 2};
    nn::Linear hidden{36, 6}, head{6, 2};
    Tensor operator()(const Tensor& images) const {
      const Tensor y = relu(conv(images));
      return head(tanh(hidden(y.reshape({y.shape(0), -1}))));
    }
    REEL_FIELDS(conv, hidden, head)
  } network;
  const auto waves = [](const Shape& shape, double step) {
    return sin(arange(0.0, static_cast<double>(shape.elements())) * step)
        .reshape(shape)
        .to(float32);
  };
  const State state;
  io::save_torch(state.path, {{"conv.weight", waves({3, 2, 2, 2}, 1.3)},
                              {"conv.bias", waves({3}, 0.9)},
                              {"hidden.weight", waves({6, 36}, 0.37)},
                              {"hidden.bias", waves({6}, 0.5)},
                              {"head.weight", waves({2, 6}, 0.61)},
                              {"head.bias", waves({2}, 1.1)}});
  const auto load = [&](const io::LoadOptions& options) {
    return io::load_torch(state.path, options, network);
  };
  // From LibTorch 2.15: conv2d, relu, flatten, linear, tanh and linear of these weights.
  const Tensor expected = tensor({{2.808277f, -0.4581238f}, {2.071376f, 0.8204489f}});
  const Tensor images = transpose(waves({2, 2, 4, 5}, 0.7), {0, 2, 3, 1});
  const io::LoadReport report = load({.flattened = {{"hidden", {3, 3, 4}}}});
  CHECK((report.complete() && report.unordered.empty()));
  CHECK(allclose(network(images), expected, {.rtol = 1e-4}));

  // Without the image, the report names the layer, and only this one.
  const io::LoadReport plain = load({});
  CHECK(plain.complete());
  CHECK(plain.unordered == std::vector<std::string>{"hidden.weight"});
  CHECK(plain.text() == "perhaps in PyTorch's order of channels, see .flattened: hidden.weight");
  CHECK(!allclose(network(images), expected, {.rtol = 1e-2}));

  check_refused<Error>(
      [&] {
        io::load_torch(state.path, {.flattened = {{"hidden", {3, 3, 4}}, {"hidden", {3, 12}}}},
                       network);
      },
      "expected each layer once, got \"hidden\" twice");
  const auto check = [&]<class E>(const char* name, const Shape& image, const std::string& part) {
    check_refused<E>(
        [&] {
          io::load_torch(state.path, {.flattened = {{name, image}}}, network);
        },
        part);
  };
  check.operator()<ShapeError>("hidden", {3, 3, 5},
                               "expected an image of 36 elements for \"hidden\", got (3, 3, 5)");
  check.operator()<Error>("hiden", {3, 3, 4}, "expected the path of a Linear, got \"hiden\"");
  check.operator()<Error>("conv", {3, 3, 4}, "expected the path of a Linear, got \"conv\"");
  const std::string ours = state.folder.file("ours.safetensors");
  io::save(ours, network);
  check_refused<Error>(
      [&] {
        io::load(ours, {.flattened = {{"hidden", {3, 3, 4}}}}, network);
      },
      "options.flattened: expected no layers: it is for load_torch(), got \"hidden\"");
}

TEST_CASE("each Linear that may follow a flattened image is listed") {
  struct Encoder {
    nn::ConvTranspose2d conv{7, 4, 2};
    nn::Linear mean{36, 2}, deviation{36, 2}, head{2, 36};
    REEL_FIELDS(conv, mean, deviation, head)
  } encoder;
  const State state;
  io::save_torch(state.path, {{"conv.weight", ones({7, 4, 2, 2})},
                              {"conv.bias", ones({4})},
                              {"mean.weight", ones({2, 36})},
                              {"mean.bias", ones({2})},
                              {"deviation.weight", ones({2, 36})},
                              {"deviation.bias", ones({2})},
                              {"head.weight", ones({36, 2})},
                              {"head.bias", ones({36})}});
  const auto left = [&](const io::LoadOptions& options) {
    return io::load_torch(state.path, options, encoder).unordered;
  };
  using Names = std::vector<std::string>;
  CHECK(left({}) == Names{"mean.weight", "deviation.weight"});
  CHECK(left({.flattened = {{"mean", {4, 3, 3}}}}) == Names{"deviation.weight"});
}

TEST_CASE("norms inside of a Sequential are found") {
  const State state;
  struct Model {
    nn::Sequential net{nn::Linear(2, 2), nn::BatchNorm(2), nn::GroupNorm(1, 2), nn::RMSNorm(2)};
    REEL_FIELDS(net)
  };
  const Model model;
  const Tensor v = tensor({2.0f, 3.0f}), w = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  CHECK(state
            .load({{"net.0.weight", w},
                   {"net.0.bias", v},
                   {"net.1.weight", v},
                   {"net.1.bias", v},
                   {"net.1.running_mean", v},
                   {"net.1.running_var", v + 1},
                   {"net.1.num_batches_tracked", tensor(std::int64_t{9})},
                   {"net.2.weight", v},
                   {"net.2.bias", v},
                   {"net.3.weight", v}},
                  model)
            .empty());
  CHECK(equal(model.net.parts[0].as<nn::Linear>()->weight, transpose(w)));
  CHECK(equal(model.net.parts[1].as<nn::BatchNorm>()->variance, v + 1));
  CHECK(equal(model.net.parts[3].as<nn::RMSNorm>()->scale, v));
}

TEST_CASE("what a layer of the file does not have is missing, and no advice drops the rest") {
  const State state;
  struct Norm {
    nn::BatchNorm norm{2};
    REEL_FIELDS(norm)
  };
  const Norm norm;
  const Tensor v = ones({2});
  // A BatchNorm of PyTorch without running statistics.
  std::string error = state.load({{"norm.weight", v}, {"norm.bias", v}}, norm);
  CHECK(error.find("missing: buffer norm.mean") != error.npos);
  CHECK(error.find("{.") == error.npos);
  error = state.load({{"norm.weight", v}, {"norm.running_mean", v}, {"norm.running_var", v}}, norm);
  CHECK(error.find("missing: parameter norm.shift") != error.npos);
  struct Rnn {
    nn::LSTM rnn{2, 3};
    REEL_FIELDS(rnn)
  };
  const Rnn rnn;
  // An LSTM of PyTorch with a projection, and one with half of its biases.
  const io::NamedTensors weights = {{"rnn.weight_ih_l0", ones({12, 2})},
                                    {"rnn.weight_hh_l0", ones({12, 3})}};
  CHECK(state.load(weights, rnn).empty());
  CHECK(equal(rnn.rnn.cells[0].bias, zeros({12})));
  for (const char* const more : {"rnn.weight_hr_l0", "rnn.bias_ih_l0"}) {
    io::NamedTensors other = weights;
    other.emplace_back(more, ones({12}));
    error = state.load(other, rnn);
    CHECK(error.find(std::string("unexpected: ") + more) != error.npos);
    CHECK(error.find("{.") == error.npos);
  }
  // Beside the model there may be what the program does not need.
  io::NamedTensors beside = weights;
  beside.emplace_back("steps", tensor(7));
  error = state.load(beside, rnn);
  CHECK(error.find("{.strict = false} loads what fits.") != error.npos);
  struct Gru {
    nn::GRUCell cell{2, 3};
    REEL_FIELDS(cell)
  };
  const Gru gru;
  error = state.load({{"cell.weight_ih", ones({8, 2})}, {"cell.weight_hh", ones({8, 3})}}, gru);
  CHECK(error.find("expected rows of three gates of cell.weight_ih") != error.npos);
}

TEST_CASE("a row of .rename that is used for no name is an error") {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  struct Model {
    nn::Linear a{2, 2};
    REEL_FIELDS(a)
  };
  const Model model;
  io::save_torch(path, {{"net.a.weight", ones({2, 2})}, {"net.a.bias", ones({2})}});
  CHECK(io::load_torch(path, {.rename = {{"net.", ""}}}, model).complete());
  const auto refuse = [&](const io::Rename& rename, const std::string& row,
                          Caller caller = Caller::here()) {
    for (const bool strict : {true, false})
      check_refused<IoError>(
          [&] {
            io::load_torch({path, caller}, {.strict = strict, .rename = rename}, model);
          },
          "a name for each row of .rename, got no \"" + row + "\"", caller);
  };
  refuse({{"net.", ""}, {"head.", "b."}}, "head.");
  refuse({{"net", ""}}, "net");
  refuse({{"Net.", ""}}, "Net.");
  refuse({{"net.", ""}, {"net.a.bias", ""}}, "net.a.bias");  // the first row that fits is used
  CHECK(io::load_torch(path, {.strict = false, .rename = {{"net.a.bias", ""}, {"net.", ""}}}, model)
            .missing.size() == 1);
  const std::string ours = folder.file("x.safetensors");
  io::save(ours, model);
  check_refused<IoError>([&] { io::load(ours, {.rename = {{"b.", "a."}}}, model); }, "no \"b.\"");
}
}  // namespace reel::tests
