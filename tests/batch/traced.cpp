// SPDX-License-Identifier: BSD-3-Clause
// batched() inside of a traced function, beside the function run eagerly.
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "batch/trees.hpp"
#include "support/catch.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
/// Calls f and its traced form with each input. Values are equal, and later calls are replays.
template <class F>
std::string check_replayed(const F& f, const std::vector<Tensor>& inputs, std::size_t traces = 1) {
  auto traced = trace(f);
  const std::string said = on_stderr([&] {
    for (int round = 0; round < 4; ++round)
      for (const Tensor& x : inputs) CHECK(allclose(traced(x), f(x), {.rtol = 1e-6, .atol = 1e-6}));
  });
  CHECK(said == "");
  CHECK(traced.trace_count() == traces);
  return traced.explain();
}
const std::vector<int> three{1, 2, 3};
std::vector<Tensor> some_inputs() {
  std::vector<Tensor> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(tensor({0.5f * static_cast<float>(i), -1.0f}));
  return inputs;
}
}  // namespace

TEST_CASE("a batch of a traced function is replayed") {
  const Variable w("w", tensor({2.0f, 3.0f}));
  const std::string said = check_replayed(
      [&](const Tensor& x) {
        return concat(batched(three, [&](int i) { return tanh(w * x * i) + x; }));
      },
      some_inputs());
  CHECK(said.find("runs eagerly") == std::string::npos);
  const Tensor outside = ones({2});
  check_replayed(
      [&](const Tensor& x) {  // ops of arguments and of tensors from outside alone
        return concat(batched(three, [&](int i) { return (x + outside) * i; }));
      },
      some_inputs());
  check_replayed([&](const Tensor& x) { return concat(batched(three, [&](int) { return x; })); },
                 some_inputs());
  check_replayed(
      [&](const Tensor& x) {
        return concat(batched(three, [&](int i) {
          return stop_gradient(x.reshape({1, 2}))(0) * i;
        }));
      },
      some_inputs());
}

TEST_CASE("a thread that has had no fibers captures a batch in its first call") {
  std::thread([] {
    auto traced = trace(
        [](const Tensor& x) { return concat(batched(three, [&](int i) { return exp(x * i); })); });
    traced(ones({2}));
    CHECK(traced.trace_count() == 1);
  }).join();
}

TEST_CASE("values of Variables that a batch returns are those of each call") {
  const Variable w("w", tensor({2.0f, 3.0f}));
  auto traced = trace([&](const Tensor& x) {
    std::vector<Tensor> all = batched(three, [&](int i) { return i == 2 ? w.value() : w * x; });
    return concat(all);
  });
  for (int i = 0; i < 6; ++i) {
    const float k = static_cast<float>(i);
    w.assign(tensor({k, k + 1}));
    CHECK(traced(full({2}, 2)).to_vector<float>() ==
          std::vector<float>{2 * k, 2 * k + 2, k, k + 1, 2 * k, 2 * k + 2});
  }
  CHECK(traced.trace_count() == 1);
}

TEST_CASE("decisions of examples on values are paths of the trace") {
  const Variable w("w", tensor({1.0f, -1.0f}));
  const auto f = [&](const Tensor& x) {
    return concat(batched(three, [&](int i) {
      Tensor y = w * x * i;
      if (bool(sum(y) > 2)) y = y * 10;
      if (bool(x(0) > 1.2)) y = y + 1;  // of an argument
      return y;
    }));
  };
  const std::string said = check_replayed(f, some_inputs(), 3);
  CHECK(said.find("runs eagerly") == std::string::npos);
}

TEST_CASE("a traced training step of batched trees has the weights of an eager one") {
  std::mt19937 random(3);
  std::vector<Tree> trees;
  for (int i = 0; i < 6; ++i) trees.push_back(grow(random, 3 + i));
  const Tensor labels = tensor({0, 1, 2, 0, 1, 2});
  const auto train = [&](bool is_traced) {
    seed(5);
    TreeModel model;
    optim::Adam adam(parameters(model), {.learning_rate = 0.05});
    const auto step = [&](const Tensor& scale) {
      GradientTape tape;
      const Tensor scores = concat(batched(trees, [&](const Tree& tree) { return model(tree); }));
      const Tensor loss = cross_entropy(scores, labels) * scale;
      adam.step(tape.gradient(loss, parameters(model)));
      return loss;
    };
    auto traced = trace(step);
    std::vector<float> losses;
    for (int i = 0; i < 12; ++i) {
      const Tensor scale = full({}, 1 + i % 3);
      losses.push_back((is_traced ? traced(scale) : step(scale)).item<float>());
    }
    CHECK(traced.trace_count() == is_traced);
    return losses;
  };
  const std::vector<float> eager = train(false), replayed = train(true);
  for (std::size_t i = 0; i < eager.size(); ++i)
    CHECK(std::abs(eager[i] - replayed[i]) < 1e-5 * (1 + std::abs(eager[i])));
  CHECK(eager.back() < eager.front());
}

TEST_CASE("lists of reads() choose the capture of a batch") {
  std::vector<std::int64_t> lengths{2, 1, 3};
  const auto f = [&](const Tensor& x) {
    return concat(batched(std::vector<std::size_t>{0, 1, 2}, [&](std::size_t i) {
      Tensor h = x;
      for (std::int64_t t = 0; t < lengths[i]; ++t) h = tanh(h + 1);
      return h;
    }));
  };
  auto traced = trace(f).reads(lengths);
  for (int round = 0; round < 3; ++round)
    for (const auto& each : {std::vector<std::int64_t>{2, 1, 3}, {1, 1, 1}, {4, 2, 2}}) {
      lengths = each;
      for (const Tensor& x : some_inputs()) CHECK(allclose(traced(x), f(x)));
    }
  CHECK(traced.trace_count() == 3);
}

TEST_CASE("a batch that draws random numbers runs eagerly in a traced function, and says why") {
  const Variable w("w", ones({4}));
  for (const bool from_shape : {false, true}) {
    auto traced = trace([&](const Tensor& x) {
      return concat(batched(three, [&](int) {
        return from_shape ? w * x + random::uniform({4}) : dropout(w * x, 0.5);
      }));
    });
    std::vector<std::vector<float>> seen;
    const std::string said = on_stderr([&] {
      for (int i = 0; i < 6; ++i) seen.push_back(traced(ones({4})).to_vector<float>());
    });
    CHECK(said.find("it draws random numbers inside of batched()") != std::string::npos);
    CHECK(seen[4] != seen[5]);
  }
}

TEST_CASE("functions with gradients of their own run in a batch of a trace") {
  const Variable w("w", tensor({2.0f, 3.0f}));
  const auto squared = custom_gradient(
      [](Tensor a) { return std::pair(a * a, [a](Tensor up) { return up * a * 3; }); });
  const auto f = [&](const Tensor& x) {
    GradientTape tape;
    const Tensor y = sum(concat(batched(three, [&](int i) { return squared(w * x * i); })));
    return tape.gradient(y, w);
  };
  check_replayed(f, some_inputs());
}

TEST_CASE("an example that throws ends the call of a traced function") {
  const Variable w("w", ones({2}));
  auto traced = trace([&](const Tensor& x) {
    return concat(batched(three, [&](int i) {
      Tensor y = w * x;
      if (bool(y(0) > 5)) throw std::runtime_error("example " + std::to_string(i));
      return y;
    }));
  });
  for (int i = 0; i < 5; ++i) {
    CHECK_THROWS_WITH(traced(full({2}, 6)), "example 1");
    CHECK(traced(full({2}, i)).to_vector<float>() == std::vector<float>(6, static_cast<float>(i)));
  }
}
}  // namespace reel::tests
