// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints of several ranks have the form of one process; fit() and layers on several ranks.
#include <dirent.h>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using dist::World;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
struct Example {
  Tensor x, y;
  REEL_FIELDS(x, y)
};
struct Net {
  nn::Linear hidden{3, 8, Activation::tanh}, head{8, 1};
  REEL_FIELDS(hidden, head)
  Tensor operator()(const Tensor& x) const { return head(hidden(x)); }
};
const auto loss = [](const Net& m, const Example& e) { return mean(square(m(e.x) - e.y)); };
Example table() {
  const Generator own(3);
  const GeneratorScope scope(own);
  const Tensor x = random::normal({60, 3});
  return {x, sum(x, 1, keepdims)};
}
/// The part of a rank: batches of 12 of all ranks together.
auto share(std::int64_t rank, std::int64_t ranks) {
  return data::rows(table()).shuffle({.seed = 2}).shard(rank, ranks).batch(12 / ranks);
}
/// Steps `from` to `to` of a training that goes on from the folder; the losses of these steps.
std::vector<float> train(std::int64_t ranks, const std::string& folder, int to,
                         bool shards = false) {
  std::vector<float> curve;
  const auto part = [&](World& world) {
    seed(4);
    Net net;
    optim::Adam adam(parameters(net), {.learning_rate = 0.05});
    dist::DataParallel replicas(world, adam, {.shard_optimizer = shards});
    auto own = share(world.rank(), world.size());
    const io::Checkpoints checkpoints(folder, {.keep = 2});
    std::int64_t step = 0;
    checkpoints.resume(step, net, replicas, own);
    while (step < to)
      for (auto& example : own) {
        GradientTape tape;
        const Tensor cost = loss(net, example);
        replicas.step(tape, cost, {.examples = example.x.shape()[0]});
        const Tensor all = dist::all_reduce(cost, world, {.op = dist::Reduce::mean});
        if (world.rank() == 0) curve.push_back(all.item<float>());
        checkpoints.save(++step, net, replicas, own);
        if (step == to) break;
      }
  };
  dist::run_local(ranks, part);
  return curve;
}
std::vector<float> weights(const auto& model) {
  std::vector<float> all;
  for (const Variable& p : parameters(model))
    for (const float w : p.value().template values<float>()) all.push_back(w);
  return all;
}
bool near(const std::vector<float>& a, const std::vector<float>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = std::fabs(a[i] - b[i]) < 2e-6f;
  return same;
}
}  // namespace

TEST_CASE("a run of 4 ranks goes on with 2, then 3, then 1, along the curve of 1", "[cpu][dist]") {
  const Folder one, many;
  const std::vector<float> expected = train(1, one.path.string(), 13);
  std::vector<float> got;
  for (const auto& [ranks, to] : std::vector<std::pair<int, int>>{{4, 3}, {2, 7}, {3, 11}, {1, 13}})
    for (const float x : train(ranks, many.path.string(), to)) got.push_back(x);
  CHECK(near(got, expected));
}

TEST_CASE("a checkpoint has the optimizer's state of all ranks", "[cpu][dist]") {
  const Folder one, many;
  const std::vector<float> expected = train(1, one.path.string(), 15);
  std::vector<float> got;
  const auto go_on = [&](std::int64_t ranks, int to, bool shards) {
    for (const float x : train(ranks, many.path.string(), to, shards)) got.push_back(x);
  };
  go_on(4, 3, true);
  go_on(2, 6, true);
  go_on(3, 9, false);
  go_on(3, 12, true);
  go_on(1, 15, true);
  CHECK(near(got, expected));
  dist::run_local(2, [&](World& world) {
    Net net;
    optim::Adam adam(parameters(net));
    dist::DataParallel replicas(world, adam, {.shard_optimizer = true});
    std::string why;
    try {
      io::save(many.path.string() + "/part.safetensors", net, replicas);
    } catch (const Error& error) {
      why = error.what();
    }
    require(why.find("a part of it, by .shard_optimizer") != std::string::npos, "save() of a part");
  });
}

TEST_CASE("one process reads the checkpoint of several, and the reverse", "[cpu][dist]") {
  const Folder folder;
  train(2, folder.path.string(), 3);
  Net net;
  optim::Adam adam(parameters(net), {.learning_rate = 0.05});
  auto own = share(0, 1);
  std::int64_t step = 0;
  CHECK(io::Checkpoints(folder.path.string()).resume(step, net, adam, own));
  CHECK(step == 3);
  CHECK(adam.steps().value().item<std::int64_t>() == 3);
}

TEST_CASE("ranks that resume from different steps are told so", "[cpu][dist]") {
  const Folder first, second;
  train(1, first.path.string(), 2);
  std::string texts[2];
  dist::run_local(2, [&](World& world) {
    Net net;
    optim::Adam adam(parameters(net), {.learning_rate = 0.05});
    dist::DataParallel replicas(world, adam);
    auto own = share(world.rank(), 2);
    std::int64_t step = 0;
    try {
      io::Checkpoints(world.rank() ? second.path.string() : first.path.string())
          .resume(step, net, replicas, own);
    } catch (const DistError& error) {
      texts[world.rank()] = error.what();
    }
  });
  INFO(texts[0]);
  CHECK(texts[0].find("rank 1: expected step 2, as on rank 0, got no checkpoint") !=
        std::string::npos);
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("fit() with several ranks gives the weights of one", "[cpu][dist][fit]") {
  for (const std::int64_t accumulate : {1, 2}) {
    seed(5);
    Net one;
    optim::Adam adam(parameters(one), {.learning_rate = 0.05});
    auto alone = share(0, 1);
    const auto history = fit(one, adam, alone, loss, {.epochs = 3, .accumulate = accumulate});
    for (const std::int64_t ranks : {1, 2, 3})
      dist::run_local(ranks, [&](World& world) {
        seed(5);
        Net net;
        optim::Adam own(parameters(net), {.learning_rate = 0.05});
        dist::DataParallel replicas(world, own);
        auto part = share(world.rank(), ranks);
        const auto got = fit(net, replicas, part, loss, {.epochs = 3, .accumulate = accumulate});
        require(near(weights(net), weights(one)), "weights");
        require(got.epochs.size() == 3 && got.epochs[2].step == history.epochs[2].step, "steps");
        require(std::fabs(got.epochs[2].loss - history.epochs[2].loss) < 1e-5, "loss");
      });
  }
}

TEST_CASE("in fit() ranks may have fewer batches, or none, and one of them stops all",
          "[cpu][dist][fit]") {
  dist::run_local(
      3,
      [](World& world) {
        Net net;
        optim::SGD sgd(parameters(net), {.learning_rate = 0.01});
        dist::DataParallel replicas(world, sgd);
        const Example rows = table();
        std::vector<Example> mine;  // rank 0 has none, rank 1 one batch, rank 2 two
        for (int k = 0; k < world.rank(); ++k)
          mine.push_back({rows.x(range(6 * k, 6 * k + 6)), rows.y(range(6 * k, 6 * k + 6))});
        auto history = fit(net, replicas, mine, loss, {.epochs = 4});
        require(history.epochs.size() == 4 && history.epochs[3].step == 8, "eight steps");
        history = fit(net, replicas, mine, loss, {.epochs = 10, .after_step = [&](FitStep& event) {
                                                    event.stop =
                                                        world.rank() == 1 && event.step == 3;
                                                  }});
        require(history.epochs.back().step == 3, "stopped by rank 1");
        history =
            fit(net, replicas, mine, loss, {.epochs = 10, .after_epoch = [&](FitEpoch& event) {
                                              event.stop = world.rank() == 2 && event.epoch == 1;
                                            }});
        require(history.epochs.size() == 2, "stopped by rank 2");
      },
      {.timeout = 20.0});
}

TEST_CASE("BatchNorm over all ranks is that of one batch", "[cpu][dist]") {
  struct Layers {
    nn::Linear in{3, 4};
    nn::BatchNorm norm;
    nn::Linear head{4, 1};
    explicit Layers(const World* sync = nullptr) : norm(4, {.sync = sync}) {}
    REEL_FIELDS(in, norm, head)
    Tensor operator()(const Tensor& x) const { return head(norm(in(x))); }
  };
  const Example rows = table();
  const auto cost = [](const Layers& m, const Tensor& x, const Tensor& y) {
    return mean(square(m(x) - y));
  };
  seed(6);
  Layers one;
  optim::SGD sgd(parameters(one), {.learning_rate = 0.1});
  for (int step = 0; step < 3; ++step) {
    GradientTape tape;
    sgd.step(tape, cost(one, rows.x, rows.y));
  }
  // The parts have different lengths.
  for (const std::vector<std::int64_t>& ends :
       {std::vector<std::int64_t>{0, 25, 60}, {0, 10, 30, 60}})
    dist::run_local(static_cast<std::int64_t>(ends.size()) - 1, [&](World& world) {
      seed(6);
      Layers net(&world);
      optim::SGD own(parameters(net), {.learning_rate = 0.1});
      dist::DataParallel replicas(world, own);
      const auto rank = static_cast<std::size_t>(world.rank());
      const Index mine = range(ends[rank], ends[rank + 1]);
      for (int step = 0; step < 3; ++step) {
        GradientTape tape;
        replicas.step(tape, cost(net, rows.x(mine), rows.y(mine)),
                      {.examples = ends[rank + 1] - ends[rank]});
      }
      require(near(weights(net), weights(one)), "parameters");
      require(allclose(net.norm.mean, one.norm.mean, {.rtol = 1e-5, .atol = 1e-6}), "mean");
      require(allclose(net.norm.variance, one.norm.variance, {.rtol = 1e-5}), "variance");
    });
}

TEST_CASE("take_latest gives all ranks the state of the one with the most steps", "[threads]") {
  const Example rows = table();
  std::vector<float> expected;
  dist::run_local(3, [&](World& world) {
    seed(1 + world.rank());
    Net net;
    optim::Adam adam(parameters(net), {.learning_rate = 0.05});
    Generator generator(7);
    auto own = share(world.rank(), world.size());
    int step = 0;
    const int taken[] = {2, 5, 4};
    while (step < taken[world.rank()]) {
      GradientTape tape;
      adam.step(tape, loss(net, rows));
      ++step;
    }
    if (world.rank() == 1) expected = weights(net);
    dist::take_latest(world, step, net, adam, generator, own);
    require(step == 5, "the step");
    require(weights(net) == expected, "parameters");
    seed(9);
    dist::DataParallel replicas(world, adam);
    require(weights(net) == expected, "parameters afterwards");
    for (int k = 0; k < 2; ++k) {  // the state of Adam is that of rank 1 too
      GradientTape tape;
      adam.step(tape, loss(net, rows));
    }
    const std::vector<float> mine = weights(net);
    const Tensor all = dist::all_gather(tensor(mine), world);
    const auto count = static_cast<std::int64_t>(mine.size());
    for (std::int64_t rank = 0; rank < 3; ++rank)
      require(all(range(rank * count, (rank + 1) * count)).to_vector<float>() == mine,
              "steps afterwards");
  });
}
TEST_CASE("A World without .survive is not shrunk", "[threads]") {
  const auto says = [](const auto& call, std::string_view text) {
    try {
      call();
    } catch (const Error& error) {
      return std::string_view(error.what()).find(text) != std::string_view::npos;
    }
    return false;
  };
  CHECK(says([] { dist::run_local(2, [](World&) {}, {.survive = true}); },
             "options.survive: expected false in run_local() and with nccl, got true"));
  CHECK(says([] { dist::run_local(2, [](World& world) { world = world.shrink(); }); },
             "expected one with .survive, in which a collective has failed, got one without it"));
  const World alone({.survive = true});  // nobody else can die
  CHECK(alone.size() == 1);
  CHECK(says([&] { alone.shrink(); }, "shrink: world"));
}
}  // namespace reel::tests
