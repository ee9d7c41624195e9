// SPDX-License-Identifier: BSD-3-Clause
// Names of the errors that the emulator returns.
#include <cuda_runtime.h>

namespace {
struct Row {
  cudaError_t error;
  const char *name, *text;
};
#define REEL_ROW(error, text) \
  { error, #error, text }
constexpr Row rows[] = {
    REEL_ROW(cudaSuccess, "no error"),
    REEL_ROW(cudaErrorInvalidValue, "invalid argument"),
    REEL_ROW(cudaErrorMemoryAllocation, "out of memory"),
    REEL_ROW(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    REEL_ROW(cudaErrorInvalidMemcpyDirection, "invalid copy direction"),
    REEL_ROW(cudaErrorInsufficientDriver,
             "CUDA driver version is insufficient for CUDA runtime version"),
    REEL_ROW(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    REEL_ROW(cudaErrorInvalidDevice, "invalid device"),
    REEL_ROW(cudaErrorNoKernelImageForDevice, "no kernel image is available for the device"),
    REEL_ROW(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    REEL_ROW(cudaErrorIllegalState, "the object is in a state that does not allow the call"),
    REEL_ROW(cudaErrorNotReady, "the work is not done"),
    REEL_ROW(cudaErrorIllegalAddress, "a kernel accessed an illegal address"),
    REEL_ROW(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    REEL_ROW(cudaErrorPeerAccessNotEnabled, "peer access is not enabled"),
    REEL_ROW(cudaErrorAssert, "an assertion in a kernel failed"),
    REEL_ROW(cudaErrorHostMemoryAlreadyRegistered, "host memory is already registered"),
    REEL_ROW(cudaErrorHostMemoryNotRegistered, "host memory is not registered"),
    REEL_ROW(cudaErrorLaunchFailure, "unspecified launch failure"),
    REEL_ROW(cudaErrorNotPermitted, "the call is not permitted here"),
    REEL_ROW(cudaErrorNotSupported, "the call is not supported"),
    REEL_ROW(cudaErrorStreamCaptureUnsupported, "not permitted while a stream is captured"),
    REEL_ROW(cudaErrorStreamCaptureInvalidated, "an earlier error invalidated the capture"),
    REEL_ROW(cudaErrorStreamCaptureMerge, "the call would merge two captures"),
    REEL_ROW(cudaErrorStreamCaptureUnmatched, "the capture began on another stream"),
    REEL_ROW(cudaErrorStreamCaptureUnjoined, "captured work does not join the first stream"),
    REEL_ROW(cudaErrorStreamCaptureIsolation, "a captured stream depends on work outside"),
    REEL_ROW(cudaErrorStreamCaptureImplicit, "the legacy stream would depend on a captured stream"),
    REEL_ROW(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
    REEL_ROW(cudaErrorStreamCaptureWrongThread, "the capture began on another thread"),
};
#undef REEL_ROW
}  // namespace

extern "C" {
const char* cudaGetErrorName(cudaError_t error) {
  for (const Row& row : rows)
    if (row.error == error) return row.name;
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  for (const Row& row : rows)
    if (row.error == error) return row.text;
  return "unrecognized error code";
}
}
