// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/activation.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::ActivationFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_activation_kernels;
const NamedKernel* const pointwise_activation_kernels = table.kernels;
}  // namespace reel::gpu
