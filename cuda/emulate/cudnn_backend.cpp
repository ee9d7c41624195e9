// SPDX-License-Identifier: BSD-3-Clause
// cuDNN's backend API: which attributes descriptors have, and in which order calls may come.
#include "cuda/emulate/cudnn_backend.hpp"

#include <algorithm>
#include <cstring>

#include "cuda/emulate/graph.hpp"

namespace reel::emulate::dnn {
namespace {
constexpr auto descriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;
constexpr auto tensor = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
constexpr auto convolution = CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
constexpr auto forward = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
constexpr auto of_data = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
constexpr auto of_filter = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
constexpr auto pointwise = CUDNN_BACKEND_POINTWISE_DESCRIPTOR;
constexpr auto addition = CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
constexpr auto graph = CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR;
constexpr auto heuristics = CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
constexpr auto engine = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
constexpr auto config = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
constexpr auto plan = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
constexpr auto pack = CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR;

bool is_operation(cudnnBackendDescriptorType_t kind) {
  return kind == forward || kind == of_data || kind == of_filter || kind == addition;
}

/// An attribute that a program sets.
struct Rule {
  cudnnBackendDescriptorType_t of;
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most = 1;  // elements
  int part = -1;          // the kind of a descriptor; -1: an operation
  bool required = true;
};
constexpr std::int64_t most_axes = CUDNN_DIM_MAX, most_spatial = most_axes - 2, most_tensors = 16;
#define REEL_OPERATION(kind, of, x, w, y)                                                \
  {kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_CONV_DESC, descriptor, 1, convolution}, \
      {kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##x, descriptor, 1, tensor},        \
      {kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##w, descriptor, 1, tensor},        \
      {kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##y, descriptor, 1, tensor},        \
      {kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_ALPHA, CUDNN_TYPE_DOUBLE}, {        \
    kind, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_BETA, CUDNN_TYPE_DOUBLE                \
  }
constexpr Rule rules[] = {
    {tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64},
    {tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE},
    {tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64},
    {tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, most_axes},
    {tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, most_axes},
    {tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, -1, false},
    {convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64},
    {convolution, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE},
    {convolution, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE},
    {convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, most_spatial},
    {convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, most_spatial},
    {convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, most_spatial},
    {convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, most_spatial},
    REEL_OPERATION(forward, FORWARD, X, W, Y),
    REEL_OPERATION(of_data, BWD_DATA, DX, W, DY),
    REEL_OPERATION(of_filter, BWD_FILTER, X, DW, DY),
    {pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE},
    {pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE},
    {addition, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, descriptor, 1, pointwise},
    {addition, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, descriptor, 1, tensor},
    {addition, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, descriptor, 1, tensor},
    {addition, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, descriptor, 1, tensor},
    {graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE},
    {graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, descriptor, 2},
    {heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, descriptor, 1, graph},
    {heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE},
    {plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE},
    {plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, descriptor, 1, config},
    {pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, most_tensors},
    {pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, most_tensors},
    {pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR}};
#undef REEL_OPERATION

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_FLOAT:
      return 4;
    default:
      return 8;
  }
}

cudnnStatus_t find(cudnnBackendDescriptor_t given, Backend*& found, bool must_be_final) {
  found = static_cast<Backend*>(given);
  if (!live<Backend>.count(found))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of the backend is null or destroyed");
  if (must_be_final && !found->is_final)
    return refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor was not finalized");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_part(const Rule& rule, cudnnBackendDescriptor_t given) {
  Backend* part = nullptr;
  if (const cudnnStatus_t status = find(given, part, true)) return status;
  if (rule.part < 0 ? !is_operation(part->kind) : part->kind != rule.part)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a part is a descriptor of another kind");
  return CUDNN_STATUS_SUCCESS;
}

/// Factors of sums in float32 are floats.
bool is_of_type(const Rule& rule, cudnnBackendAttributeType_t type) {
  return type == rule.type || (rule.type == CUDNN_TYPE_DOUBLE && type == CUDNN_TYPE_FLOAT);
}

cudnnStatus_t set(Backend& it, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::int64_t count, const void* elements) {
  if (it.is_final)
    return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is set after the finalizing");
  const auto* const rule = std::find_if(std::begin(rules), std::end(rules), [&](const Rule& each) {
    return each.of == it.kind && each.name == name;
  });
  if (rule == std::end(rules))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the attribute is not one of the descriptor");
  if (!is_of_type(*rule, type))
    return refuse(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "an attribute is of another type");
  if (count < 1 || count > rule->most || !elements)
    return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute has a wrong number of elements, or none");
  for (std::int64_t i = 0; type == descriptor && i < count; ++i)
    if (const cudnnStatus_t status =
            check_part(*rule, static_cast<const cudnnBackendDescriptor_t*>(elements)[i]))
      return status;
  std::vector<std::int64_t> bits(std::size_t(count), 0);
  for (std::size_t i = 0; i < bits.size(); ++i)
    std::memcpy(&bits[i], static_cast<const std::byte*>(elements) + i * size_of(type),
                size_of(type));
  it.attributes[name] = {type, std::move(bits)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_tensor(const Backend& it) {
  const auto &lengths = it.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS),
             &steps = it.numbers(CUDNN_ATTR_TENSOR_STRIDES);
  const std::int64_t alignment = it.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  const std::size_t size = bytes_of(cudnnDataType_t(it.number(CUDNN_ATTR_TENSOR_DATA_TYPE)));
  if (size == 0) return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a data type is not emulated");
  if (lengths.size() < 4 || lengths.size() > 5 || lengths.size() != steps.size())
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor has not 4 or 5 lengths and as many steps");
  if (*std::min_element(lengths.begin(), lengths.end()) < 1 ||
      *std::min_element(steps.begin(), steps.end()) < 1)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a length or a step of a tensor is below 1");
  if (alignment < std::int64_t(size) || (alignment & (alignment - 1)))
    return refuse(CUDNN_STATUS_BAD_PARAM, "an alignment is no power of 2, or below the element");
  // An axis steps over all that the axes with smaller steps reach.
  std::vector<std::size_t> order(lengths.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) {
    return std::pair(steps[a], lengths[a]) < std::pair(steps[b], lengths[b]);
  });
  std::int64_t reached = 1;
  for (const std::size_t axis : order) {
    if (lengths[axis] > 1 && steps[axis] < reached)
      return refuse(CUDNN_STATUS_BAD_PARAM, "elements of a tensor overlap");
    reached = std::max(reached, (lengths[axis] - 1) * steps[axis] + reached);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_convolution(const Backend& it) {
  const auto axes = std::size_t(it.number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  if (it.number(CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only cross-correlations are emulated");
  for (const auto& [name, least] : {std::pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0),
                                    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0},
                                    {CUDNN_ATTR_CONVOLUTION_DILATIONS, 1},
                                    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1}}) {
    const auto& values = it.numbers(name);
    if (values.size() != axes || *std::min_element(values.begin(), values.end()) < least)
      return refuse(CUDNN_STATUS_BAD_PARAM,
                    "a convolution has a wrong padding, dilation or stride");
  }
  return CUDNN_STATUS_SUCCESS;
}

bool is_capturing() {
  const auto& all = state().captures;
  return std::any_of(all.begin(), all.end(),
                     [](const auto& each) { return each->thread == std::this_thread::get_id(); });
}

cudnnStatus_t finish_plan(Backend& it) {
  const Backend& from = it.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  it.handle = it.address<cudnnContext>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
  if (const cudnnStatus_t status = check_handle(it.handle)) return status;
  if (it.handle != from.handle)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the plan and its graph have different handles");
  if (is_capturing())
    return refuse(CUDNN_STATUS_INTERNAL_ERROR, "a plan is made while a stream is captured");
  if (from.engines[0] == Engine::no_plan || state().refused == Convolutions::without_plans)
    return CUDNN_STATUS_NOT_SUPPORTED;
  it.problem = from.problem;
  it.engines = from.engines;
  ++state().counts.plans;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish(Backend& it) {
  if (it.is_final) return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is finalized twice");
  for (const Rule& rule : rules)
    if (rule.of == it.kind && rule.required && !it.attributes.count(rule.name))
      return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
  if (it.kind == tensor) return finish_tensor(it);
  if (it.kind == convolution) return finish_convolution(it);
  if (it.kind == pointwise)
    return it.number(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_ADD &&
                   it.number(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT
               ? CUDNN_STATUS_SUCCESS
               : refuse(CUDNN_STATUS_NOT_SUPPORTED, "only additions in float32 are emulated");
  if (it.kind == addition) return CUDNN_STATUS_SUCCESS;
  if (is_operation(it.kind)) return read_operation(it, it.problem);
  if (it.kind == plan) return finish_plan(it);
  if (it.kind == graph) {
    it.handle = it.address<cudnnContext>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
    const cudnnStatus_t status = check_handle(it.handle);
    return status ? status : read_graph(it, it.problem);
  }
  if (it.kind == heuristics) {
    const Backend& from = it.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    it.problem = from.problem;
    it.handle = from.handle;
    it.engines =
        engines_for(it.problem, cudnnBackendHeurMode_t(it.number(CUDNN_ATTR_ENGINEHEUR_MODE)));
    return it.engines.empty() ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
  }
  if (it.kind != pack) return refuse(CUDNN_STATUS_BAD_PARAM, "only cuDNN fills an engine");
  return it.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() ==
                 it.numbers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_BAD_PARAM, "a variant pack has not an address for each number");
}

/// Fills descriptors of the caller.
cudnnStatus_t fill(const Backend& from, cudnnBackendDescriptorType_t kind, std::int64_t wanted,
                   std::int64_t* count, void* elements) {
  *count = std::int64_t(from.engines.size());
  for (std::int64_t i = 0; i < std::min(wanted, *count); ++i) {
    Backend* to = nullptr;
    if (const cudnnStatus_t status =
            find(static_cast<cudnnBackendDescriptor_t*>(elements)[i], to, false))
      return status;
    if (to->kind != kind || to->is_final)
      return refuse(CUDNN_STATUS_BAD_PARAM, "a result needs a new descriptor of its kind");
    to->is_final = true;
    to->problem = from.problem;
    to->handle = from.handle;
    to->engines = {from.engines[std::size_t(i)]};
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t get(const Backend& it, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, std::int64_t wanted, std::int64_t* count,
                  void* elements) {
  if (wanted < 1 || !count || !elements)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the place of an attribute is null, or for no element");
  if (it.kind == heuristics && name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == descriptor)
    return fill(it, config, wanted, count, elements);
  if (it.kind == config && name == CUDNN_ATTR_ENGINECFG_ENGINE && type == descriptor)
    return fill(it, engine, wanted, count, elements);
  if (it.kind == engine && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE &&
      type == CUDNN_TYPE_NUMERICAL_NOTE) {
    const auto notes = notes_of(it.engines[0], it.problem);
    *count = std::int64_t(notes.size());
    std::copy_n(notes.begin(), std::min(wanted, *count),
                static_cast<cudnnBackendNumericalNote_t*>(elements));
    return CUDNN_STATUS_SUCCESS;
  }
  if (it.kind != plan || name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE ||
      type != CUDNN_TYPE_INT64)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "reading the attribute is not emulated");
  *count = 1;
  *static_cast<std::int64_t*>(elements) = std::int64_t(workspace_of(it.engines[0], it.problem));
  return CUDNN_STATUS_SUCCESS;
}
}  // namespace
}  // namespace reel::emulate::dnn

using namespace reel::emulate;
using namespace reel::emulate::dnn;

extern "C" {
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind,
                                           cudnnBackendDescriptor_t* place) {
  Entry entry;
  const auto is_of_kind = [=](const Rule& rule) { return rule.of == kind; };
  if (!place) return refuse(CUDNN_STATUS_BAD_PARAM, "the place of a new descriptor is null");
  if (std::none_of(std::begin(rules), std::end(rules), is_of_kind) && kind != config &&
      kind != engine)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a kind of descriptor is not emulated");
  auto* const made = new Backend{kind};
  live<Backend>.insert(made);
  *place = made;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t given) {
  Entry entry;
  Backend* it = nullptr;
  if (const cudnnStatus_t status = find(given, it, false)) return status;
  live<Backend>.erase(it);
  delete it;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t given,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  Entry entry;
  Backend* it = nullptr;
  if (const cudnnStatus_t status = find(given, it, false)) return status;
  return set(*it, name, type, count, elements);
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given) {
  Entry entry;
  Backend* it = nullptr;
  if (const cudnnStatus_t status = find(given, it, false)) return status;
  const cudnnStatus_t status = finish(*it);
  it->is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const given,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t* count, void* elements) {
  Entry entry;
  Backend* it = nullptr;
  if (const cudnnStatus_t status = find(given, it, true)) return status;
  return get(*it, name, type, wanted, count, elements);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t given_plan,
                                  cudnnBackendDescriptor_t given_pack) {
  Entry entry;
  Backend *of_plan = nullptr, *of_pack = nullptr;
  if (const cudnnStatus_t status = check_handle(handle)) return status;
  if (const cudnnStatus_t status = find(given_plan, of_plan, true)) return status;
  if (const cudnnStatus_t status = find(given_pack, of_pack, true)) return status;
  if (of_plan->kind != plan || of_pack->kind != pack)
    return refuse(CUDNN_STATUS_BAD_PARAM, "no plan, or no variant pack");
  return execute(handle, *of_plan, *of_pack);
}
}
