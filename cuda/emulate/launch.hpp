// SPDX-License-Identifier: BSD-3-Clause
// A launch in the emulator. It copies the arguments, as CUDA does, and queues the kernel.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>

namespace reel::emulate {
/// `body` runs one thread.
cudaError_t queue_kernel(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
                         cudaStream_t stream, std::function<void()> body);
}  // namespace reel::emulate

namespace reel::gpu {
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, Arguments&&... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "a kernel's parameters are copied to the device byte by byte");
  static_assert((sizeof(Parameters) + ... + 0) <= 32'764,
                "a kernel's parameters have 32,764 bytes");
  std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  return emulate::queue_kernel(reinterpret_cast<const void*>(kernel), grid, block, shared_bytes,
                               stream, [kernel, values] { std::apply(kernel, values); });
}
}  // namespace reel::gpu
