// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by the backend API of cuDNN: graphs of one convolution. The plan of a graph belongs
// to a handle, and a thread has a handle for each device.
#include "cuda/convolution_cudnn.hpp"

#if __has_include(<cudnn.h>)
#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <mutex>
#include <span>

#include "cuda/cudnn_library.hpp"
#include "cuda/matmul.hpp"

namespace reel::gpu {
namespace {
using Int = std::int64_t;
using Result = CudnnConvolution::Result;

// --- descriptors ---
constexpr auto type_of(Int) { return CUDNN_TYPE_INT64; }
constexpr auto type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto type_of(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto type_of(double) { return CUDNN_TYPE_DOUBLE; }
constexpr auto type_of(void*) { return CUDNN_TYPE_VOID_PTR; }
constexpr auto type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr auto type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto type_of(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto type_of(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }

/// A descriptor. Its calls must outlive it, unless it is only destroyed.
class Descriptor {
 public:
  Descriptor(Calls& calls, cudnnBackendDescriptorType_t type) : calls_(&calls) {
    calls.then(cudnn().BackendCreateDescriptor, type, &made_);
  }
  Descriptor(Descriptor&& from) noexcept
      : calls_(from.calls_), made_(std::exchange(from.made_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (made_) cudnn().BackendDestroyDescriptor(made_);
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, std::span<const T>(&value, 1));
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return set(name, type_of(values[0]), values.size(), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part.made_);
  }
  Descriptor& set_parts(cudnnBackendAttributeName_t name,
                        std::span<const cudnnBackendDescriptor_t> parts) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, parts.size(), parts.data());
  }
  Descriptor& finalize() {
    calls_->then(cudnn().BackendFinalize, made_);
    return *this;
  }
  /// Reads up to values.size() values of a final descriptor. The number that there are.
  template <class T>
  std::size_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::span<T> values) const {
    Int count = 0;
    calls_->then(cudnn().BackendGetAttribute, made_, name, type, static_cast<Int>(values.size()),
                 &count, values.data());
    if (!calls_->succeeded() || count < 0) return 0;
    return std::min(static_cast<std::size_t>(count), values.size());
  }
  cudnnBackendDescriptor_t handle() const { return made_; }

 private:
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::size_t count, const void* values) {
    calls_->then(cudnn().BackendSetAttribute, made_, name, type, static_cast<Int>(count), values);
    return *this;
  }
  Calls* calls_;
  cudnnBackendDescriptor_t made_ = nullptr;
};
using Parts = OwnVector<Descriptor>;

// --- the operation ---
cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return CUDNN_DATA_DOUBLE;
    case DType::float16:
      return CUDNN_DATA_HALF;
    case DType::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}
/// The padding behind spatial axis a for which cuDNN computes the length of y; -1 if there is none.
Int after(const ConvolutionSizes& g, int a) {
  const Int reach = (g.taps[a] - 1) * g.dilation[a] + 1;
  const Int padding =
      std::max<Int>(0, (g.out[a] - 1) * g.stride[a] + reach - g.in[a] - g.before[a]);
  return (g.in[a] + g.before[a] + padding - reach) / g.stride[a] + 1 == g.out[a] ? padding : -1;
}
/// The first of the axes that cuDNN gets. It has two or three; images and lines have no depth.
int first_axis(const ConvolutionSizes& g) {
  return g.in[0] == 1 && g.out[0] == 1 && g.taps[0] == 1 && g.before[0] == 0 ? 1 : 0;
}
/// Whether cuDNN can take a convolution, and takes it faster than the kernels: it is slow if groups
/// have few channels, and its first depthwise call takes seconds.
bool fits(const CudnnConvolution& c) {
  const ConvolutionSizes& g = c.sizes;
  constexpr Int most = Int{1} << 31;
  if (g.groups > 1 && std::min(g.channels, g.outputs) < 16) return false;
  Int x = g.batch * g.channels * g.groups, y = g.batch * g.outputs * g.groups,
      weight = g.channels * g.outputs * g.groups;
  for (int a = 0; a < 3; ++a) {
    x *= g.in[a];
    y *= g.out[a];
    weight *= g.taps[a];
    if (x == 0 || y == 0 || weight == 0 || after(g, a) < 0) return false;
  }
  return x > 0 && y > 0 && weight > 0 && std::max({x, y, weight}) < most;
}

/// The alignment of an address, at most 16 bytes.
Int alignment_of(const void* at) {
  return Int{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(at) | 16);
}
enum : Int { id_of_x = 1, id_of_weight, id_of_y, id_of_bias, id_of_sums };

/// A tensor [n, channels, spatial axes] for cuDNN, with channels last in memory. A virtual one is
/// in no memory.
Descriptor tensor(Calls& calls, Int id, DType dtype, Int alignment, Int n, Int channels,
                  std::span<const Int> spatial, bool is_virtual = false) {
  std::array<Int, 5> lengths = {n, channels}, steps = {0, 1};
  Int step = channels;
  for (std::size_t axis = spatial.size(); axis-- > 0; step *= spatial[axis]) {
    lengths[axis + 2] = spatial[axis];
    steps[axis + 2] = step;
  }
  steps[0] = step;
  const std::size_t rank = spatial.size() + 2;
  Descriptor made(calls, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(dtype))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const Int>(lengths.data(), rank))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const Int>(steps.data(), rank))
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finalize();
  return made;
}

/// What an operation calls its parts, by Result.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, weight, y, alpha, beta;
};
constexpr Names names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

/// The operation y = sums + bias, behind its parts.
Descriptor& add_bias(Calls& calls, const CudnnConvolution& c, Parts& parts, const Descriptor& sums,
                     const Descriptor& y, std::size_t axes) {
  const std::array<Int, 3> ones = {1, 1, 1};
  const Descriptor& bias =
      parts.emplace_back(tensor(calls, id_of_bias, c.dtype, alignment_of(c.bias), 1,
                                c.sizes.outputs * c.sizes.groups, std::span(ones).first(axes)));
  Descriptor& addition = parts.emplace_back(calls, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  addition.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .finalize();
  return parts.emplace_back(calls, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, addition)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sums)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)
      .finalize();
}

/// The graph, behind the parts that it refers to.
Parts graph_of(Calls& calls, cudnnHandle_t handle, const CudnnConvolution& c) {
  const ConvolutionSizes& g = c.sizes;
  const int first = first_axis(g);
  const auto own = [=](const auto& lengths) {
    return std::span<const Int>(lengths).subspan(static_cast<std::size_t>(first));
  };
  const std::array<Int, 3> behind = {after(g, 0), after(g, 1), after(g, 2)};
  const cudnnDataType_t sums = c.dtype == DType::float64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const Names& of = names[static_cast<int>(c.result)];
  Parts parts;
  parts.reserve(10);  // none of them moves
  Descriptor& x = parts.emplace_back(tensor(calls, id_of_x, c.dtype, alignment_of(c.x), g.batch,
                                            g.channels * g.groups, own(g.in)));
  Descriptor& weight = parts.emplace_back(
      tensor(calls, id_of_weight, c.dtype, 16, g.outputs * g.groups, g.channels, own(g.taps)));
  const auto result = [&](Int id, DType dtype, const void* at, bool is_virtual) -> Descriptor& {
    return parts.emplace_back(tensor(calls, id, dtype, alignment_of(at), g.batch,
                                     g.outputs * g.groups, own(g.out), is_virtual));
  };
  const Descriptor& y = result(id_of_y, c.dtype, c.y, false);
  const Descriptor& to = c.bias ? result(id_of_sums, DType::float32, nullptr, true) : y;
  Descriptor& convolution = parts.emplace_back(calls, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Int{3 - first})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, sums)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, own(g.before))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, own(behind))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, own(g.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, own(g.stride))
      .finalize();
  Descriptor& operation = parts.emplace_back(calls, of.type);
  operation.set(of.convolution, convolution).set(of.x, x).set(of.weight, weight).set(of.y, to);
  if (sums == CUDNN_DATA_DOUBLE)
    operation.set(of.alpha, 1.).set(of.beta, 0.);
  else
    operation.set(of.alpha, 1.f).set(of.beta, 0.f);
  operation.finalize();
  std::array<cudnnBackendDescriptor_t, 2> operations = {operation.handle()};
  if (c.bias) operations[1] = add_bias(calls, c, parts, to, y, own(g.out).size()).handle();
  parts.emplace_back(calls, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle)
      .set_parts(CUDNN_ATTR_OPERATIONGRAPH_OPS, std::span(operations).first(c.bias ? 2 : 1))
      .finalize();
  return parts;
}

// --- plans ---
struct Plan {
  cudnnBackendDescriptor_t plan = nullptr;  // null: cuDNN has none
  std::size_t workspace = 0;
};

/// Whether an engine with this note computes in the dtype, always in one order, and without the
/// large rounding errors of methods that transform their inputs.
bool is_allowed(cudnnBackendNumericalNote_t note, DType dtype) {
  const bool may_round = dtype == DType::float32 && Products::use_tf32();
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return dtype != DType::float32 || may_round;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return may_round;
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return false;
    default:
      return true;
  }
}
bool is_allowed(Calls& calls, const Descriptor& config, DType dtype) {
  Descriptor engine(calls, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t made = engine.handle();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::span(&made, 1));
  using Note = cudnnBackendNumericalNote_t;
  Note all[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  const std::span<Note> notes(all);
  const std::size_t count =
      engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  return calls.succeeded() &&
         std::all_of(all, all + count, [=](Note note) { return is_allowed(note, dtype); });
}

/// Makes the plan of an engine's configuration. What it stands on goes to `kept`.
bool make_plan(Calls& calls, cudnnHandle_t handle, Descriptor& config, Parts& kept, Plan& plan) {
  constexpr Int most_workspace = Int{1} << 29;
  Descriptor made(calls, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  Int workspace = 0;
  made.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config)
      .finalize()
      .get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, std::span(&workspace, 1));
  if (!calls.succeeded() || workspace < 0 || workspace > most_workspace) return false;
  kept.push_back(std::move(config));
  kept.push_back(std::move(made));
  plan = {kept.back().handle(), static_cast<std::size_t>(workspace)};
  return true;
}

/// The plan of the first engine that is allowed. An engine may refuse to make one, and takes long
/// to make one, so that only the first ones are made. False if the device lacked memory.
bool find_plan(Gpu& gpu, cudnnHandle_t handle, const CudnnConvolution& c, Parts& kept, Plan& plan) {
  constexpr std::size_t most_engines = 32;
  Calls of_graph{gpu};
  Parts parts = graph_of(of_graph, handle, c);
  bool lacked_memory = lacks_memory(of_graph.status);
  for (const cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!of_graph.succeeded()) break;
    Calls calls{gpu};
    Descriptor heuristics(calls, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, parts.back())
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
        .finalize();
    Parts configs;
    configs.reserve(most_engines);
    std::array<cudnnBackendDescriptor_t, most_engines> of_configs{};
    for (cudnnBackendDescriptor_t& each : of_configs)
      each = configs.emplace_back(calls, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).handle();
    const std::size_t count =
        heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       std::span<cudnnBackendDescriptor_t>(of_configs));
    lacked_memory = lacked_memory || lacks_memory(calls.status);
    for (std::size_t i = 0; i < count && !plan.plan; ++i) {
      calls.status = CUDNN_STATUS_SUCCESS;  // that of each engine
      if (is_allowed(calls, configs[i], c.dtype)) make_plan(calls, handle, configs[i], kept, plan);
      lacked_memory = lacked_memory || lacks_memory(calls.status);
    }
    if (plan.plan) break;
  }
  cudaGetLastError();
  if (plan.plan) std::move(parts.begin(), parts.end(), std::back_inserter(kept));
  return plan.plan || !lacked_memory;
}

/// Everything that a plan depends on, beside its handle.
using Key = std::array<Int, 25>;
Key key_of(const CudnnConvolution& c) {
  const ConvolutionSizes& g = c.sizes;
  Int kind = static_cast<Int>(c.result);
  for (const Int fact : {static_cast<Int>(c.dtype), alignment_of(c.x), alignment_of(c.y),
                         c.bias ? alignment_of(c.bias) : 0})
    kind = kind * 64 + fact;
  Key key = {kind, g.batch, g.channels, g.outputs, g.groups};
  auto* to = key.data() + 5;
  for (const auto* const of : {g.in, g.out, g.taps, g.stride, g.dilation, g.before})
    to = std::copy_n(of, 3, to);
  return key;
}

/// The handle of a thread, with its plans. Kernels of plans may be in CUDA graphs, so that plans
/// and their parts stay; if there are more convolutions than most_plans, the kernels of
/// convolution.cu compute the others.
struct Handle {
  static constexpr std::size_t most_plans = 4096;
  std::mutex mutex;  // if there are more than 32 threads, some share a stream and a handle
  cudnnHandle_t handle = nullptr;
  bool tried = false;
  OwnMap<Key, Plan> plans;
  Parts kept;

  bool open(Gpu& gpu) {
    if (tried) return handle;
    Calls calls{gpu};
    calls.then(cudnn().Create, &handle);
    tried = !lacks_memory(calls.status);
    if (!calls.succeeded()) handle = nullptr;
    if (!calls.succeeded()) cudaGetLastError();
    return handle;
  }
};
/// That of this thread and the device. A thread that ends leaves it to another one, as its stream.
Handle& handle_here(Gpu& gpu) {
  static std::mutex mutex;
  static auto& all = *new_for_ever<OwnMap<std::pair<int, int>, Handle>>();
  const std::pair key(gpu.index, gpu.streams.mine().number);
  const std::lock_guard held(mutex);
  return all[key];
}

/// In a capture nothing is made. Calls that are captured have run one by one before, so that the
/// plan is there, unless another thread has run them. Then the capture fails, and a later one has
/// the plan.
Plan find(const Queue& queue, Handle& here, const Key& key, const CudnnConvolution& c) {
  {
    const std::lock_guard held(here.mutex);
    if (const auto found = here.plans.find(key); found != here.plans.end()) return found->second;
    const bool can_have_one =
        (!here.tried || here.handle) && here.plans.size() < Handle::most_plans;
    if (!can_have_one) return {};
    if (!Capture::current()) {
      Plan made;
      if (here.open(*queue.gpu) && find_plan(*queue.gpu, here.handle, c, here.kept, made))
        here.plans.emplace(key, made);
      return made;
    }
  }
  queue.refuse("a plan of cuDNN that an earlier call has made", "none", "");
}

/// False if cuDNN does not compute the call after all. Then it is not asked again.
bool run(const Queue& queue, Handle& here, const Key& key, const Plan& plan,
         const CudnnConvolution& c, void* weight, void* workspace) {
  const std::lock_guard held(here.mutex);
  Calls calls{*queue.gpu};
  const std::array<Int, 4> ids = {id_of_x, id_of_weight, id_of_y, id_of_bias};
  const std::array<void*, 4> at = {const_cast<void*>(c.x), weight, const_cast<void*>(c.y),
                                   const_cast<void*>(c.bias)};
  const std::size_t tensors = c.bias ? 4 : 3;
  Descriptor pack(calls, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span(ids).first(tensors))
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span(at).first(tensors))
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  calls.then(cudnn().SetStream, here.handle, queue.stream)
      .then(cudnn().BackendExecute, here.handle, plan.plan, pack.handle());
  if (calls.succeeded()) return true;
  if (!lacks_memory(calls.status)) here.plans[key] = {};
  cudaGetLastError();  // one that stays comes again at the launch of a kernel
  return false;
}
}  // namespace

/// The op's weight is [taps, channels, outputs]. That of cuDNN is [outputs, taps, channels].
bool convolve_by_cudnn(const Queue& queue, const CudnnConvolution& c) {
  if (!Cudnn::is_allowed() || !fits(c) || !cudnn().exists) return false;
  Handle& here = handle_here(*queue.gpu);
  const Key key = key_of(c);
  const Plan plan = find(queue, here, key, c);
  if (!plan.plan) return false;
  const ConvolutionSizes& g = c.sizes;
  const Int rows = g.taps[0] * g.taps[1] * g.taps[2] * g.channels, columns = g.outputs * g.groups;
  const int size = size_of(c.dtype);
  void* const weight = queue.scratch(static_cast<std::size_t>(rows * columns * size));
  void* const workspace = plan.workspace ? queue.scratch(plan.workspace) : nullptr;
  if (c.result != Result::weight) copy_transposed(queue, size, columns, rows, c.weight, weight);
  if (!run(queue, here, key, plan, c, weight, workspace)) return false;
  if (c.result == Result::weight)
    copy_transposed(queue, size, rows, columns, weight, const_cast<void*>(c.weight));
  return true;
}
}  // namespace reel::gpu

#else  // without the header of cuDNN

namespace reel::gpu {
bool convolve_by_cudnn(const Queue&, const CudnnConvolution&) { return false; }
}  // namespace reel::gpu
#endif
