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

/// x on all ranks of an axis that then compute different parts: their gradients are added.
Tensor to_parts(Tensor x, const dist::World& axis) {
  return custom_gradient([&axis](Tensor from) {
    return std::pair{from * 1.0f, [axis](Tensor dy) { return dist::all_reduce(dy, axis); }};
  })(x);
}
/// The sum of parts. All ranks compute the same from it, so the gradient of a part is that of the
/// sum.
Tensor sum_parts(Tensor part, const dist::World& axis) {
  return part + stop_gradient(dist::all_reduce(part, axis) - part);
}

/// The part of a model that a rank of the axis has. All ranks draw the whole weights and keep
/// theirs.
struct Model {
  const dist::World& axis;
  std::int64_t words, first_word;
  Variable table, in, in_bias, out, out_bias;
  REEL_FIELDS(table, in, in_bias, out, out_bias)

  Model(const Options& options, const dist::World& world)
      : axis(world),
        words(options.words / world.size()),
        first_word(words * world.rank()),
        table("table", part(random::normal({options.words, options.width}), 0)),
        in("in", part(random::normal({options.width, options.hidden}, {.stddev = 0.2}), 1)),
        in_bias("in_bias", part(zeros({options.hidden}), 0)),
        out("out", part(random::normal({options.hidden, 1}, {.stddev = 0.2}), 0)),
        out_bias("out_bias", zeros({1})) {}
  Tensor part(const Tensor& whole, int axis_of_it) const {
    return split(whole, axis.size(), axis_of_it)[static_cast<std::size_t>(axis.rank())];
  }

  /// Words of other ranks give zeros here.
  Tensor embed(const Tensor& ids) const {
    const Tensor mine = ids - first_word;
    const Tensor known = cast(logical_and(mine >= 0, mine < words), float32);
    const Tensor rows = take(table, clip(mine, 0, words - 1));
    return sum_parts(rows * known.reshape({-1, 1}), axis);
  }
  Tensor operator()(const Tensor& ids) const {
    const Tensor x = to_parts(embed(ids), axis);
    return sum_parts(matmul(tanh(matmul(x, in) + in_bias), out), axis) + out_bias;
  }
};

/// Learns on a grid of so many rows, over which the batch is divided; returns the last loss.
float learn(const Options& options, const dist::World& world, std::int64_t rows) {
  const std::int64_t columns = world.size() / rows;
  const dist::World hidden = world.split(world.rank() / columns),
                    batch = world.split(world.rank() % columns);
  seed(options.seed);
  const Model model(options, hidden);
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
