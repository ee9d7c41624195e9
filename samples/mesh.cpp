// SPDX-License-Identifier: BSD-3-Clause
// A grid of ranks: the batch is divided over one axis, layers over the other (Shoeybi et al. 2019).
// Of two Linears, the first is divided by columns and the second by rows, so that one sum between
// ranks joins them; an embedding is divided by its words. Beside it, one rank learns the same.
// Start it by itself, where 4 ranks are threads, or by `mpirun -n 4`.
#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int steps = 200, words = 64, width = 32, hidden = 64, batch = 32;
  double rate = 0.1;
};

/// The part of a model that a rank of the axis has.
struct Model {
  dist::SplitEmbedding embedding;
  dist::SplitLinears layers;
  REEL_FIELDS(embedding, layers)

  Model(const Options& options, const dist::World& axis)
      : embedding(axis, nn::Embedding(options.words, options.width)),
        layers(axis, nn::Linear(options.width, options.hidden, Activation::tanh),
               nn::Linear(options.hidden, 1)) {}
  Tensor operator()(const Tensor& ids) const { return layers(embedding(ids)); }
};

/// Learns on a grid of so many rows, over which the batch is divided; returns the last loss.
float learn(const Options& options, const dist::World& world, std::int64_t rows) {
  const dist::Mesh mesh(world, {.axes = {{"batch", rows}, {"hidden", world.size() / rows}}});
  const dist::World& batch = mesh.axis("batch");
  seed(options.seed);
  const Model model(options, mesh.axis("hidden"));
  optim::SGD sgd(parameters(model), {.learning_rate = options.rate});
  dist::DataParallel replicas(batch, sgd);
  const Generator data(options.seed + 1);
  const GeneratorScope scope(data);
  Tensor loss;
  for (int step = 0; step < options.steps; ++step) {
    const Tensor ids = random::integers(0, options.words, {options.batch});
    const std::int64_t share = options.batch / rows, from = share * batch.rank();
    const Tensor mine = ids(range(from, from + share));
    const Tensor target = sin(cast(mine, float32)).reshape({-1, 1});
    GradientTape tape;
    loss = mean(square(model(mine) - target));
    replicas.step(tape, loss, {.examples = share});
  }
  return dist::all_reduce(loss, batch, {.op = dist::Reduce::mean}).item<float>();
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("A grid of 4 ranks: data parallel, and layers that are divided.", options);
  line.add("--steps", options.steps, "training steps")->check(CLI::PositiveNumber);
  line.add("--words", options.words, "words of the embedding, a multiple of 4");
  line.add("--width", options.width, "width of the embedding")->check(CLI::PositiveNumber);
  line.add("--hidden", options.hidden, "width between the Linears, a multiple of 4");
  line.add("--batch", options.batch, "examples of a step, a multiple of 4");
  line.add("--rate", options.rate, "the learning rate");
  return line.run(argc, argv, [&] {
    const auto grids = [&](const dist::World& world) {
      for (std::int64_t rows = 1; rows <= world.size(); rows *= 2) {
        const float loss = learn(options, world, rows);
        if (world.rank() == 0)
          fmt::print("{} x {} ranks: loss {:.6f}\n", rows, world.size() / rows, loss);
      }
    };
    const dist::World world;
    if (world.rank() == 0)
      fmt::print("one rank: loss {:.6f}\n",
                 learn(options, dist::World({.engine = dist::Engine::single}), 1));
    if (world.size() > 1)
      grids(world);
    else
      dist::run_local(4, [&](dist::World& own) { grids(own); });
  });
}
