// SPDX-License-Identifier: BSD-3-Clause
#include <memory>

#include "nn/near.hpp"

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

TEST_CASE("A tied weight is one parameter, and stays tied in a clone", "[nn]") {
  Tied model;
  REQUIRE(parameters(model).size() == 2);
  REQUIRE(count_parameters(model) == 6);
  Tied copy = clone(model);
  REQUIRE(copy.decode.same_cell(copy.encode.weight));
  REQUIRE(!copy.decode.same_cell(model.decode));
}
}  // namespace reel::tests
