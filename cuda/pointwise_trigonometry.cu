// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/pointwise.hpp"
#include "lib/formulas/trigonometry.hpp"

namespace reel::gpu {
namespace {
constexpr auto table = table_of(formulas::TrigonometryFormulas(), no_more);
}  // namespace
extern const NamedKernel* const pointwise_trigonometry_kernels;
const NamedKernel* const pointwise_trigonometry_kernels = table.kernels;
}  // namespace reel::gpu
