// SPDX-License-Identifier: BSD-3-Clause
// What a kernel sees: bodies in, bodies out, options. It allocates nothing that outlives it, knows
// nothing of tape or trace, and may trust the op's shape rule. Included by the units that are
// compiled for each instruction set: no std functions with bodies here.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lib/body/body.hpp"

namespace reel {
struct KernelCall {
  const Body* const* inputs;
  Body* const* outputs;
  const void* options;
  int input_count;
  int output_count;
  unsigned accumulate = 0;  // bit i: add to output i instead of replacing it (ops that say so)

  const Body& input(int i) const { return *inputs[i]; }
  Body& output(int i = 0) const { return *outputs[i]; }
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(options);
  }
};
/// A call of a fused gradient kernel, by names: the gradients of the op's outputs, its inputs and
/// outputs (null where the op's needs do not name them), and the gradients to compute (null where
/// one is not wanted).
struct GradientKernelCall : KernelCall {
  explicit GradientKernelCall(const KernelCall& call) : KernelCall(call) {}
  int op_outputs() const { return (input_count - output_count) / 2; }
  const Body* dy(int i = 0) const { return inputs[i]; }
  const Body* x(int i = 0) const { return inputs[op_outputs() + i]; }
  const Body* y(int i = 0) const { return inputs[op_outputs() + output_count + i]; }
  Body* dx(int i = 0) const { return outputs[i]; }
  /// Whether to add to dx(i) instead of replacing it.
  bool adds(int i = 0) const { return accumulate >> i & 1; }
};
/// What a kernel has to say for itself.
struct KernelResult {
  const char* failure = nullptr;  // e.g. "index out of range"; null if all went well
  int input = 0;                  // the input at fault
  std::int64_t got = 0, limit = 0;
  bool from_end = true;            // whether -limit to -1 would have been right too
  const char* expected = nullptr;  // where it is not a position at all but `number`
  double number = 0;
  bool counts = false;  // what came is no index but a number of things, of which `limit` are there
};
using Kernel = KernelResult (*)(const KernelCall&);

/// One pass of a pointwise op over n neighbours, or of its gradient, whose inputs are dy, x, y
/// (null for one input) and out, each only if needed. `how` is a sum of what follows. The output
/// may be one of the inputs.
using Tile = void (*)(std::int64_t n, const void* const* inputs, unsigned how, void* output);
inline constexpr unsigned pass_scalars = 15;       // bit i: input i is one number for all
inline constexpr unsigned pass_adds = 1u << 8;     // to the output: gradients only
inline constexpr unsigned pass_streams = 1u << 9;  // the output is too large for the caches

/// Two matrices of one shape. One is stored column after column, the other and the output row after
/// row. The output is a matrix of its own.
struct TransposedPair {
  std::int64_t rows, columns;
  const void* transposed;
  std::int64_t transposed_step;  // from one column of it to the next, in elements
  const void* in_rows;
  bool transposed_first;
  void* output;
};
/// One pass of a pointwise op over such a pair.
using TransposedPass = void (*)(const TransposedPair&);

/// The passes of one pointwise op, by the dtype of its (promoted) inputs; null where there is none.
struct Tiles {
  Tile value[dtype_count] = {};
  Tile gradient[2][dtype_count] = {};   // for input 0 and 1
  TransposedPass transposed = nullptr;  // of float32, where vectors are large enough to pay
  bool slow = false;                    // worth sharing among threads before memory is
};
}  // namespace reel
