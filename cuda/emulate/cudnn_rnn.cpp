// SPDX-License-Identifier: BSD-3-Clause
// The reference of the recurrent layers, by plain loops. It is queued like a kernel.
#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/emulate/cudnn.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate::dnn {
namespace {
using Numbers = std::vector<double>;
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The start of the reserve space.
struct Header {
  std::uint64_t mark, shapes;
};
constexpr std::uint64_t forward_mark = 0x7265656c666f7277, backward_mark = 0x7265656c6261636b;

/// Tells shapes apart (FNV-1a).
std::uint64_t hash_of_shapes(const Call& call) {
  std::uint64_t hash = 14695981039346656037u;
  const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  const cudnnRNNStruct& net = call.net;
  for (const std::size_t value : {std::size_t(net.is_lstm), std::size_t(net.bias), net.element(),
                                  net.input, net.hidden, call.steps, call.batch})
    add(value);
  for (const int length : call.lengths) add(std::uint64_t(length));
  return hash;
}
void set_header(const Call& call, std::uint64_t mark) {
  const Header header{mark, hash_of_shapes(call)};
  std::memcpy(call.reserve, &header, sizeof(header));
}
void check_header(const Call& call, std::uint64_t mark, const char* writer) {
  Header header;
  std::memcpy(&header, call.reserve, sizeof(header));
  if (header.mark != mark || header.shapes != hash_of_shapes(call))
    report("%s: the reserve space was not written by %s with these shapes", call.name, writer);
}

/// The call with elements of type T. Sums are computed in double.
template <class T>
class Layer {
 public:
  explicit Layer(const Call& call)
      : call_(call),
        weights_(weights_of(call.net)),
        gates_(call.net.gates()),
        input_(call.net.input),
        hidden_(call.net.hidden) {}

  void forward() const {
    for (std::size_t b = 0; b < call_.batch; ++b) forward(b);
    if (call_.is_training) set_header(call_, forward_mark);
  }
  void backward_data() const {
    check_header(call_, forward_mark, "cudnnRNNForward in training mode");
    for (std::size_t b = 0; b < call_.batch; ++b) backward(b);
    set_header(call_, backward_mark);
  }
  void backward_weights() const {
    check_header(call_, backward_mark, "cudnnRNNBackwardData_v8");
    for (std::size_t b = 0; b < call_.batch; ++b)
      for (std::size_t t = 0; t < call_.steps; ++t)
        for (std::size_t g = 0; g < gates_; ++g)
          for (std::size_t j = 0; j < hidden_; ++j) add_weight_gradient(t, b, g, j);
  }

 private:
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  std::size_t length(std::size_t b) const { return std::size_t(call_.lengths[b]); }
  const T* row(const void* all, std::size_t t, std::size_t b, std::size_t size) const {
    return static_cast<const T*>(all) + (t * call_.batch + b) * size;
  }
  T* row(void* all, std::size_t t, std::size_t b, std::size_t size) const {
    return static_cast<T*>(all) + (t * call_.batch + b) * size;
  }
  // Slots 0 to 3 or 2: a gate, and then the gradient of its sum. The last slot: the cell state of
  // an LSTM; the recurrent part of the new memory of a GRU, and then its gradient.
  T& kept(std::size_t t, std::size_t b, std::size_t slot, std::size_t j) const {
    auto* const first = static_cast<std::byte*>(call_.reserve) + reserve_header;
    return row(static_cast<void*>(first), t, b, (gates_ + 1) * hidden_)[slot * hidden_ + j];
  }
  double input_gradient(std::size_t t, std::size_t b, std::size_t g, std::size_t j) const {
    return double(kept(t, b, g, j));
  }
  double recurrent_gradient(std::size_t t, std::size_t b, std::size_t g, std::size_t j) const {
    return double(kept(t, b, !call_.net.is_lstm && g == 2 ? 3 : g, j));
  }
  const T* weight(std::size_t offset) const {
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(call_.weights) + offset);
  }
  T* weight_gradient(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(call_.dweights) + offset);
  }
  Numbers state(const void* all, std::size_t b) const {
    if (!all) return Numbers(hidden_);
    const T* const first = row(all, 0, b, hidden_);
    return {first, first + hidden_};
  }
  void put(void* all, std::size_t b, const Numbers& values) const {
    for (std::size_t j = 0; all && j < hidden_; ++j) row(all, 0, b, hidden_)[j] = T(values[j]);
  }
  double hidden_before(std::size_t t, std::size_t b, std::size_t j) const {
    if (t > 0) return double(row(call_.y, t - 1, b, hidden_)[j]);
    return call_.hx ? double(row(call_.hx, 0, b, hidden_)[j]) : 0;
  }
  double cell_before(std::size_t t, std::size_t b, std::size_t j) const {
    if (t > 0) return double(kept(t - 1, b, 4, j));
    return call_.cx ? double(row(call_.cx, 0, b, hidden_)[j]) : 0;
  }

  /// Element j of a matrix times a vector, plus a bias.
  template <class V>
  double sum(std::size_t matrix, std::size_t bias, const V& x, std::size_t size,
             std::size_t j) const {
    double total = bias ? double(weight(bias)[j]) : 0;
    for (std::size_t k = 0; k < size; ++k) total += double(weight(matrix)[j * size + k]) * x[k];
    return total;
  }

  void forward(std::size_t b) const {
    Numbers h = state(call_.hx, b), c = state(call_.cx, b);
    for (std::size_t t = 0; t < call_.steps; ++t) {
      T* const y = row(call_.out, t, b, hidden_);
      const bool is_valid = t < length(b);
      const Numbers before = h;
      for (std::size_t j = 0; j < hidden_; ++j) {
        if (is_valid) step(t, b, j, before, h[j], c[j]);
        y[j] = T(is_valid ? h[j] : call_.fill);
        for (std::size_t slot = 0; !is_valid && call_.is_training && slot <= gates_; ++slot)
          kept(t, b, slot, j) = T(nan);
      }
    }
    put(call_.h_out, b, h);
    put(call_.c_out, b, c);
  }
  void step(std::size_t t, std::size_t b, std::size_t j, const Numbers& before, double& h,
            double& c) const {
    const T* const x = row(call_.x, t, b, input_);
    std::array<double, 5> values{};
    std::array<double, 4> w{}, r{};
    for (std::size_t g = 0; g < gates_; ++g) {
      const Gate& gate = weights_.gates[g];
      w[g] = sum(gate.input, gate.input_bias, x, input_, j);
      r[g] = sum(gate.recurrent, gate.recurrent_bias, before, hidden_, j);
      values[g] = sigmoid(w[g] + r[g]);
    }
    if (call_.net.is_lstm) {
      values[2] = std::tanh(w[2] + r[2]);
      values[4] = c = double(T(values[1] * c + values[0] * values[2]));
      h = double(T(values[3] * std::tanh(c)));
    } else {
      values[2] = std::tanh(w[2] + values[0] * r[2]);
      values[3] = r[2];
      h = double(T((1 - values[1]) * values[2] + values[1] * h));
    }
    for (std::size_t slot = 0; call_.is_training && slot <= gates_; ++slot)
      kept(t, b, slot, j) = T(values[slot]);
  }

  void backward(std::size_t b) const {
    Numbers dh(hidden_), dc(hidden_);
    const Numbers dhy = state(call_.dhy, b), dcy = state(call_.dcy, b);
    for (std::size_t t = call_.steps; t-- > 0;) {
      const T* const dy = row(call_.dy, t, b, hidden_);
      T* const dx = row(call_.out, t, b, input_);
      if (t >= length(b)) {
        skip(t, b, dy, dh);
        for (std::size_t k = 0; k < input_; ++k) dx[k] = T(nan);
        continue;
      }
      const bool is_last = t + 1 == length(b);
      for (std::size_t j = 0; j < hidden_; ++j) {
        dh[j] += double(dy[j]) + (is_last ? dhy[j] : 0);
        dc[j] += is_last ? dcy[j] : 0;
        call_.net.is_lstm ? lstm_back(t, b, j, dh[j], dc[j]) : gru_back(t, b, j, dh[j]);
      }
      for (std::size_t k = 0; k < input_; ++k) dx[k] = T(through_input(t, b, k));
      for (std::size_t k = 0; k < hidden_; ++k) dh[k] += through_state(t, b, k);
    }
    put(call_.h_out, b, dh);
    put(call_.c_out, b, dc);
  }
  // After the end dy counts 0 times, so that a NaN there is not lost.
  void skip(std::size_t t, std::size_t b, const T* dy, Numbers& dh) const {
    for (std::size_t j = 0; j < hidden_; ++j) {
      const double zero = 0 * double(dy[j]);
      dh[j] += zero;
      for (std::size_t slot = 0; slot <= gates_; ++slot) kept(t, b, slot, j) = T(zero);
    }
  }
  // Each replaces the gates by the gradients of their sums. What remains of dh and dc goes directly
  // to the step before.
  void lstm_back(std::size_t t, std::size_t b, std::size_t j, double& dh, double& dc) const {
    const auto at = [&](std::size_t slot) { return double(kept(t, b, slot, j)); };
    const double i = at(0), f = at(1), g = at(2), o = at(3), c = std::tanh(at(4));
    dc += dh * o * (1 - c * c);
    kept(t, b, 0, j) = T(dc * g * i * (1 - i));
    kept(t, b, 1, j) = T(dc * cell_before(t, b, j) * f * (1 - f));
    kept(t, b, 2, j) = T(dc * i * (1 - g * g));
    kept(t, b, 3, j) = T(dh * c * o * (1 - o));
    dc *= f;
    dh = 0;
  }
  void gru_back(std::size_t t, std::size_t b, std::size_t j, double& dh) const {
    const auto at = [&](std::size_t slot) { return double(kept(t, b, slot, j)); };
    const double r = at(0), z = at(1), n = at(2), recurrent = at(3);
    const double dn = dh * (1 - z) * (1 - n * n);
    kept(t, b, 0, j) = T(dn * recurrent * r * (1 - r));
    kept(t, b, 1, j) = T(dh * (hidden_before(t, b, j) - n) * z * (1 - z));
    kept(t, b, 2, j) = T(dn);
    kept(t, b, 3, j) = T(dn * r);
    dh *= z;
  }
  double through_input(std::size_t t, std::size_t b, std::size_t k) const {
    double total = 0;
    for (std::size_t g = 0; g < gates_; ++g)
      for (std::size_t j = 0; j < hidden_; ++j)
        total +=
            input_gradient(t, b, g, j) * double(weight(weights_.gates[g].input)[j * input_ + k]);
    return total;
  }
  double through_state(std::size_t t, std::size_t b, std::size_t k) const {
    double total = 0;
    for (std::size_t g = 0; g < gates_; ++g)
      for (std::size_t j = 0; j < hidden_; ++j)
        total += recurrent_gradient(t, b, g, j) *
                 double(weight(weights_.gates[g].recurrent)[j * hidden_ + k]);
    return total;
  }

  // x after the end counts 0 times, so that a NaN there is not lost.
  void add_weight_gradient(std::size_t t, std::size_t b, std::size_t g, std::size_t j) const {
    const Gate& gate = weights_.gates[g];
    const double of_input = input_gradient(t, b, g, j);
    const T* const x = row(call_.x, t, b, input_);
    for (std::size_t k = 0; k < input_; ++k)
      add(gate.input, j * input_ + k, of_input * double(x[k]));
    if (gate.input_bias) add(gate.input_bias, j, of_input);
    const double of_state = recurrent_gradient(t, b, g, j);
    if (gate.recurrent_bias) add(gate.recurrent_bias, j, of_state);
    if (t >= length(b)) return;
    for (std::size_t k = 0; k < hidden_; ++k)
      add(gate.recurrent, j * hidden_ + k, of_state * hidden_before(t, b, k));
  }
  void add(std::size_t offset, std::size_t i, double value) const {
    T& place = weight_gradient(offset)[i];
    place = T(double(place) + value);
  }

  const Call& call_;
  const Weights weights_;
  const std::size_t gates_, input_, hidden_;
};

template <class F>
cudnnStatus_t queue(Call call, cudnnHandle_t handle, F compute) {
  const cudaStream_t stream = find_stream(handle->stream);
  if (!stream) return refuse(CUDNN_STATUS_BAD_PARAM, "the stream of the handle was destroyed");
  ++state().counts.recurrences;
  note_use(handle, *stream);
  const cudaError_t error = enqueue(stream, [call = std::move(call), compute](Lane& lane, int) {
    touch_ranges(call.ranges, lane.identity, call.name);
    std::memset(call.workspace, 0xff, call.workspace_bytes);
    if (call.net.type == CUDNN_DATA_DOUBLE)
      compute(Layer<double>(call));
    else
      compute(Layer<float>(call));
    return cudaSuccess;
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS
                              : refuse(CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorName(error));
}

void set_spaces(Call& call, std::size_t workspace_bytes, void* workspace, std::size_t reserve_bytes,
                void* reserve) {
  call.workspace = workspace;
  call.workspace_bytes = workspace_bytes;
  call.reserve = reserve;
  call.reserve_bytes = reserve_bytes;
}

cudnnStatus_t read_descriptors(Call& call, cudnnHandle_t handle, cudnnRNNDescriptor_t net,
                               cudnnRNNDataDescriptor_t x, cudnnRNNDataDescriptor_t y,
                               cudnnTensorDescriptor_t h, cudnnTensorDescriptor_t c) {
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = read_shapes(call, net, x)) return status;
  return check_outputs(call, x, y, h, c, c || call.net.is_lstm);
}
}  // namespace
}  // namespace reel::emulate::dnn

using namespace reel::emulate;
using namespace reel::emulate::dnn;

extern "C" {
cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t net,
                              cudnnForwardMode_t mode, const int32_t*,
                              cudnnRNNDataDescriptor_t x_shape, const void* x,
                              cudnnRNNDataDescriptor_t y_shape, void* y,
                              cudnnTensorDescriptor_t h_shape, const void* hx, void* hy,
                              cudnnTensorDescriptor_t c_shape, const void* cx, void* cy,
                              size_t weight_bytes, const void* weights, size_t workspace_bytes,
                              void* workspace, size_t reserve_bytes, void* reserve) {
  Entry entry;
  Call call;
  call.name = "cudnnRNNForward";
  if (const cudnnStatus_t status =
          read_descriptors(call, handle, net, x_shape, y_shape, h_shape, c_shape))
    return status;
  call.is_training = mode == CUDNN_FWD_MODE_TRAINING;
  call.x = x;
  call.hx = hx;
  call.weights = weights;
  call.out = y;
  call.h_out = hy;
  set_spaces(call, workspace_bytes, workspace, reserve_bytes, reserve);
  call.ranges = {{"x", x, call.x_bytes(), Use::read},
                 {"y", y, call.y_bytes(), Use::write},
                 {"hx", hx, call.h_bytes(), Use::read, false},
                 {"hy", hy, call.h_bytes(), Use::write, false}};
  if (call.net.is_lstm) {
    call.cx = cx;
    call.c_out = cy;
    call.ranges.push_back({"cx", cx, call.h_bytes(), Use::read, false});
    call.ranges.push_back({"cy", cy, call.h_bytes(), Use::write, false});
  }
  if (const cudnnStatus_t status = check_memory(call, weight_bytes, Use::write)) return status;
  return queue(std::move(call), handle, [](const auto& layer) { layer.forward(); });
}

cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t net, const int32_t*,
    cudnnRNNDataDescriptor_t y_shape, const void* y, const void* dy,
    cudnnRNNDataDescriptor_t x_shape, void* dx, cudnnTensorDescriptor_t h_shape, const void* hx,
    const void* dhy, void* dhx, cudnnTensorDescriptor_t c_shape, const void* cx, const void* dcy,
    void* dcx, size_t weight_bytes, const void* weights, size_t workspace_bytes, void* workspace,
    size_t reserve_bytes, void* reserve) {
  Entry entry;
  Call call;
  call.name = "cudnnRNNBackwardData_v8";
  if (const cudnnStatus_t status =
          read_descriptors(call, handle, net, x_shape, y_shape, h_shape, c_shape))
    return status;
  call.y = y;
  call.dy = dy;
  call.hx = hx;
  call.dhy = dhy;
  call.weights = weights;
  call.out = dx;
  call.h_out = dhx;
  set_spaces(call, workspace_bytes, workspace, reserve_bytes, reserve);
  call.ranges = {{"y", y, call.y_bytes(), Use::read},
                 {"dy", dy, call.y_bytes(), Use::read},
                 {"dx", dx, call.x_bytes(), Use::write},
                 {"hx", hx, call.h_bytes(), Use::read, false},
                 {"dhy", dhy, call.h_bytes(), Use::read, false},
                 {"dhx", dhx, call.h_bytes(), Use::write, false}};
  if (call.net.is_lstm) {
    call.cx = cx;
    call.dcy = dcy;
    call.c_out = dcx;
    call.ranges.push_back({"cx", cx, call.h_bytes(), Use::read, false});
    call.ranges.push_back({"dcy", dcy, call.h_bytes(), Use::read, false});
    call.ranges.push_back({"dcx", dcx, call.h_bytes(), Use::write, false});
  }
  if (const cudnnStatus_t status = check_memory(call, weight_bytes, Use::update)) return status;
  return queue(std::move(call), handle, [](const auto& layer) { layer.backward_data(); });
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t net, cudnnWgradMode_t mode, const int32_t*,
    cudnnRNNDataDescriptor_t x_shape, const void* x, cudnnTensorDescriptor_t h_shape,
    const void* hx, cudnnRNNDataDescriptor_t y_shape, const void* y, size_t weight_bytes,
    void* dweights, size_t workspace_bytes, void* workspace, size_t reserve_bytes, void* reserve) {
  Entry entry;
  Call call;
  call.name = "cudnnRNNBackwardWeights_v8";
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = read_shapes(call, net, x_shape)) return status;
  if (const cudnnStatus_t status = check_outputs(call, x_shape, y_shape, h_shape, nullptr, false))
    return status;
  if (mode != CUDNN_WGRAD_MODE_ADD)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "gradients of weights can only be added");
  if (!dweights) return refuse(CUDNN_STATUS_BAD_PARAM, "is null", "the gradient of the weights");
  call.x = x;
  call.hx = hx;
  call.y = y;
  call.dweights = dweights;
  set_spaces(call, workspace_bytes, workspace, reserve_bytes, reserve);
  call.ranges = {{"x", x, call.x_bytes(), Use::read},
                 {"hx", hx, call.h_bytes(), Use::read, false},
                 {"y", y, call.y_bytes(), Use::read}};
  if (const cudnnStatus_t status = check_memory(call, weight_bytes, Use::read)) return status;
  return queue(std::move(call), handle, [](const auto& layer) { layer.backward_weights(); });
}
}
