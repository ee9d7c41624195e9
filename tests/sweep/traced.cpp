// SPDX-License-Identifier: BSD-3-Clause
// Every op and its gradient: captured, replayed with a check, and replayed, compared with the eager
// call.
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
using Inputs = std::vector<Tensor>;

/// Values of the same kind as x. They differ from x if they may: positions and masks stay the same.
Tensor other(const Tensor& x, int turn) {
  return is_floating(x.dtype()) ? x * (1 - 0.01 * turn) : fresh(x);
}

void check(const std::string& what, const detail::Function<Inputs(Inputs)>& f, const Inputs& inputs,
           Near near) {
  // The trace gets a copy of f. Next to f on the stack are destroyed strings, and other code
  // changes their memory.
  const auto traced = trace([f](Inputs x) { return f(std::move(x)); });
  for (int turn = 0; turn < 4; ++turn) {
    INFO(what << ", call " << turn);
    Inputs at;
    for (const Tensor& x : inputs) at.push_back(other(x, turn));
    const Inputs got = traced(at), expected = f(at);
    REQUIRE(got.size() == expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(difference(host_of(got[i]), host_of(expected[i]), near) == "");
  }
  INFO(what << ": " << traced.explain());
  CHECK(traced.trace_count() == 1);
  CHECK(traced.explain().find("eagerly") == std::string::npos);
}

Inputs gradients(const Sample& sample, const Inputs& inputs, bool second) {
  const Inputs sources = floating(inputs);
  GradientTape outer;
  if (second)
    for (const Tensor& x : sources) outer.watch(x);
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(inputs);
  Inputs first = tape.gradient(y, GradientSources(sources), {weights_like(y), Unconnected::zero});
  if (!second) return first;
  Tensor mixed = zeros({}, {DType::float64});
  for (const Tensor& g : first) mixed = mixed + sum(g * g);
  return outer.gradient(mixed, GradientSources(sources), Unconnected::zero);
}

/// The gradients of a call of f, traced or not, under a tape.
Inputs gradients_of_call(const auto& f, const Inputs& inputs) {
  const Inputs sources = floating(inputs);
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = f(inputs);
  return tape.gradient(y, GradientSources(sources), {weights_like(y), Unconnected::zero});
}
/// The op in each trip of a loop.
Tensor in_loop(const Sample& sample, const Inputs& inputs, const Tensor& start) {
  return repeat(2, start, [&](Tensor s, Tensor) { return s * 0.5 + sample.call(inputs); });
}
}  // namespace

TEST_CASE("every op can be traced in a loop and under a tape") {
  for (const Op* op : ops_and_composites()) {
    if (op->updates || op->random || !op->gradient.differentiable) continue;
    for (const Sample& sample : some_samples_of(*op, 1)) {
      const std::string what = describe(*op, 0, sample);
      const Tensor y = sample.call(sample.inputs);
      if (floating(sample.inputs).empty() || !is_floating(y.dtype())) continue;
      const Near near{1e-10, 1e-11};
      check(
          what + ", in a loop",
          [&](Inputs x) {
            const Inputs sources = floating(x);
            GradientTape tape;
            for (const Tensor& each : sources) tape.watch(each);
            const Tensor last = in_loop(sample, x, zeros_like(y));
            Inputs all = tape.gradient(last, GradientSources(sources),
                                       {weights_like(last), Unconnected::zero});
            all.push_back(last);
            return all;
          },
          sample.inputs, near);
      const auto f = [&](Inputs x) { return sample.call(x); };
      const auto traced = trace<Tensor(Inputs)>(f, {.throw_on_difference = true});
      for (int turn = 0; turn < 3; ++turn) {
        INFO(what << " under a tape, call " << turn);
        Inputs at;
        for (const Tensor& x : sample.inputs) at.push_back(other(x, turn));
        const Inputs got = gradients_of_call(traced, at), expected = gradients_of_call(f, at);
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(difference(host_of(got[i]), host_of(expected[i]), near) == "");
      }
    }
  }
}

TEST_CASE("every op, its gradient and its second gradient can be traced") {
  for (const Op* op : ops_and_composites()) {
    // An op that reads its seed from the options of the sample has its own generator: see
    // tests/trace.
    if (op->updates || op->random) continue;
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 2)) {
      const std::string what = describe(*op, number++, sample);
      const Near near{1e-11, 1e-12};
      check(
          what, [&](Inputs x) { return Inputs{sample.call(x)}; }, sample.inputs, near);
      if (!op->gradient.differentiable || floating(sample.inputs).empty() ||
          !is_floating(sample.call(sample.inputs).dtype()))
        continue;
      check(
          what + ", gradient", [&](Inputs x) { return gradients(sample, x, false); }, sample.inputs,
          near);
      check(what + ", second", [&](Inputs x) { return gradients(sample, x, true); }, sample.inputs,
            {1e-9, 1e-9});
    }
  }
}
}  // namespace reel::tests
