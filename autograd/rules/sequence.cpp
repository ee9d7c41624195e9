// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>
#include <reel/tape.hpp>

#include "autograd/install.hpp"
#include "lib/table/options/sequence.hpp"

namespace reel {
namespace {
/// Computes the steps of a sequence as public ops under a tape of their own. An outer tape sees
/// these ops, so gradients of every order exist.
class Steps {
 public:
  /// The inputs are x, `states` states, weight, bias and lengths.
  Steps(GradientCall& call, int states) : call_(call), states_(states) {
    for (int i = 0; i < states + 3; ++i) {
      inputs_.push_back(call.input(i) + 0);
      tape_.watch(inputs_.back());
    }
    const Tensor& lengths = call.input(states + 3);
    if (lengths.size()) lengths_ = expand_dims(lengths, 1);
  }
  const Tensor& input(int i) const { return inputs_[static_cast<std::size_t>(i)]; }

  /// step(x, states) gives the next states, the first of which is the output. x is 0 behind the
  /// end of a sequence: NaN there, times a gradient of 0, would reach the weights.
  template <class Step>
  void give_gradients(const Step& step) {
    const std::int64_t time = call_.input_shape(0)[0];
    std::vector<Tensor> now(inputs_.begin() + 1, inputs_.begin() + 1 + states_);
    Tensor target = zeros({}, {call_.input_dtype(0)});
    for (std::int64_t s = 0; s < time; ++s) {
      const std::int64_t t = call_.option<DirectionOptions>().reverse ? time - 1 - s : s;
      const Tensor runs = lengths_.defined() ? lengths_ > t : Tensor();
      const auto masked = [&](const Tensor& v) { return runs.defined() ? where(runs, v, 0) : v; };
      const std::vector<Tensor> next = step(masked(input(0)(t)), now);
      for (std::size_t i = 0; i < now.size(); ++i)
        now[i] = runs.defined() ? where(runs, next[i], now[i]) : next[i];
      if (call_.has_dy(0)) target = target + sum(masked(next[0]) * call_.dy(0)(t));
    }
    for (int i = 0; i < states_; ++i)
      if (call_.has_dy(i + 1))
        target = target + sum(now[static_cast<std::size_t>(i)] * call_.dy(i + 1));
    const auto found = tape_.gradient(target, GradientSources(inputs_), Unconnected::zero);
    for (std::size_t i = 0; i < found.size(); ++i) call_.give(static_cast<int>(i), found[i]);
  }

 private:
  GradientCall& call_;
  const int states_;
  std::vector<Tensor> inputs_;
  Tensor lengths_;
  GradientTape tape_{{.watch_variables = false}};
};

void lstm_rule(GradientCall& call) {
  Steps steps(call, 2);
  steps.give_gradients([&](const Tensor& x, const std::vector<Tensor>& state) {
    const Tensor gates = matmul_add(concat({x, state[0]}, 1), steps.input(3), steps.input(4));
    auto [h, c] = lstm_gates(gates, state[1]);
    return std::vector<Tensor>{h, c};
  });
}

void gru_rule(GradientCall& call) {
  Steps steps(call, 1);
  const std::int64_t in = call.input_shape(0)[2], n = call.input_shape(1)[1];
  const Tensor &weight = steps.input(2), &bias = steps.input(3);
  const Tensor of_x = weight(range(0, in)), of_h = weight(range(in, {}));
  const auto part = [n](const Tensor& sums, std::int64_t k) {
    return sums(ellipsis, range(k * n, (k + 1) * n));
  };
  steps.give_gradients([&](const Tensor& x, const std::vector<Tensor>& state) {
    const Tensor a = matmul_add(x, of_x, bias(range(0, 3 * n))), s = matmul(state[0], of_h);
    const Tensor r = sigmoid(part(a, 0) + part(s, 0)), z = sigmoid(part(a, 1) + part(s, 1));
    const Tensor fresh = tanh(part(a, 2) + r * (part(s, 2) + part(bias, 3)));
    return std::vector<Tensor>{fresh + z * (state[0] - fresh)};
  });
}
}  // namespace

const NamedRule sequence_rules[] = {{"gru", gru_rule}, {"lstm", lstm_rule}, {nullptr, nullptr}};
}  // namespace reel
