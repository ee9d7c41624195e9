// SPDX-License-Identifier: BSD-3-Clause
// nn::Sequential as a member of a model: its parts may have any type.
#include <map>
#include <memory>
#include <optional>

#include "io/folder.hpp"
#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Block {
  nn::Linear wide{2, 3}, narrow{3, 2};
  Tensor operator()(Operand x) const { return x + narrow(relu(wide(x))); }
  REEL_FIELDS(wide, narrow)
};
struct Model {
  nn::Sequential body{nn::Linear(2, 2), tanh, Block(), nn::Dropout(0.25)};
  nn::Linear head{2, 1};
  Tensor operator()(Operand x) const { return head(body(x)); }
  REEL_FIELDS(body, head)
};
/// A part that holds Variables in every way.
struct Holder {
  std::vector<nn::Linear> list{nn::Linear(2, 2), nn::Linear(2, 2)};
  std::map<std::string, Variable> map{{"gain", Variable("gain", ones({2}))}};
  std::optional<Variable> maybe = Variable("maybe", ones({2}));
  std::shared_ptr<Variable> shared = std::make_shared<Variable>("shared", ones({2}));
  Buffer calls{"calls", zeros({})};
  Generator noise{7};
  Tensor operator()(Operand x) const {
    Buffer(calls).assign_add(1);
    const GeneratorScope numbers(noise);
    const Tensor y = list[1](list[0](x)) * map.at("gain") + *maybe + *shared;
    return y + random::uniform({2});
  }
  REEL_FIELDS(list, map, maybe, shared, calls, noise)
};
std::vector<std::string> names(const auto& model) {
  std::vector<std::string> found;
  for (const auto& [name, variable] : named_parameters(model)) found.push_back(name);
  return found;
}
using Names = std::vector<std::string>;
Tensor input() { return tensor({{0.5f, -1.f}, {2.f, 0.25f}, {0.f, 1.f}}); }
}  // namespace

TEST_CASE("a Sequential is a member without the types of its parts", "[nn]") {
  const Tensor x = input();
  const Model model;
  CHECK(names(model) == Names{"body.0.weight", "body.0.bias", "body.2.wide.weight",
                              "body.2.wide.bias", "body.2.narrow.weight", "body.2.narrow.bias",
                              "head.weight", "head.bias"});
  CHECK(model.body.parts[0].as<nn::Linear>()->weight.name() == "body.0.weight");
  CHECK(summary(model).find("body.2.narrow.weight  (3, 2)") != std::string::npos);
  const TrainScope evaluating(false);
  const Tensor expected = model.head(
      (*model.body.parts[2].as<Block>())(tanh((*model.body.parts[0].as<nn::Linear>())(x))));
  CHECK(equal(model(x), expected));
  nn::check(
      model, [&](const Tensor& y) { return model(y); }, x);
}

TEST_CASE("Sequential learns with Dropout, which only acts while training", "[nn]") {
  const Tensor x = input();
  seed(3);
  const Model model;
  CHECK_FALSE(equal(model.body(x), model.body(x)));
  optim::Adam adam(parameters(model), {.learning_rate = 0.05});
  const auto loss = [&] { return mean(square(model(x) - tensor({{1.f}, {-1.f}, {0.5f}}))); };
  const auto trained = [&] {
    const TrainScope evaluating(false);
    return loss().item<float>();
  };
  const float before = trained();
  for (int i = 0; i < 100; ++i) {
    GradientTape tape;
    adam.step(tape.gradient(loss(), parameters(model)));
  }
  CHECK(trained() < 0.3f * before);
}

TEST_CASE("every member of a part is found", "[nn]") {
  const Tensor x = input();
  const nn::Sequential body{relu, Holder()};
  CHECK(names(body) == Names{"1.list.0.weight", "1.list.0.bias", "1.list.1.weight", "1.list.1.bias",
                             "1.map.gain", "1.maybe", "1.shared"});
  REQUIRE(buffers(body).size() == 1);
  CHECK(named_buffers(body)[0].first == "1.calls");
  nn::check(
      body, [&](const Tensor& y) { return body(y); }, x);
}

TEST_CASE("a clone of a Sequential shares nothing, a copy shares its Variables", "[nn]") {
  const Tensor x = input();
  const nn::Sequential body{relu, Holder()};
  const nn::Sequential copy = body, cloned = clone(body);
  CHECK(parameters(copy)[0].same_cell(parameters(body)[0]));
  const auto mine = parameters(body), theirs = parameters(cloned);
  REQUIRE(mine.size() == theirs.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    CHECK_FALSE(theirs[i].same_cell(mine[i]));
    CHECK(equal(theirs[i], mine[i]));
  }
  CHECK_FALSE(buffers(cloned)[0].same_cell(buffers(body)[0]));
  const Tensor first = body(x);  // the generator of the clone still stands at the start
  CHECK(equal(cloned(x), first));
  for (Variable w : parameters(cloned)) w.assign(0);
  CHECK(any(mine[0] != 0).item<bool>());
  CHECK(equal(*body.parts[1].as<Holder>()->shared, ones({2})));
  CHECK(equal(*cloned.parts[1].as<Holder>()->shared, zeros({2})));
}

TEST_CASE("one Variable in two parts is one in the clone too", "[nn]") {
  const nn::Linear tied(2, 2);
  const nn::Sequential body{tied, tanh, tied}, cloned = clone(body);
  REQUIRE(parameters(cloned).size() == 2);
  CHECK(
      cloned.parts[0].as<nn::Linear>()->weight.same_cell(cloned.parts[2].as<nn::Linear>()->weight));
}

TEST_CASE("Sequential is saved and loaded by the paths of its parts", "[nn]") {
  const Tensor x = input();
  const Folder folder;
  const Model model;
  const std::string path = folder.file("model.safetensors");
  io::save(path, model);
  Model other;
  other.body.parts[3].as<nn::Dropout>()->probability = 0.5;
  CHECK(io::load(path, other).complete());
  const TrainScope evaluating(false);
  CHECK(equal(other(x), model(x)));
  CHECK(other.body.parts[3].as<nn::Dropout>()->probability == 0.5);  // a setting is not saved
  nn::Sequential holder{Holder()};
  holder(x);
  io::save(path, holder);
  nn::Sequential later{Holder()};
  io::load(path, later);
  CHECK(equal(later(x), holder(x)));  // with the buffer and the place in the random numbers
  CHECK(buffers(later)[0].value().item<float>() == 2);
  struct Other {
    nn::Sequential body{nn::Linear(2, 2), nn::Linear(2, 2)};
    REEL_FIELDS(body)
  } odd;
  check_refused<IoError>([&] { io::load(path, odd); }, "got 4 missing, 9 unexpected");
}

TEST_CASE("weights of PyTorch are transposed for the layers in a Sequential", "[nn]") {
  const Tensor x = input();
  const Folder folder;
  struct Net {
    nn::Sequential body{Block(), nn::Sequential{nn::Linear(2, 2, nn::no_bias), relu}};
    REEL_FIELDS(body)
  } net;
  const Block& block = *net.body.parts[0].as<Block>();
  const nn::Linear& last = *net.body.parts[1].as<nn::Sequential>()->parts[0].as<nn::Linear>();
  const std::string path = folder.file("net.pt");
  io::save_torch(path, {{"body.0.wide.weight", transpose(block.wide.weight)},
                        {"body.0.wide.bias", block.wide.bias},
                        {"body.0.narrow.weight", transpose(block.narrow.weight)},
                        {"body.0.narrow.bias", block.narrow.bias},
                        {"body.1.0.weight", transpose(last.weight)}});
  Net loaded;
  io::load_torch(path, loaded);
  CHECK(equal(loaded.body(x), net.body(x)));
}

TEST_CASE("a Sequential grows, nests and is copied by braces", "[nn]") {
  const Tensor x = input();
  nn::Sequential body;
  CHECK(equal(body(x), x));
  for (int i = 0; i < 3; ++i) body.parts.push_back(nn::Linear(2, 2));
  CHECK(parameters(body).size() == 6);
  const nn::Sequential copy{body}, around{body, relu};
  CHECK(copy.parts.size() == 3);
  CHECK(names(copy)[0] == "0.weight");
  CHECK(names(around)[0] == "0.0.weight");
  CHECK(equal(around(x), relu(body(x))));
  body = nn::Sequential{tanh};
  CHECK(equal(body(x), tanh(x)));
  CHECK(copy.parts.size() == 3);
}

TEST_CASE("a model with a Sequential is traced, and replays read new weights", "[nn]") {
  const Tensor x = input();
  Model model;
  const auto traced = trace([&](Tensor y) { return model(y); });
  const TrainScope evaluating(false);
  for (int i = 0; i < 4; ++i) {
    CHECK(equal(traced(x), model(x)));
    model.body.parts[0].as<nn::Linear>()->weight.assign_add(0.5);
  }
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

TEST_CASE("other weights and other values are given to a Sequential as to a struct", "[nn]") {
  const Tensor x = input();
  const Model model, other;
  const TrainScope evaluating(false);
  std::vector<Tensor> weights;
  for (const Variable& w : parameters(other)) weights.push_back(w);
  CHECK(equal(functional_call(model, weights, x), other(x)));
  assign(model, other);
  CHECK(equal(model(x), other(x)));
}

TEST_CASE("errors in a part of a Sequential name the user's line", "[nn]") {
  const Tensor x = input();
  const nn::Sequential body{nn::Linear(2, 3), relu, nn::Linear(4, 1)};
  require_parts(message<ShapeError>([&] { body(x); }),
                {"Linear: x: expected last length 4, got (3, 3)"});
}
}  // namespace reel::tests
