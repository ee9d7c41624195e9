// SPDX-License-Identifier: BSD-3-Clause
// Collectives inside of traced functions: each call sends as often as an eager call, whether a rank
// captures, replays or checks.
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
using dist::World;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}
/// A loss of a Linear, and a step with the mean of all ranks' gradients.
struct Step {
  const World& world;
  nn::Linear layer{3, 2, Activation::tanh};
  optim::Adam adam{{layer.weight, layer.bias}, {.learning_rate = 0.05}};
  Tensor operator()(const Tensor& x) {
    GradientTape tape;
    const Tensor loss = mean(square(layer(x) - 0.5));
    std::vector<Tensor> gradients;
    for (const Tensor& each : tape.gradient(loss, {layer.weight, layer.bias}))
      gradients.push_back(dist::all_reduce(each, world, {.op = dist::Reduce::mean}));
    adam.step(gradients);
    return dist::all_reduce(loss, world, {.op = dist::Reduce::mean});
  }
};
Tensor data(std::int64_t rank, int call) {
  const Tensor x = arange(0, 12).to(float32).reshape({4, 3});
  return sin(x * static_cast<double>(1 + rank) + static_cast<double>(call));
}
}  // namespace

TEST_CASE("a traced step that sends its gradients has the weights of an eager one", "[cpu][dist]") {
  for (const int ranks : {2, 3})
    dist::run_local(ranks, [](World& world) {
      std::vector<std::vector<float>> weights;
      for (const bool is_traced : {false, true}) {
        seed(7);
        Step step{world};
        auto traced = trace([&](Tensor x) { return step(x); });
        for (int call = 0; call < 20; ++call) {
          const Tensor x = data(world.rank(), call);
          const Tensor loss = is_traced ? traced(x) : step(x);
          require(std::isfinite(loss.item<float>()), "a loss");
        }
        require(traced.trace_count() == is_traced, "one capture");
        weights.push_back(step.layer.weight.value().to_vector<float>());
      }
      for (std::size_t i = 0; i < weights[0].size(); ++i)
        require(std::abs(weights[0][i] - weights[1][i]) < 1e-6f, "weights of the eager run");
    });
}

TEST_CASE("ranks that capture, replay and check at different calls do not wait", "[cpu][dist]") {
  for (int first = 0; first < 6; ++first)
    dist::run_local(
        3,
        [&](World& world) {
          const auto eager = [&](Tensor x) {
            const Tensor sum = dist::all_reduce(x * 2, world);
            return concat({dist::all_gather(sum + static_cast<double>(world.rank()), world),
                           dist::broadcast(x, world, {.root = 1})});
          };
          auto traced = trace(eager);
          // Rank 0 traces from the first call on, others from a later one.
          for (int call = 0; call < 24; ++call) {
            const Tensor x = full({2}, call + world.rank());
            const bool traces = call >= first * static_cast<int>(world.rank());
            const std::vector<float> found = (traces ? traced(x) : eager(x)).to_vector<float>();
            std::vector<float> expected;
            for (int rank = 0; rank < 3; ++rank)
              for (int k = 0; k < 2; ++k)
                expected.push_back(static_cast<float>(6 * call + 6 + rank));
            for (int k = 0; k < 2; ++k) expected.push_back(static_cast<float>(call + 1));
            require(found == expected, "values of call " + std::to_string(call));
          }
          require(traced.trace_count() == 1, "one capture");
        },
        {.timeout = 20});
}

namespace {
struct Net {
  nn::Linear a{3, 5, Activation::tanh}, b{5, 4, Activation::tanh}, head{4, 2};
  Tensor operator()(const Tensor& x) const { return head(b(a(x))); }
  REEL_FIELDS(a, b, head)
};
/// The weights after some steps, and how many DataParallel has counted. `traces` says from which
/// call on a rank traces its steps.
std::vector<float> trained(World& world, const dist::DataParallelOptions& options, int traces,
                           bool branches = false) {
  seed(11);
  Net net;
  optim::Adam adam(parameters(net), {.learning_rate = 0.02});
  dist::DataParallel replicas(world, adam, options);
  const auto step = [&](Tensor x) {
    GradientTape tape;
    // A rank may use other Variables than others.
    const bool deep = !branches || bool(x(0, 0) > 0);
    const Tensor y = deep ? net(x) : net.head(net.b(net.a(stop_gradient(x)) * 0.5));
    replicas.step(tape, mean(square(y - 0.3)), {.examples = 1 + world.rank()});
  };
  auto traced = trace(step);
  for (int call = 0; call < 14; ++call) {
    if (call % 5 == 4 && world.rank() == 1) {  // without data
      replicas.join();
      continue;
    }
    const Tensor x = data(world.rank(), call);
    call >= traces ? traced(x) : step(x);
  }
  require(replicas.steps() == 14, "14 steps");
  require(traces >= 14 || (traced.trace_count() > 0 &&
                           traced.explain().find("runs eagerly") == std::string::npos),
          traced.explain());
  std::vector<float> all;
  for (const Variable& x : parameters(net))
    for (const float w : x.value().to_vector<float>()) all.push_back(w);
  return all;
}
}  // namespace

TEST_CASE("traced steps of DataParallel have the weights of eager steps", "[cpu][dist]") {
  const dist::DataParallelOptions all[] = {
      {},
      {.bucket_bytes = 64},
      {.bucket_bytes = 64, .sum = dist::Sum::ordered},
      {.send_as = bfloat16},
      {.clip_norm = 0.01},
      {.shard_optimizer = true},
  };
  for (const auto& options : all)
    for (const bool branches : {false, true})
      dist::run_local(
          3,
          [&](World& world) {
            const std::vector<float> eager = trained(world, options, 99, branches);
            const int first =
                static_cast<int>(world.rank()) * 2;  // ranks trace from other calls on
            const std::vector<float> replayed = trained(world, options, first, branches);
            for (std::size_t i = 0; i < eager.size(); ++i)
              require(std::abs(eager[i] - replayed[i]) < 1e-6f, "weights of the eager run");
          },
          {.timeout = 20});
}

TEST_CASE("a replay in which no rank uses a Variable is a TapeError on all ranks", "[cpu][dist]") {
  dist::run_local(
      2,
      [](World& world) {
        const Variable w("w", ones({3})), u("u", ones({3}));
        optim::SGD sgd({w, u}, {.learning_rate = 0.1});
        dist::DataParallel replicas(world, sgd);
        auto step = trace([&](Tensor x) {
          GradientTape tape;
          const Tensor y = w * x;
          replicas.step(tape, sum(bool(x(0) > 0) ? y + u : y));
        });
        for (int call = 0; call < 12; ++call) {
          const bool uses = world.rank() == 1 && call % 6 != 5;  // rank 0 never uses u
          const float before = w.value()(0).item<float>();
          const std::string text = error_text([&] { step(full({3}, uses ? 2 : -1)); });
          require((text.find("none that depends on \"u\"") != text.npos) == (call % 6 == 5), text);
          require((before == w.value()(0).item<float>()) == (call % 6 == 5), "w");
        }
      },
      {.timeout = 20});
}

TEST_CASE("gradients of collectives are steps of a trace too", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    const auto f = [&](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = dist::reduce_scatter(dist::all_gather(x * x, world), world);
      return tape.gradient(sum(y * y), x);
    };
    auto traced = trace(f);
    for (int call = 0; call < 10; ++call) {
      const Tensor x = full({2, 2}, 0.5 * (1 + call)) + static_cast<double>(world.rank());
      require(allclose(traced(x), f(x)), "gradients of call " + std::to_string(call));
    }
    require(traced.trace_count() == 1, "one capture");
  });
}

TEST_CASE("layers that are divided work in a trace", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    seed(3);
    const nn::Linear a(4, 6, Activation::relu), b(6, 2);
    const dist::SplitLinears split(world, a, b);
    auto traced = trace([&](Tensor x) { return split(x); });
    for (int call = 0; call < 10; ++call) {
      const Tensor x = sin(arange(0, 12).to(float32).reshape({3, 4}) + static_cast<double>(call));
      require(allclose(traced(x), b(a(x)), {.rtol = 1e-5, .atol = 1e-6}), "the whole layers");
    }
    require(traced.trace_count() == 1, "one capture");
  });
}
}  // namespace reel::tests
