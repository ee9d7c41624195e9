// SPDX-License-Identifier: BSD-3-Clause
// Pointwise ops over any layout: broadcast inputs are walked so that a tile sees neighbours.
#pragma once
#include "lib/cpu/pool.hpp"
#include "lib/dispatch/gate.hpp"

namespace reel {
/// Runs an op's tile over all elements of the (row-major) output.
KernelResult run_tiles(const Op& op, const KernelCall& call);
/// f(first, end) over the passes of n elements each; one that is large enough is its own to share.
template <class F>
void parallel_passes(std::int64_t elements, std::int64_t n, const F& f) {
  constexpr std::int64_t shared = 1 << 18, block = 1 << 16;
  if (elements < shared || n >= shared) return f(std::int64_t{0}, elements / n);
  kernels::parallel_rows(elements / n, n, block, f);
}
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
