// SPDX-License-Identifier: BSD-3-Clause
// The rules for handles, addresses, and the arguments of a call on a recurrent layer.
#include "cuda/emulate/cudnn.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/report.hpp"

namespace reel::emulate::dnn {
namespace {
constexpr std::size_t space_alignment = 16;

std::uintptr_t number(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

cudnnStatus_t check_state(const Call& call, cudnnTensorDescriptor_t state) {
  if (const cudnnStatus_t status = check_descriptor(state)) return status;
  const int batch = int(call.batch), hidden = int(call.net.hidden);
  if (state->type != call.net.type || state->sizes != std::vector{1, batch, hidden} ||
      state->strides != std::vector{batch * hidden, hidden, 1})
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  "a state is not a packed [1, batch, hidden] of the layer's type");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check(const Range& range) {
  if (!range.at)
    return range.required ? refuse(CUDNN_STATUS_BAD_PARAM, "is null", range.name)
                          : CUDNN_STATUS_SUCCESS;
  const Location there = locate(range.at);
  if (there.device != &current_device())
    return refuse(CUDNN_STATUS_BAD_PARAM, "is not in the memory of the handle's device",
                  range.name);
  if (!is_within(there, range.at, range.bytes))
    return refuse(CUDNN_STATUS_BAD_PARAM, "does not fit its memory", range.name);
  if (number(range.at) % range.alignment)
    return refuse(CUDNN_STATUS_BAD_PARAM, "is not aligned", range.name);
  return CUDNN_STATUS_SUCCESS;
}

bool overlap(const Range& a, const Range& b) {
  return a.at && b.at && number(a.at) < number(b.at) + b.bytes &&
         number(b.at) < number(a.at) + a.bytes;
}
}  // namespace

cudnnStatus_t refuse(cudnnStatus_t status, const char* why, const char* what) {
  explain("cuDNN: %s: %s%s%s", cudnnGetErrorString(status), what, *what ? " " : "", why);
  return status;
}

cudnnStatus_t check_ranges(const std::vector<Range>& ranges) {
  for (const Range& range : ranges)
    if (const cudnnStatus_t status = check(range)) return status;
  for (const Range& out : ranges)
    for (const Range& other : ranges)
      if (&out != &other && out.use != Use::read && overlap(out, other))
        return refuse(CUDNN_STATUS_BAD_PARAM, "overlaps another argument", out.name);
  return CUDNN_STATUS_SUCCESS;
}
void touch_ranges(const std::vector<Range>& ranges, Identity lane, const char* call) {
  for (const Range& range : ranges) {
    if (!range.at) continue;
    if (range.use != Use::write) touch_read(lane, range.at, range.bytes, call);
    if (range.use != Use::read) touch_write(lane, const_cast<void*>(range.at), range.bytes, call);
  }
}

std::size_t reserve_bytes(const Call& call) {
  std::size_t bytes = reserve_header + call.y_bytes() * (call.net.gates() + 1) + 8;
  while (call.net.hidden > 1 && bytes % call.net.hidden == 0) ++bytes;
  return bytes;
}
std::size_t workspace_bytes(const Call& call) {
  return 1000 + call.h_bytes() * call.net.gates() + call.x_bytes();
}

cudnnStatus_t check_handle(cudnnHandle_t handle) {
  if (host_thread().in_host_function) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!live<cudnnContext>.count(handle))
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "no such handle");
  if (handle->device != host_thread().device)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the handle belongs to another device");
  current_device().has_context = host_thread().has_context = true;
  return current_device().sticky == cudaSuccess ? CUDNN_STATUS_SUCCESS
                                                : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t read_shapes(Call& call, cudnnRNNDescriptor_t net, cudnnRNNDataDescriptor_t x) {
  if (const cudnnStatus_t status = check_descriptor(net)) return status;
  if (const cudnnStatus_t status = check_descriptor(x)) return status;
  if (x->size != net->input || x->type != net->type)
    return refuse(CUDNN_STATUS_BAD_PARAM, "x has another vector size or type than the layer");
  call.net = *net;
  call.steps = x->steps;
  call.batch = x->batch;
  call.lengths = x->lengths;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_outputs(Call& call, cudnnRNNDataDescriptor_t x, cudnnRNNDataDescriptor_t y,
                            cudnnTensorDescriptor_t h, cudnnTensorDescriptor_t c, bool has_c) {
  if (const cudnnStatus_t status = check_descriptor(y)) return status;
  if (y->size != call.net.hidden || y->type != call.net.type)
    return refuse(CUDNN_STATUS_BAD_PARAM, "y has another vector size or type than the layer");
  if (y->steps != x->steps || y->batch != x->batch || y->lengths != x->lengths)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the sequences of x and y have different shapes");
  call.fill = y->fill;
  if (const cudnnStatus_t status = check_state(call, h)) return status;
  return has_c ? check_state(call, c) : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_memory(Call& call, std::size_t weight_bytes, Use of_reserve) {
  if (weight_bytes != weights_of(call.net).bytes)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the size of the weight space is wrong");
  if (call.workspace_bytes < workspace_bytes(call))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the workspace is too small");
  if (call.is_training && call.reserve_bytes < reserve_bytes(call))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the reserve space is too small");
  for (Range& range : call.ranges) range.alignment = call.net.element();
  const bool of_gradient = call.dweights != nullptr;
  call.ranges.push_back({"the weight space", of_gradient ? call.dweights : call.weights,
                         weight_bytes, of_gradient ? Use::update : Use::read, true,
                         space_alignment});
  call.ranges.push_back(
      {"the workspace", call.workspace, call.workspace_bytes, Use::write, true, space_alignment});
  if (call.is_training)
    call.ranges.push_back(
        {"the reserve space", call.reserve, call.reserve_bytes, of_reserve, true, space_alignment});
  return check_ranges(call.ranges);
}
}  // namespace reel::emulate::dnn
