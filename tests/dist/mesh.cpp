// SPDX-License-Identifier: BSD-3-Clause
// Layers that are divided between ranks, beside the whole layers.
#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
using dist::Mesh;
using dist::World;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
struct Whole {
  nn::Embedding embedding{12, 5, {.padding = 3}};
  nn::Linear first{5, 8, Activation::tanh}, second{8, 2};
  nn::Linear plain{2, 8, nn::no_bias}, head{8, 1, nn::no_bias};
  REEL_FIELDS(embedding, first, second, plain, head)
  Tensor operator()(const Tensor& words) const {
    return head(plain(second(first(embedding(words)))));
  }
};
struct Split {
  dist::SplitEmbedding embedding;
  dist::SplitLinears pair, plain;
  Split(const World& axis, const Whole& whole)
      : embedding(axis, whole.embedding),
        pair(axis, whole.first, whole.second),
        plain(axis, whole.plain, whole.head) {}
  REEL_FIELDS(embedding, pair, plain)
  Tensor operator()(const Tensor& words) const { return plain(pair(embedding(words))); }
};
const Tensor words() {
  return tensor({{0, 5, 11, 3}, {2, -1, -12, 5}, {3, 3, 8, 7}, {1, 4, 6, 9}});
}
Tensor target() { return sin(cast(words(), float32)); }
template <class Model>
Tensor cost(const Model& model, std::int64_t from, std::int64_t to) {
  return mean(square(squeeze(model(words()(range(from, to))), -1) - target()(range(from, to))));
}
}  // namespace

TEST_CASE("a model that is divided over an axis learns as the whole one", "[cpu][dist]") {
  seed(6);
  Whole one;
  optim::Adam adam(parameters(one), {.learning_rate = 0.05});
  std::vector<float> losses;
  for (int step = 0; step < 6; ++step) {
    GradientTape tape;
    const Tensor loss = cost(one, 0, 4);
    losses.push_back(loss.item<float>());
    adam.step(tape, loss);
  }
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 4}})
    dist::run_local(rows * columns, [&, rows = rows, columns = columns](World& world) {
      const Mesh mesh(world, {.axes = {{"batch", rows}, {"hidden", columns}}});
      const World &batch = mesh.axis("batch"), &hidden = mesh.axis("hidden");
      require(batch.size() == rows && hidden.size() == columns &&
                  world.rank() == batch.rank() * columns + hidden.rank(),
              "places");
      seed(6);
      Split model(hidden, Whole());
      require(model.pair.first.weight.shape() == Shape{5, 8 / columns} &&
                  model.pair.first.bias.shape() == Shape{8 / columns} &&
                  model.pair.second.weight.shape() == Shape{8 / columns, 2} &&
                  model.embedding.part.table.shape() == Shape{12 / columns, 5},
              "shapes");
      optim::Adam own(parameters(model), {.learning_rate = 0.05});
      dist::DataParallel replicas(batch, own);
      const std::int64_t from = 4 * batch.rank() / rows, to = 4 * (batch.rank() + 1) / rows;
      for (const float expected : losses) {
        GradientTape tape;
        const Tensor loss = cost(model, from, to);
        replicas.step(tape, loss, {.examples = to - from});
        const Tensor all = dist::all_reduce(loss, batch, {.op = dist::Reduce::mean});
        require(std::fabs(all.item<float>() - expected) < 1e-5f, "loss");
      }
      // The parts are those of the whole weights after training.
      const Tensor table = dist::all_gather(model.embedding.part.table, hidden);
      require(allclose(table, one.embedding.table, {.atol = 1e-4}), "the words' rows");
      require(allclose(model.pair.second.bias, one.second.bias, {.atol = 1e-4}), "bias");
    });
}

TEST_CASE("divided layers and grids of ranks refuse what does not fit", "[cpu][dist]") {
  World world;
  check_refused<Error>(
      [&] {
        Mesh(world, {.axes = {{"a", 2}}});
      },
      "Mesh: options.axes: expected sizes whose product is 1");
  check_refused<Error>(
      [&] {
        Mesh(world, {.axes = {{"a", 1}, {"a", 1}}});
      },
      "expected each name once, got \"a\" twice");
  const Mesh mesh(world, {.axes = {{"a", 1}, {"b", 1}}});
  check_refused<Error>([&] { mesh.axis("c"); }, "name: expected one of \"a\", \"b\", got \"c\"");
  check_refused<ShapeError>(
      [&] {
        dist::SplitLinears(world, {2, 3}, {4, 1});
      },
      "SplitLinears: second: expected 3 numbers in, got 4");
  check_refused<Error>(
      [&] {
        dist::SplitLinears(world, {2, 3}, {3, 1, Activation::relu});
      },
      "expected a Linear without an activation");
  check_refused<Error>(
      [&] {
        dist::SplitEmbedding(world, {4, 2, {.sparse = true}});
      },
      "expected an Embedding without .sparse");
  dist::run_local(2, [&](World& two) {
    const auto text = [](const auto& f) {
      try {
        f();
      } catch (const Error& error) {
        return std::string(error.what());
      }
      return std::string();
    };
    require(text([&] {
              dist::SplitLinears(two, {2, 3}, {3, 1});
            }).find("first: expected a multiple of 2 ranks, got 3") != std::string::npos,
            "hidden");
    const dist::SplitEmbedding table(two, nn::Embedding(4, 2));
    for (const int word : {4, -5}) {
      const std::string why = text([&] { table(tensor({0, word})); });
      require(why.find("SplitEmbedding: indices: expected -4 to 3") != std::string::npos,
              why.c_str());
    }
  });
}
}  // namespace reel::tests
