// SPDX-License-Identifier: BSD-3-Clause
// The record of a call has all that later features need: shown by a small tracer, and by an
// interceptor that runs kernels later.
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <reel/reel.hpp>

#include "lib/flow/interceptor.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/options/random.hpp"
#include "support/catch.hpp"

using namespace reel;

namespace {
/// Records every call that passes the gate, and can run the recorded calls again with other inputs.
class Tracer : public Interceptor {
 public:
  struct Step {
    Op* op = nullptr;                  // null: a guard, or a read of a Variable
    std::vector<int> inputs, outputs;  // slots
    std::vector<std::byte> options;
    const OptionsType* options_type = nullptr;
    std::vector<Variable> updated;
    std::vector<Variable> read;
    bool guard = false;
    bool answer = false;
    bool random = false;
  };

  void argument(const Tensor& x) { slot(x); }
  void after(const GateCall& call) override {
    Step step;
    step.op = &call.op;
    for (int i = 0; i < call.input_count; ++i)
      step.inputs.push_back(slot(Access::share(const_cast<Body*>(call.inputs[i]))));
    for (int i = 0; i < call.output_count; ++i)
      step.outputs.push_back(fresh_slot(Access::share(call.outputs[i])));
    if (call.options.type) {
      step.options_type = call.options.type;
      const auto* bytes = static_cast<const std::byte*>(call.options.data);
      step.options.assign(bytes, bytes + call.options.type->size);
      step.random = call.op.random;
    }
    for (int i = 0; call.updated && i < call.output_count; ++i)
      step.updated.push_back(call.updated[i]);
    steps.push_back(std::move(step));
  }
  const Tensor* variable_read(const Variable& variable, const Tensor& value) override {
    Step step;
    step.read.push_back(variable);
    step.outputs.push_back(fresh_slot(value));
    steps.push_back(std::move(step));
    return nullptr;
  }
  void host_read(const Tensor& x, HostRead) override {
    Step step;
    step.guard = true;
    step.inputs.push_back(slot(x));
    step.answer = *Access::body(on_host(x))->as<bool>();
    steps.push_back(std::move(step));
  }

  /// Returns false if a guard gives another answer.
  bool replay(const Tensor& argument, int result, Tensor& out, Generator generator) {
    std::vector<Tensor> slots = values_;
    slots[0] = argument;
    for (const Step& step : steps) {
      if (step.guard) {
        const Tensor asked = on_host(slots[static_cast<std::size_t>(step.inputs[0])]);
        if (*Access::body(asked)->as<bool>() != step.answer) return false;
      } else if (!step.op) {
        slots[static_cast<std::size_t>(step.outputs[0])] = step.read[0].value();
      } else {
        play(step, slots, generator);
      }
    }
    out = slots[static_cast<std::size_t>(result)];
    return true;
  }
  int slot(const Tensor& x) {
    const auto found = by_body_.find(Access::body(x));
    return found == by_body_.end() ? fresh_slot(x) : found->second;
  }
  std::vector<Step> steps;

 private:
  int fresh_slot(const Tensor& x) {
    values_.push_back(x);
    return by_body_[Access::body(x)] = static_cast<int>(values_.size()) - 1;
  }
  static void play(const Step& step, std::vector<Tensor>& slots, Generator& generator) {
    std::vector<Operand> operands;
    const std::size_t skipped = step.updated.size();
    for (std::size_t i = skipped; i < step.inputs.size(); ++i)
      operands.push_back(Operand(slots[static_cast<std::size_t>(step.inputs[i])]));
    std::vector<std::byte> bytes = step.options;
    if (step.random) {
      auto& options = *reinterpret_cast<RandomOptions*>(bytes.data());
      options.seed = generator.seed();
      options.position = generator.position();
      generator.set_position(options.position + 1);
    }
    const OptionsView options(step.options_type, bytes.data());
    if (skipped) return run_update(*step.op, step.updated, operands, options, {});
    SmallVector<Tensor, 2> outputs;
    run(*step.op, operands, options, {}, outputs);
    for (std::size_t i = 0; i < step.outputs.size(); ++i)
      slots[static_cast<std::size_t>(step.outputs[i])] = outputs[i];
  }
  std::vector<Tensor> values_;  // keeps every body alive, so that an address names one body
  std::unordered_map<const Body*, int> by_body_;
};

/// Delays every kernel until flush().
class Deferral : public Interceptor {
 public:
  bool before(const GateCall& call) override {
    Waiting& waiting = waiting_.emplace_back();
    for (int i = 0; i < call.input_count; ++i)
      waiting.held.push_back(Access::share(const_cast<Body*>(call.inputs[i])));
    for (int i = 0; i < call.output_count; ++i)
      waiting.held.push_back(Access::share(call.outputs[i]));
    waiting.inputs.assign(call.inputs, call.inputs + call.input_count);
    waiting.outputs.assign(call.outputs, call.outputs + call.output_count);
    waiting.op = &call.op;
    if (call.options.type) {
      const auto* bytes = static_cast<const std::byte*>(call.options.data);
      waiting.options.assign(bytes, bytes + call.options.type->size);
      waiting.options_type = call.options.type;
    }
    return false;
  }
  std::size_t count() const { return waiting_.size(); }
  void flush() {
    for (Waiting& waiting : waiting_)
      run_kernel({*waiting.op,
                  waiting.inputs.data(),
                  static_cast<int>(waiting.inputs.size()),
                  OptionsView(waiting.options_type, waiting.options.data()),
                  {},
                  waiting.outputs.data(),
                  static_cast<int>(waiting.outputs.size()),
                  nullptr});
    waiting_.clear();
  }

 private:
  struct Waiting {
    Op* op;
    std::vector<const Body*> inputs;
    std::vector<Body*> outputs;
    std::vector<Tensor> held;
    std::vector<std::byte> options;
    const OptionsType* options_type = nullptr;
  };
  std::vector<Waiting> waiting_;
};

Tensor step(Variable w, const Tensor& x) {
  GradientTape tape;
  Tensor noise = random::uniform({3});
  Tensor y = tanh(x * w) + noise;
  if (sum(x) > 0.0f) y = y * 2.0f;
  Tensor slope = tape.gradient(sum(y), w);
  w.assign_sub(slope * 0.5f);
  return y + w;
}
}  // namespace

TEST_CASE(
    "a list of what passed the gate replays a step with Variable, guard, random op and gradient") {
  Variable w("w", tensor({1.0f, 2.0f, 3.0f}));
  Tensor x = tensor({0.1f, 0.2f, 0.3f}), other = tensor({0.5f, -0.1f, 0.4f});
  Tracer tracer;
  Tensor first;
  int result = 0;
  {
    const GeneratorScope numbers(Generator(5));
    tracer.argument(x);
    const InterceptorScope scope(tracer);
    first = step(w, x);
    result = tracer.slot(first);
  }
  const Tensor w_after = w.value() + 0.0f;

  w.assign(tensor({1.0f, 2.0f, 3.0f}));
  Tensor again;
  REQUIRE(tracer.replay(x, result, again, Generator(5)));
  CHECK(equal(again, first));
  CHECK(equal(w.value(), w_after));

  w.assign(tensor({1.0f, 2.0f, 3.0f}));
  REQUIRE(tracer.replay(other, result, again, Generator(7)));
  Variable eager("w", tensor({1.0f, 2.0f, 3.0f}));
  const GeneratorScope numbers(Generator(7));
  CHECK(allclose(again, step(eager, other), {.rtol = 1e-6, .atol = 1e-6}));
  CHECK(allclose(w.value(), eager.value(), {.rtol = 1e-6, .atol = 1e-6}));
  CHECK_FALSE(tracer.replay(tensor({-1.0f, 0.0f, 0.0f}), result, again, Generator(7)));
}

TEST_CASE("an interceptor before the kernel can defer it") {
  Tensor x = tensor({1.0f, 2.0f}), y;
  Deferral deferral;
  {
    const InterceptorScope scope(deferral);
    y = exp(x) * x + 1.0f;
  }
  CHECK(deferral.count() >= 3);
  CHECK(y.shape() == Shape({2}));
  deferral.flush();
  CHECK(allclose(y, exp(x) * x + 1.0f));
}

TEST_CASE("ops can infer without executing") {
  Tensor x = zeros({5, 4});
  const InferScope scope;
  Tensor y = softmax(matmul(x, ones({4, 3})));
  CHECK(y.shape() == Shape({5, 3}));
  CHECK(y.dtype() == DType::float32);
}
