// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/arithmetic.hpp"

namespace reel::gpu {
namespace {
KernelResult lerp(const Call& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    apply<T, T, T, T>(call.queue, formulas::Lerp(), call.output(),
                      {&call.input(0), &call.input(1), &call.input(2)});
  });
}
constexpr NamedKernel others[] = {{"lerp", lerp}, {nullptr, nullptr}};
constexpr auto table = table_of(formulas::ArithmeticFormulas(), others);
}  // namespace
extern const NamedKernel* const pointwise_arithmetic_kernels;
const NamedKernel* const pointwise_arithmetic_kernels = table.kernels;
}  // namespace reel::gpu
