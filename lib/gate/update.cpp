// SPDX-License-Identifier: BSD-3-Clause
// The gate for ops that write Variables in place.
#include "lib/gate/update.hpp"

#include "lib/gate/convert.hpp"

#include "lib/body/live.hpp"
#include "lib/flow/observer.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/recording.hpp"
#include "lib/table/promotion.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
/// A tensor of rank 0 on the CPU counts as a number.
Tensor on_device_of(const Body& variable, const Tensor& value, const Op& op, int i, Caller caller) {
  const Device device = device_of(variable), own = value.device();
  if (own == device) return value;
  if (!(own == cpu()) || value.rank() > 0)
    fail<DeviceError>(caller, op.name, argument_name(op, i),
                      "a tensor on " + to_text(device) + " like the Variable",
                      "one on " + to_text(own),
                      "Nothing is copied behind your back: use x.to(device).");
  return value.to(device, caller);
}
}  // namespace

Tensor value_for_update(const Op& op, int i, const Operand& x, const Body& variable, bool converts,
                        Caller caller) {
  const DType dtype = variable.dtype;
  const PlaceScope numbers(Context::here(), device_of(variable));
  Tensor value;
  const bool scalar = x.kind() == Operand::Kind::scalar;
  if (scalar && converts && !fits(x.scalar(), dtype))
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a number that fits " + Text(name_of(dtype)), to_text(x.scalar()));
  if (scalar)
    value = constant({}, converts ? dtype : x.scalar().dtype(), x.scalar(), caller);
  else
    value = x.kind() == Operand::Kind::variable ? read_variable(Context::here(), x.variable())
                                                : x.tensor();
  if (!value.defined())
    fail<Error>(caller, op.name, argument_name(op, i), "a tensor", "an undefined Tensor");
  if (!converts || value.dtype() == dtype) return on_device_of(variable, value, op, i, caller);
  const bool as_number = is_live(*Access::body(value)) && is_floating(dtype);
  if (promoted(value.dtype(), dtype) != dtype && !as_number)
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a dtype that promotes to " + Text(name_of(dtype)), name_of(value.dtype()),
                     "Convert it first: x.to(...).");
  return on_device_of(variable, as_dtype(Operand(value, caller), dtype), op, i, caller);
}

void run_update(Op& op, std::span<const Variable> variables, std::span<const Operand> operands,
                OptionsView options, Caller caller) try {
  if (!op.on_cpu().computes()) [[unlikely]]
    assemble_for(op, caller);
  Context& context = Context::here();
  if (context.shares_variables) [[unlikely]]
    fail<Error>(caller, op.name, "Variable", "no update inside of batched(), parallel() or vmap()",
                "one",
                "Examples share their Variables. BatchNorm updates while it trains: use GroupNorm, "
                "or evaluate.");
  const RecordingPause pause(context);
  const std::size_t written = variables.size(), count = written + operands.size();
  SmallVector<Tensor, 4> values;
  SmallVector<Body*, 8> inputs(count);
  for (std::size_t i = 0; i < written; ++i)
    inputs[i] = Access::body((op.replaces ? find_variable : read_variable)(context, variables[i]));
  if (context.mode & redirected) [[unlikely]] {
    bool writes = true;
    for (const Variable& variable : variables)
      writes &= Redirect::here(context)->writes(variable, op.name, caller);
    if (!writes) return;
  }
  for (std::size_t i = 1; i < written; ++i)
    if (inputs[i]->device_kind != inputs[0]->device_kind ||
        inputs[i]->device_index != inputs[0]->device_index) [[unlikely]]
      fail<DeviceError>(caller, op.name, "\"" + Text(variables[i].name()) + "\"",
                        "a Variable on " + to_text(device_of(*inputs[0])) + " like the first",
                        "one on " + to_text(device_of(*inputs[i])));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool converts = op.promoted >> (written + i < 7 ? written + i : 7) & 1;
    values.push_back(value_for_update(op, static_cast<int>(written + i), operands[i], *inputs[0],
                                      converts, caller));
    inputs[written + i] = Access::body(values[i]);
  }
  SmallVector<Tensor, 2> none;  // an update makes no outputs
  Inference inference{context, op, inputs.data(), static_cast<int>(count), options, caller, none};
  if (!op.moves)
    for (std::size_t i = 0; i < written; ++i) require_arithmetic(inference, static_cast<int>(i));
  op.shape(inference);
  if (context.mode & infer_only) return;

  ResultMarks marks;
  caller = context.caller_of(caller);
  if (context.is_watchful())
    for (std::size_t i = op.replaces ? written : 0; i < count; ++i)
      marks.read(context, *inputs[i], op.name, caller);
  const RecordId mark = marks.together();

  SmallVector<Tensor, 4> made;  // new buffers, where the old one is shared
  SmallVector<Body*, 4> places(written);
  for (std::size_t i = 0; i < written; ++i) {
    places[i] = inputs[i];
    if (unshared(*inputs[i])) continue;
    places[i] = allocate_or_fail(context, device_of(*inputs[i]), op, inputs[i]->dtype,
                                 inputs[i]->shape, caller);
    made.push_back(Access::adopt(places[i]));
    places[i]->device_kind = inputs[i]->device_kind;
  }
  const GateCall call{op,     inputs.data(), static_cast<int>(count),   options,
                      caller, places.data(), static_cast<int>(written), variables.data()};
  const bool is_observed = context.mode & observed, now = ask_interceptors(context, call);
  if (is_observed && now) tell_begin(context, call);
  if (now) run_kernel(call);
  if (context.is_watchful())
    for (std::size_t i = 0; i < written; ++i) places[i]->id = mark;
  for (std::size_t i = 0; i < written; ++i)
    if (places[i] != inputs[i]) Access::cell(variables[i]).value = Access::share(places[i]);
  for (Interceptor* each = context.interceptors; each; each = each->next) each->after(call);
  if (is_observed && now) tell_end(context, call);
  if (is_observed)
    for (const Variable& variable : variables) tell_written(context, variable);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op.name);
}

}  // namespace reel
