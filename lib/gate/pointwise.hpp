// SPDX-License-Identifier: BSD-3-Clause
// Pointwise ops over any layout: broadcast inputs are walked so that a tile sees neighbours.
#pragma once
#include "lib/gate/gate.hpp"
#include "lib/pool/pool.hpp"

namespace reel {
/// Runs an op's tile over all elements of the (row-major) output.
KernelResult run_tiles(const Op& op, const KernelCall& call);
/// Elements below which no pass is shared among threads.
inline constexpr std::int64_t least_shared_pass = 1 << 16;
/// A pass over n neighbours in blocks; `sizes` are the bytes of an element of each input.
void share_pass(const Tiles& tiles, Tile tile, std::int64_t n, const void* const* inputs,
                const int* sizes, int count, unsigned how, void* output, int size);
/// A pass whose inputs are all of dtype `from`, shared where it is large enough.
inline void run_pass(const Tiles& tiles, Tile tile, std::int64_t n, const void* const* inputs,
                     int count, DType from, unsigned how, void* output, DType to) {
  if (n < least_shared_pass) [[likely]]
    return tile(n, inputs, how, output);
  const int size = size_of(from), sizes[] = {size, size, size, size};
  share_pass(tiles, tile, n, inputs, sizes, count, how, output, size_of(to));
}
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
/// Whether a pass over an output of this shape meets x's elements as neighbours, or one for all, in
/// rows that are long enough; where not, a copy in order costs less.
bool walks_neighbours(const Body& x, const Shape& shape);
/// A pass over two inputs of one shape and of the output's dtype: one is a transposed view, the
/// other is in row-major order. The output shares memory with neither.
void run_transposed(const Tiles& tiles, Tile tile, const Body& transposed, const Body& in_order,
                    bool transposed_first, Body& output);
}  // namespace reel
