// SPDX-License-Identifier: BSD-3-Clause
// Pointwise ops over any layout: broadcast inputs are walked so that a tile sees neighbours.
#pragma once
#include "lib/dispatch/gate.hpp"

namespace reel {
/// Runs an op's tile over all elements of the (row-major) output.
KernelResult run_tiles(const Op& op, const KernelCall& call);
/// The dtype whose tile serves these inputs.
inline DType tile_dtype(const Op& op, const Body* const* inputs) {
  return inputs[op.promoted & 1 ? 0 : 1]->dtype;
}
/// A row-major copy that no tape sees.
Tensor contiguous_copy(const Body& body);
/// A kernel said that something is wrong with the values: throws IndexError.
void check_kernel(const Op& op, const KernelResult& result, Caller caller);
/// Calls a kernel and checks it; throws MemoryError if it finds no scratch memory.
void call_checked(const Op& op, Kernel kernel, const KernelCall& call, Caller caller);
}  // namespace reel
