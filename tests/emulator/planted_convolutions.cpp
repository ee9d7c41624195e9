// SPDX-License-Identifier: BSD-3-Clause
// Faults in calls of cuDNN's backend API, and convolutions against plain loops.
#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "emulator/programs.hpp"

namespace programs {
namespace {
using Int = std::int64_t;
using Numbers = std::vector<double>;
using Lengths = std::vector<Int>;

bool succeeds(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) std::fprintf(stderr, "%s\n", cudnnGetErrorString(status));
  return status == CUDNN_STATUS_SUCCESS;
}

constexpr Int batch = 2, channels = 3, outputs = 2, height = 4, width = 5, taps = 2, stride = 2;
constexpr Int out_height = 2, out_width = 3;  // one row of padding above, one column on each side
constexpr std::size_t x_size = batch * height * width * channels,
                      w_size = outputs * taps * taps * channels,
                      y_size = batch * out_height * out_width * outputs;

Numbers numbers(std::size_t count, std::size_t seed) {
  Numbers values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = 0.25 * double((i * 7 + seed * 5) % 11) - 1;
  return values;
}

/// Calls that compute a convolution of images. Each test makes one of its members wrong.
struct Images {
  Lengths x_lengths = {batch, channels, height, width},
          x_steps = {height * width * channels, 1, width*channels, channels};
  Lengths w_lengths = {outputs, channels, taps, taps},
          w_steps = {taps * taps * channels, 1, taps*channels, channels};
  Lengths y_lengths = {batch, outputs, out_height, out_width},
          y_steps = {out_height * out_width * outputs, 1, out_width*outputs, outputs};
  Lengths before = {1, 1}, after = {0, 1};
  Int y_id = 3, pack_id = 3, alignment = 8, x_offset = 0, axes = 2;
  cudnnBackendAttributeType_t type_of_id = CUDNN_TYPE_INT64;
  float single_factor = 0;
  bool unset = false, unfinished = false, set_twice = false, destroyed = false, other_kind = false;
  bool single = false, shared_handle = false, other_plan = false, other_thread = false;
  bool other_device = false, in_capture = false, null = false, y_is_x = false;
  bool virtual_y = false, no_workspace = false, workspace_is_x = false, x_is_short = false,
       any_engine = false;

  bool run();
  bool describe();
  bool choose();
  bool execute();

  bool good = true;  // whether all calls have succeeded
  cudnnHandle_t handle = nullptr, second = nullptr;
  cudnnBackendDescriptor_t x = nullptr, w = nullptr, y = nullptr, operation = nullptr,
                           graph = nullptr, plan = nullptr;
  cudaStream_t stream = nullptr;
  Int workspace_bytes = 0;

  void check(cudnnStatus_t status) { good = good && succeeds(status); }
  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t kind) {
    cudnnBackendDescriptor_t made = nullptr;
    check(cudnnBackendCreateDescriptor(kind, &made));
    return made;
  }
  void set(cudnnBackendDescriptor_t it, cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type, std::size_t count, const void* elements) {
    if (good) check(cudnnBackendSetAttribute(it, name, type, Int(count), elements));
  }
  void set(cudnnBackendDescriptor_t it, cudnnBackendAttributeName_t name, const Lengths& lengths) {
    set(it, name, CUDNN_TYPE_INT64, lengths.size(), lengths.data());
  }
  void set_part(cudnnBackendDescriptor_t it, cudnnBackendAttributeName_t name,
                cudnnBackendDescriptor_t part) {
    set(it, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
  }
  void finalize(cudnnBackendDescriptor_t it) {
    if (good) check(cudnnBackendFinalize(it));
  }
  cudnnBackendDescriptor_t tensor(Int id, const Lengths& lengths, const Lengths& steps) {
    cudnnBackendDescriptor_t const made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_DOUBLE;
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, type_of_id, 1, &id);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {alignment});
    if (!unset) set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, lengths);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, steps);
    const bool is_virtual = virtual_y && id == y_id;
    set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finalize(made);
    if (set_twice) set(made, CUDNN_ATTR_TENSOR_STRIDES, steps);
    return made;
  }
};

bool Images::describe() {
  x = tensor(1, x_lengths, x_steps);
  w = tensor(2, w_lengths, w_steps);
  y = tensor(y_id, y_lengths, y_steps);
  cudnnBackendDescriptor_t const convolution = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t type = single ? CUDNN_DATA_FLOAT : CUDNN_DATA_DOUBLE;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  set(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {axes});
  set(convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  set(convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before);
  set(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, after);
  set(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
  set(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {stride, stride});
  if (!unfinished) finalize(convolution);
  operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  const double one = 1, zero = 0;
  if (destroyed) cudnnBackendDestroyDescriptor(w);
  set_part(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
           other_kind ? x : convolution);
  set_part(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  set_part(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  set_part(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_DOUBLE, 1, &one);
  set(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
      single_factor ? CUDNN_TYPE_FLOAT : CUDNN_TYPE_DOUBLE, 1, &zero);
  finalize(operation);
  graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set_part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  finalize(graph);
  return good;
}

// The plan of an engine with a workspace and without notes, or of any engine.
bool Images::choose() {
  cudnnBackendDescriptor_t const heuristics = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_FALLBACK;
  set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  finalize(heuristics);
  std::array<cudnnBackendDescriptor_t, 16> configs{};
  for (cudnnBackendDescriptor_t& each : configs) each = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  Int count = 0;
  if (good)
    check(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, Int(configs.size()), &count,
                                   configs.data()));
  for (std::size_t i = 0; good && i < std::size_t(count); ++i) {
    cudnnBackendDescriptor_t engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
    Int one = 0, of_notes = 0;
    check(cudnnBackendGetAttribute(configs[i], CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine));
    check(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE, Int(notes.size()), &of_notes,
                                   notes.data()));
    const bool blurs = of_notes > 0 && notes[0] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (any_engine ? !blurs : of_notes > 0) continue;
    if (in_capture) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
        other_plan ? &second : &handle);
    set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
    const cudnnStatus_t status = cudnnBackendFinalize(plan);
    if (status == CUDNN_STATUS_NOT_SUPPORTED) continue;
    check(status);
    if (good)
      check(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                     CUDNN_TYPE_INT64, 1, &one, &workspace_bytes));
    if (any_engine || workspace_bytes || !good) return good;
  }
  return false;
}

bool Images::execute() {
  const Numbers of_x = numbers(x_size, 1), of_w = numbers(w_size, 2);
  Numbers with_room = of_x;
  if (x_is_short) with_room.resize(x_size - 1);
  if (workspace_is_x) with_room.resize(2 * x_size);
  if (x_offset) with_room.insert(with_room.begin(), 1, 0.0);
  std::byte* const at_x = reinterpret_cast<std::byte*>(on_device(with_room)) + x_offset;
  double *const at_w = on_device(of_w), *const at_y = device_memory<double>(y_size);
  std::byte* const workspace = device_memory<std::byte>(std::size_t(workspace_bytes) + 16);
  const std::array<Int, 3> ids = {1, 2, pack_id};
  const std::array<const void*, 3> places = {at_x, at_w,
                                             null     ? nullptr
                                             : y_is_x ? static_cast<const void*>(at_x)
                                                      : at_y};
  const void* const given = no_workspace ? nullptr : workspace_is_x ? at_x : workspace;
  cudnnBackendDescriptor_t const pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  ok(cudaDeviceSynchronize());
  set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, places.data());
  set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &given);
  finalize(pack);
  if (other_thread)
    std::thread([&] { cudnnSetStream(handle, stream); }).join();
  else
    check(cudnnSetStream(handle, stream));
  if (shared_handle) check(cudnnSetStream(second, stream));
  if (other_device) ok(cudaSetDevice(1));
  if (good) check(cudnnBackendExecute(shared_handle ? second : handle, plan, pack));
  ok(cudaSetDevice(0));
  ok(cudaStreamSynchronize(stream));
  if (!good) return false;
  const Numbers got = from_device(at_y, y_size);
  bool close = true;
  std::size_t i = 0;
  for (Int n = 0; n < batch; ++n)
    for (Int row = 0; row < out_height; ++row)
      for (Int column = 0; column < out_width; ++column)
        for (Int k = 0; k < outputs; ++k, ++i) {
          double sum = 0;
          for (Int r = 0; r < taps; ++r)
            for (Int s = 0; s < taps; ++s)
              for (Int c = 0; c < channels; ++c) {
                const Int at_row = row * stride + r - 1, at_column = column * stride + s - 1;
                if (at_row < 0 || at_row >= height || at_column < 0 || at_column >= width) continue;
                sum +=
                    of_x[std::size_t(((n * height + at_row) * width + at_column) * channels + c)] *
                    of_w[std::size_t(((k * taps + r) * taps + s) * channels + c)];
              }
          close = close && std::abs(got[i] - sum) <= 1e-12;
        }
  return close;
}

bool Images::run() {
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudnnCreate(&handle));
  check(cudnnCreate(&second));
  return describe() && choose() && execute();
}

// A program with one fault: f makes a correct series of calls wrong.
template <auto f>
bool with(bool fault) {
  Images images;
  if (fault) f(images);
  return images.run();
}
using I = Images;
constexpr Program list[] = {
    {"convolution of cuDNN", with<[](I&) {}>, 0, ""},
    {"lengths not set", with<[](I& i) { i.unset = true; }>, check, "attribute is missing"},
    {"set after the finalizing", with<[](I& i) { i.set_twice = true; }>, check,
     "set after the finalizing"},
    {"part not finalized", with<[](I& i) { i.unfinished = true; }>, check, "was not finalized"},
    {"part destroyed", with<[](I& i) { i.destroyed = true; }>, check, "null or destroyed"},
    {"part of another kind", with<[](I& i) { i.other_kind = true; }>, check,
     "descriptor of another kind"},
    {"attribute of another type", with<[](I& i) { i.type_of_id = CUDNN_TYPE_DOUBLE; }>, check,
     "attribute is of another type"},
    {"too few lengths", with<[](I& i) { i.y_lengths.pop_back(); }>, check, "4 or 5 lengths"},
    {"step of 0", with<[](I& i) { i.w_steps[2] = 0; }>, check, "below 1"},
    {"overlapping elements", with<[](I& i) { i.y_steps[3] = 1; }>, check, "overlap"},
    {"alignment below the element", with<[](I& i) { i.alignment = 4; }>, check,
     "below the element"},
    {"padding below 0", with<[](I& i) { i.before[1] = -1; }>, check, "wrong padding"},
    {"padding for one axis", with<[](I& i) { i.after.pop_back(); }>, check, "wrong padding"},
    {"y of another length", with<[](I& i) { i.after[1] = 2; }>, check, "a length of y"},
    {"channels of another weight", with<[](I& i) { i.w_lengths[1] = 2; }>, check, "no multiple"},
    {"two tensors with one number", with<[](I& i) { i.y_id = i.pack_id = 1; }>, check,
     "one number"},
    {"virtual result", with<[](I& i) { i.virtual_y = true; }>, check, "not between two operations"},
    {"sums in float32 of float64", with<[](I& i) { i.single = true; }>, check,
     "not of the type of the sums"},
    {"factor of another type", with<[](I& i) { i.single_factor = 1; }>, check,
     "not of the type of the sums"},
    {"plan of another handle", with<[](I& i) { i.other_plan = true; }>, check, "different handles"},
    {"plan made in a capture", with<[](I& i) { i.in_capture = true; }>, check,
     "while a stream is captured"},
    {"plan run by another handle", with<[](I& i) { i.shared_handle = true; }>, check,
     "belongs to another handle"},
    {"handle of two threads", with<[](I& i) { i.other_thread = true; }>, check,
     "another thread has set"},
    {"plan on another device", with<[](I& i) { i.other_device = true; }>, check, "another device"},
    {"tensor not in the pack", with<[](I& i) { i.pack_id = 4; }>, check, "not in the variant pack"},
    {"y of a plan is null", with<[](I& i) { i.null = true; }>, check, "y is null"},
    {"x of a plan too short", with<[](I& i) { i.x_is_short = true; }>, check, "x does not fit"},
    {"x of a plan not aligned", with<[](I& i) { i.x_offset = 4; }>, check, "x is not aligned"},
    {"y of a plan over x", with<[](I& i) { i.y_is_x = true; }>, check, "overlaps"},
    {"plan without its workspace", with<[](I& i) { i.no_workspace = true; }>, check,
     "workspace is null"},
    {"workspace of a plan over x", with<[](I& i) { i.workspace_is_x = true; }>, check, "overlaps"},
    {"engine that sums in any order", with<[](I& i) { i.any_engine = true; }>, comparison, ""},
};
}  // namespace

std::span<const Program> in_convolutions() { return list; }
}  // namespace programs
