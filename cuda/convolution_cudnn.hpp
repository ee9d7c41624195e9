// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by cuDNN, for files with kernels: nvcc does not compile all headers of the library.
#pragma once
#include "cuda/queue.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::gpu {
/// A convolution of one of three kinds: the output y from x and the weight, x from y and the weight
/// (of the data), or the weight from x and y. All are row-major, with channels in the last axis.
struct CudnnConvolution {
  enum class Result { y, x, weight };
  Result result;
  DType dtype;  // floating; 16 bits are summed in float32
  ConvolutionSizes sizes;
  const void *x, *weight, *y;  // memory of the device; the result is written
  // Added to the sums of y before they are rounded: of 16 bits only. Null: none.
  const void* bias = nullptr;
};

/// False if the kernels of convolution.cu have to compute it: there is no cuDNN, or cuDNN has no
/// plan for it, or its plans are slower than the kernels. Then nothing was written.
bool convolve_by_cudnn(const Queue& queue, const CudnnConvolution& convolution);
}  // namespace reel::gpu
