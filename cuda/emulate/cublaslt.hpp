// SPDX-License-Identifier: BSD-3-Clause
// The content of cuBLASLt's descriptors, and the checks of a product.
#pragma once
#include <cublasLt.h>

#include <array>
#include <cstring>

#include "cuda/emulate/elements.hpp"
#include "cuda/emulate/state.hpp"

namespace reel::emulate::products {
// Marks a valid descriptor of a kind. A descriptor of another kind has another mark, and so has one
// that was not initialised or was destroyed.
constexpr std::uint64_t layout_mark = 0x7265656c6c61796f, operation_mark = 0x7265656c6f706572,
                        preference_mark = 0x7265656c70726566, algorithm_mark = 0x7265656c616c676f;

struct Layout {
  std::uint64_t mark = layout_mark;
  cudaDataType type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0, batch_stride = 0;
  std::int32_t batches = 1;
};
struct Operation {
  std::uint64_t mark = operation_mark;
  cudaDataType scale = CUDA_R_32F;
  std::int32_t compute = 0, pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
};
struct Preference {
  std::uint64_t mark = preference_mark;
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignment = {256, 256, 256, 256};  // of A, B, C, D
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};
struct Algorithm {
  std::uint64_t mark = algorithm_mark;
  std::uint64_t workspace = 0;
  std::array<std::uint32_t, 4> alignment;
  std::int32_t type = 0, compute = 0;
  std::uint8_t transpose_a = 0, transpose_b = 0;
  std::uint16_t epilogue = 0;
  std::int32_t batches = 1;
  // Two parts of a sum are added in D's type, as a scheme that the preference allows does.
  std::uint32_t rounds_parts = 0;
  std::uint32_t layouts = 0;  // a hash of the sizes and leading dimensions of all matrices
};

/// Reads the content of a descriptor. False if it is null or does not hold a T.
template <class T, class Opaque>
bool read(T& content, const Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  const std::uint64_t mark = T{}.mark;
  if (!opaque) return false;
  std::memcpy(static_cast<void*>(&content), opaque, sizeof(T));
  return content.mark == mark;
}
template <class T, class Opaque>
void write(Opaque* opaque, const T& content) {
  std::memcpy(opaque, static_cast<const void*>(&content), sizeof(T));
}

/// The arguments of one product.
struct Product {
  Operation operation;
  Layout a, b, c, d;
  Algorithm algorithm;
  bool chosen = false;  // the caller gave an algorithm
  const void *alpha = nullptr, *beta = nullptr;
  const void *at_a = nullptr, *at_b = nullptr, *at_c = nullptr;
  void *at_d = nullptr, *workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

/// Checks the documented rules about layouts and types. Explains a refusal on stderr.
cublasStatus_t check_shapes(const Product& product);
/// Checks the documented rules about addresses and the workspace.
cublasStatus_t check_addresses(const Product& product);
/// Returns the status, after a line on stderr with the reason.
cublasStatus_t refuse(cublasStatus_t status, const char* why);
}  // namespace reel::emulate::products
