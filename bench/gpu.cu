// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.hpp"

#include <cublasLt.h>

#include <bit>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cuda/kernel.hpp"

namespace {
void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasLtGetStatusString(status));
}
template <class T>
T* allocate(std::size_t n) {
  void* made = nullptr;
  check(cudaMalloc(&made, n * sizeof(T)));
  return static_cast<T*>(made);
}

cudaStream_t stream() {
  static const cudaStream_t one = [] {
    cudaStream_t made;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }();
  return one;
}

/// Blocks of the device that live as long as the program.
struct Blocks {
  float *from, *to;
  explicit Blocks(std::size_t bytes)
      : from(allocate<float>(bytes / sizeof(float))), to(allocate<float>(bytes / sizeof(float))) {
    check(cudaMemset(from, 0, bytes));
    check(cudaDeviceSynchronize());
  }
};

/// Matrices with numbers of no pattern: zeros would let the device run faster. A bfloat16 is the
/// upper half of a float.
void* matrix(std::int64_t n, bool bfloat16) {
  std::vector<float> numbers(static_cast<std::size_t>(n * n));
  std::uint32_t state = 1;
  for (float& x : numbers) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
  }
  if (bfloat16)
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(numbers[i]) >> 16);
      std::memcpy(reinterpret_cast<std::byte*>(numbers.data()) + 2 * i, &upper, sizeof upper);
    }
  const std::size_t bytes = numbers.size() * (bfloat16 ? 2 : 4);
  auto* const made = allocate<std::byte>(bytes);
  check(cudaMemcpy(made, numbers.data(), bytes, cudaMemcpyHostToDevice));
  return made;
}
/// What a product needs. It lives as long as the program.
class Product {
 public:
  Product(std::int64_t n, bool bfloat16)
      : x_(matrix(n, bfloat16)), y_(matrix(n, bfloat16)), z_(matrix(n, bfloat16)) {
    constexpr std::uint64_t most = 32 << 20;  // bytes of workspace
    check(cublasLtCreate(&handle_));
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const auto size = static_cast<std::uint64_t>(n);
    check(cublasLtMatrixLayoutCreate(&layout_, bfloat16 ? CUDA_R_16BF : CUDA_R_32F, size, size, n));
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference));
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &most, sizeof most));
    int found = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_, operation_, layout_, layout_, layout_, layout_,
                                         preference, 1, &best_, &found));
    if (found == 0) throw std::runtime_error("cuBLASLt recommends no algorithm");
    if (best_.workspaceSize) workspace_ = allocate<char>(best_.workspaceSize);
    check(cublasLtMatmulPreferenceDestroy(preference));
    check(cudaDeviceSynchronize());
  }
  void run() const {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle_, operation_, &one, x_, layout_, y_, layout_, &zero, z_, layout_,
                         z_, layout_, &best_.algo, workspace_, best_.workspaceSize, stream()));
  }

 private:
  void *x_, *y_, *z_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t layout_ = nullptr;
  cublasLtMatmulHeuristicResult_t best_ = {};
  char* workspace_ = nullptr;
};

__global__ void empty() {}
}  // namespace

void bare::copy(std::size_t n) {
  static const std::size_t bytes = n * sizeof(float);
  static const Blocks blocks(bytes);
  check(cudaMemcpyAsync(blocks.to, blocks.from, bytes, cudaMemcpyDeviceToDevice, stream()));
}

void bare::product(std::int64_t n, bool bfloat16) {
  static std::map<std::pair<std::int64_t, bool>, const Product> products;
  products.try_emplace({n, bfloat16}, n, bfloat16).first->second.run();
}

void bare::launch() { check(reel::gpu::launch(empty, dim3(1), dim3(32), 0, stream())); }

void bare::wait() { check(cudaStreamSynchronize(stream())); }

bool bare::memory_pools() {
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
  return supported != 0;
}
