// SPDX-License-Identifier: BSD-3-Clause
// Handles and descriptors of cuDNN, and the places of the parameters of a layer.
#include <algorithm>
#include <cmath>

#include "cuda/emulate/capture.hpp"
#include "cuda/emulate/cudnn.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate::dnn {
namespace {
template <class T>
cudnnStatus_t create(T** place) {
  Entry entry;
  if (!place) return refuse(CUDNN_STATUS_BAD_PARAM, "the place of a new descriptor is null");
  *place = new T;
  live<T>.insert(*place);
  return CUDNN_STATUS_SUCCESS;
}
template <class T>
cudnnStatus_t destroy(T* it) {
  Entry entry;
  if (!it) return CUDNN_STATUS_SUCCESS;
  if (const cudnnStatus_t status = check_descriptor(it, false)) return status;
  live<T>.erase(it);
  delete it;
  return CUDNN_STATUS_SUCCESS;
}

bool is_floating(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE;
}

const char* unsupported(cudnnRNNAlgo_t algorithm, cudnnRNNMode_t cell,
                        cudnnDirectionMode_t direction, cudnnRNNInputMode_t input_mode,
                        cudnnDataType_t type, cudnnDataType_t precision, cudnnMathType_t math) {
  if (algorithm != CUDNN_RNN_ALGO_STANDARD) return "only the standard algorithm is emulated";
  if (cell != CUDNN_LSTM && cell != CUDNN_GRU) return "only LSTM and GRU are emulated";
  if (direction != CUDNN_UNIDIRECTIONAL) return "only one direction is emulated";
  if (input_mode != CUDNN_LINEAR_INPUT) return "only linear input is emulated";
  if (!is_floating(type)) return "only float32 and float64 are emulated";
  if (precision != type) return "the precision of the computation differs from the data type";
  const bool converts = math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION && type == CUDNN_DATA_FLOAT;
  if (math != CUDNN_FMA_MATH && math != CUDNN_DEFAULT_MATH && !converts)
    return "the math type is not emulated for this data type";
  return nullptr;
}

void set_packed(cudnnTensorStruct& tensor, cudnnDataType_t type, std::vector<int> sizes) {
  tensor.is_set = true;
  tensor.type = type;
  tensor.strides.assign(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) tensor.strides[i - 1] = tensor.strides[i] * sizes[i];
  tensor.sizes = std::move(sizes);
}

double value_at(const void* at, cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? *static_cast<const double*>(at)
                                   : double(*static_cast<const float*>(at));
}

void* offset(const void* start, std::size_t bytes) {
  // The start may be null: then the address is the offset.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(start) + bytes);
}
}  // namespace

// No caller can guess this order. Nothing is at offset 0.
Weights weights_of(const cudnnRNNStruct& net) {
  Weights weights;
  std::size_t end = 64;
  const auto take = [&](std::size_t elements) {
    const std::size_t at = end;
    end += (elements * net.element() + 63) / 64 * 64;
    return at;
  };
  const std::size_t gates = net.gates();
  for (std::size_t g = gates; g-- > 0;) weights.gates[g].recurrent = take(net.hidden * net.hidden);
  for (std::size_t g = gates; g-- > 0;) {
    Gate& gate = weights.gates[g];
    if (net.bias == CUDNN_RNN_SINGLE_REC_BIAS || net.bias == CUDNN_RNN_DOUBLE_BIAS)
      gate.recurrent_bias = take(net.hidden);
    if (net.bias == CUDNN_RNN_SINGLE_INP_BIAS || net.bias == CUDNN_RNN_DOUBLE_BIAS)
      gate.input_bias = take(net.hidden);
  }
  for (std::size_t g = gates; g-- > 0;) weights.gates[g].input = take(net.input * net.hidden);
  weights.bytes = end;
  return weights;
}
}  // namespace reel::emulate::dnn

using namespace reel::emulate;
using namespace reel::emulate::dnn;

extern "C" {
size_t cudnnGetVersion() { return CUDNN_VERSION; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "an unknown status of cuDNN";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (host_thread().in_host_function) return CUDNN_STATUS_EXECUTION_FAILED;
  Entry entry;
  if (!handle) return refuse(CUDNN_STATUS_BAD_PARAM, "the place of a new handle is null");
  if (availability() != cudaSuccess)
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "there is no device, or the driver is too old");
  if (unsafe_call_error() != cudaSuccess)
    return refuse(CUDNN_STATUS_INTERNAL_ERROR, "a handle is created while a stream is captured");
  if (current_device().sticky != cudaSuccess) return CUDNN_STATUS_EXECUTION_FAILED;
  current_device().has_context = host_thread().has_context = true;
  *handle = new cudnnContext{int(current_device().number)};
  live<cudnnContext>.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  Entry entry;
  if (!live<cudnnContext>.count(handle))
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "no such handle");
  if (unsafe_call_error() != cudaSuccess)
    return refuse(CUDNN_STATUS_INTERNAL_ERROR, "a handle is destroyed while a stream is captured");
  wait_for_device(handle->device);
  live<cudnnContext>.erase(handle);
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  Entry entry;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  const cudaStream_t found = find_stream(stream);
  if (!found || found->device != handle->device)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the stream does not exist or is of another device");
  handle->stream = stream;
  handle->thread = std::this_thread::get_id();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                         int count, const int sizes[], const int strides[]) {
  Entry entry;
  if (const cudnnStatus_t status = check_descriptor(tensor, false)) return status;
  if (count < 3 || count > CUDNN_DIM_MAX)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a tensor has fewer than 3 or too many axes");
  const auto is_wrong = [](int size) { return size < 1; };
  if (!sizes || !strides || std::any_of(sizes, sizes + count, is_wrong))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size of a tensor is below 1, or missing");
  *tensor = {true, type, {sizes, sizes + count}, {strides, strides + count}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int wanted,
                                         cudnnDataType_t* type, int* count, int sizes[],
                                         int strides[]) {
  Entry entry;
  if (const cudnnStatus_t status = check_descriptor(tensor)) return status;
  if (wanted < 0 || !type || !count || !sizes || !strides)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a result of cudnnGetTensorNdDescriptor is null");
  *type = tensor->type;
  *count = int(tensor->sizes.size());
  const std::size_t copied = std::min(std::size_t(wanted), tensor->sizes.size());
  std::copy_n(tensor->sizes.begin(), copied, sizes);
  std::copy_n(tensor->strides.begin(), copied, strides);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* dropout) {
  return create(dropout);
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
  return destroy(dropout);
}
cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropout, cudnnHandle_t handle,
                                        float rate, void*, size_t, unsigned long long) {
  Entry entry;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = check_descriptor(dropout, false)) return status;
  if (!(rate >= 0 && rate <= 1))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the rate of a dropout is not in [0, 1]");
  if (rate > 0) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "dropout is not emulated");
  dropout->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* net) { return create(net); }
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t net) { return destroy(net); }
cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t net, cudnnRNNAlgo_t algorithm,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
                                       cudnnDataType_t precision, cudnnMathType_t math,
                                       int32_t input, int32_t hidden, int32_t projection,
                                       int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       uint32_t flags) {
  Entry entry;
  if (const cudnnStatus_t status = check_descriptor(net, false)) return status;
  if (const cudnnStatus_t status = check_descriptor(dropout)) return status;
  if (input < 1 || hidden < 1 || layers < 1 || projection < 1 || projection > hidden)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size of a layer is out of range");
  if (bias < CUDNN_RNN_NO_BIAS || bias > CUDNN_RNN_SINGLE_REC_BIAS)
    return refuse(CUDNN_STATUS_BAD_PARAM, "unknown bias mode");
  if (layers != 1 || projection != hidden)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only one layer without a projection is emulated");
  if (flags != CUDNN_RNN_PADDED_IO_ENABLED)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only padded input and output is emulated");
  if (const char* why = unsupported(algorithm, cell, direction, input_mode, type, precision, math))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, why);
  *net = {true, cell == CUDNN_LSTM, bias, type, math, std::size_t(input), std::size_t(hidden)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* data) { return create(data); }
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data) { return destroy(data); }
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int steps, int batch, int size,
                                        const int lengths[], void* fill) {
  Entry entry;
  if (const cudnnStatus_t status = check_descriptor(data, false)) return status;
  if (steps < 1 || batch < 1 || size < 1 || !lengths)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size of a sequence is below 1, or no lengths");
  if (steps > 65535)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a sequence has more than 65,535 steps");
  const auto is_wrong = [=](int length) { return length < 0 || length > steps; };
  if (std::any_of(lengths, lengths + batch, is_wrong))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a length is negative or above the maximum");
  if (std::count(lengths, lengths + batch, 0))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a length is 0, which older versions refuse");
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the layout of the sequences is not emulated");
  if (!is_floating(type))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only float32 and float64 are emulated");
  *data = {true,
           type,
           std::size_t(steps),
           std::size_t(batch),
           std::size_t(size),
           {lengths, lengths + batch},
           fill ? value_at(fill, type) : std::nan("")};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t net,
                                         size_t* bytes) {
  Entry entry;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = check_descriptor(net)) return status;
  if (!bytes) return refuse(CUDNN_STATUS_BAD_PARAM, "the place of the size is null");
  *bytes = weights_of(*net).bytes;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t net,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t* workspace, size_t* reserve) {
  Entry entry;
  Call call;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = read_shapes(call, net, x)) return status;
  if (workspace) *workspace = workspace_bytes(call);
  if (reserve) *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(call) : 0;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t net, int32_t layer,
                                      size_t bytes, const void* weights, int32_t id,
                                      cudnnTensorDescriptor_t matrix, void** matrix_at,
                                      cudnnTensorDescriptor_t bias, void** bias_at) {
  Entry entry;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = check_descriptor(net)) return status;
  for (const cudnnTensorDescriptor_t tensor : {matrix, bias})
    if (const cudnnStatus_t status = check_descriptor(tensor, false)) return status;
  const int gates = int(net->gates());
  if (layer != 0 || id < 0 || id >= 2 * gates || !matrix_at || !bias_at)
    return refuse(CUDNN_STATUS_BAD_PARAM, "no such layer or matrix, or a result is null");
  const Weights places = weights_of(*net);
  if (bytes != places.bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the size of the weight space is wrong");
  const bool is_input = id < gates;
  const Gate& gate = places.gates[std::size_t(id % gates)];
  const std::size_t bias_offset = is_input ? gate.input_bias : gate.recurrent_bias;
  const int rows = int(net->hidden), columns = int(is_input ? net->input : net->hidden);
  set_packed(
      *matrix, net->type,
      state().reshapes_weights ? std::vector{rows, columns, 1} : std::vector{1, rows, columns});
  *matrix_at = offset(weights, is_input ? gate.input : gate.recurrent);
  set_packed(*bias, net->type, bias_offset ? std::vector{1, rows, 1} : std::vector<int>{});
  *bias_at = bias_offset ? offset(weights, bias_offset) : nullptr;
  return CUDNN_STATUS_SUCCESS;
}
}
