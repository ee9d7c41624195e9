// SPDX-License-Identifier: BSD-3-Clause
// Calling kernels, and what they have to say.
#pragma once
#include "lib/gate/gate.hpp"

namespace reel {
/// Calls the op's kernel, or its tiles, on inputs in the order that it wants. Throws IndexError or
/// Error for what the kernel finds wrong with values, MemoryError if it finds no scratch memory.
void call_kernel(const Op& op, const KernelCall& call, Caller caller);
/// The same for another kernel than the op's first, on inputs in order.
void call_checked(const Op& op, Kernel kernel, const KernelCall& call, Caller caller);
[[noreturn]] void fail_kernel(const Op& op, const KernelResult& result, Caller caller);
inline void check_kernel(const Op& op, const KernelResult& result, Caller caller) {
  if (result.failure) [[unlikely]]
    fail_kernel(op, result, caller);
}
/// Calls the kernel; observers are not told.
void run_kernel(const GateCall& call);
/// What an interceptor has deferred: calls the kernel, and tells the observers.
void run_deferred_kernel(const GateCall& call);
/// Whether all interceptors want the kernel to be called now.
bool ask_interceptors(Context& context, const GateCall& call);
/// A row-major copy that no tape sees.
Tensor contiguous_copy(const Body& body);
}  // namespace reel
