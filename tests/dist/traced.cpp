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
