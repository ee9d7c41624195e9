// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/captures.hpp"

#include <algorithm>

namespace reel {
namespace {
/// Whether both are one value: one body, or views of all of it, which Variable::value() makes.
bool is_value(const Body& x, const Body& y) {
  const auto memory = [](const Body& body) { return body.owner ? body.owner : &body; };
  return &x == &y || (memory(x) == memory(y) && x.elements == y.elements && x.data == y.data);
}
}  // namespace

Captures::Captures(Context& context) : context_(context), first_(context.reel->size()) {
  if (context.mode & recording) scope_.emplace(*this);
}

void Captures::variable_read(const Variable& variable) {
  for (const Variable& known : variables_)
    if (&Access::cell(known) == &Access::cell(variable)) return;
  variables_.push_back(variable);
}

void Captures::op_begins(const GateCall& call) {
  for (int i = 0; call.op.gradient.differentiable && i < call.input_count; ++i)
    read(const_cast<Body*>(call.inputs[i]));
}
/// The result of stop_gradient() shares the elements of what it makes a constant of.
void Captures::op_ends(const GateCall& call) {
  for (int i = 0; i < call.output_count && !call.op.gradient.differentiable; ++i)
    if (Body* const body = call.outputs[i]; body && body->owner)
      constants_.push_back(Access::share(body));
}

void Captures::read(Body* body) {
  const auto is = [&](const Tensor& known) { return Access::body(known) == body; };
  if (!body || !is_floating(body->dtype) || std::any_of(values_.begin(), values_.end(), is) ||
      std::any_of(constants_.begin(), constants_.end(), is))
    return;
  const std::uint32_t record = context_.reel->find(*body);
  const bool older = record != no_record && record < first_;
  if (older || std::any_of(variables_.begin(), variables_.end(), [&](const Variable& variable) {
        return is_value(*body, *Access::body(Access::cell(variable).value));
      }))
    values_.push_back(Access::share(body));
}

int Captures::add_to(Body* const* results, std::size_t result_count, SmallVector<Body*, 4>& inputs,
                     SmallVector<Origin, 4>& origins, Caller caller) {
  if (!(context_.mode & recording)) return 0;
  for (std::size_t i = 0; i < result_count; ++i) read(results[i]);
  const std::size_t listed = inputs.size();
  std::size_t next = 0;  // Inputs are mostly read in their order.
  const auto is_listed = [&](const Body& body) {
    for (std::size_t i = 0; i < listed; ++i, next = (next + 1) % listed)
      if (is_value(body, *inputs[next])) return true;
    return false;
  };
  for (const Tensor& value : values_) {
    Body* const body = Access::body(value);
    if (is_listed(*body)) continue;
    const auto variable =
        std::find_if(variables_.begin(), variables_.end(), [&](const Variable& each) {
          return is_value(*body, *Access::body(Access::cell(each).value));
        });
    const Origin origin = variable == variables_.end()
                              ? origin_of(context_, Operand(value, caller), body)
                              : origin_of(context_, Operand(*variable, caller),
                                          Access::body(Access::cell(*variable).value));
    if (!origin.tapes) continue;
    inputs.push_back(body);
    origins.push_back(origin);
  }
  return static_cast<int>(inputs.size() - listed);
}
}  // namespace reel
