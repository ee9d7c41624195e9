// SPDX-License-Identifier: BSD-3-Clause
// Thirty more forms of programs that keep no state. What they capture is constant while they run.
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
int replayed = 0, forms = 0;

/// Calls the function as a user does. Between the calls the caller keeps values of its own.
template <class F>
void replays(const char* form, F f, TraceOptions options = {}) {
  ++forms;
  const auto traced = trace(f, options);
  std::vector<float> history;
  double total = 0;
  for (int i = 0; i < 24; ++i) {
    const Tensor given = traced(full({2, 3}, 0.1f * static_cast<float>(i)));
    history.push_back(sum(given).to(DType::float32).template item<float>());
    total += static_cast<double>(history.back());
  }
  const std::string explained = traced.explain();
  if (explained.find("agerly") == std::string::npos && traced.trace_count() > 0)
    ++replayed;
  else
    UNSCOPED_INFO(form << ", total " << total << "\n" << explained);
}

struct Config {
  std::string name = "config";
  double dropout = 0.1;
  std::vector<int> sizes = {3, 4};
  std::optional<double> clip = 1.0;
};
struct Logger {  // its content depends on no tensor
  std::string name = "train";
  int calls = 0;
};
int logged = 0;
struct Block {
  virtual ~Block() = default;
  virtual Tensor run(const Tensor& x) const = 0;
};
struct Dense : Block {
  nn::Linear layer{3, 3};
  Tensor run(const Tensor& x) const override { return relu(layer(x)); }
};
struct Scaled : Block {
  std::array<float, 40> scales{};
  Tensor run(const Tensor& x) const override { return x * (1 + scales[39]); }
};
Tensor activate(const Tensor& x) { return tanh(x); }
}  // namespace

TEST_CASE("thirty more forms of programs that keep no state are replayed") {
  replayed = forms = 0;
  int a = 1;
  const double rate = 0.5;
  Variable w("w", ones({3})), step("step", zeros({}, {.dtype = DType::int64}));
  replays("two numbers by reference", [&](Tensor x) { return x * (a + rate); });
  replays("a Variable by reference", [&](Tensor x) { return x * w; });
  replays("a Variable that is written", [&](Tensor x) {
    w.assign_add(mean(x, 0) * 1e-3f);
    return x * w;
  });
  replays("a Variable by value", [w](Tensor x) { return x * w; });
  replays("a step that is counted in a Variable", [&](Tensor x) {
    step.assign_add(1);
    return x * step.value();
  });
  const nn::Linear layer(3, 4);
  replays("a layer by reference", [&](Tensor x) { return layer(x); });
  replays("a layer by value", [layer](Tensor x) { return layer(x); });
  const Config config;
  replays("a config by reference", [&](Tensor x) { return dropout(x, config.dropout); });
  replays("a config by value", [config](Tensor x) { return x * *config.clip; });
  const auto shared = std::make_shared<const Config>();
  replays("a shared config", [shared](Tensor x) { return x * shared->sizes[1]; });
  const std::vector<Tensor> data = {ones({3}), full({3}, 2.0f)};
  replays("constant data", [&](Tensor x) { return x * data[0] + data[1]; });
  const std::map<std::string, Tensor> named = {{"mean", ones({3})}, {"scale", ones({3})}};
  replays("a map of tensors", [&](Tensor x) { return (x - named.at("mean")) / named.at("scale"); });
  std::optional<Tensor> mask;
  replays("a cache that the first call fills", [&](Tensor x) {
    if (!mask) mask = ones({3}) * 2;
    return x * *mask;
  });
  std::map<int, Tensor> table;
  replays("a table that the first call fills", [&](Tensor x) {
    const auto found = table.find(3);
    const Tensor row = found != table.end() ? found->second : table[3] = ones({3}) * 3;
    return x * row;
  });
  std::unique_ptr<optim::Adam> adam;
  Variable v("v", ones({3}));
  replays("an optimizer that the first call makes", [&](Tensor x) {
    if (!adam) adam = std::make_unique<optim::Adam>(std::vector<Variable>{v});
    GradientTape tape;
    const Tensor loss = mean(square(x * v));
    adam->step(tape.gradient(loss, std::vector<Variable>{v}));
    return loss;
  });
  Logger logger;
  replays("a logger of which only the name is read", [&](Tensor x) {
    ++logged;
    return x * static_cast<float>(logger.name.size());
  });
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<Dense>());
  blocks.push_back(std::make_unique<Scaled>());
  replays("blocks behind pointers", [&](Tensor x) {
    for (const auto& block : blocks) x = block->run(x);
    return x;
  });
  const std::function<Tensor(Tensor)> inner = [w](Tensor x) { return x + w; };
  replays("a function by reference", [&](Tensor x) { return inner(x); });
  replays("a function by value", [inner](Tensor x) { return inner(x); });
  replays("a function pointer", [act = &activate](Tensor x) { return act(x); });
  const auto twice = [&](const Tensor& x) { return x * 2 + a; };
  const auto more = [&](const Tensor& x) { return twice(twice(x)); };
  replays("lambdas in lambdas", [&](Tensor x) { return more(x); });
  const std::variant<float, Tensor> either = ones({3});
  replays("a variant", [&](Tensor x) { return x * std::get<Tensor>(either); });
  const std::deque<float> weights(100, 0.5f);
  replays("a deque", [&](Tensor x) { return x * weights[77]; });
  const std::set<std::string> frozen = {"a", "b"};
  replays("a set of names", [&](Tensor x) { return frozen.count("a") ? x : x * w; });
  const Generator numbers(5);
  replays("random numbers", [](Tensor x) { return x + random::normal({3}); });
  Live<double> live_rate{0.1};
  replays("a live number", [&](Tensor x) { return x * live_rate; });
  replays("a tape inside", [&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(square(x) * w), x);
  });
  replays("a value that is read", [](Tensor x) { return sum(x) > 3.0f ? x * 2 : x; });
  struct {
    nn::Linear in{3, 4}, out{4, 3};
    nn::LSTM lstm{3, 4};
    optim::SGD sgd{parameters(in), {.learning_rate = 0.01}};
    std::vector<double> losses;
    int epoch = 3;
  } model;
  replays("a model on the stack", [&](Tensor x) {
    GradientTape tape;
    const Tensor loss = mean(square(model.out(tanh(model.in(x))))) * model.epoch;
    model.sgd.step(tape.gradient(loss, parameters(model.in)));
    return loss;
  });
  replays("vectors that it makes itself", [](Tensor x) {
    std::vector<Tensor> rows;
    std::map<int, float> scales;
    for (int i = 0; i < 2; ++i) rows.push_back(x[i] * (scales[i] = 2.0f));
    return stack(rows);
  });
  replays("every replay is checked", [&](Tensor x) { return x * (a + rate); }, {.verify = 1});
  std::vector<float> reserved;
  reserved.reserve(64);
  replays("a vector with spare memory",
          [&](Tensor x) { return x * static_cast<float>(1 + reserved.size()); });
  CHECK(replayed == forms);
  CHECK(forms >= 30);
}
}  // namespace reel::tests
