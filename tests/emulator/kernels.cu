// SPDX-License-Identifier: BSD-3-Clause
// The kernels of the emulator's tests, compiled for GPUs. nvcc must accept this file; it is never
// run.
#include "kernels.hpp"

namespace kernels {
cudaError_t launch_all(cudaStream_t stream, int n, float* x, float* y, int* i, unsigned* counter) {
  using reel::gpu::launch;
  launch(fill, dim3(3), dim3(64), 0, stream, n, 1.0f, x);
  launch(scale, dim3(3), dim3(64), 0, stream, n, 2.0f, x, y, false);
  launch(scale4, dim3(3), dim3(64), 0, stream, n, 2.0f, x, y, false);
  launch(block_sums, dim3(3), dim3(256), 0, stream, n, x, y, SumFault::none);
  launch(total, dim3(3), dim3(64), 0, stream, n, x, y, counter, y, false);
  launch(histogram, dim3(3), dim3(64), 0, stream, n, i, i, false);
  launch(transpose, dim3(3, 3), dim3(8, 8), 8 * 9 * sizeof(float), stream, n, n, x, y, false);
  launch(warp_scan, dim3(1), dim3(32), 0, stream, i, i, false);
  launch(rotate_lanes, dim3(1), dim3(32), 0, stream, i, i, false);
  launch(votes, dim3(1), dim3(32), 0, stream, i);
  launch(add, dim3(3), dim3(64), 0, stream, n, 1.0f, y);
  launch(fail, dim3(1), dim3(1), 0, stream);
  return cudaGetLastError();
}
}  // namespace kernels
