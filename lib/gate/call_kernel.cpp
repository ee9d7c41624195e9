// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/call_kernel.hpp"

#include <algorithm>
#include <string>

#include "lib/flow/observer.hpp"
#include "lib/gate/devices.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/reshape.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
/// " at [1, 3]", where the input first has this value; empty for a single number. A kernel reports
/// the first element that is wrong, and no element before it can have its value.
Text place_of(const DeviceCall& call, const KernelResult& result) {
  const Body& x = call.kernel.input(result.input);
  if (call.part != Part::value || is_floating(x.dtype) || x.dtype == DType::boolean) return "";
  for (std::int64_t i = 0; i < x.elements; ++i) {
    std::int64_t rest = i, place = 0;
    for (int axis = x.rank() - 1; axis >= 0; rest /= x.shape.data()[axis--])
      place += rest % x.shape.data()[axis] * x.strides[axis];
    if (kernels::integer_at(x, place) == result.got) return place_text(x.shape, i);
  }
  return "";
}
Text range_of(std::int64_t least, std::int64_t most) {
  return most < least ? "no number" : to_text(least) + " to " + to_text(most);
}
}  // namespace

void fail_kernel(const Op& op, const KernelResult& result, const Text& place, Caller caller) {
  const Text argument = result.argument ? Text(result.argument) : argument_name(op, result.input);
  if (result.expected && result.counts) {
    Text found = result.failure;
    if (result.got >= 0) found += " in row " + to_text(result.got);
    if (result.limit >= 0) found += " of matrix " + to_text(result.limit);
    fail<Error>(caller, op.name, argument, result.expected, found);
  }
  if (result.expected)
    fail<Error>(caller, op.name, argument, result.expected, to_text(result.number), result.failure);
  fail<IndexError>(caller, op.name, argument,
                   result.counts
                       ? range_of(result.least, result.limit)
                       : one_of("index", result.from_end ? -result.limit : 0, result.limit),
                   to_text(result.got) + place);
}
void fail_kernel(const DeviceCall& call, const KernelResult& result) {
  fail_kernel(call.op, result, place_of(call, result), call.caller);
}

void run_on_copies(Backend& backend, const DeviceCall& call) {
  SmallVector<Tensor, 2> copies;
  SmallVector<const Body*, 4> inputs;
  for (int i = 0; i < call.kernel.input_count; ++i) {
    const Body* body = &call.kernel.input(i);
    if (!body->contiguous) {
      copies.push_back(contiguous_copy(*body, call.caller));
      body = Access::body(copies[copies.size() - 1]);
    }
    inputs.push_back(body);
  }
  KernelCall kernel = call.kernel;
  kernel.inputs = inputs.data();
  backend.run({call.op, call.part, call.options, kernel, call.device, call.caller});
}

namespace {
/// One tensor in another dtype, in row-major order.
void convert(const Body& from, Body& to, Caller caller) {
  const Body* input = &from;
  Body* output = &to;
  const DTypeOptions options{to.dtype};
  run_kernel(core_ops.cast, options, {&input, &output, &options, 1, 1}, caller);
}
}  // namespace

void run_widened(Backend& backend, const DeviceCall& call, bool reads_halves) {
  SmallVector<Tensor, 4> made;
  const auto widened = [&](const Body& x, bool filled) {
    made.push_back(Access::adopt(allocate_or_fail(Context::here(), call.device, call.op,
                                                  DType::float32, x.shape, call.caller)));
    Body* const wide = Access::body(made[made.size() - 1]);
    if (filled && x.elements > 0) convert(x, *wide, call.caller);
    return wide;
  };
  SmallVector<const Body*, 4> inputs;
  SmallVector<Body*, 4> outputs;
  for (int i = 0; i < call.kernel.input_count; ++i) {
    const Body* const x = call.kernel.inputs[i];
    inputs.push_back(x && is_half(x->dtype) && !reads_halves ? widened(*x, true) : x);
  }
  for (int i = 0; i < call.kernel.output_count; ++i) {
    Body* const y = call.kernel.outputs[i];
    outputs.push_back(y && is_half(y->dtype) ? widened(*y, call.kernel.accumulate >> i & 1) : y);
  }
  KernelCall kernel = call.kernel;
  kernel.inputs = inputs.data();
  kernel.outputs = outputs.data();
  backend.run({call.op, call.part, call.options, kernel, call.device, call.caller});
  for (int i = 0; i < call.kernel.output_count; ++i)
    if (Body* const y = call.kernel.outputs[i]; y != kernel.outputs[i] && y->elements > 0)
      convert(*kernel.outputs[i], *y, call.caller);
}

void run_kernel(const Op& op, OptionsView options, const KernelCall& call, Caller caller) {
  const Device device = device_of(call.output());
  if (op.changes_device) [[unlikely]] {
    copy_to_output(call);
    return backend_of(device.kind)->name(call.output(), op, caller);
  }
  if (!op.on(device.kind).computes()) [[unlikely]]
    fail<DeviceError>(caller, op.name, "device", "a device with a kernel for this op",
                      to_text(device), "Compute it on the CPU: x.to(cpu()).");
  run_on_backend({op, Part::value, options, call, device, caller});
}

void run_kernel(const GateCall& call) {
  const KernelCall kernel{call.inputs, call.outputs, call.options.data, call.input_count,
                          call.output_count};
  if (call.part == Part::value) return run_kernel(call.op, call.options, kernel, call.caller);
  Body* const* const made = std::find_if(call.outputs, call.outputs + call.output_count,
                                         [](const Body* output) { return output; });
  run_gradient(call.op, call.part, call.options, kernel, device_of(**made), call.caller);
}

void execute_kernels(const PlannedGraph& graph) {
  std::uint64_t position = graph.position;
  for (const Instruction& each : graph.calls) {
    RandomOptions drawn;
    OptionsView options = each.options;
    if (each.kind == Instruction::Kind::random) {
      drawn = *static_cast<const RandomOptions*>(options.data);
      drawn.seed = graph.seed;
      drawn.position = position;
      position += blocks_of(each);
      options = drawn;
    }
    const int* const values = graph.operands + each.first;
    const unsigned inputs = each.input_count, outputs = each.output_count;
    for (unsigned i = 0; i < inputs + outputs; ++i) graph.memory[i] = graph.value(values[i]);
    const KernelCall call{graph.memory,
                          const_cast<Body**>(graph.memory + inputs),
                          options.data,
                          static_cast<int>(inputs),
                          static_cast<int>(outputs),
                          each.how};
    if (each.part == Part::value)
      run_kernel(*each.op, options, call, each.caller);
    else
      run_gradient(*each.op, each.part, options, call, graph.device, each.caller);
  }
}

void run_deferred_kernel(const GateCall& call) {
  Context& context = Context::here();
  if (context.mode & observed) tell_begin(context, call);
  run_kernel(call);
  if (context.mode & observed) tell_end(context, call);
}

bool ask_interceptors(Context& context, const GateCall& call) {
  bool now = true;
  for (Interceptor* each = context.interceptors; each; each = each->next)
    now = each->before(call) && now;
  return now;
}

Tensor contiguous_copy(const Body& body, Caller caller) {
  Body* made = allocate_or_fail(Context::here(), device_of(body), core_ops.cast, body.dtype,
                                body.shape, caller);
  Tensor result = Access::adopt(made);
  convert(body, *made, caller);
  return result;
}
}  // namespace reel
