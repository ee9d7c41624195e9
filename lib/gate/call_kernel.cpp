// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/call_kernel.hpp"

#include <string>

#include "lib/flow/observer.hpp"
#include "lib/gate/devices.hpp"
#include "lib/gate/pointwise.hpp"
#include "lib/pool/scratch.hpp"

namespace reel {
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

namespace {
[[noreturn, gnu::noinline]] void fail_scratch(const Op& op, const NoScratch& none, Caller caller) {
  fail<MemoryError>(caller, op.name, "scratch", std::to_string(none.bytes) + " bytes of memory",
                    "none from the system");
}

bool in_order(const KernelCall& call) {
  for (int i = 0; i < call.input_count; ++i)
    if (!call.input(i).contiguous) return false;
  return true;
}
[[gnu::noinline]] void call_on_copies(const Op& op, KernelCall call, Caller caller) {
  SmallVector<Tensor, 2> copies;
  SmallVector<const Body*, 4> inputs;
  for (int i = 0; i < call.input_count; ++i) {
    const Body* body = &call.input(i);
    if (!body->contiguous) {
      copies.push_back(contiguous_copy(*body));
      body = Access::body(copies[copies.size() - 1]);
    }
    inputs.push_back(body);
  }
  call.inputs = inputs.data();
  call_kernel(op, call, caller);
}
}  // namespace

void call_checked(const Op& op, Kernel kernel, const KernelCall& call, Caller caller) try {
  check_kernel(op, kernel(call), caller);
} catch (const NoScratch& none) {
  fail_scratch(op, none, caller);
}

void call_kernel(const Op& op, const KernelCall& call, Caller caller) try {
  if (op.contiguous_inputs && !in_order(call)) return call_on_copies(op, call, caller);
  check_kernel(op, op.tiles ? run_tiles(op, call) : op.cpu(call), caller);
} catch (const NoScratch& none) {
  fail_scratch(op, none, caller);
}

void run_kernel(const GateCall& call) {
  const KernelCall kernel{call.inputs, call.outputs, call.options.data, call.input_count,
                          call.output_count};
  if (call.op.changes_device || !on_cpu(kernel.output())) [[unlikely]]
    return run_on_device(call.op, call.options, kernel, call.site);
  call_kernel(call.op, kernel, call.site);
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
}  // namespace reel
