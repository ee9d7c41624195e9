// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/math.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::MathFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_math_kernels;
const NamedKernel* const pointwise_math_kernels = table.kernels;
}  // namespace reel::gpu
