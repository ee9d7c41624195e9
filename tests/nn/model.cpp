// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <optional>

#include "nn/near.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Reader {
  nn::Embedding embed{5, 2};
  std::vector<nn::Linear> layers = {nn::Linear(2, 3), nn::Linear(3, 1)};
  std::shared_ptr<nn::LayerNorm> norm = std::make_shared<nn::LayerNorm>(2);
  void fields(auto&& field) {
    field("embed", embed);
    field("layers", layers);
    field("norm", norm);
  }
};
struct Tied {
  nn::Linear encode{2, 2};
  Variable decode = encode.weight;
  void fields(auto&& field) {
    field("encode", encode);
    field("decode", decode);
  }
};
struct Forgetful {
  nn::Linear encode{2, 2};
  Variable scale{"scale", ones({2})};
  Variable unused{"unused", ones({3})};
  Tensor operator()(Operand x) const { return encode(x) * scale; }
  REEL_FIELDS(encode)
};
struct Scaled {
  Variable factor{"weight", ones({2})};
  REEL_FIELDS(factor)
};
struct Outer {
  Scaled own;
  REEL_FIELDS(own)
};
}  // namespace

TEST_CASE("parameters come in the order of the fields, under the path to them", "[nn]") {
  const Reader model;
  REQUIRE(parameters(model).size() == 7);
  std::vector<std::string> names;
  for (const auto& [name, variable] : named_parameters(model)) names.push_back(name);
  REQUIRE(names == std::vector<std::string>{"embed.table", "layers.0.weight", "layers.0.bias",
                                            "layers.1.weight", "layers.1.bias", "norm.scale",
                                            "norm.shift"});
  REQUIRE(count_parameters(model) == 10 + 9 + 4 + 4);
}

TEST_CASE("A Variable is named by its path once parameters of its model are listed", "[nn]") {
  struct Own {
    Variable w{"temperature", ones({})};
    nn::Linear head{2, 1};
    Buffer calls{"calls", zeros({})};
    REEL_FIELDS(w, head, calls)
  };
  struct Outer {
    Own own;
    REEL_FIELDS(own)
  };
  Outer outer;
  const std::string& first = outer.own.head.weight.name();
  REQUIRE(first == "weight");
  parameters(outer.own);
  REQUIRE(outer.own.head.weight.name() == "head.weight");
  REQUIRE(first == "weight");  // a reference that was returned before stays valid
  REQUIRE(outer.own.w.name() == "temperature");
  const std::string& second = outer.own.head.weight.name();
  parameters(outer);
  parameters(outer.own.head);  // a shorter path does not replace a longer one
  REQUIRE(outer.own.head.weight.name() == "own.head.weight");
  REQUIRE(outer.own.calls.name() == "own.calls");
  REQUIRE(second == "head.weight");
  REQUIRE(clone(outer).own.head.bias.name() == "own.head.bias");

  optim::SGD sgd(parameters(outer), {.learning_rate = 1});
  const std::vector<Tensor> wrong{ones({}), ones({7}), ones({1})};
  check_refused<ShapeError>([&] { sgd.step(wrong); }, "own.head.weight");

  Reader model;
  auto f = trace([&](Tensor x) {
    for (const Variable& weight : parameters(model)) x = x + sum(weight);
    return x;
  });
  for (int i = 0; i < 3; ++i) f(ones({}));
  REQUIRE(f.trace_count() == 1);
  REQUIRE(f.explain().find("layers.1.weight") != std::string::npos);
}

TEST_CASE("summary is a table with the sum of the counts", "[nn]") {
  REQUIRE(summary(Reader()) ==
          "name             shape   dtype    count\n"
          "embed.table      (5, 2)  float32     10\n"
          "layers.0.weight  (2, 3)  float32      6\n"
          "layers.0.bias    (3,)    float32      3\n"
          "layers.1.weight  (3, 1)  float32      3\n"
          "layers.1.bias    (1,)    float32      1\n"
          "norm.scale       (2,)    float32      2\n"
          "norm.shift       (2,)    float32      2\n"
          "total                                27\n");
}

TEST_CASE("clone has the same values and Variables of its own, also behind pointers", "[nn]") {
  Reader model;
  Reader copy = clone(model);
  const auto before = parameters(model), after = parameters(copy);
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    REQUIRE(equal(before[i], after[i]));
    REQUIRE(!before[i].same_cell(after[i]));
  }
  copy.norm->scale.assign(7);
  copy.layers[1].bias.assign(7);
  REQUIRE(equal(model.norm->scale, ones({2})));
  REQUIRE(equal(model.layers[1].bias, zeros({1})));
}

TEST_CASE("REEL_FIELDS lists members once, in local structs too", "[nn]") {
  struct Block {
    nn::Linear dense{2, 3};
    double rate = 0.5;
    Variable bias{"bias", zeros({3})};
    REEL_FIELDS(dense, rate, bias)
  };
  struct Model {
    std::vector<Block> blocks = std::vector<Block>(2);
    std::unique_ptr<nn::LayerNorm> norm;
    std::pair<nn::Linear, std::optional<Block>> rest{nn::Linear(3, 1), Block()};
    std::shared_ptr<nn::LayerNorm> shared = std::make_shared<nn::LayerNorm>(2);
    REEL_FIELDS(blocks, norm, rest, shared)
  };
  struct Nothing {
    REEL_FIELDS()
  };
  const Model model;
  std::vector<std::string> names;
  for (const auto& [name, variable] : named_parameters(model)) names.push_back(name);
  CHECK(names == std::vector<std::string>{"blocks.0.dense.weight", "blocks.0.dense.bias",
                                          "blocks.0.bias", "blocks.1.dense.weight",
                                          "blocks.1.dense.bias", "blocks.1.bias", "rest.0.weight",
                                          "rest.0.bias", "rest.1.dense.weight", "rest.1.dense.bias",
                                          "rest.1.bias", "shared.scale", "shared.shift"});
  CHECK(parameters(Nothing()).empty());
  CHECK(parameters(model)[2].same_cell(model.blocks[0].bias));

  const Block block;
  Block copy = clone(block);
  copy.dense.weight.assign(7);
  CHECK_FALSE(copy.bias.same_cell(block.bias));
  CHECK_FALSE(equal(block.dense.weight, copy.dense.weight));
  CHECK(summary(block).find("dense.weight  (2, 3)") != std::string::npos);

  struct State {
    Tensor h;
    std::vector<Tensor> rest;
    int steps;
    REEL_FIELDS(h, rest, steps)
  };
  const auto next = trace([](State s) { return State{s.h + 1, {s.h * 2}, s.steps}; });
  State state{zeros({2}), {ones({2})}, 3};
  for (int i = 0; i < 4; ++i) state = next(state);
  CHECK(equal(state.h, full({2}, 4)));
  CHECK(equal(state.rest[0], full({2}, 6)));
}

TEST_CASE("nn::check finds Variables that f reads and the model does not list", "[nn]") {
  const Forgetful model;
  const Tensor x = ones({1, 2});
  const auto f = [&](Operand at) { return model(at); };
  const std::string expected =
      "check: model: expected every Variable that f reads in its list of "
      "members, got none of \"scale\" (2,)";
  check_refused<Error>([&] { nn::check(model, f, x); }, expected);
  check_refused<Error>([&] { nn::check(model, f, {x}); }, expected);
  check_refused<Error>([&] { nn::check(model, model, x); }, expected);
  check_refused<Error>([&] { nn::check(model, [&] { f(x); }); }, expected);
  // Any way to read them is found.
  const Variable v("v", ones({2}));
  const nn::Linear layer(2, 2);
  const auto finds = [&](const auto& reads) {
    nn::check(
        layer, [&](Tensor t) { return layer(t); }, x);
    check_refused<Error>([&] { nn::check(layer, reads, x); }, "got none of \"v\" (2,)");
  };
  finds([&](Tensor t) { return t + v; });
  finds([&](Tensor t) { return t + v.value(); });
  finds([&](Tensor t) { return matmul(t, v(newaxis, all).reshape({2, 1})); });
  finds([&](Tensor t) { return concat({t, v(newaxis)}, 0); });
  finds([&](Tensor t) { return layer_norm(t, v, v); });
  finds([&](Tensor t) { return t + v.clone(); });
  finds([&](Tensor t) {
    CHECK(to_string(v).find("v") != std::string::npos);
    return t;
  });
  finds([&](Tensor t) {
    GradientTape tape;
    return tape.gradient(sum(t * v), v);
  });
  finds([&](Tensor t) {
    Variable(v).assign_add(t(0));
    return t;
  });
  const auto traced = trace([&](Tensor t) { return t * v; });
  for (int i = 0; i < 3; ++i) traced(x);
  finds(traced);
  finds([&](Tensor t) { return nn::Sequential(layer, relu)(t) * v; });
  check_refused<Error>(
      [&] {
        nn::check(
            layer,
            [&](Tensor a, Tensor c) {
              const Tensor y = layer(a) + v;
              return y + model(c);
            },
            x, x);
      },
      "\"v\" (2,), \"encode.weight\" (2, 2), \"encode.bias\" (2,), \"scale\" (2,)");
  // Not reported: Variables that are listed, unused, or made and destroyed inside.
  struct Whole {
    Forgetful part;
    REEL_FIELDS(part, part.scale)
  };
  const Whole whole{model};
  nn::check(whole, f, x);
  nn::check(std::pair(model, model.scale), f, x);
  nn::check(
      layer, [](Tensor t) { return Variable("made", t) * 2; }, x);
  // Variables that are made inside of another check.
  const auto makes = [](Tensor t) {
    const Variable made("made", t);
    return made * 2 + made.clone();
  };
  const auto checks = [&](Tensor t) {
    nn::check(layer, makes, t);
    return makes(t);
  };
  nn::check(layer, checks, x);
  check_refused<Error>(
      [&] {
        nn::check(
            layer, [&](Tensor t) { return checks(t) + v; }, x);
      },
      "got none of \"v\" (2,)");
  std::vector<Variable> kept;
  check_refused<Error>(
      [&] {
        nn::check(
            layer, [&](Tensor t) { return kept.emplace_back("kept", t) * 2; }, x);
      },
      "\"kept\"");
  check_refused<Error>(
      [&] {
        nn::check(layer, layer, {x, x});
      },
      "as many tensors as f takes, got 2");
  // If f throws, the exception leaves the check. Afterwards no check is active.
  CHECK_THROWS_AS(nn::check(layer, layer, ones({1, 3})), ShapeError);
  CHECK((v + 1).size() == 2);
}

TEST_CASE("nn::check finds Variables that f only writes, and those that end in f", "[nn]") {
  const nn::Linear layer(2, 2);
  const Tensor x = ones({1, 2});
  Variable state("state", zeros({1, 2}));
  const auto writes = [&](Tensor t) {
    state.assign(t);
    return layer(t);
  };
  check_refused<Error>([&] { nn::check(layer, writes, x); }, "got none of \"state\" (1, 2)");
  // it was made before the check, so that the model had it
  auto last = std::make_unique<Variable>("last", ones({2}));
  const auto ends = [&](Tensor t) {
    const Tensor y = t * *last;
    last.reset();
    return y;
  };
  check_refused<Error>([&] { nn::check(layer, ends, x); }, "got none of \"last\" (2,)");
}

TEST_CASE("A tied weight is one parameter, and stays tied in a clone", "[nn]") {
  Tied model;
  REQUIRE(parameters(model).size() == 2);
  REQUIRE(count_parameters(model) == 6);
  Tied copy = clone(model);
  REQUIRE(copy.decode.same_cell(copy.encode.weight));
  REQUIRE(!copy.decode.same_cell(model.decode));
}

TEST_CASE("a model that leads back to itself is an error", "[nn]") {
  struct Link {
    nn::Linear layer{1, 1};
    std::shared_ptr<Link> next;
    REEL_FIELDS(layer, next)
  };
  const auto link = std::make_shared<Link>();
  link->next = link;
  CHECK_THROWS_WITH(parameters(*link), Catch::Contains("leads back to the model"));
  // the first 60 characters of the path
  std::string path;
  while (path.size() < 60) path += "next.";
  CHECK_THROWS_WITH(parameters(*link), Catch::Contains("got " + path.substr(0, 60) + "..."));
  link->next = nullptr;
  CHECK(parameters(*link).size() == 2);
}

TEST_CASE("a model of another dtype is not assigned", "[nn]") {
  const nn::Linear single(2, 3), twice(2, 3, wide);
  const Tensor before = single.weight.value() + 0;
  const std::string text = message<Error>([&] { assign(single, twice); });
  require_parts(text, {"the paths, shapes and dtypes of the model, got 2 that differ"});
  require_advice(text, "different: weight: expected (2, 3) float32, got (2, 3) float64");
  CHECK(equal(single.weight, before));
}

TEST_CASE("a Variable keeps its name where a path ends in another one of the same length", "[nn]") {
  const Outer outer;
  REQUIRE(named_parameters(outer)[0].first == "own.factor");
  CHECK(outer.own.factor.name() == "weight");
}

TEST_CASE("nn::check leaves the model and the generators as they were", "[nn]") {
  struct Model {
    nn::BatchNorm norm{2};
    nn::Dropout dropout{0.5};
    Generator own{3};
    Tensor operator()(Operand x) const {
      const Tensor y = dropout(norm(x));
      const GeneratorScope scope(own);
      return y + random::normal({2});
    }
    REEL_FIELDS(norm, dropout, own)
  };
  const Model model;
  seed(4);
  const std::uint64_t position = thread_generator().position();
  nn::check(model, model, ones({3, 2}));
  CHECK_THROWS(nn::check(model, [&]() -> Tensor {
    model(ones({3, 2}));
    throw std::runtime_error("stop");
  }));
  CHECK(thread_generator().position() == position);
  CHECK(model.own.position() == 0);
  CHECK(all(model.norm.mean == 0));
  CHECK(all(model.norm.variance == 1));
  model(ones({3, 2}));
  CHECK(all(model.norm.mean != 0));
}
}  // namespace reel::tests
