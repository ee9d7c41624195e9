// SPDX-License-Identifier: BSD-3-Clause
// All CUDA kernels.
#include "cuda/gpu.hpp"

namespace reel::gpu {
#define REEL_POINTWISE(family, formulas, cpu) \
  extern const NamedKernel* const pointwise_##family##_kernels;
#define REEL_FAMILY(family, rules, cpu, cuda) \
  REEL_IF_##cuda(extern const NamedKernel family##_kernels[];)
#include "lib/table/families.def"

const NamedKernel* const families[] = {
#define REEL_POINTWISE(family, formulas, cpu) pointwise_##family##_kernels,
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cuda(family##_kernels, )
#include "lib/table/families.def"
    nullptr};
}  // namespace reel::gpu
