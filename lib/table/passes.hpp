// SPDX-License-Identifier: BSD-3-Clause
// Passes of pointwise ops over memory of the host. The fast paths of gate and tape call short
// passes directly.
#pragma once
#include "lib/table/backend.hpp"

namespace reel {
/// The backend of the CPU.
class HostBackend : public Backend {
 public:
  /// Runs a pass over n contiguous elements, on several threads if it is long enough. `sizes` are
  /// the bytes of an element of each input.
  virtual void share_pass(const Passes& passes, PassFunction function, std::int64_t n,
                          const void* const* inputs, const int* sizes, int count, unsigned how,
                          void* output, int size) = 0;
  /// A pass over the rows of x, with one row of the other input that is repeated.
  virtual void run_rows(const Pass& pass, const Body& x, const Body& row, Body& output) = 0;
  /// A pass over two inputs of one shape and of the output's dtype: one is a transposed view, the
  /// other is in row-major order. The output shares memory with neither.
  virtual void run_transposed(const Pass& pass, const Body& transposed, const Body& in_order,
                              bool transposed_first, Body& output) = 0;

 protected:
  ~HostBackend() = default;
};
inline HostBackend& host_backend() {
  return *static_cast<HostBackend*>(device_memories[static_cast<int>(Device::Kind::cpu)]);
}

/// One of an op's passes for each dtype. A dtype of 16 bits without a pass of its own takes that of
/// float32.
template <class FunctionOf>
inline Pass pass_among(const Passes& passes, DType dtype, const FunctionOf& function_of) {
  if (const PassFunction function = function_of(static_cast<int>(dtype))) [[likely]]
    return {&passes, function};
  if (!is_half(dtype)) return {};
  return {&passes, function_of(static_cast<int>(DType::float32)),
          dtype == DType::float16 ? pass_float16 : pass_bfloat16};
}
inline Pass value_pass_of(const Passes* passes, DType dtype) {
  return passes ? pass_among(*passes, dtype, [=](int i) { return passes->value[i]; }) : Pass();
}
/// The pass that computes a pointwise op over contiguous elements of this dtype, or none.
inline Pass pass_of(const Op& op, DType dtype) { return value_pass_of(op.on_cpu().passes, dtype); }
/// The pass of the gradient of input 0 or 1; none where these kernels have none.
inline Pass gradient_pass_of(const Kernels& kernels, int input, DType dtype) {
  const Passes* const passes = kernels.passes;
  return passes ? pass_among(*passes, dtype, [=](int i) { return passes->gradient[i][input]; })
                : Pass();
}
/// pass_of() for the fast path: none where a user has registered another kernel, and none where
/// elements are converted.
inline Pass fast_pass_of(const Op& op, DType dtype) {
  return {op.fast, op.fast ? op.fast->value[static_cast<int>(dtype)] : nullptr};
}
/// fast_pass_of(), also where elements are converted.
inline Pass any_fast_pass_of(const Op& op, DType dtype) { return value_pass_of(op.fast, dtype); }
/// Whether passes compute the op on the CPU. A pass of a value replaces its output; a kernel of an
/// op that accumulates can add to it.
inline bool has_passes(const Op& op) { return op.on_cpu().passes; }

/// A pass over fewer elements runs on one thread.
inline constexpr std::int64_t least_shared_pass = 1 << 16;
/// A pass whose inputs are all of dtype `from`.
inline void run_pass(const Pass& pass, std::int64_t n, const void* const* inputs, int count,
                     DType from, unsigned how, void* output, DType to) {
  how |= pass.how;
  if (n < least_shared_pass) [[likely]]
    return pass.function(n, inputs, how, output);
  const int size = size_of(from), sizes[] = {size, size, size, size};
  host_backend().share_pass(*pass.passes, pass.function, n, inputs, sizes, count, how, output,
                            size_of(to));
}
/// Whether x is contiguous, or a single broadcast element, along each row of an output of this
/// shape, and the rows are long enough. If not, a copy in row-major order costs less.
bool walks_neighbours(const Body& x, const Shape& shape);
}  // namespace reel
