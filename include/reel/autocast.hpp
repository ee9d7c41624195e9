// SPDX-License-Identifier: BSD-3-Clause
// Mixed precision: which ops of a model compute in 16 bits.
#pragma once  // defined in lib/flow
#include <reel/caller.hpp>
#include <reel/dtype.hpp>
#include <reel/export.hpp>

namespace reel {
/// Options of an AutocastScope.
struct AutocastOptions {
  DType dtype = DType::bfloat16;  // or float16; float32 ends an outer scope inside this one
};
/// While it lives, ops of this thread choose their dtype. float32 inputs of products, convolutions,
/// attention and recurrent layers are cast to 16 bits. 16-bit inputs of functions that need range
/// or precision are cast to float32: exponentials, logarithms, powers, sums, means, norms, softmax,
/// losses. Other ops promote as they do outside; float64 and integers stay. Variables stay float32,
/// and so do their gradients. gradient() computes in the dtypes of the recorded ops, inside the
/// scope or outside. docs/guide/dtypes.md has the list of ops. Scopes may end in any order and on
/// any thread, as TrainScope. Throws DTypeError for another dtype.
class REEL_API AutocastScope : detail::OpenScope {
 public:
  [[nodiscard]] explicit AutocastScope(AutocastOptions options = {},
                                       Caller caller = Caller::here());
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  DType dtype_;
};
}  // namespace reel
