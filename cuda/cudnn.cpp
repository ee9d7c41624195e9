// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/cudnn.hpp"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "cuda/gpu.hpp"
#include "cuda/matmul.hpp"

namespace reel::gpu {
namespace {
// As REEL_CUDNN says.
bool is_on = true, takes_lengths = false;
}  // namespace
}  // namespace reel::gpu

#if __has_include(<cudnn.h>)
#include <dlfcn.h>

#include "cuda/cudnn_library.hpp"

#ifndef REEL_CUDNN_LIBRARY
#define REEL_CUDNN_LIBRARY "libcudnn.so.9"
#endif

namespace reel::gpu {
CudnnLibrary::CudnnLibrary() {
  void* const opened = dlopen(REEL_CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  exists = opened;
#define REEL_FIND(name)                                                              \
  if (exists) {                                                                      \
    name = reinterpret_cast<decltype(&::cudnn##name)>(dlsym(opened, "cudnn" #name)); \
    exists = name;                                                                   \
  }
  REEL_CUDNN_FUNCTIONS(REEL_FIND)
#undef REEL_FIND
  exists = exists && GetVersion() / 10000 == CUDNN_MAJOR;
}
const CudnnLibrary& cudnn() {
  static const CudnnLibrary& it = *new_for_ever<CudnnLibrary>();
  return it;
}

namespace {
cudnnDataType_t data_type(const Rnn& rnn) {
  return rnn.dtype == DType::float32 ? CUDNN_DATA_FLOAT : CUDNN_DATA_DOUBLE;
}

/// The values of all steps, [time, batch, width]. Values after the end of a sequence are filled
/// with 0 where cuDNN writes them.
void describe(Calls& calls, const Rnn& rnn, std::int64_t width, const int* lengths,
              cudnnRNNDataDescriptor_t& made) {
  double zero = 0;  // whose first bytes are a float of 0
  calls.then(cudnn().CreateRNNDataDescriptor, &made)
      .then(cudnn().SetRNNDataDescriptor, made, data_type(rnn),
            CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, static_cast<int>(rnn.time),
            static_cast<int>(rnn.batch), static_cast<int>(width), lengths,
            static_cast<void*>(&zero));
}
}  // namespace

/// They are never destroyed: a CUDA graph may refer to what they hold.
struct Descriptors {
  cudnnDropoutDescriptor_t no_dropout = nullptr;
  cudnnRNNDescriptor_t rnn = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;  // with all steps of all sequences
  cudnnTensorDescriptor_t state = nullptr;
};

namespace {
void describe_state(Calls& calls, const Rnn& rnn, cudnnTensorDescriptor_t& made) {
  const int batch = static_cast<int>(rnn.batch), hidden = static_cast<int>(rnn.hidden);
  const int lengths[] = {1, batch, hidden}, steps[] = {batch * hidden, hidden, 1};
  calls.then(cudnn().CreateTensorDescriptor, &made)
      .then(cudnn().SetTensorNdDescriptor, made, data_type(rnn), 3, lengths, steps);
}

/// An LSTM has one bias for each gate. A GRU multiplies that of the state by its reset gate.
void describe_network(Calls& calls, cudnnHandle_t handle, const Rnn& rnn, Descriptors& made) {
  const bool exact = rnn.dtype == DType::float32 && !Products::use_tf32();
  const int in = static_cast<int>(rnn.in), hidden = static_cast<int>(rnn.hidden);
  void* const no_states = nullptr;
  calls.then(cudnn().CreateDropoutDescriptor, &made.no_dropout)
      .then(cudnn().SetDropoutDescriptor, made.no_dropout, handle, 0.f, no_states, std::size_t{0},
            0ull)
      .then(cudnn().CreateRNNDescriptor, &made.rnn)
      .then(cudnn().SetRNNDescriptor_v8, made.rnn, CUDNN_RNN_ALGO_STANDARD,
            rnn.lstm ? CUDNN_LSTM : CUDNN_GRU,
            rnn.lstm ? CUDNN_RNN_SINGLE_INP_BIAS : CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
            CUDNN_LINEAR_INPUT, data_type(rnn), data_type(rnn),
            exact ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH, in, hidden, hidden, 1, made.no_dropout,
            CUDNN_RNN_PADDED_IO_ENABLED);
}

/// Whether a descriptor is that of `rows` by `columns` numbers without gaps.
bool is_matrix(cudnnTensorDescriptor_t given, std::int64_t rows, std::int64_t columns) {
  cudnnDataType_t type;
  int rank = 0, lengths[4] = {}, steps[4] = {};
  return cudnn().GetTensorNdDescriptor(given, 4, &type, &rank, lengths, steps) ==
             CUDNN_STATUS_SUCCESS &&
         rank == 3 && lengths[0] == 1 && lengths[1] == rows && lengths[2] == columns &&
         (rows == 1 || steps[1] == columns) && (columns == 1 || steps[2] == 1);
}

/// What the version of cuDNN has in another form than this plugin expects: gru, lstm.
std::atomic<bool> unexpected[2] = {};

/// Where the parameters are. False if cuDNN has them in another form than this plugin expects.
bool find_places(Calls& calls, cudnnHandle_t handle, const Rnn& rnn, RnnPlan& plan) {
  cudnnTensorDescriptor_t matrix = nullptr, bias = nullptr;
  calls.then(cudnn().CreateTensorDescriptor, &matrix).then(cudnn().CreateTensorDescriptor, &bias);
  // cuDNN only computes addresses from that of the block. A missing bias has the address 0.
  const std::uintptr_t block = std::uintptr_t{1} << 20;
  bool expected = true;
  for (int i = 0; i < 2 * rnn.gates() && expected; ++i) {
    void *at = nullptr, *bias_at = nullptr;
    calls.then(cudnn().GetRNNWeightParams, handle, plan.descriptors->rnn, 0, plan.weights,
               reinterpret_cast<const void*>(block), i, matrix, &at, bias, &bias_at);
    if (!calls.succeeded()) break;
    const bool of_state = i >= rnn.gates(), has_bias = !of_state || !rnn.lstm;
    const std::int64_t columns = of_state ? rnn.hidden : rnn.in;
    const auto place = [&](void* address) {
      return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(address) - block);
    };
    const auto is_inside = [&](void* address, std::int64_t elements) {
      const std::int64_t end = place(address) + elements * size_of(rnn.dtype);
      return place(address) >= 0 && end <= static_cast<std::int64_t>(plan.weights);
    };
    expected = is_matrix(matrix, rnn.hidden, columns) && is_inside(at, rnn.hidden * columns) &&
               has_bias == (bias_at != nullptr) &&
               (!has_bias || (is_matrix(bias, rnn.hidden, 1) && is_inside(bias_at, rnn.hidden)));
    plan.places.matrix[i] = place(at);
    plan.places.bias[i] = bias_at ? place(bias_at) : -1;
  }
  if (matrix) cudnn().DestroyTensorDescriptor(matrix);
  if (bias) cudnn().DestroyTensorDescriptor(bias);
  if (!expected) unexpected[rnn.lstm] = true;
  return calls.succeeded() && expected;
}

/// An empty plan if cuDNN refuses the network.
RnnPlan plan_of(Calls& calls, cudnnHandle_t handle, const Rnn& rnn) {
  RnnPlan plan = {};
  plan.descriptors = new_for_ever<Descriptors>();
  Descriptors& d = *plan.descriptors;
  OwnVector<int> lengths;
  lengths.assign(static_cast<std::size_t>(rnn.batch), static_cast<int>(rnn.time));
  describe_network(calls, handle, rnn, d);
  describe(calls, rnn, rnn.in, lengths.data(), d.x);
  describe(calls, rnn, rnn.hidden, lengths.data(), d.y);
  describe_state(calls, rnn, d.state);
  calls.then(cudnn().GetRNNWeightSpaceSize, handle, d.rnn, &plan.weights)
      .then(cudnn().GetRNNTempSpaceSizes, handle, d.rnn, CUDNN_FWD_MODE_TRAINING, d.x,
            &plan.workspace, &plan.reserve);
  if (calls.succeeded() && find_places(calls, handle, rnn, plan)) return plan;
  return {};
}

/// Whether cuDNN, whose sizes are of type int, can take a network.
bool fits(const Rnn& rnn) {
  const std::int64_t most = std::numeric_limits<int>::max();
  std::int64_t elements = 1;
  if (rnn.in < 1) return false;
  for (const std::int64_t size : {rnn.time, rnn.batch, std::max(rnn.in, rnn.hidden)}) {
    if (size < 1 || size > most / elements) return false;
    elements *= size;
  }
  return rnn.hidden <= most / 8 / std::max(rnn.in, rnn.hidden);
}
}  // namespace

std::string Cudnn::refused() {
  std::string text;
  for (const bool lstm : {false, true})
    if (unexpected[lstm])
      text += (text.empty() ? "" : " ") + ("cuDNN " + std::to_string(cudnn().GetVersion())) +
              " does not compute " + (lstm ? "lstm" : "gru") +
              ": it has the weights in an unexpected form.";
  return text;
}
bool Cudnn::open(Gpu& gpu) {
  if (tried_) return handles_[1];
  Calls calls{gpu};
  if (cudnn().exists)
    for (cudnnContext*& handle : handles_)
      if (!handle) calls.then(cudnn().Create, &handle);
  tried_ = !lacks_memory(calls.status);
  if (!calls.succeeded()) cudaGetLastError();
  return calls.succeeded() && handles_[1];
}
/// A first call of the handle for captures, of a network of the same kind. What the handle makes at
/// its first call would otherwise be made in a capture.
void Cudnn::warm_up(Gpu& gpu, Rnn small) {
  is_warm_ = true;
  small.time = small.batch = small.in = small.hidden = 1;
  Calls calls{gpu};
  const RnnPlan plan = plan_of(calls, handles_[1], small);
  constexpr std::size_t step = 256;
  const auto with_gap = [](std::size_t bytes) { return bytes / step * step + step; };
  const std::size_t bytes =
      6 * step + with_gap(plan.weights) + with_gap(plan.workspace) + with_gap(plan.reserve);
  std::byte* block = nullptr;
  if (plan.descriptors && gpu.allocate(bytes, block, true) == cudaSuccess) {
    const Descriptors& d = *plan.descriptors;
    const cudaStream_t stream = gpu.streams.mine().handle;
    const auto state = [&](std::size_t i) { return block + i * step; };
    std::byte *const weights = state(6), *const workspace = weights + with_gap(plan.weights),
                     *const reserve = workspace + with_gap(plan.workspace);
    const std::int32_t* const ignored = nullptr;
    if (cudaMemsetAsync(block, 0, bytes, stream) == cudaSuccess)
      calls.then(cudnn().SetStream, handles_[1], stream)
          .then(cudnn().RNNForward, handles_[1], d.rnn, CUDNN_FWD_MODE_TRAINING, ignored, d.x,
                state(0), d.y, state(1), d.state, state(2), state(3), d.state, state(4), state(5),
                plan.weights, weights, plan.workspace, workspace, plan.reserve, reserve);
    gpu.release(block, bytes);
  }
  cudaGetLastError();
}
const RnnPlan* Cudnn::find(Gpu& gpu, const Rnn& rnn) {
  constexpr std::size_t most_plans = 4096;
  if (!is_on || !fits(rnn)) return nullptr;
  const std::lock_guard held(mutex_);
  if (!open(gpu)) return nullptr;
  auto found = plans_.find(rnn);
  if (found == plans_.end()) {
    if (plans_.size() == most_plans) return nullptr;
    Calls calls{gpu};
    const RnnPlan plan = plan_of(calls, handles_[0], rnn);
    const bool lacked_memory = lacks_memory(calls.status);
    if (!calls.succeeded()) cudaGetLastError();
    if (lacked_memory) return nullptr;  // another call may find it
    found = plans_.emplace(rnn, plan).first;
  }
  if (!found->second.descriptors) return nullptr;
  if (!is_warm_ && !Capture::current()) warm_up(gpu, rnn);
  return &found->second;
}

/// Calls f(calls, plan, x, y, workspace). Scratch memory is taken before the lock, and errors are
/// thrown after it: others may use the device then, and this object.
template <class F>
void Cudnn::run(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                std::span<const int> lengths, const F& f) {
  void* const workspace = plan.workspace ? queue.scratch(plan.workspace) : nullptr;
  Calls calls{*queue.gpu};
  {
    const std::lock_guard held(mutex_);
    cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
    cudnnHandle_t const handle = handles_[Capture::current() ? 1 : 0];
    calls.then(cudnn().SetStream, handle, queue.stream);
    if (!lengths.empty()) {
      describe(calls, rnn, rnn.in, lengths.data(), x);
      describe(calls, rnn, rnn.hidden, lengths.data(), y);
    }
    f(calls, handle, x ? x : plan.descriptors->x, y ? y : plan.descriptors->y, workspace);
    if (x) cudnn().DestroyRNNDataDescriptor(x);
    if (y) cudnn().DestroyRNNDataDescriptor(y);
  }
  if (calls.succeeded()) return;
  queue.check(cudaPeekAtLastError());  // an error of CUDA itself says more
  queue.refuse("a sequence that cuDNN computes", cudnn().GetErrorString(calls.status),
               "Set REEL_CUDNN=0: then reel's own kernels compute it.");
}

void Cudnn::forward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                    std::span<const int> lengths, const RnnForward& call) {
  run(queue, rnn, plan, lengths, [&](Calls& calls, auto handle, auto x, auto y, void* workspace) {
    const Descriptors& d = *plan.descriptors;
    const std::int32_t* const ignored = nullptr;
    calls.then(cudnn().RNNForward, handle, d.rnn, CUDNN_FWD_MODE_TRAINING, ignored, x, call.x, y,
               call.outputs, d.state, call.h, call.last_h, d.state, call.c, call.last_c,
               plan.weights, call.weights, plan.workspace, workspace, plan.reserve, call.reserve);
  });
}

void Cudnn::backward(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                     std::span<const int> lengths, const RnnBackward& call) {
  run(queue, rnn, plan, lengths, [&](Calls& calls, auto handle, auto x, auto y, void* workspace) {
    const Descriptors& d = *plan.descriptors;
    const std::int32_t* const ignored = nullptr;
    calls.then(cudnn().RNNBackwardData_v8, handle, d.rnn, ignored, y, call.outputs, call.dy, x,
               call.dx, d.state, call.h, call.dlast_h, call.dh, d.state, call.c, call.dlast_c,
               call.dc, plan.weights, call.weights, plan.workspace, workspace, plan.reserve,
               call.reserve);
    if (call.dweights)  // it was filled with 0
      calls.then(cudnn().RNNBackwardWeights_v8, handle, d.rnn, CUDNN_WGRAD_MODE_ADD, ignored, x,
                 call.x, d.state, call.h, y, call.outputs, plan.weights, call.dweights,
                 plan.workspace, workspace, plan.reserve, call.reserve);
  });
}
}  // namespace reel::gpu

#else  // without the header of cuDNN

namespace reel::gpu {
std::string Cudnn::refused() { return {}; }
const RnnPlan* Cudnn::find(Gpu&, const Rnn&) { return nullptr; }
void Cudnn::forward(const Queue&, const Rnn&, const RnnPlan&, std::span<const int>,
                    const RnnForward&) {}
void Cudnn::backward(const Queue&, const Rnn&, const RnnPlan&, std::span<const int>,
                     const RnnBackward&) {}
}  // namespace reel::gpu
#endif

namespace reel::gpu {
bool Cudnn::is_allowed() { return is_on; }
bool Cudnn::read_options() {
  const char* const text = std::getenv("REEL_CUDNN");
  const std::string_view asked = text ? text : "";
  is_on = asked != "0";
  takes_lengths = asked == "lengths";
  return asked.empty() || !is_on || asked == "1" || takes_lengths;
}

std::size_t bytes_kept_by_cudnn(Gpu& gpu, const Inference& call) {
  if (call.input(call.input_count - 1).elements > 0 && !takes_lengths) return 0;
  const Rnn rnn(call.input(0), call.input(1), call.input_count == 6);
  const RnnPlan* const plan = gpu.cudnn.find(gpu, rnn);
  return plan ? std::max<std::size_t>(plan->reserve, 1) : 0;
}

const RnnPlan& plan_of_cudnn(const Queue& queue, const Rnn& rnn) {
  const RnnPlan* const plan = queue.gpu->cudnn.find(*queue.gpu, rnn);
  if (!plan) queue.refuse("cuDNN", "none", "It was there when the op was called.");
  return *plan;
}
void forward_by_cudnn(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                      std::span<const int> lengths, const RnnForward& call) {
  queue.gpu->cudnn.forward(queue, rnn, plan, lengths, call);
}
void backward_by_cudnn(const Queue& queue, const Rnn& rnn, const RnnPlan& plan,
                       std::span<const int> lengths, const RnnBackward& call) {
  queue.gpu->cudnn.backward(queue, rnn, plan, lengths, call);
}

bool read_lengths(const Queue& queue, const Body& lengths, std::int64_t time,
                  SmallVector<int, 64>& to) {
  if (lengths.elements == 0) return true;
  if (Capture::current()) queue.refuse("a CUDA graph in which nothing waits", "one", "");
  return with_integers(lengths.dtype, [&]<class I>(Type<I>) {
    SmallVector<I, 64> read(static_cast<std::size_t>(lengths.elements));
    queue.check(cudaMemcpyAsync(&read[0], lengths.data, read.size() * sizeof(I),
                                cudaMemcpyDeviceToHost, queue.stream));
    queue.check(cudaStreamSynchronize(queue.stream));
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] < 1 || static_cast<std::int64_t>(read[i]) > time) return false;
      to.push_back(static_cast<int>(read[i]));
    }
    return true;
  });
}

bool waits_for_lengths(const PlannedGraph& planned, const Instruction& call) {
  if (call.kind != Instruction::Kind::kernel || call.op->kept < 0) return false;
  const int* const values = planned.operands + call.first;
  const auto inputs = static_cast<int>(call.input_count),
             outputs = static_cast<int>(call.output_count);
  const bool value = call.part == Part::value;
  const int op_outputs = value ? outputs : (inputs - outputs) / 2;
  const int op_inputs = value ? inputs : outputs;
  const int first_input = value ? 0 : op_outputs;
  const Body* const lengths = planned.value(values[first_input + op_inputs - 1]);
  const Body* const kept = planned.value(values[first_input + op_inputs + call.op->kept]);
  return lengths && lengths->elements > 0 && kept && has_room_for_cudnn(*kept);
}
}  // namespace reel::gpu
