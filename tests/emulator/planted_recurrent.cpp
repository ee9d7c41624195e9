// SPDX-License-Identifier: BSD-3-Clause
// Faults in calls of cuDNN's recurrent layers, and layers against plain loops and differences.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "emulator/programs.hpp"

namespace programs {
namespace {
bool succeeds(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) std::fprintf(stderr, "%s\n", cudnnGetErrorString(status));
  return status == CUDNN_STATUS_SUCCESS;
}

constexpr int steps = 4, batch = 3, inputs = 3, hidden = 2;
constexpr std::array<int, batch> lengths = {4, 2, 3};
constexpr std::size_t x_size = steps * batch * inputs, y_size = steps * batch * hidden,
                      h_size = batch * hidden;
using Numbers = std::vector<double>;

Numbers numbers(std::size_t count, int seed) {
  Numbers values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = 0.17 * double((i * 7 + std::size_t(seed) * 5) % 11) - 0.8;
  return values;
}
std::size_t at(int t, int b, int size, int j) { return std::size_t((t * batch + b) * size + j); }

struct Model {
  bool is_lstm = true;
  Numbers x, hx, cx;
  std::array<Numbers, 8> matrices, biases;  // by the vendor's number; a missing bias is empty

  int gates() const { return is_lstm ? 4 : 3; }
  std::vector<Numbers*> parts() {
    std::vector<Numbers*> all = {&x, &hx, &cx};
    for (Numbers& matrix : matrices) all.push_back(&matrix);
    for (Numbers& bias : biases) all.push_back(&bias);
    return all;
  }
};
struct Outputs {
  Numbers y, hy, cy;
};

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// One sum of the model: of x and the input matrix, or of the state and the recurrent matrix.
double sum(const Model& model, int id, int j, const double* values) {
  const int size = id < model.gates() ? inputs : hidden;
  const Numbers& bias = model.biases[std::size_t(id)];
  double total = bias.empty() ? 0 : bias[std::size_t(j)];
  for (int k = 0; k < size; ++k)
    total += model.matrices[std::size_t(id)][std::size_t(j * size + k)] * values[k];
  return total;
}

Outputs compute(const Model& model) {
  Outputs out{Numbers(y_size, -7), model.hx, model.cx};
  for (int b = 0; b < batch; ++b)
    for (int t = 0; t < lengths[std::size_t(b)]; ++t) {
      double* const h = &out.hy[at(0, b, hidden, 0)];
      double* const c = &out.cy[at(0, b, hidden, 0)];
      const std::array<double, hidden> before = {h[0], h[1]};
      for (int j = 0; j < hidden; ++j) {
        std::array<double, 4> w{}, r{};
        for (int g = 0; g < model.gates(); ++g) {
          w[std::size_t(g)] = sum(model, g, j, &model.x[at(t, b, inputs, 0)]);
          r[std::size_t(g)] = sum(model, g + model.gates(), j, before.data());
        }
        if (model.is_lstm) {
          c[j] = sigmoid(w[1] + r[1]) * c[j] + sigmoid(w[0] + r[0]) * std::tanh(w[2] + r[2]);
          h[j] = sigmoid(w[3] + r[3]) * std::tanh(c[j]);
        } else {
          const double z = sigmoid(w[1] + r[1]);
          h[j] =
              (1 - z) * std::tanh(w[2] + sigmoid(w[0] + r[0]) * r[2]) + z * before[std::size_t(j)];
        }
        out.y[at(t, b, hidden, j)] = h[j];
      }
    }
  return out;
}

double dot(const Numbers& a, const Numbers& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}
bool close(const Numbers& got, const Numbers& want, double tolerance) {
  bool all = got.size() == want.size();
  for (std::size_t i = 0; all && i < got.size(); ++i) all = std::abs(got[i] - want[i]) <= tolerance;
  return all;
}

// A correct series of calls. Each test makes one of its members wrong.
struct Layer {
  Model model;
  cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
  cudnnMathType_t math = CUDNN_FMA_MATH;
  cudnnForwardMode_t mode = CUDNN_FWD_MODE_TRAINING;
  cudnnWgradMode_t gradient_mode = CUDNN_WGRAD_MODE_ADD;
  std::array<int, batch> x_lengths = lengths, y_lengths = lengths;
  int projection = hidden, x_vector = inputs, state_batch = batch;
  std::size_t less_weights = 0, less_workspace = 0, less_reserve = 0, weight_offset = 0;
  bool with_x = true, x_on_host = false, y_is_short = false, hy_is_hx = false;
  bool unset = false, destroyed = false, other_kind = false, null = false, no_stream = false;
  bool other_device = false, captured = false, skips_data = false;
  double x_after = 0, dy_after = 0;  // after the end of a sequence

  bool run();
  bool prepare();
  bool forward(cudaStream_t stream);
  bool backward();
  bool compare();

  cudnnHandle_t handle = nullptr;
  cudnnDropoutDescriptor_t dropout = nullptr;
  cudnnRNNDescriptor_t net = nullptr;
  cudnnRNNDataDescriptor_t x_shape = nullptr, y_shape = nullptr;
  cudnnTensorDescriptor_t state = nullptr, matrix_shape = nullptr, bias_shape = nullptr;
  std::array<std::size_t, 8> matrix_at{}, bias_at{};  // in elements of the weight space
  std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
  std::byte *work = nullptr, *reserve = nullptr;
  const double *at_dy = nullptr, *at_dhy = nullptr, *at_dcy = nullptr;
  double *x = nullptr, *y = nullptr, *hx = nullptr, *cx = nullptr, *hy = nullptr, *cy = nullptr;
  double *dx = nullptr, *dhx = nullptr, *dcx = nullptr, *weights = nullptr, *dweights = nullptr;
  Numbers dy = numbers(y_size, 5), dhy = numbers(h_size, 6), dcy = numbers(h_size, 7), host_x;
};

bool set_data(cudnnRNNDataDescriptor_t shape, int size, const std::array<int, batch>& list) {
  double fill = -7;
  return succeeds(cudnnSetRNNDataDescriptor(shape, CUDNN_DATA_DOUBLE,
                                            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, steps, batch,
                                            size, list.data(), &fill));
}

// Gives values to x, the states and each matrix and bias that exists, at the addresses that cuDNN
// returns.
bool Layer::prepare() {
  model.x = numbers(x_size, 1);
  model.hx = numbers(h_size, 2);
  model.cx = numbers(h_size, 3);
  Numbers space(weight_bytes / sizeof(double) + 2);
  for (int id = 0; id < 2 * model.gates(); ++id) {
    void *matrix = nullptr, *vector = nullptr;
    const auto i = std::size_t(id);
    if (!succeeds(cudnnGetRNNWeightParams(handle, net, 0, weight_bytes, space.data(), id,
                                          matrix_shape, &matrix, bias_shape, &vector)))
      return false;
    cudnnDataType_t type{};
    int axes = 0;
    std::array<int, 3> sizes{}, strides{};
    cudnnGetTensorNdDescriptor(matrix_shape, 3, &type, &axes, sizes.data(), strides.data());
    if (axes != 3 || sizes[1] != hidden || strides[1] != sizes[2]) return false;
    model.matrices[i] = numbers(std::size_t(sizes[1] * sizes[2]), 8 + id);
    matrix_at[i] = std::size_t(static_cast<double*>(matrix) - space.data());
    std::copy(model.matrices[i].begin(), model.matrices[i].end(), static_cast<double*>(matrix));
    if (!vector) continue;
    model.biases[i] = numbers(hidden, 20 + id);
    bias_at[i] = std::size_t(static_cast<double*>(vector) - space.data());
    std::copy(model.biases[i].begin(), model.biases[i].end(), static_cast<double*>(vector));
  }
  if (weight_offset) space.insert(space.begin(), 0.0);
  weights = on_device(space) + weight_offset;
  dweights = on_device(Numbers(space.size(), 1.0));
  host_x = model.x;
  for (int b = 0; b < batch; ++b)
    for (int t = lengths[std::size_t(b)]; t < steps; ++t) {
      for (int k = 0; k < inputs; ++k) host_x[at(t, b, inputs, k)] = x_after;
      for (int j = 0; j < hidden; ++j) dy[at(t, b, hidden, j)] = dy_after;
    }
  x = on_device(host_x);
  at_dy = on_device(dy);
  at_dhy = on_device(dhy);
  at_dcy = on_device(dcy);
  hx = on_device(model.hx);
  cx = on_device(model.cx);
  y = device_memory<double>(y_is_short ? y_size - 1 : y_size);
  hy = hy_is_hx ? hx : device_memory<double>(h_size);
  work = device_memory<std::byte>(work_bytes);
  reserve = device_memory<std::byte>(reserve_bytes);
  for (double** const each : {&cy, &dhx, &dcx}) *each = device_memory<double>(h_size);
  dx = device_memory<double>(x_size);
  return true;
}

bool Layer::forward(cudaStream_t stream) {
  if (!succeeds(cudnnSetStream(handle, stream))) return false;
  if (no_stream) ok(cudaStreamDestroy(stream));
  // A descriptor of another kind, and one of the right kind without content.
  auto* const other = reinterpret_cast<cudnnRNNDataDescriptor_t>(state);
  cudnnRNNDataDescriptor_t empty = nullptr;
  cudnnCreateRNNDataDescriptor(&empty);
  if (destroyed) cudnnDestroyRNNDescriptor(net);
  if (other_device) ok(cudaSetDevice(1));
  return succeeds(cudnnRNNForward(handle, net, mode, nullptr,
                                  unset        ? empty
                                  : other_kind ? other
                                               : x_shape,
                                  with_x ? x_on_host ? host_x.data() : x : nullptr,
                                  null ? nullptr : y_shape, y, state, hx, hy, state, cx, cy,
                                  weight_bytes - less_weights, weights, work_bytes - less_workspace,
                                  work, reserve_bytes - less_reserve, reserve));
}

bool Layer::backward() {
  return (skips_data ||
          succeeds(cudnnRNNBackwardData_v8(
              handle, net, nullptr, y_shape, y, at_dy, x_shape, dx, state, hx, at_dhy, dhx, state,
              cx, at_dcy, dcx, weight_bytes, weights, work_bytes, work, reserve_bytes, reserve))) &&
         succeeds(cudnnRNNBackwardWeights_v8(handle, net, gradient_mode, nullptr, x_shape, x, state,
                                             hx, y_shape, y, weight_bytes, dweights, work_bytes,
                                             work, reserve_bytes, reserve));
}

// The gradients against differences of the loss: the sum of all outputs times their gradients.
bool Layer::compare() {
  const Outputs want = compute(model);
  if (!close(from_device(y, y_size), want.y, 1e-12)) return false;
  if (!close(from_device(hy, h_size), want.hy, 1e-12)) return false;
  if (model.is_lstm && !close(from_device(cy, h_size), want.cy, 1e-12)) return false;
  for (double& value : dy) value = std::isnan(value) ? 0 : value;
  const auto loss = [&] {
    const Outputs out = compute(model);
    return dot(out.y, dy) + dot(out.hy, dhy) + (model.is_lstm ? dot(out.cy, dcy) : 0);
  };
  const Numbers all = from_device(dweights, weight_bytes / sizeof(double));
  const auto cut = [&](std::size_t first, std::size_t count) {
    Numbers part(all.begin() + std::ptrdiff_t(first), all.begin() + std::ptrdiff_t(first + count));
    for (double& value : part) value -= 1;  // which was there before
    return part;
  };
  std::vector<Numbers> got = {from_device(dx, x_size), from_device(dhx, h_size),
                              model.is_lstm ? from_device(dcx, h_size) : Numbers(h_size)};
  for (std::size_t i = 0; i < 8; ++i) got.push_back(cut(matrix_at[i], model.matrices[i].size()));
  for (std::size_t i = 0; i < 8; ++i) got.push_back(cut(bias_at[i], model.biases[i].size()));
  for (int b = 0; b < batch; ++b)  // dx after the end is undefined
    for (int t = lengths[std::size_t(b)]; t < steps; ++t)
      for (int k = 0; k < inputs; ++k) got[0][at(t, b, inputs, k)] = 0;
  const std::vector<Numbers*> parts = model.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Numbers differences;
    for (double& value : *parts[i]) {
      constexpr double step = 1e-5;
      const double before = value;
      value = before + step;
      const double above = loss();
      value = before - step;
      differences.push_back((above - loss()) / (2 * step));
      value = before;
    }
    if (!close(got[i], differences, 1e-7)) return false;
  }
  return true;
}

bool Layer::run() {
  cudaStream_t stream = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudnnCreate(&handle);
  cudnnCreateDropoutDescriptor(&dropout);
  cudnnCreateRNNDescriptor(&net);
  cudnnSetDropoutDescriptor(dropout, handle, 0, nullptr, 0, 0);
  for (cudnnRNNDataDescriptor_t* const shape : {&x_shape, &y_shape})
    cudnnCreateRNNDataDescriptor(shape);
  for (cudnnTensorDescriptor_t* const shape : {&state, &matrix_shape, &bias_shape})
    cudnnCreateTensorDescriptor(shape);
  const std::array<int, 3> sizes = {1, state_batch, hidden},
                           strides = {state_batch * hidden, hidden, 1};
  cudnnSetTensorNdDescriptor(state, CUDNN_DATA_DOUBLE, 3, sizes.data(), strides.data());
  if (!succeeds(cudnnSetRNNDescriptor_v8(
          net, CUDNN_RNN_ALGO_STANDARD, model.is_lstm ? CUDNN_LSTM : CUDNN_GRU, bias,
          CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, math,
          inputs, hidden, projection, 1, dropout, CUDNN_RNN_PADDED_IO_ENABLED)) ||
      !set_data(x_shape, x_vector, x_lengths) || !set_data(y_shape, hidden, y_lengths) ||
      !succeeds(cudnnGetRNNWeightSpaceSize(handle, net, &weight_bytes)) ||
      !succeeds(cudnnGetRNNTempSpaceSizes(handle, net, CUDNN_FWD_MODE_TRAINING, x_shape,
                                          &work_bytes, &reserve_bytes)) ||
      !prepare())
    return false;
  ok(cudaDeviceSynchronize());
  if (captured) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  if (!forward(stream) || !backward()) return false;
  for (const cudnnRNNDataDescriptor_t shape : {x_shape, y_shape})
    cudnnDestroyRNNDataDescriptor(shape);
  cudnnDestroyRNNDescriptor(net);
  if (captured) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphLaunch(executable, stream));
  }
  ok(cudaStreamSynchronize(stream));
  return compare();
}

template <bool is_lstm>
bool layers(bool) {
  for (const auto bias : {CUDNN_RNN_NO_BIAS, CUDNN_RNN_SINGLE_INP_BIAS, CUDNN_RNN_SINGLE_REC_BIAS,
                          CUDNN_RNN_DOUBLE_BIAS}) {
    Layer layer;
    layer.model.is_lstm = is_lstm;
    layer.bias = bias;
    layer.captured = bias == CUDNN_RNN_DOUBLE_BIAS;
    if (!layer.run()) return false;
  }
  return true;
}

// A program with one fault: f makes a correct series of calls wrong.
template <auto f>
bool with(bool fault) {
  Layer layer;
  if (fault) f(layer);
  return layer.run();
}
using L = Layer;

bool created_in_capture(bool fault) {
  cudaStream_t stream = nullptr;
  cudnnHandle_t handle = nullptr;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (fault) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  return succeeds(cudnnCreate(&handle));
}

// Two streams run forward calls with one workspace.
bool shared_workspace(bool fault) {
  std::array<Layer, 2> layers;
  for (Layer& layer : layers)
    if (!layer.run()) return false;
  ok(cudaDeviceSynchronize());
  for (Layer& layer : layers) {
    cudaStream_t stream = nullptr;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudnnCreateRNNDescriptor(&layer.net);
    cudnnSetRNNDescriptor_v8(layer.net, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, layer.bias,
                             CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_DOUBLE,
                             CUDNN_DATA_DOUBLE, layer.math, inputs, hidden, hidden, 1,
                             layer.dropout, CUDNN_RNN_PADDED_IO_ENABLED);
    cudnnCreateRNNDataDescriptor(&layer.x_shape);
    cudnnCreateRNNDataDescriptor(&layer.y_shape);
    set_data(layer.x_shape, inputs, lengths);
    set_data(layer.y_shape, hidden, lengths);
    if (fault) layer.work = layers[0].work;
    if (!layer.forward(stream)) return false;
  }
  ok(cudaDeviceSynchronize());
  return true;
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr Program list[] = {
    {"LSTM layers of cuDNN", layers<true>, 0, ""},
    {"GRU layers of cuDNN", layers<false>, 0, ""},
    {"sequences not set", with<[](L& l) { l.unset = true; }>, check, "was not set"},
    {"layer destroyed", with<[](L& l) { l.destroyed = true; }>, check, "is destroyed"},
    {"descriptor of another kind", with<[](L& l) { l.other_kind = true; }>, check, "another kind"},
    {"descriptor is null", with<[](L& l) { l.null = true; }>, check, "descriptor is null"},
    {"vector size of x", with<[](L& l) { l.x_vector = 4; }>, check, "another vector size"},
    {"lengths of x and y differ", with<[](L& l) { l.y_lengths[0] = 3; }>, check,
     "different shapes"},
    {"length of 0", with<[](L& l) { l.x_lengths[1] = 0; }>, check, "a length is 0"},
    {"length above the maximum", with<[](L& l) { l.x_lengths[1] = 5; }>, check,
     "above the maximum"},
    {"state of another batch", with<[](L& l) { l.state_batch = 2; }>, check, "a state is not"},
    {"weight space of another size", with<[](L& l) { l.less_weights = 8; }>, check,
     "size of the weight space"},
    {"workspace of cuDNN too small", with<[](L& l) { l.less_workspace = 8; }>, check,
     "workspace is too small"},
    {"reserve space too small", with<[](L& l) { l.less_reserve = 8; }>, check,
     "reserve space is too small"},
    {"x is null", with<[](L& l) { l.with_x = false; }>, check, "x is null"},
    {"x on the host", with<[](L& l) { l.x_on_host = true; }>, check, "x is not in the memory"},
    {"y too short", with<[](L& l) { l.y_is_short = true; }>, check, "y does not fit"},
    {"weights not aligned", with<[](L& l) { l.weight_offset = 1; }>, check,
     "weight space is not aligned"},
    {"last state over the first one", with<[](L& l) { l.hy_is_hx = true; }>, check, "hy overlaps"},
    {"projection", with<[](L& l) { l.projection = 1; }>, check, "without a projection"},
    {"conversion of float64", with<[](L& l) { l.math = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION; }>,
     check, "math type"},
    {"weight gradients not added", with<[](L& l) { l.gradient_mode = CUDNN_WGRAD_MODE_SET; }>,
     check, "can only be added"},
    {"gradients after inference", with<[](L& l) { l.mode = CUDNN_FWD_MODE_INFERENCE; }>, check,
     "was not written by cudnnRNNForward"},
    {"weight gradients without the others", with<[](L& l) { l.skips_data = true; }>, check,
     "was not written by cudnnRNNBackwardData_v8"},
    {"handle of another device", with<[](L& l) { l.other_device = true; }>, check,
     "another device"},
    {"handle with a destroyed stream", with<[](L& l) { l.no_stream = true; }>, check,
     "stream of the handle was destroyed"},
    {"handle created during a capture", created_in_capture, check, "while a stream is captured"},
    {"x not cleaned after the end", with<[](L& l) { l.x_after = nan; }>, comparison, ""},
    {"dy not cleaned after the end", with<[](L& l) { l.dy_after = nan; }>, comparison, ""},
    {"workspace of cuDNN shared by two streams", shared_workspace, thread, "data race"},
};
}  // namespace

std::span<const Program> in_recurrent() { return list; }
}  // namespace programs
