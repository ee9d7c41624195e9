// SPDX-License-Identifier: BSD-3-Clause
// Other weights for a model, and derivatives along vectors.
#include <reel/transform.hpp>

#include <utility>

#include <reel/ops.hpp>
#include <reel/references.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/devices.hpp"

namespace reel {
struct WeightScope::Weights : Redirect {
  Weights(std::vector<Variable> of, std::vector<Tensor> given)
      : variables(std::move(of)), values(std::move(given)) {}
  const std::vector<Variable> variables;
  const std::vector<Tensor> values;

  const Tensor* find(const Variable& x) const {
    for (std::size_t i = 0; i < variables.size(); ++i)
      if (variables[i].same_cell(x)) return &values[i];
    return nullptr;
  }
  Operand read(const Operand& x) override {
    const Tensor* const weight = x.kind() == Operand::Kind::variable ? find(x.variable()) : nullptr;
    if (!weight) return Redirect::read(x);
    watch_as(x.variable(), *weight, x.caller());
    return Redirect::read({*weight, x.caller()});
  }
  bool writes(const Variable& x, std::string_view op, Caller caller) override {
    if (find(x))
      fail<Error>(caller, op, "\"" + Text(x.name()) + "\"", "a Variable with its own value",
                  "one whose value a WeightScope or functional_call() gives");
    return Redirect::writes(x, op, caller);
  }
};

namespace {
void check_weight(const Variable& variable, const Tensor& weight, Caller caller) {
  const Text name = "weight of \"" + Text(variable.name()) + "\"";
  if (!weight.defined())
    fail<Error>(caller, "functional_call", name, "a tensor", "an undefined Tensor");
  if (!(weight.shape() == variable.shape()))
    fail<ShapeError>(caller, "functional_call", name,
                     "the Variable's shape " + to_text(variable.shape()), to_text(weight.shape()));
  if (weight.dtype() != variable.dtype())
    fail<DTypeError>(caller, "functional_call", name, name_of(variable.dtype()),
                     name_of(weight.dtype()));
  if (!(weight.device() == variable.device()))
    fail<DeviceError>(caller, "functional_call", name,
                      "a tensor on " + to_text(variable.device()) + " like the Variable",
                      "one on " + to_text(weight.device()));
}
}  // namespace

WeightScope::WeightScope(const std::vector<Variable>& variables, Operands weights) try {
  if (weights.size() != variables.size())
    fail<Error>(weights.caller(), "functional_call", "weights",
                to_text(variables.size()) + " tensors, one for each Variable",
                to_text(weights.size()));
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    values.push_back(weights[i].value());
    check_weight(variables[i], values[i], weights.caller());
  }
  weights_ = new Weights(variables, std::move(values));
} catch (const std::bad_alloc&) {
  fail_memory(weights.caller(), "functional_call");
}
WeightScope::~WeightScope() { delete weights_; }

/// The gradient `slope` of y, weighted by `weights`, is recorded by a tape that watches the
/// weights.
struct LinearMap::State {
  std::uint32_t references = 1;
  GradientTape tape;
  Tensor weights, slope;
  Shape from;
  GradientTape::Pause* pause = nullptr;
  ~State() { delete pause; }
};
LinearMap::LinearMap(const LinearMap& other) : state_(other.state_) {
  detail::add_reference(state_->references);
}
LinearMap& LinearMap::operator=(const LinearMap& other) {
  LinearMap copy(other);
  std::swap(state_, copy.state_);
  return *this;
}
LinearMap::~LinearMap() {
  if (detail::drop_reference(state_->references)) delete state_;
}

namespace {
void check_along(const Tensor& along, const Shape& shape, std::string_view op, const Text& argument,
                 Caller caller) {
  if (!along.defined()) fail<Error>(caller, op, argument, "a tensor", "an undefined Tensor");
  if (!(along.shape() == shape))
    fail<ShapeError>(caller, op, argument, "the shape of x " + to_text(shape),
                     to_text(along.shape()));
}
}  // namespace

Tensor detail::own_argument(const Tensor& x, Caller caller) {
  return x.defined() ? reshape(Operand(x, caller), x.shape()) : x;
}

LinearMap detail::linear_map(GradientTape& tape, const Tensor& y, const Tensor& x,
                             Caller caller) try {
  auto* const state = new LinearMap::State{
      1, GradientTape({.persistent = true, .watch_variables = false}, caller), {}, {}, x.shape()};
  LinearMap map(state);
  const PlaceScope place(Context::here(), y.device());
  state->weights = zeros(y.shape(), {.dtype = y.dtype()}, caller);
  state->tape.watch(state->weights, caller);
  state->slope = tape.gradient({y, caller}, x, {.upstream = state->weights});
  state->pause = new GradientTape::Pause(state->tape.pause(caller));
  return map;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "linearize");
}

Tensor LinearMap::operator()(Operand tangent) const {
  const Caller caller = tangent.caller();
  const Tensor along = tangent.value();
  check_along(along, state_->from, "jvp or linearize", "tangent", caller);
  return state_->tape.gradient({state_->slope, caller}, state_->weights,
                               {.upstream = along, .unconnected = Unconnected::zero});
}

std::vector<Tensor> detail::second_along(GradientTape& outer, std::span<const Tensor> slopes,
                                         std::span<const Tensor> along,
                                         const GradientSources& sources, Caller caller) {
  if (along.size() != slopes.size())
    fail<Error>(caller, "hvp", "v", to_text(slopes.size()) + " tensors", to_text(along.size()));
  Tensor target;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const Text argument = slopes.size() == 1 ? "v" : "v " + to_text(i);
    check_along(along[i], slopes[i].shape(), "hvp", argument, caller);
    const Tensor product = sum(Operand(slopes[i] * along[i].to(slopes[i].dtype(), caller), caller));
    target = i == 0 ? product : target + product;
  }
  return outer.gradient({target, caller}, sources, Unconnected::zero);
}
}  // namespace reel
