// SPDX-License-Identifier: BSD-3-Clause
// Handles of cuDNN, the content of descriptors, and the arguments of a call on a recurrent layer.
#pragma once
#include <cudnn.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "cuda/emulate/state.hpp"

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
  std::thread::id thread = {};  // that has set the stream
};
struct cudnnTensorStruct {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int> sizes, strides;
};
struct cudnnDropoutStruct {
  bool is_set = false;
};
struct cudnnRNNStruct {
  bool is_set = false, is_lstm = false;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t input = 0, hidden = 0;

  std::size_t gates() const { return is_lstm ? 4 : 3; }
  std::size_t element() const { return type == CUDNN_DATA_DOUBLE ? 8 : 4; }
};
struct cudnnRNNDataStruct {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::size_t steps = 0, batch = 0, size = 0;
  std::vector<int> lengths;
  double fill = 0;  // of the output after the end of a sequence; NaN if there is none
};

namespace reel::emulate::dnn {
/// The handles or descriptors of a type that were created and not destroyed.
template <class T>
inline std::set<const T*> live;

/// Where the parameters of a gate are in the weight space, in bytes. A bias at 0 does not exist.
struct Gate {
  std::size_t input = 0, recurrent = 0, input_bias = 0, recurrent_bias = 0;
};
struct Weights {
  std::array<Gate, 4> gates;
  std::size_t bytes = 0;
};
Weights weights_of(const cudnnRNNStruct& net);

/// Memory that a call uses.
enum class Use { read, write, update };
struct Range {
  const char* name;
  const void* at;
  std::size_t bytes;
  Use use;
  bool required = true;
  std::size_t alignment = 1;
};
/// Checks the addresses, and that nothing overlaps what is written. They are of the current device.
cudnnStatus_t check_ranges(const std::vector<Range>& ranges);
/// Records the accesses of a call.
void touch_ranges(const std::vector<Range>& ranges, Identity lane, const char* call);

/// The arguments of one call. Descriptors are copied: the caller may destroy them.
struct Call {
  const char* name = "";
  cudnnRNNStruct net;
  std::size_t steps = 0, batch = 0;
  std::vector<int> lengths;
  double fill = 0;
  bool is_training = true;
  const void *x = nullptr, *hx = nullptr, *cx = nullptr, *weights = nullptr;
  const void *y = nullptr, *dy = nullptr, *dhy = nullptr, *dcy = nullptr;
  void *out = nullptr, *h_out = nullptr, *c_out = nullptr, *dweights = nullptr;
  void *workspace = nullptr, *reserve = nullptr;
  std::size_t workspace_bytes = 0, reserve_bytes = 0;
  std::vector<Range> ranges;

  std::size_t x_bytes() const { return steps * batch * net.input * net.element(); }
  std::size_t y_bytes() const { return steps * batch * net.hidden * net.element(); }
  std::size_t h_bytes() const { return batch * net.hidden * net.element(); }
};
/// The reserve space starts with a mark, the shapes and the calls that have written it.
constexpr std::size_t reserve_header = 192;
std::size_t reserve_bytes(const Call& call);
std::size_t workspace_bytes(const Call& call);

/// Each check returns an error after it has explained it on stderr.
cudnnStatus_t check_handle(cudnnHandle_t handle);
template <class T>
cudnnStatus_t check_descriptor(const T* descriptor, bool must_be_set = true);
/// Checks the layer against the descriptor of x, and copies both.
cudnnStatus_t read_shapes(Call& call, cudnnRNNDescriptor_t net, cudnnRNNDataDescriptor_t x);
/// Checks that y, h and c have the shapes that x and the layer ask for.
cudnnStatus_t check_outputs(Call& call, cudnnRNNDataDescriptor_t x, cudnnRNNDataDescriptor_t y,
                            cudnnTensorDescriptor_t h, cudnnTensorDescriptor_t c, bool has_c);
/// Adds the workspace and the reserve space to the ranges, and checks all ranges.
cudnnStatus_t check_memory(Call& call, std::size_t weight_bytes, Use of_reserve);
/// Returns the status, after a line on stderr with the reason.
cudnnStatus_t refuse(cudnnStatus_t status, const char* why, const char* what = "");

template <class T>
cudnnStatus_t check_descriptor(const T* descriptor, bool must_be_set) {
  if (!descriptor) return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is null");
  if (!live<T>.count(descriptor))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is destroyed or of another kind");
  if (must_be_set && !descriptor->is_set)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor was not set");
  return CUDNN_STATUS_SUCCESS;
}
}  // namespace reel::emulate::dnn
