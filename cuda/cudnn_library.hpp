// SPDX-License-Identifier: BSD-3-Clause
// The functions of cuDNN, which is opened at their first use. For files that are compiled where its
// header is.
#pragma once
#include <cudnn.h>

#include "cuda/gpu.hpp"

/// The functions that the backend calls, without the prefix of their names.
#define REEL_CUDNN_FUNCTIONS(each)                                                                \
  each(GetVersion) each(GetErrorString) each(Create) each(SetStream) each(CreateTensorDescriptor) \
      each(DestroyTensorDescriptor) each(SetTensorNdDescriptor) each(GetTensorNdDescriptor)       \
          each(CreateDropoutDescriptor) each(SetDropoutDescriptor) each(CreateRNNDescriptor)      \
              each(SetRNNDescriptor_v8) each(CreateRNNDataDescriptor)                             \
                  each(DestroyRNNDataDescriptor) each(SetRNNDataDescriptor)                       \
                      each(GetRNNWeightSpaceSize) each(GetRNNTempSpaceSizes)                      \
                          each(GetRNNWeightParams) each(RNNForward) each(RNNBackwardData_v8)      \
                              each(RNNBackwardWeights_v8) each(BackendCreateDescriptor)           \
                                  each(BackendDestroyDescriptor) each(BackendSetAttribute)        \
                                      each(BackendGetAttribute) each(BackendFinalize)             \
                                          each(BackendExecute)

namespace reel::gpu {
/// There is no cuDNN if a function is missing, or if its major version is not that of the header.
struct CudnnLibrary {
#define REEL_MEMBER(name) decltype(&::cudnn##name) name = nullptr;
  REEL_CUDNN_FUNCTIONS(REEL_MEMBER)
#undef REEL_MEMBER
  bool exists = false;
  CudnnLibrary();
};
const CudnnLibrary& cudnn();

/// Whether a call may succeed if the device has more free memory, as for the code of a kernel.
inline bool lacks_memory(cudnnStatus_t status) {
  return status == CUDNN_STATUS_ALLOC_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
         (status != CUDNN_STATUS_SUCCESS && cudaPeekAtLastError() == cudaErrorMemoryAllocation);
}

/// The status of several calls: that of the first one that failed. The others are not made. A call
/// that lacks memory is repeated once, after the cache and the graphs were freed.
struct Calls {
  Gpu& gpu;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;

  template <class F, class... Arguments>
  Calls& then(F* function, const Arguments&... arguments) {
    if (status != CUDNN_STATUS_SUCCESS) return *this;
    status = function(arguments...);
    if (lacks_memory(status) && !Capture::current()) {
      cudaGetLastError();
      gpu.make_room(true);  // the caller has locked the handle
      status = function(arguments...);
    }
    return *this;
  }
  bool succeeded() const { return status == CUDNN_STATUS_SUCCESS; }
};
}  // namespace reel::gpu
