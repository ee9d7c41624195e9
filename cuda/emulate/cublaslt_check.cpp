// SPDX-License-Identifier: BSD-3-Clause
// The rules that the vendor documents for the arguments of a product.
#include "cuda/emulate/cublaslt.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate::products {
namespace {
constexpr std::size_t workspace_alignment = 256;
// The vendor names none for a bias. Some kernels may read it in vectors of 16 bytes.
constexpr std::size_t bias_alignment = 16;

bool is_aligned(const void* at, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

/// The number of elements from the first to the last of one matrix, gaps included.
std::uint64_t extent(const Layout& layout) {
  const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
  const std::uint64_t lines = by_rows ? layout.rows : layout.columns;
  const std::uint64_t length = by_rows ? layout.columns : layout.rows;
  return lines == 0 || length == 0 ? 0 : (lines - 1) * std::uint64_t(layout.leading) + length;
}

const char* problem_with(const Layout& layout) {
  if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW)
    return "the order of a layout is neither column-major nor row-major";
  if (layout.rows == 0 || layout.columns == 0) return "a matrix is empty";
  const auto length = layout.order == CUBLASLT_ORDER_ROW ? layout.columns : layout.rows;
  if (layout.leading < 0 || std::uint64_t(layout.leading) < length)
    return "a leading dimension is smaller than a column (or, in row-major order, a row)";
  if (layout.batches < 1) return "a batch count is below 1";
  return nullptr;
}

bool same(const Layout& a, const Layout& b) {
  return a.type == b.type && a.order == b.order && a.rows == b.rows && a.columns == b.columns &&
         a.leading == b.leading && a.batches == b.batches && a.batch_stride == b.batch_stride;
}

cublasStatus_t check_types(const Product& p) {
  const bool is_float = p.operation.compute == CUBLAS_COMPUTE_32F ||
                        p.operation.compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                        p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const bool is_double = p.operation.compute == CUBLAS_COMPUTE_64F ||
                         p.operation.compute == CUBLAS_COMPUTE_64F_PEDANTIC;
  if (!is_float && !is_double)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "only float32, TF32 and float64 are emulated");
  if (p.operation.scale != (is_float ? CUDA_R_32F : CUDA_R_64F))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the types of scale and compute differ");
  const bool halves = p.d.type == CUDA_R_16F || p.d.type == CUDA_R_16BF;
  if (halves && p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "TF32 is for float32");
  const cudaDataType type = halves && is_float ? p.d.type : p.operation.scale;
  for (const Layout* const layout : {&p.a, &p.b, &p.c, &p.d})
    if (layout->type != type)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the types of matrices and compute differ");
  if (p.operation.bias_type != -1 && p.operation.bias_type != type)
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "the type of the bias differs from the type of the product");
  return CUBLAS_STATUS_SUCCESS;
}

bool has_bias(const Product& p) {
  return p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS ||
         p.operation.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
         p.operation.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}

cublasStatus_t check_epilogue(const Product& p) {
  switch (p.operation.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_GELU:
      return CUBLAS_STATUS_SUCCESS;
    default:
      break;
  }
  if (!has_bias(p)) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the epilogue is not emulated");
  if (!p.operation.bias)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the epilogue needs a bias pointer, which is null");
  // The bias has one element for each row of D. The emulator computes it for column-major D only.
  if (p.d.order != CUBLASLT_ORDER_COL)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a bias needs a column-major D");
  return CUBLAS_STATUS_SUCCESS;
}

const char* overlap_of_batches(const Layout& layout) {
  if (layout.batches == 1) return nullptr;
  const std::int64_t stride = layout.batch_stride < 0 ? -layout.batch_stride : layout.batch_stride;
  return std::uint64_t(stride) < extent(layout) ? "the matrices of D's batch overlap" : nullptr;
}

// The memory range of a matrix or batch.
std::size_t bytes_of(const Layout& layout) {
  const std::uint64_t last = std::uint64_t(layout.batches - 1) * std::uint64_t(layout.batch_stride);
  return (last + extent(layout)) * emulate::bytes_of(layout.type);
}

bool overlap(const void* a, const Layout& a_layout, const void* b, const Layout& b_layout) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + bytes_of(b_layout) && y < x + bytes_of(a_layout);
}
}  // namespace

cublasStatus_t refuse(cublasStatus_t status, const char* why) {
  explain("cuBLASLt: %s: %s", cublasLtGetStatusName(status), why);
  return status;
}

cublasStatus_t check_shapes(const Product& p) {
  if (const cublasStatus_t status = check_types(p)) return status;
  for (const Layout* const layout : {&p.a, &p.b, &p.c, &p.d})
    if (const char* const why = problem_with(*layout))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
  const auto is_operation = [](std::int32_t op) {
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
  };
  if (!is_operation(p.operation.transpose_a) || !is_operation(p.operation.transpose_b))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "unknown transposition");
  if (p.operation.transpose_c != CUBLAS_OP_N)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "C cannot be transposed");
  const bool ta = p.operation.transpose_a != CUBLAS_OP_N,
             tb = p.operation.transpose_b != CUBLAS_OP_N;
  const std::uint64_t m = ta ? p.a.columns : p.a.rows, k = ta ? p.a.rows : p.a.columns;
  const std::uint64_t k2 = tb ? p.b.columns : p.b.rows, n = tb ? p.b.rows : p.b.columns;
  if (k != k2) return refuse(CUBLAS_STATUS_INVALID_VALUE, "the inner sizes of A and B differ");
  for (const Layout* const out : {&p.c, &p.d})
    if (out->rows != m || out->columns != n)
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    "the shape of C or D differs from the shape of the product");
  for (const Layout* const other : {&p.a, &p.b, &p.c})
    if (other->batches != p.d.batches)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "the batch counts differ");
  if (p.d.batches > 65535)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "not all kernels take more than 65535 matrices");
  for (const Layout* const layout : {&p.a, &p.b, &p.c, &p.d})
    if (layout->batch_stride < 0)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a step between matrices is negative");
  if (const char* const why = overlap_of_batches(p.d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, why);
  const auto mode = p.operation.pointer_mode;
  if (mode != CUBLASLT_POINTER_MODE_HOST && mode != CUBLASLT_POINTER_MODE_DEVICE)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the pointer mode is not emulated");
  return check_epilogue(p);
}

cublasStatus_t check_addresses(const Product& p) {
  if (!p.alpha || !p.beta || !p.at_a || !p.at_b || !p.at_d)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a pointer is null");
  const bool with_c = p.at_c != nullptr;
  const std::array<const void*, 4> at = {p.at_a, p.at_b, with_c ? p.at_c : p.at_d, p.at_d};
  const std::size_t element = emulate::bytes_of(p.d.type);
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (!locate(at[i]).device)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix is not in the memory of a device");
    if (!is_aligned(at[i], element))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a matrix is not aligned to its elements");
    if (p.chosen && !is_aligned(at[i], p.algorithm.alignment[i]))
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    "a matrix is less aligned than the preference for the algorithm said");
  }
  if (p.at_c == p.at_d && !same(p.c, p.d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "C and D are one matrix with two layouts");
  if (with_c && p.at_c != p.at_d && overlap(p.at_c, p.c, p.at_d, p.d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "C and D overlap");
  if (overlap(p.at_a, p.a, p.at_d, p.d) || overlap(p.at_b, p.b, p.at_d, p.d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "D overlaps A or B");
  if (const void* const bias = p.operation.bias; bias && has_bias(p)) {
    if (!locate(bias).device)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias is not in the memory of a device");
    if (!is_aligned(bias, bias_alignment))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias is not aligned to 16 bytes");
  }
  if (p.algorithm.workspace > p.workspace_bytes)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is smaller than the algorithm needs");
  if (p.workspace_bytes && !p.workspace)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace has a size and no address");
  if (!is_aligned(p.workspace, workspace_alignment))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is not aligned to 256 bytes");
  return CUBLAS_STATUS_SUCCESS;
}
}  // namespace reel::emulate::products
