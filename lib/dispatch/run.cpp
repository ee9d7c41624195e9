// SPDX-License-Identifier: BSD-3-Clause
// The gate for any op: resolve, infer, allocate, stages and kernel, record.
#include <reel/ops.hpp>

#include "lib/dispatch/call_view.hpp"
#include "lib/dispatch/pointwise.hpp"
#include "lib/dispatch/promotion.hpp"
#include "lib/dispatch/recording.hpp"
#include "lib/dispatch/update.hpp"
#include "lib/ops/ops.hpp"

namespace reel {
namespace {
/// The inputs of a call: bodies, where they come from, and what was made on the way.
struct Resolved {
  Few<Body*, 4> bodies;
  Few<Origin, 4> origins;
  Few<Tensor, 4> made;  // numbers turned into tensors, and converted inputs

  Body* keep(Tensor x) {
    made.push_back(std::move(x));
    return Access::body(made[made.size() - 1]);
  }
};

[[noreturn, gnu::noinline]] void fail_memory(const Op& op, DType dtype, const Shape& shape,
                                             Caller caller) {
  fail<MemoryError>(caller, op.name, "result",
                    "memory for shape " + to_text(shape) + " of " + std::string(name_of(dtype)),
                    "none from the system");
}

Body* allocate_or_fail(Context& context, const Op& op, DType dtype, const Shape& shape,
                       Caller caller) {
  Body* body = allocate(context, dtype, shape, count_elements(shape, op.name, caller));
  if (!body) [[unlikely]]
    fail_memory(op, dtype, shape, caller);
  return body;
}
[[noreturn, gnu::noinline]] void fail_dtype(const Op& op, DType dtype, Caller caller) {
  fail<DTypeError>(caller, op.name, "dtype", "a DType",
                   std::to_string(static_cast<unsigned>(dtype)));
}
[[noreturn, gnu::noinline]] void fail_view(const Op& op, Caller caller) {
  fail<MemoryError>(caller, op.name, "result", "memory for a view", "none");
}

Body* number_body(Context& context, const Op& op, int i, Scalar number, DType dtype, Caller caller,
                  Resolved& inputs) {
  if (!fits(number, dtype))
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a number that fits " + std::string(name_of(dtype)), to_text(number));
  Body* body = allocate_or_fail(context, op, dtype, {}, caller);
  store_number(body->data, number, dtype);
  return inputs.keep(Access::adopt(body));
}

void resolve(Context& context, Op& op, std::span<const Operand> operands, Caller caller,
             Resolved& inputs) {
  const std::size_t count = operands.size();
  inputs.bodies.resize(count);
  inputs.origins.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    inputs.bodies[i] = body_of(operands[i]);
    if (!inputs.bodies[i] && operands[i].kind() != Operand::Kind::scalar)
      fail<Error>(caller, op.name, argument_name(op, static_cast<int>(i)), "a tensor",
                  "an undefined Tensor", "It was default-constructed or moved from.");
    if (operands[i].kind() == Operand::Kind::variable && context.stages)
      inputs.bodies[i] = Access::body(read_variable(context, operands[i].variable()));
  }
  const bool promotes = op.promote != Promote::none;
  const DType common = promotes ? common_dtype(op, operands, inputs.bodies.data()) : DType::boolean;
  for (std::size_t i = 0; i < count; ++i) {
    const bool takes_part = promotes && op.promoted >> (i < 7 ? i : 7) & 1;
    Body*& body = inputs.bodies[i];
    if (!body) {
      const Scalar number = operands[i].scalar();
      body = number_body(context, op, static_cast<int>(i), number,
                         takes_part ? common : number.dtype(), caller, inputs);
    } else if (takes_part && body->dtype != common) {
      body = inputs.keep(cast(Operand(detail::tensor_of(operands[i]), caller), common));
      if (context.mode & recording)
        inputs.origins[i] = origin_of(context, Operand(inputs.made[inputs.made.size() - 1]), body);
    } else if (context.mode & recording) {
      inputs.origins[i] = origin_of(context, operands[i], body);
    }
  }
}

void check_devices(const Op& op, const Resolved& inputs, Caller caller) {
  for (std::size_t i = 1; i < inputs.bodies.size(); ++i)
    if (!(inputs.bodies[i]->device() == inputs.bodies[0]->device()))
      fail<DeviceError>(caller, op.name, argument_name(op, static_cast<int>(i)),
                        "the device of the first input", "another",
                        "Nothing is copied behind your back: use x.to(device).");
}

/// What a rule has seen otherwise lies as its strides say.
void finish_views(const Inference& call) {
  for (const Tensor& output : call.outputs) {
    Body& body = *Access::body(output);
    if (body.owner) body.contiguous = is_row_major(body.shape, body.strides);
  }
}

std::uint64_t tapes_of(const Resolved& inputs) {
  std::uint64_t tapes = 0;
  for (const Origin& origin : inputs.origins) tapes |= origin.tapes;
  return tapes;
}

/// A kernel that a user registered gives what the op's rule promises.
void check_results(Context& context, const Op& op, Resolved& inputs, OptionsView options,
                   Caller caller, const Tensors& results) {
  Few<Tensor, 2> promised;
  Inference inference{
      context, op,      inputs.bodies.data(), static_cast<int>(inputs.bodies.size()), options.data,
      caller,  promised};
  op.shape(inference);
  if (results.size() != promised.size())
    fail<Error>(caller, op.name, "results of its kernel", std::to_string(promised.size()),
                std::to_string(results.size()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Body &result = *Access::body(results[i]), &expected = *Access::body(promised[i]);
    if (!(result.shape == expected.shape))
      fail<ShapeError>(caller, op.name, "result of its kernel", to_text(expected.shape),
                       to_text(result.shape));
    if (result.dtype != expected.dtype)
      fail<DTypeError>(caller, op.name, "result of its kernel", name_of(expected.dtype),
                       name_of(result.dtype));
  }
}

/// What stages hear of a call whose kernel has run.
void tell_stages(Context& context, Op& op, const Resolved& inputs, OptionsView options,
                 Caller caller, const Few<Tensor, 2>& outputs) {
  const GateCall call{op,
                      inputs.bodies.data(),
                      static_cast<int>(inputs.bodies.size()),
                      options,
                      context.site_of(caller),
                      Access::bodies(outputs.data()),
                      static_cast<int>(outputs.size()),
                      nullptr};
  for (Stage* stage = context.stages; stage; stage = stage->next) stage->after(call);
}

/// An op that is a function of other ops: recorded as one if it has a gradient of its own.
void run_composite(Context& context, Op& op, Resolved& inputs, OptionsView options, Caller caller,
                   Few<Tensor, 2>& outputs) {
  const int input_count = static_cast<int>(inputs.bodies.size());
  const CallView view{op, inputs.bodies.data(), input_count, nullptr, 0, options, caller};
  Tensors results;
  const bool own_gradient = op.gradient != nullptr;
  const bool kernel = op.shape != nullptr;  // a user's, for an op of the library
  const auto call = [&] {
    const CallerScope scope(caller, op.name);
    results = op.composite(OpCall(view), op.composite_state);
  };
  const auto call_recorded = [&] {
    if (!own_gradient) return call();
    const RecordingPause pause(context);
    call();
  };
  if (kernel) {
    const StagePause pause;
    call_recorded();
  } else {
    call_recorded();
  }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].defined())
      fail<Error>(caller, op.name, "result", "a tensor", "an undefined Tensor");
  if (kernel) check_results(context, op, inputs, options, caller, results);
  outputs.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    // A result that is an input, or that others hold, gets a header of its own for its record.
    Body* body = Access::body(results[i]);
    const bool named = own_gradient && references(*body) > 1;
    outputs[i] = !named   ? results[i]
                 : kernel ? Access::adopt(allocate_view(context, body))
                          : name_again(context, body);
    results[i] = {};
  }
  if (kernel) tell_stages(context, op, inputs, options, caller, outputs);
  const std::uint64_t tapes = own_gradient ? tapes_of(inputs) : 0;
  if (!tapes) return;
  leave_record(context, op, options, context.site_of(caller), inputs.bodies.data(),
               inputs.origins.data(), input_count, Access::bodies(outputs.data()),
               static_cast<int>(outputs.size()), tapes);
}

void run_stages_and_kernel(Context& context, const GateCall& call, bool kernel) {
  if (context.mode & infer_only) return;
  for (Stage* stage = context.stages; stage; stage = stage->next)
    kernel = stage->before(call) && kernel;
  if (kernel) run_kernel(call);
  for (Stage* stage = context.stages; stage; stage = stage->next) stage->after(call);
}
}  // namespace

const Body& Inference::made(int i) const {
  return *Access::body(outputs[static_cast<std::size_t>(i)]);
}
Body& Inference::output(DType dtype, const Shape& shape) {
  if (static_cast<unsigned>(dtype) >= dtype_count) [[unlikely]]
    fail_dtype(op, dtype, caller);
  computes = true;
  Body* body = allocate_or_fail(context, op, dtype, shape, caller);
  outputs.push_back(Access::adopt(body));
  return *body;
}
Body& Inference::view() {
  Body* body = allocate_view(context, inputs[0]);
  if (!body) [[unlikely]]
    fail_view(op, caller);
  outputs.push_back(Access::adopt(body));
  return *body;
}

void fail_kernel(const Op& op, const KernelResult& result, Caller caller) {
  const std::string argument = argument_name(op, result.input);
  if (result.expected)
    fail<Error>(caller, op.name, argument, result.expected, to_text(result.number), result.failure);
  fail<IndexError>(caller, op.name, argument,
                   result.counts
                       ? "0 to " + std::to_string(result.limit)
                       : one_of("index", result.from_end ? -result.limit : 0, result.limit),
                   std::to_string(result.got), result.failure);
}

void call_checked(const Op& op, Kernel kernel, const KernelCall& call, Caller caller) try {
  check_kernel(op, kernel(call), caller);
} catch (const NoScratch& none) {
  fail<MemoryError>(caller, op.name, "scratch", std::to_string(none.bytes) + " bytes of memory",
                    "none from the system");
}

namespace {
void call_kernel(const GateCall& call, unsigned accumulate) {
  Op& op = call.op;
  if (!op.contiguous_inputs) {
    const KernelCall direct{call.inputs,      call.outputs,      call.options.data,
                            call.input_count, call.output_count, accumulate};
    if (!op.tiles) return call_checked(op, op.cpu, direct, call.site);
    return check_kernel(op, run_tiles(op, direct), call.site);
  }
  Few<Tensor, 2> copies;
  Few<const Body*, 4> inputs(static_cast<std::size_t>(call.input_count));
  for (int i = 0; i < call.input_count; ++i) {
    const Body* body = call.inputs[i];
    if (!body->contiguous) {
      copies.push_back(contiguous_copy(*body));
      body = Access::body(copies[copies.size() - 1]);
    }
    inputs[static_cast<std::size_t>(i)] = body;
  }
  const KernelCall kernel_call{inputs.data(),    call.outputs,      call.options.data,
                               call.input_count, call.output_count, accumulate};
  if (!op.tiles) return call_checked(op, op.cpu, kernel_call, call.site);
  check_kernel(op, run_tiles(op, kernel_call), call.site);
}
}  // namespace

void run_kernel(const GateCall& call) { call_kernel(call, 0); }

namespace {
void run_any(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             Few<Tensor, 2>& outputs);

/// Whether these inputs need no conversion: tensors of one dtype where the op promotes.
template <int N>
[[gnu::always_inline]] inline bool ready(const Op& op, Body* const (&bodies)[N]) {
  DType common = DType::boolean;
  bool any = false;
  for (int i = 0; i < N; ++i) {
    if (!bodies[i]) return false;
    if (op.promote == Promote::none || !(op.promoted >> i & 1)) continue;
    if (any && bodies[i]->dtype != common) return false;
    common = bodies[i]->dtype;
    any = true;
  }
  return !any || op.promote != Promote::floating || is_floating(common);
}

/// What a lean call leaves for the tapes that follow its inputs.
[[gnu::noinline]] void record_lean(Context& context, Op& op, const Operand* const* operands,
                                   Body* const* inputs, int input_count, OptionsView options,
                                   Caller caller, const Few<Tensor, 2>& outputs) {
  Origin origins[3];
  std::uint64_t tapes = 0;
  for (int i = 0; i < input_count; ++i) {
    origins[i] = origin_of(context, *operands[i], inputs[i]);
    tapes |= origins[i].tapes;
  }
  if (!tapes) return;
  Body* const* made = Access::bodies(outputs.data());
  const Caller site = context.site_of(caller);
  if (op.differentiable && is_floating(made[0]->dtype))
    leave_record(context, op, options, site, inputs, origins, input_count, made,
                 static_cast<int>(outputs.size()), tapes);
  else
    note_cut(context, op, site, origins, input_count);
}

/// The common case without detours: few inputs that need no conversion, at most a tape listening.
template <int N>
[[gnu::always_inline]] inline bool run_lean(Op& op, const Operand* const (&operands)[N],
                                            OptionsView options, Caller caller,
                                            Few<Tensor, 2>& outputs) {
  Context& context = Context::here();
  if (context.mode & ~recording || op.composite || !(op.cpu || op.tiles)) return false;
  Body* inputs[N];
  for (int i = 0; i < N; ++i) inputs[i] = body_of(*operands[i]);
  if (!ready(op, inputs)) return false;
  Inference inference{context, op, inputs, N, options.data, caller, outputs};
  op.shape(inference);
  if (inference.computes)
    run_kernel({op, inputs, N, options, caller, Access::bodies(outputs.data()),
                static_cast<int>(outputs.size()), nullptr});
  else
    finish_views(inference);
  if (context.mode) record_lean(context, op, operands, inputs, N, options, caller, outputs);
  return true;
}
}  // namespace

void run(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
         Few<Tensor, 2>& outputs) {
  const std::size_t count = operands.size();
  const Operand* const x = operands.data();
  if (count == 1 && run_lean<1>(op, {x}, options, caller, outputs)) return;
  if (count == 2 && run_lean<2>(op, {x, x + 1}, options, caller, outputs)) return;
  if (count == 3 && run_lean<3>(op, {x, x + 1, x + 2}, options, caller, outputs)) return;
  run_any(op, operands, options, caller, outputs);
}

namespace {
void run_any(Op& op, std::span<const Operand> operands, OptionsView options, Caller caller,
             Few<Tensor, 2>& outputs) {
  if (!op.cpu && !op.tiles && !op.composite) [[unlikely]]
    assemble();
  Context& context = Context::here();
  Resolved inputs;
  resolve(context, op, operands, caller, inputs);
  check_devices(op, inputs, caller);
  if (op.composite) return run_composite(context, op, inputs, options, caller, outputs);

  const int input_count = static_cast<int>(operands.size());
  Inference inference{context, op,     inputs.bodies.data(), input_count, options.data,
                      caller,  outputs};
  op.shape(inference);
  finish_views(inference);
  Body* const* bodies = Access::bodies(outputs.data());
  const int output_count = static_cast<int>(outputs.size());
  const GateCall call{op,     inputs.bodies.data(), input_count, options, context.site_of(caller),
                      bodies, output_count,         nullptr};
  run_stages_and_kernel(context, call, inference.computes);
  const std::uint64_t tapes = context.mode & recording ? tapes_of(inputs) : 0;
  if (!tapes || !output_count) return;
  if (op.differentiable && is_floating(bodies[0]->dtype))
    leave_record(context, op, options, call.site, inputs.bodies.data(), inputs.origins.data(),
                 input_count, bodies, output_count, tapes);
  else
    note_cut(context, op, call.site, inputs.origins.data(), input_count);
}
}  // namespace

void run_into(Op& op, std::initializer_list<Operand> operands, OptionsView options, Body& output) {
  Context& context = Context::here();
  Resolved inputs;
  resolve(context, op, std::span(operands.begin(), operands.size()), operands.begin()->caller(),
          inputs);
  Body* place = &output;
  call_kernel({op, inputs.bodies.data(), static_cast<int>(operands.size()), options,
               context.site_of(operands.begin()->caller()), &place, 1, nullptr},
              1);
}

Tensor run(Op& op, std::initializer_list<Operand> inputs, OptionsView options) {
  Few<Tensor, 2> outputs;
  run(op, std::span(inputs.begin(), inputs.size()), options, inputs.begin()->caller(), outputs);
  return std::move(outputs[0]);
}
Tensor run(Op& op, const Operand& x, OptionsView options) {
  Few<Tensor, 2> outputs;
  if (!run_lean<1>(op, {&x}, options, x.caller(), outputs))
    run_any(op, {&x, 1}, options, x.caller(), outputs);
  return std::move(outputs[0]);
}
Tensor run(Op& op, const Operand& x, const Operand& y) {
  Few<Tensor, 2> outputs;
  if (!run_lean<2>(op, {&x, &y}, {}, x.caller(), outputs)) {
    const Operand operands[] = {x, y};
    run_any(op, operands, {}, x.caller(), outputs);
  }
  return std::move(outputs[0]);
}
Tensor run(Op& op, const Operands& inputs, OptionsView options) {
  Few<Operand, 8> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) operands.push_back(inputs[i]);
  Few<Tensor, 2> outputs;
  run(op, std::span<const Operand>(operands.data(), operands.size()), options, inputs.caller(),
      outputs);
  return std::move(outputs[0]);
}
Tensor run(Op& op, OptionsView options, Caller caller) {
  Few<Tensor, 2> outputs;
  run(op, std::span<const Operand>(), options, caller, outputs);
  return std::move(outputs[0]);
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
