// SPDX-License-Identifier: BSD-3-Clause
// The arguments of a kernel: input and output bodies, options, and the queue of its device. A
// kernel allocates nothing that outlives it, knows nothing about tapes and traces, and may trust
// the op's shape rule. Included by the units that are compiled for each instruction set: no std
// functions with bodies here.
#pragma once
#include <cstddef>
#include <cstdint>

#include "lib/body/body.hpp"

namespace reel {
struct Stages;

/// The queue of kernels that run at once, as those of the CPU.
struct NoQueue {};

/// A call of a kernel on a device whose backend gives it a Queue.
template <class Queue>
struct KernelCallOn {
  const Body* const* inputs;
  Body* const* outputs;
  const void* options;
  int input_count;
  int output_count;
  unsigned accumulate = 0;  // bit i: add to output i (gradients, and ops that say so)
  [[no_unique_address]] Queue queue = {};

  const Body& input(int i) const { return *inputs[i]; }
  Body& output(int i = 0) const { return *outputs[i]; }
  /// Whether every input is row-major.
  bool in_order() const {
    for (int i = 0; i < input_count; ++i)
      if (!inputs[i]->contiguous) return false;
    return true;
  }
  template <class T>
  const T& option() const {
    return *static_cast<const T*>(options);
  }
  /// This call on another queue.
  template <class Other>
  KernelCallOn<Other> on(const Other& other) const {
    return {inputs, outputs, options, input_count, output_count, accumulate, other};
  }
};
using KernelCall = KernelCallOn<NoQueue>;
static_assert(sizeof(KernelCall) == 40);

/// A call of a fused gradient kernel, by names: the gradients of the op's outputs, its inputs and
/// outputs (null where the op's needs do not name them), and the gradients to compute (null where
/// one is not wanted).
template <class Queue>
struct GradientKernelCallOn : KernelCallOn<Queue> {
  explicit GradientKernelCallOn(const KernelCallOn<Queue>& call) : KernelCallOn<Queue>(call) {}
  int op_outputs() const { return (this->input_count - this->output_count) / 2; }
  const Body* dy(int i = 0) const { return this->inputs[i]; }
  const Body* x(int i = 0) const { return this->inputs[op_outputs() + i]; }
  const Body* y(int i = 0) const { return this->inputs[op_outputs() + this->output_count + i]; }
  Body* dx(int i = 0) const { return this->outputs[i]; }
  /// Whether to add to dx(i) instead of replacing it.
  bool adds(int i = 0) const { return this->accumulate >> i & 1; }
};
using GradientKernelCall = GradientKernelCallOn<NoQueue>;

/// The result of a kernel: success, or an error in the values.
struct KernelResult {
  const char* failure = nullptr;  // e.g. "index out of range"; null if all went well
  int input = 0;                  // the input at fault
  bool from_end = true;           // whether -limit to -1 are right too
  bool counts = false;            // `got` is a number, not an index, from `least` to `limit`
  std::int64_t got = 0, limit = 0, least = 0;
  const char* expected = nullptr;  // where it is not a position at all but `number`
  double number = 0;               // or with `counts`, `failure` is what was got, in row `got` of
                                   // matrix `limit`, where these are not -1
  const char* argument = nullptr;  // its name, where it is not that of the op's input
};
static_assert(sizeof(KernelResult) <= 64,
              "every kernel fills one: g++ calls rep stos for more, 15 ns");
template <class Queue>
using KernelOn = KernelResult (*)(const KernelCallOn<Queue>&);
using Kernel = KernelOn<NoQueue>;
/// Whether a kernel computes this call, which has tensors of 16 bits, without float32 copies.
using TakesHalves = bool (*)(const KernelCall&);

/// One pass of a pointwise op over n contiguous elements, or of its gradient, whose inputs are dy,
/// x, y (null for one input) and out, each only if needed. `how` is a sum of what follows. The
/// output may be one of the inputs.
using PassFunction = void (*)(std::int64_t n, const void* const* inputs, unsigned how,
                              void* output);
inline constexpr unsigned pass_scalars = 15;       // bit i: input i is one number for all
inline constexpr unsigned pass_adds = 1u << 8;     // to the output: gradients only
inline constexpr unsigned pass_streams = 1u << 9;  // the output is too large for the caches
/// What the pass takes as float32 is float16 or bfloat16 in memory: inputs are widened, the result
/// is rounded once.
inline constexpr unsigned pass_float16 = 1u << 10, pass_bfloat16 = 1u << 11;
inline constexpr unsigned pass_converts = pass_float16 | pass_bfloat16;
/// The pass that converts elements; null where there is none.
using ConversionOf = PassFunction (*)(DType from, DType to);

/// Two matrices of one shape. One matrix is stored column after column, the other matrix and the
/// output row after row. The output is a matrix of its own.
struct TransposedPair {
  std::int64_t rows, columns;
  const void* transposed;
  std::int64_t transposed_step;  // from one column of it to the next, in elements
  const void* in_rows;
  bool transposed_first;
  void* output;
};
/// One pass of a pointwise op over a TransposedPair.
using TransposedPass = void (*)(const TransposedPair&);

/// The passes of one pointwise op, by the dtype of its (promoted) inputs; null where there is none.
struct Passes {
  PassFunction value[dtype_count] = {};
  PassFunction gradient[dtype_count][2] = {};  // for input 0 and 1
  TransposedPass transposed = nullptr;         // of float32, where vectors are large enough to pay
  bool slow = false;                           // worth sharing among threads before memory is
  const Stages* stages = nullptr;              // of float32; null where there is none
};
/// A pass of the CPU, and the passes of its op.
struct Pass {
  const Passes* passes = nullptr;
  PassFunction function = nullptr;
  unsigned how = 0;  // pass_float16, pass_bfloat16 or 0
  explicit operator bool() const { return function; }
};
}  // namespace reel
