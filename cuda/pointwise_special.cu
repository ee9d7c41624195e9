// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/special.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::SpecialFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_special_kernels;
const NamedKernel* const pointwise_special_kernels = table.kernels;
}  // namespace reel::gpu
