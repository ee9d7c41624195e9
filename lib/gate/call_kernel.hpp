// SPDX-License-Identifier: BSD-3-Clause
// Calls kernels, and throws the errors that they report.
#pragma once
#include <string>

#include "lib/flow/observer.hpp"
#include "lib/gate/gate.hpp"
#include "lib/table/passes.hpp"

namespace reel {
/// Calls the kernel of the op on the device of its outputs. An op that changes the device copies to
/// it. Throws IndexError or Error if the kernel finds a wrong value, MemoryError if there is no
/// scratch memory, and DeviceError if the device has no such kernel. A device may report errors of
/// its kernels at the next wait.
void run_kernel(const Op& op, OptionsView options, const KernelCall& call, Caller caller);
/// run_kernel() where the outputs are known to be on the CPU, and the op has a kernel there.
inline void run_on_host(const Op& op, OptionsView options, const KernelCall& call, Caller caller) {
  host_backend().run({op, Part::value, options, call, cpu(), caller});
}
/// The kernel of a call, which the device has. Observers get events of kernels on other devices
/// than the CPU.
inline void run_on_backend(const DeviceCall& call) {
  Backend& backend = *backend_of(call.device.kind);
  if (call.device.kind == Device::Kind::cpu) [[likely]]
    return backend.run(call);
  Context& context = Context::here();
  const bool is_observed = context.mode & observed;
  if (is_observed) tell_kernel(context, call, true);
  backend.run(call);
  if (is_observed) tell_kernel(context, call, false);
}
/// A kernel of the op's gradient, which the device has.
inline void run_gradient(const Op& op, Part part, OptionsView options, const KernelCall& call,
                         Device device, Caller caller) {
  run_on_backend({op, part, options, call, device, caller});
}
/// Throws what a kernel has found; `place` is " at [1, 3]" or empty.
[[noreturn]] void fail_kernel(const Op& op, const KernelResult& result, const Text& place,
                              Caller caller);
/// Throws what a kernel has found in a call whose inputs the host can read.
[[noreturn]] void fail_kernel(const DeviceCall& call, const KernelResult& result);
inline void check_kernel(const DeviceCall& call, const KernelResult& result) {
  if (result.failure) [[unlikely]]
    fail_kernel(call, result);
}
/// Backend::run() with row-major copies of the inputs that are strided.
void run_on_copies(Backend& backend, const DeviceCall& call);
/// Backend::run() with float32 in the place of float16 and bfloat16, of inputs unless the kernel
/// reads them. Results are rounded once.
void run_widened(Backend& backend, const DeviceCall& call, bool reads_halves);
/// Calls the kernel. Observers are not notified.
void run_kernel(const GateCall& call);
/// For a kernel that an interceptor has deferred: calls it, and notifies observers.
void run_deferred_kernel(const GateCall& call);
/// Backend::execute() for backends without a faster way: calls one kernel after the other.
void execute_kernels(const PlannedGraph& graph);
/// Whether all interceptors want the kernel to be called now.
bool ask_interceptors(Context& context, const GateCall& call);
/// A row-major copy that no tape sees.
Tensor contiguous_copy(const Body& body, Caller caller = {});
}  // namespace reel
