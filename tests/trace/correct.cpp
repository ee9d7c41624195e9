// SPDX-License-Identifier: BSD-3-Clause
// Programs that keep no state outside of Variables are replayed. Ten steps, each reached in ten
// ways.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// A model as users write them: layers, an optimizer, plain members of many types.
struct Net {
  std::string name = "a name that is longer than a short string";
  nn::Linear hidden{3, 8}, out{8, 2};
  nn::LSTM lstm{3, 4};
  std::vector<nn::Linear> stack;
  std::vector<Variable> weights;
  std::unique_ptr<optim::Adam> adam;
  std::vector<Tensor> constants;
  std::map<std::string, double> settings = {{"rate", 0.1}, {"decay", 0.5}};
  std::vector<std::int64_t> sizes = {3, 8, 2};
  std::vector<double> log;  // written outside of the traced step
  Shape shape{2, 3};
  double temperature = 0.7;
  bool wide = true;
  Variable seen{"seen", zeros({}, {.dtype = DType::int64})};

  Net() {
    for (int i = 0; i < 3; ++i) stack.emplace_back(3, 3);
    for (const Variable& w : parameters(hidden)) weights.push_back(w);
    for (const Variable& w : parameters(out)) weights.push_back(w);
    adam = std::make_unique<optim::Adam>(weights);
    constants = {ones({3}), arange(0, 3)};
    log.reserve(4);
  }
  Net(const Net& other)
      : hidden(other.hidden),
        out(other.out),
        lstm(other.lstm),
        stack(other.stack),
        weights(other.weights),
        adam(std::make_unique<optim::Adam>(*other.adam)),
        constants(other.constants) {}
  void fields(auto&& field) {
    field("hidden", hidden);
    field("out", out);
    field("temperature", temperature);
    field("sizes", sizes);
  }

  Tensor predict(const Tensor& x) const { return out(tanh(hidden(x))); }
  Tensor step(int kind, const Tensor& x) {
    switch (kind) {
      case 0:
        return predict(x) / temperature;
      case 1: {
        GradientTape tape;
        const Tensor loss = mean(square(predict(x)));
        adam->step(tape.gradient(loss, weights));
        return loss;
      }
      case 2: {
        GradientTape tape;
        const Tensor loss = sum(square(predict(x)));
        const std::vector<Tensor> slopes = tape.gradient(loss, weights);
        for (std::size_t i = 0; i < weights.size(); ++i)
          weights[i].assign_sub(slopes[i] * settings["rate"]);
        return loss;
      }
      case 3:
        return lstm(stack[0](x).reshape({2, 1, 3})).outputs;
      case 4:
        return dropout(predict(x), 0.5) + random::normal({2});
      case 5: {
        Tensor y = x;
        while (sum(abs(y)) > 1.0f) y = y * 0.5f;
        return y;
      }
      case 6: {
        Tensor y = x;
        for (const nn::Linear& layer : stack) y = relu(layer(y));
        return y + constants[0] * static_cast<float>(sizes[1]);
      }
      case 7: {
        seen.assign_add(1);
        if (seen.value() > std::int64_t{20}) seen.assign(0);
        return broadcast_to(x, wide ? shape : Shape{2, 3}) * seen.value();
      }
      case 8: {
        std::vector<Tensor> rows;
        for (int i = 0; i < 2; ++i) rows.push_back(x[i] * constants[1]);
        return concat(rows, 0);
      }
      default: {
        const auto loss = [this](Tensor v) { return sum(square(predict(v))); };
        return grad(loss)(x);
      }
    }
  }
};

struct Owner {
  Net net;
  int kind;
  Tensor operator()(Tensor x) { return net.step(kind, x); }
};
struct OwnerWithFields : Owner {
  void fields(auto&& field) { field("net", net); }
};

constexpr int kinds = 10;
const char* const holders[] = {"reference",  "copy",     "pointer", "shared_ptr", "shared_ptr&",
                               "unique_ptr", "function", "functor", "fields",     "element"};

/// Whether the step was captured, and every later call was replayed or checked.
bool replays(int kind, int holder) {
  seed(static_cast<std::uint64_t>(kind));
  Net net;
  std::vector<Net> nets(2);
  const auto shared = std::make_shared<Net>();
  const auto unique = std::make_unique<Net>();
  double last = 0;
  std::vector<float> history;
  const auto run = [&](auto traced) {
    for (int i = 0; i < 20; ++i) {
      const Tensor x = random::normal({2, 3});
      last = sum(traced(x)).to(DType::float64).template item<double>();
      history.push_back(static_cast<float>(last));
    }
    const std::string explained = traced.explain();
    if (explained.find("agerly") == std::string::npos) return true;
    UNSCOPED_INFO("step " << kind << ", held by " << holders[holder] << "\n" << explained);
    return false;
  };
  switch (holder) {
    case 0:
      return run(trace([&](Tensor x) { return net.step(kind, x); }));
    case 1:
      return run(trace([net, kind](Tensor x) mutable { return net.step(kind, x); }));
    case 2:
      return run(trace([kind, n = &net](Tensor x) { return n->step(kind, x); }));
    case 3:
      return run(trace([shared, kind](Tensor x) { return shared->step(kind, x); }));
    case 4:
      return run(trace([&](Tensor x) { return shared->step(kind, x); }));
    case 5:
      return run(trace([&](Tensor x) { return unique->step(kind, x); }));
    case 6: {
      const std::function<Tensor(Tensor)> f = [shared, kind](Tensor x) {
        return shared->step(kind, x);
      };
      return run(trace([f](Tensor x) { return f(x); }));
    }
    case 7:
      return run(trace(Owner{net, kind}));
    case 8:
      return run(trace(OwnerWithFields{{net, kind}}));
    default:
      return run(trace([&, n = nets.begin() + 1](Tensor x) { return n->step(kind, x); }));
  }
}
}  // namespace

TEST_CASE("a hundred programs that keep no state are replayed") {
  int replayed = 0;
  for (int kind = 0; kind < kinds; ++kind)
    for (int holder = 0; holder < 10; ++holder) replayed += replays(kind, holder);
  CHECK(replayed == 100);
}
}  // namespace reel::tests
