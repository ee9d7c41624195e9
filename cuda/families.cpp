// SPDX-License-Identifier: BSD-3-Clause
// The list of all CUDA kernels.
#include "cuda/gpu.hpp"

namespace reel::gpu {
extern const NamedKernel copy_kernels[], create_kernels[], ctc_kernels[], gather_kernels[],
    join_kernels[], matmul_kernels[], normalize_kernels[], random_kernels[], recurrent_kernels[],
    reduce_kernels[], scan_kernels[], gather_scatter_kernels[], scatter_kernels[],
    sequence_kernels[], softmax_kernels[], sort_kernels[], update_kernels[];
extern const NamedKernel* const pointwise_activation_kernels;
extern const NamedKernel* const pointwise_arithmetic_kernels;
extern const NamedKernel* const pointwise_compare_kernels;
extern const NamedKernel* const pointwise_loss_kernels;
extern const NamedKernel* const pointwise_math_kernels;
extern const NamedKernel* const pointwise_special_kernels;
extern const NamedKernel* const pointwise_trigonometry_kernels;

const NamedKernel* const families[] = {
    copy_kernels,
    create_kernels,
    ctc_kernels,
    gather_kernels,
    join_kernels,
    matmul_kernels,
    normalize_kernels,
    pointwise_activation_kernels,
    pointwise_arithmetic_kernels,
    pointwise_compare_kernels,
    pointwise_loss_kernels,
    pointwise_math_kernels,
    pointwise_special_kernels,
    pointwise_trigonometry_kernels,
    random_kernels,
    recurrent_kernels,
    reduce_kernels,
    scan_kernels,
    gather_scatter_kernels,
    scatter_kernels,
    sequence_kernels,
    softmax_kernels,
    sort_kernels,
    update_kernels,
    nullptr,
};
}  // namespace reel::gpu
