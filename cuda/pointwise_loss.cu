// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/loss.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::LossFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_loss_kernels;
const NamedKernel* const pointwise_loss_kernels = table.kernels;
}  // namespace reel::gpu
