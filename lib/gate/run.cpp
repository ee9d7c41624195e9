// SPDX-License-Identifier: BSD-3-Clause
// The gate for any op: resolve, infer, allocate, run the kernel, record.
#include "lib/body/live.hpp"
#include "lib/flow/redirect.hpp"
#include "lib/gate/autocast.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/call_view.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/marks.hpp"
#include "lib/gate/observed_call.hpp"
#include "lib/gate/recording.hpp"
#include "lib/gate/resolved.hpp"
#include "lib/table/options/device.hpp"

namespace reel {
namespace {
/// The layout of an output whose shape rule has set strides.
void finish_views(const Inference& call) {
  for (const Tensor& output : call.outputs) {
    Body& body = *Access::body(output);
    if (body.owner) body.contiguous = is_row_major(body.shape, body.strides);
  }
}

/// Calls the kernel, if there is one, and notifies interceptors and observers.
void run_with_hooks(Context& context, const GateCall& call, bool kernel) {
  if (context.mode & infer_only) return;
  const bool now = ask_interceptors(context, call);
  if (kernel && now) run_deferred_kernel(call);
  if (!kernel && context.mode & observed) {
    tell_begin(context, call);
    tell_end(context, call);
  }
  for (Interceptor* each = context.interceptors; each; each = each->next) each->after(call);
}
}  // namespace

namespace {
void run_any(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             SmallVector<Tensor, 2>& outputs);

/// Whether these inputs need no conversion: tensors on the CPU, of one dtype where the op promotes.
template <int N>
[[gnu::always_inline]] inline bool ready(const Op& op, Body* const (&bodies)[N]) {
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i)
    if (!bodies[i] || bodies[i]->device_kind) return false;
  if (op.promote == Promote::none) return true;
  const Body* first = nullptr;  // of those that promote
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) {
    if (!(op.promoted >> i & 1)) continue;
    if (!first)
      first = bodies[i];
    else if (bodies[i]->dtype != first->dtype)
      return false;
  }
  if (!first || op.promote == Promote::numeric) return true;
  return op.promote == Promote::exact ? has_arithmetic(first->dtype) : is_floating(first->dtype);
}

/// Adds the record of a direct call, for the tapes that watch its inputs.
template <int N>
[[gnu::noinline]] void record_direct(Context& context, const Inference& call,
                                     const Operand* const* operands) {
  Origin origins[N];
  std::uint64_t tapes = 0;
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) {
    origins[i] = origin_of(context, *operands[i], call.inputs[i]);
    tapes |= origins[i].tapes;
  }
  if (!tapes) return;
  Body* const* made = Access::bodies(call.outputs.data());
  const Caller caller = context.caller_of(call.caller);
  if (call.op.gradient.differentiable && is_floating(made[0]->dtype))
    write_record(context, call.op, call.options, caller, call.inputs, origins, N, made,
                 static_cast<int>(call.outputs.size()), tapes);
  else
    note_cut(context, call.op, caller, origins, N);
}

/// A call without interceptors, whose inputs need no conversion.
template <int N, bool may_be_observed>
[[gnu::always_inline]] inline void run_ready(Context& context, Op& op,
                                             const Operand* const (&operands)[N],
                                             Body* const (&inputs)[N], const OptionsView& options,
                                             const Caller& caller,
                                             SmallVector<Tensor, 2>& outputs) {
  Inference call{context, op, inputs, N, options, caller, outputs};
  op.shape(call);
  CallOf<may_be_observed> observed_call(context, op, operands, inputs, N, options);
  observed_call.begin();
  if (call.computes)
    run_on_host(
        op, options,
        {inputs, Access::bodies(outputs.data()), options.data, N, static_cast<int>(outputs.size())},
        caller);
  else
    finish_views(call);
  observed_call.end(Access::bodies(outputs.data()), static_cast<int>(outputs.size()));
  const std::uint32_t records = may_be_observed ? context.reel->size() : 0;
  if (context.mode & recording) record_direct<N>(context, call, operands);
  if (may_be_observed && context.reel->size() > records &&
      !context.reel->is_leaf(context.reel->size() - 1))
    observed_call.recorded((*context.reel)[context.reel->size() - 1]);
}
/// run_direct() if more than a tape may need the call.
template <int N>
[[gnu::noinline]] bool run_direct_with_hooks(Context& context, Op& op,
                                             const Operand* const (&operands)[N],
                                             OptionsView options, Caller caller,
                                             SmallVector<Tensor, 2>& outputs) {
  Body* inputs[N];
  for (int i = 0; i < N; ++i) inputs[i] = body_of(*operands[i]);
  if (needs_slow_path(context, inputs, N)) return false;
  run_ready<N, true>(context, op, operands, inputs, options, caller, outputs);
  return true;
}

/// A direct call, the common case: few inputs, none needs a conversion, and at most a tape needs
/// the call.
template <int N>
[[gnu::always_inline]] inline bool run_direct(Op& op, const Operand* const (&operands)[N],
                                              const OptionsView& options, const Caller& caller,
                                              SmallVector<Tensor, 2>& outputs) try {
  Context& context = Context::here();
  if (op.composite || !op.on_cpu().computes()) return false;
  Body* inputs[N];
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) inputs[i] = body_of(*operands[i]);
  if (!ready(op, inputs)) return false;
  if (context.dispatch_flags() & ~recording) [[unlikely]]
    return run_direct_with_hooks<N>(context, op, operands, options, caller, outputs);
  run_ready<N, false>(context, op, operands, inputs, options, caller, outputs);
  return true;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op.name);
}
}  // namespace

void run(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
         SmallVector<Tensor, 2>& outputs) {
  const std::size_t count = operands.size();
  const Operand* const x = operands.data();
  if (count == 1 && run_direct<1>(op, {x}, options, caller, outputs)) return;
  if (count == 2 && run_direct<2>(op, {x, x + 1}, options, caller, outputs)) return;
  if (count == 3 && run_direct<3>(op, {x, x + 1, x + 2}, options, caller, outputs)) return;
  run_any(op, operands, options, caller, outputs);
}

namespace {
void run_any(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             SmallVector<Tensor, 2>& outputs) try {
  if (!op.on_cpu().computes() && !op.composite) [[unlikely]]
    assemble_for(op, caller);
  Context& context = Context::here();
  SmallVector<Operand, 4> others;
  AutocastOperands cast;
  if (context.mode & redirected) [[unlikely]] {
    for (const Operand& x : operands) others.push_back(Redirect::here(context)->read(x));
    operands = {others.data(), others.size()};
  }
  if (context.mode & autocasts) [[unlikely]]
    operands = cast.of(context, op, operands);
  if (context.mode & intercepted && (!op.composite || op.shape)) [[unlikely]]
    for (Interceptor* each = context.interceptors; each; each = each->next)
      if (each->takes(op, operands, options, context.caller_of(caller), outputs)) return;
  Resolved inputs;
  resolve(context, op, operands, caller, inputs);
  if (op.composite && runs_user_code(op, inputs.device))
    return run_composite(context, op, inputs, options, caller, outputs);

  const int input_count = static_cast<int>(operands.size());
  Inference inference{context, op, inputs.bodies.data(), input_count, options, caller, outputs};
  inference.device = op.changes_device ? inference.option<DeviceOptions>().device : inputs.device;
  op.shape(inference);
  finish_views(inference);
  if (inputs.only_numbers)
    for (const Tensor& output : outputs) Access::body(output)->device_kind |= live_number;
  Body* const* bodies = Access::bodies(outputs.data());
  const int output_count = static_cast<int>(outputs.size());
  const GateCall call{op,     inputs.bodies.data(), input_count, options, context.caller_of(caller),
                      bodies, output_count,         nullptr};
  const bool differentiable =
      op.gradient.differentiable && output_count > 0 && is_floating(bodies[0]->dtype);
  ResultMarks marks;
  if (context.is_watchful() && differentiable)
    for (int i = 0; i < input_count; ++i)
      marks.use(context, op, i, inputs.bodies[static_cast<std::size_t>(i)], call.caller);
  if (context.mode & ~recording) [[unlikely]]
    run_with_hooks(context, call, inference.computes);
  else if (inference.computes)
    run_kernel(call);
  const std::uint64_t tapes = context.mode & recording ? tapes_of(inputs) : 0;
  if (tapes && differentiable)
    leave_record(context, op, options, call.caller, inputs.bodies.data(), inputs.origins.data(),
                 input_count, bodies, output_count, tapes);
  else if (tapes)
    note_cut(context, op, call.caller, inputs.origins.data(), input_count);
  if (!context.is_watchful()) return;
  for (Tensor& output : outputs)
    differentiable ? marks.mark(context, output, call.caller) : unmark(output);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op.name);
}

/// run_into() for an input that needs no conversion, while nothing watches. Returns false if this
/// path cannot handle it.
inline bool run_into_direct(Context& context, Op& op, const Operand& x, OptionsView options,
                            Body& output) {
  Body* const inputs[] = {body_of(x)};
  if (context.mode || !on_cpu(output) || !op.on_cpu().computes() || !ready(op, inputs))
    return false;
  Body* place = &output;
  run_on_host(op, options, {inputs, &place, options.data, 1, 1, 1}, context.caller_of(x.caller()));
  return true;
}
}  // namespace

void run_into(Op& op, std::initializer_list<Operand> operands, OptionsView options, Body& output) {
  Context& context = Context::here();
  const Operand& x = *operands.begin();
  if (operands.size() == 1 && run_into_direct(context, op, x, options, output)) return;
  Resolved inputs;
  resolve(context, op, std::span(operands.begin(), operands.size()), x.caller(), inputs);
  Body* place = &output;
  const KernelCall call{
      inputs.bodies.data(), &place, options.data, static_cast<int>(operands.size()), 1, 1};
  const Caller caller = context.caller_of(x.caller());
  const GateCall event{
      op, inputs.bodies.data(), call.input_count, options, caller, &place, 1, nullptr, Part::value,
      1};
  if (context.mode & observed) [[unlikely]]
    tell_begin(context, event);
  run_kernel(op, options, call, caller);
  if (context.mode & observed) [[unlikely]]
    tell_end(context, event);
}

Tensor run(Op& op, std::initializer_list<Operand> inputs, OptionsView options) {
  SmallVector<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), options, inputs.begin()->caller(), outputs);
  return outputs.take_first();
}
Tensor run(Op& op, const Operand& x, OptionsView options) {
  SmallVector<Tensor, 2> outputs;
  if (!run_direct<1>(op, {&x}, options, x.caller(), outputs))
    run_any(op, {&x, 1}, options, x.caller(), outputs);
  return outputs.take_first();
}
Tensor run(Op& op, const Operand& x, const Operand& y) {
  SmallVector<Tensor, 2> outputs;
  if (!run_direct<2>(op, {&x, &y}, {}, x.caller(), outputs)) {
    const Operand operands[] = {x, y};
    run_any(op, operands, {}, x.caller(), outputs);
  }
  return outputs.take_first();
}
Tensor run(Op& op, const Operands& inputs, OptionsView options) try {
  SmallVector<Operand, 8> copies;
  const Operand* first = Access::list(inputs);
  if (!first) {
    for (std::size_t i = 0; i < inputs.size(); ++i) copies.push_back(inputs[i]);
    first = copies.data();
  }
  SmallVector<Tensor, 2> outputs;
  run(op, std::span(first, inputs.size()), options, inputs.caller(), outputs);
  return outputs.take_first();
} catch (const std::bad_alloc&) {
  fail_memory(inputs.caller(), op.name);
}
Tensor run(Op& op, OptionsView options, Caller caller) {
  SmallVector<Tensor, 2> outputs;
  run(op, std::span<const Operand>(), options, caller, outputs);
  return outputs.take_first();
}

const Shape& shape_of(const Op& op, const Operand& x, int i) {
  static const Shape number;
  if (x.kind() == Operand::Kind::scalar) return number;
  const Body* body = body_of(x);
  if (!body)
    fail<Error>(x.caller(), op.name, argument_name(op, i), "a tensor", "an undefined Tensor");
  return body->shape;
}
DType dtype_of(const Op& op, const Operand& x, int i) {
  if (x.kind() == Operand::Kind::scalar) return x.scalar().dtype();
  shape_of(op, x, i);
  return body_of(x)->dtype;
}
}  // namespace reel
