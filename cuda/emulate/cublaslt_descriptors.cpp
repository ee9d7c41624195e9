// SPDX-License-Identifier: BSD-3-Clause
// Handles, descriptors and preferences of cuBLASLt.
#include <cublasLt.h>

#include <cstring>

#include "cuda/emulate/cublaslt.hpp"

namespace reel::emulate::products {
namespace {
/// Stores the value of an attribute. The size must be the documented one.
template <class T>
cublasStatus_t set(T& place, const void* value, std::size_t bytes) {
  if (!value || bytes != sizeof(T))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute has another size");
  std::memcpy(&place, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t get(const T& place, void* value, std::size_t bytes, std::size_t* written) {
  if (written) *written = sizeof(T);
  if (bytes == 0 && written) return CUBLAS_STATUS_SUCCESS;
  if (!value || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &place, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

// Calls f with the member that stores the attribute. Set and get share this list.
template <class F>
cublasStatus_t with_attribute(Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, F f) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return f(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return f(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return f(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return f(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return f(layout.leading);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return f(layout.batches);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return f(layout.batch_stride);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a layout attribute is not emulated");
  }
}
template <class F>
cublasStatus_t with_attribute(Operation& operation, cublasLtMatmulDescAttributes_t attribute, F f) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return f(operation.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return f(operation.scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return f(operation.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return f(operation.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return f(operation.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return f(operation.transpose_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return f(operation.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return f(operation.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return f(operation.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return f(operation.bias_type);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "an operation attribute is not emulated");
  }
}
template <class F>
cublasStatus_t with_attribute(Preference& preference,
                              cublasLtMatmulPreferenceAttributes_t attribute, F f) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return f(preference.workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return f(preference.alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return f(preference.alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return f(preference.alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return f(preference.alignment[3]);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return f(preference.reductions);
    default:
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a preference is not emulated");
  }
}

template <class T, class Opaque, class Attribute>
cublasStatus_t set_in(Opaque* opaque, Attribute attribute, const void* value, std::size_t bytes) {
  T content;
  if (!read(content, opaque))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor was not initialised or is destroyed");
  const cublasStatus_t status =
      with_attribute(content, attribute, [=](auto& place) { return set(place, value, bytes); });
  write(opaque, content);
  return status;
}
template <class T, class Opaque, class Attribute>
cublasStatus_t get_from(Opaque* opaque, Attribute attribute, void* value, std::size_t bytes,
                        std::size_t* written) {
  T content;
  if (!read(content, opaque)) return CUBLAS_STATUS_INVALID_VALUE;
  return with_attribute(content, attribute,
                        [=](auto& place) { return get(place, value, bytes, written); });
}
template <class T, class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  T content;
  if (!opaque) return CUBLAS_STATUS_SUCCESS;
  if (!read(content, opaque)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(opaque, 0, sizeof(Opaque));
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Opaque>
cublasStatus_t init(Opaque* opaque, std::size_t bytes, const T& content) {
  if (!opaque || bytes < sizeof(Opaque)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memset(opaque, 0, sizeof(Opaque));
  write(opaque, content);
  return CUBLAS_STATUS_SUCCESS;
}

Layout layout_of(cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  Layout layout;
  layout.type = type;
  layout.rows = rows;
  layout.columns = columns;
  layout.leading = ld;
  return layout;
}
Operation operation_of(cublasComputeType_t compute, cudaDataType_t scale) {
  Operation operation;
  operation.compute = compute;
  operation.scale = scale;
  return operation;
}
}  // namespace
}  // namespace reel::emulate::products

using namespace reel::emulate::products;

extern "C" {
cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t bytes,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  return init(layout, bytes, layout_of(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque_t;
  return init(*layout, sizeof(**layout), layout_of(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  return set_in<Layout>(layout, attribute, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, size_t bytes, size_t* written) {
  return get_from<Layout>(layout, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t operation, size_t bytes,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  return init(operation, bytes, operation_of(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  *operation = new cublasLtMatmulDescOpaque_t;
  return init(*operation, sizeof(**operation), operation_of(compute, scale));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy<Operation>(operation);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  return set_in<Operation>(operation, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              size_t bytes, size_t* written) {
  return get_from<Operation>(operation, attribute, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t bytes) {
  return init(preference, bytes, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return init(*preference, sizeof(**preference), Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  return set_in<Preference>(preference, attribute, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  return get_from<Preference>(preference, attribute, value, bytes, written);
}
}
