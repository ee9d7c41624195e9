// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/arithmetic.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::ArithmeticFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_arithmetic_kernels;
const NamedKernel* const pointwise_arithmetic_kernels = table.kernels;
}  // namespace reel::gpu
