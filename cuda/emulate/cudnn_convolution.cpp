// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of cuDNN's backend API: their rules, the engines, and the reference, by plain loops.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cuda/emulate/cudnn_backend.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/elements.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"

namespace reel::emulate::dnn {
namespace {
using Int = std::int64_t;
using Numbers = std::vector<double>;

Dense dense_of(const Backend& tensor) {
  return {tensor.number(CUDNN_ATTR_TENSOR_UNIQUE_ID),
          tensor.number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
          cudnnDataType_t(tensor.number(CUDNN_ATTR_TENSOR_DATA_TYPE)),
          tensor.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS),
          tensor.numbers(CUDNN_ATTR_TENSOR_STRIDES),
          tensor.attributes.count(CUDNN_ATTR_TENSOR_IS_VIRTUAL) &&
              tensor.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL)};
}

double factor_of(const Elements& of) {
  double wide = 0;
  float narrow = 0;
  std::memcpy(&wide, of.bits.data(), sizeof(wide));
  std::memcpy(&narrow, of.bits.data(), sizeof(narrow));
  return of.type == CUDNN_TYPE_FLOAT ? double(narrow) : wide;
}

const char* wrong_shapes(const Problem& p) {
  const std::size_t rank = p.x.lengths.size();
  if (p.weight.lengths.size() != rank || p.y.lengths.size() != rank || p.stride.size() != rank - 2)
    return "the tensors and the convolution have different numbers of axes";
  const auto &x = p.x.lengths, &w = p.weight.lengths, &y = p.y.lengths;
  if (x[0] != y[0] || w[0] != y[1]) return "the batches or the channels of y differ";
  if (x[1] % w[1] || w[0] % (x[1] / w[1])) return "the channels are no multiple of the weight's";
  for (std::size_t a = 0; a + 2 < rank; ++a) {
    const Int reach = (w[a + 2] - 1) * p.dilation[a] + 1;
    const Int room = x[a + 2] + p.before[a] + p.after[a] - reach;
    if (room < 0 || room / p.stride[a] + 1 != y[a + 2])
      return "a length of y is not that of the convolution";
  }
  return nullptr;
}
bool are_last(const Dense& of) {
  Int step = 1;
  for (std::size_t i = 0; i < of.lengths.size(); ++i) {
    const std::size_t axis = i == 0 ? 1 : i + 1 < of.lengths.size() ? of.lengths.size() - i : 0;
    if (of.lengths[axis] > 1 && of.steps[axis] != step) return false;
    step *= of.lengths[axis];
  }
  return true;
}

// --- the reference ---
cudaDataType data_type(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return CUDA_R_64F;
    case CUDNN_DATA_FLOAT:
      return CUDA_R_32F;
    case CUDNN_DATA_HALF:
      return CUDA_R_16F;
    case CUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    default:
      return CUDA_C_8I;  // not emulated
  }
}
double with_bits(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::isfinite(x) ? std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits)
                          : x;
}

/// A tensor as [n, channels, depth, height, width].
struct Five {
  Int lengths[5], steps[5];
  explicit Five(const Dense& of) {
    const std::size_t missing = 5 - of.lengths.size();
    for (std::size_t i = 0; i < 5; ++i) {
      const bool has = i < 2 || i >= 2 + missing;
      lengths[i] = has ? of.lengths[i < 2 ? i : i - missing] : 1;
      steps[i] = has ? of.steps[i < 2 ? i : i - missing] : 0;
    }
  }
  std::size_t place(Int n, Int c, const Int (&at)[3]) const {
    return std::size_t(n * steps[0] + c * steps[1] + at[0] * steps[2] + at[1] * steps[3] +
                       at[2] * steps[4]);
  }
};

/// Calls f(place in x, in the weight, in y) for each product of a convolution.
template <class F>
void each_product(const Problem& p, const F& f) {
  const Five x(p.x), w(p.weight), y(p.y);
  const std::size_t missing = 3 - p.stride.size();
  const auto of_axis = [&](const std::vector<Int>& all, std::size_t a, Int other) {
    return a < missing ? other : all[a - missing];
  };
  const Int channels = w.lengths[1], outputs = w.lengths[0] / (x.lengths[1] / channels);
  Int to[3], tap[3], from[3];
  for (Int n = 0; n < y.lengths[0]; ++n)
    for (to[0] = 0; to[0] < y.lengths[2]; ++to[0])
      for (to[1] = 0; to[1] < y.lengths[3]; ++to[1])
        for (to[2] = 0; to[2] < y.lengths[4]; ++to[2])
          for (tap[0] = 0; tap[0] < w.lengths[2]; ++tap[0])
            for (tap[1] = 0; tap[1] < w.lengths[3]; ++tap[1])
              for (tap[2] = 0; tap[2] < w.lengths[4]; ++tap[2]) {
                bool inside = true;
                for (std::size_t a = 0; a < 3; ++a) {
                  from[a] = to[a] * of_axis(p.stride, a, 1) + tap[a] * of_axis(p.dilation, a, 1) -
                            of_axis(p.before, a, 0);
                  inside = inside && from[a] >= 0 && from[a] < x.lengths[a + 2];
                }
                for (Int k = 0; inside && k < w.lengths[0]; ++k)
                  for (Int c = 0; c < channels; ++c)
                    f(x.place(n, k / outputs * channels + c, from), w.place(k, c, tap),
                      y.place(n, k, to));
              }
}

struct Run {
  Problem problem;
  Engine engine;
  void *x = nullptr, *weight = nullptr, *y = nullptr, *bias = nullptr, *workspace = nullptr;
  std::vector<Range> ranges = {};

  Numbers read(const Dense& of, const void* at) const {
    Numbers all(of.bytes() / bytes_of(of.type));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = load(data_type(of.type), at, i);
      if (engine == Engine::tensor_core && of.type == CUDNN_DATA_FLOAT)
        all[i] = with_bits(all[i], 11);  // TF32
    }
    return all;
  }
  void compute() const {
    if (workspace) std::memset(workspace, 0xff, workspace_of(engine, problem));
    const Dense& out = problem.output();
    Numbers sums(out.bytes() / bytes_of(out.type));
    Numbers of_x, of_weight, of_y;
    if (&out != &problem.x) of_x = read(problem.x, x);
    if (&out != &problem.weight) of_weight = read(problem.weight, weight);
    if (&out != &problem.y) of_y = read(problem.y, y);
    each_product(problem, [&](std::size_t i, std::size_t j, std::size_t k) {
      if (&out == &problem.y)
        sums[k] += of_x[i] * of_weight[j];
      else if (&out == &problem.x)
        sums[i] += of_weight[j] * of_y[k];
      else
        sums[j] += of_x[i] * of_y[k];
    });
    const Numbers added = problem.has_bias ? read(problem.bias, bias) : Numbers{0};
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += added[i % added.size()];
    void* const to = &out == &problem.x ? x : &out == &problem.weight ? weight : y;
    for (std::size_t i = 0; i < sums.size(); ++i)
      store(data_type(out.type), to, i, blurred(sums[i]));
  }
  double blurred(double sum) const {
    if (engine == Engine::any_order) return sum * (1 + 1e-6 * double(roll(100)));
    if (engine == Engine::winograd) return with_bits(sum, 14);
    return engine == Engine::short_sums ? with_bits(sum, 9) : sum;
  }
};
}  // namespace

std::size_t bytes_of(cudnnDataType_t type) { return emulate::bytes_of(data_type(type)); }
std::size_t Dense::bytes() const {
  Int last = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) last += (lengths[i] - 1) * steps[i];
  return std::size_t(last + 1) * bytes_of(type);
}

// --- engines ---
std::vector<cudnnBackendNumericalNote_t> notes_of(Engine engine, const Problem& problem) {
  const bool single = problem.x.type == CUDNN_DATA_FLOAT;
  switch (engine) {
    case Engine::tensor_core:  // of float32 either note says that it rounds
      if (!single || roll(2)) return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
      return {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case Engine::any_order:
      return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case Engine::winograd:
      return {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4};
    case Engine::short_sums:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
    default:
      return {};
  }
}
std::size_t workspace_of(Engine engine, const Problem& problem) {
  return engine == Engine::with_workspace ? 1000 + problem.output().bytes() : 0;
}
std::vector<Engine> engines_for(const Problem& problem, cudnnBackendHeurMode_t mode) {
  const bool last = mode == CUDNN_HEUR_MODE_FALLBACK;
  if (state().refused == Convolutions::without_engines) return {};
  if (problem.sums == CUDNN_DATA_DOUBLE && !last) return {};
  for (const Dense* const each : {&problem.x, &problem.weight, &problem.y})
    if (!are_last(*each)) return {};
  std::vector<Engine> engines;
  for (const Engine each : {Engine::plain, Engine::with_workspace, Engine::tensor_core,
                            Engine::any_order, Engine::winograd, Engine::no_plan})
    if (last || roll(2)) engines.push_back(each);
  if (bytes_of(problem.x.type) == 2) engines.push_back(Engine::short_sums);
  shuffle(engines);
  return engines;
}

// --- checks ---
/// The attributes of the three operations follow each other in one order.
constexpr int alpha_of[] = {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA};
constexpr int to_beta = 1, to_convolution = 2, to_weight = 3, to_x = 4, to_y = 5;
static_assert(alpha_of[0] + to_y == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y &&
              alpha_of[1] + to_x == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX &&
              alpha_of[1] + to_convolution == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC &&
              alpha_of[2] + to_weight == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);

cudnnStatus_t read_operation(const Backend& operation, Problem& problem) {
  const int kind = operation.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? 0
                   : operation.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                       ? 1
                       : 2;
  const int first = alpha_of[kind];
  const Backend& convolution = operation.part(first + to_convolution);
  problem = {Problem::Result(kind),
             dense_of(operation.part(first + to_x)),
             dense_of(operation.part(first + to_weight)),
             dense_of(operation.part(first + to_y)),
             cudnnDataType_t(convolution.number(CUDNN_ATTR_CONVOLUTION_COMP_TYPE)),
             convolution.numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
             convolution.numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
             convolution.numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS),
             convolution.numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)};
  const Elements &alpha = operation.attributes.at(first),
                 &beta = operation.attributes.at(first + to_beta);
  const bool wide = problem.sums == CUDNN_DATA_DOUBLE;
  const auto type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  if (alpha.type != type || beta.type != type)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a factor is not of the type of the sums");
  if (factor_of(alpha) != 1 || factor_of(beta) != 0)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "only the factors 1 and 0 are emulated");
  if (problem.x.type != problem.weight.type || wide != (problem.x.type == CUDNN_DATA_DOUBLE) ||
      (problem.sums != CUDNN_DATA_FLOAT && !wide) ||
      problem.y.type != (problem.y.is_virtual ? problem.sums : problem.x.type))
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the data types of a convolution are not emulated");
  const Int x = problem.x.id, weight = problem.weight.id, y = problem.y.id;
  if (x == weight || weight == y || x == y)
    return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have one number");
  const char* const wrong = wrong_shapes(problem);
  return wrong ? refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, wrong) : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t read_graph(const Backend& graph, Problem& problem) {
  constexpr auto operations = CUDNN_ATTR_OPERATIONGRAPH_OPS;
  const Backend& first = graph.part(operations);
  if (first.kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the first operation is no convolution");
  problem = first.problem;
  const Dense sums = problem.y;
  problem.has_bias = graph.numbers(operations).size() == 2;
  if (sums.is_virtual != problem.has_bias)
    return refuse(CUDNN_STATUS_BAD_PARAM, "a virtual tensor is not between two operations");
  if (!problem.has_bias) return CUDNN_STATUS_SUCCESS;
  const Backend& second = *graph.address<Backend>(operations, 1);
  if (second.kind != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
      dense_of(second.part(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)).id != sums.id)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the second operation is not an addition to the first");
  problem.bias = dense_of(second.part(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  problem.y = dense_of(second.part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  std::vector<Int> of_bias(sums.lengths.size(), 1);
  of_bias[1] = sums.lengths[1];
  if (problem.bias.lengths != of_bias || problem.y.lengths != sums.lengths)
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "the bias or the sum has a wrong shape");
  const std::set<Int> ids = {problem.x.id, problem.weight.id, problem.bias.id, problem.y.id,
                             sums.id};
  if (ids.size() < 5)
    return refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors have one number");
  return problem.y.type == problem.x.type && problem.bias.type == problem.x.type
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_NOT_SUPPORTED, "the data types of a sum are not emulated");
}

cudnnStatus_t execute(cudnnHandle_t handle, const Backend& plan, const Backend& pack) {
  if (plan.handle != handle)
    return refuse(CUDNN_STATUS_BAD_PARAM, "the plan belongs to another handle");
  if (handle->thread != std::this_thread::get_id())
    return refuse(CUDNN_STATUS_BAD_PARAM, "another thread has set the stream of the handle");
  const cudaStream_t stream = find_stream(handle->stream);
  if (!stream) return refuse(CUDNN_STATUS_BAD_PARAM, "the stream of the handle was destroyed");
  const std::vector<Int>& ids = pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const Problem& p = plan.problem;
  if (ids.size() != (p.has_bias ? 4 : 3))
    return refuse(CUDNN_STATUS_BAD_PARAM, "the plan has another number of tensors");
  Run run{p, plan.engines[0]};
  run.workspace = pack.address<void>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  const auto add = [&](const char* name, const Dense& of, void*& at) {
    const auto found = std::find(ids.begin(), ids.end(), of.id);
    if (found == ids.end()) return false;
    at =
        pack.address<void>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::size_t(found - ids.begin()));
    run.ranges.push_back({name, at, of.bytes(), &of == &p.output() ? Use::write : Use::read, true,
                          std::size_t(of.alignment)});
    return true;
  };
  if (!add("x", p.x, run.x) || !add("the weight", p.weight, run.weight) || !add("y", p.y, run.y) ||
      (p.has_bias && !add("the bias", p.bias, run.bias)))
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor of the plan is not in the variant pack");
  if (const std::size_t bytes = workspace_of(run.engine, p))
    run.ranges.push_back({"the workspace", run.workspace, bytes, Use::write, true, 16});
  else
    run.workspace = nullptr;
  if (const cudnnStatus_t status = check_ranges(run.ranges)) return status;
  if (state().refused == Convolutions::without_runs) return CUDNN_STATUS_NOT_SUPPORTED;
  ++state().counts.convolutions;
  if (run.engine != Engine::plain && run.engine != Engine::with_workspace &&
      (p.x.type == CUDNN_DATA_FLOAT || run.engine != Engine::tensor_core))
    ++state().counts.blurred;
  note_use(handle, *stream);
  note_use(&plan, *stream);
  const cudaError_t error = enqueue(stream, [run = std::move(run)](Lane& lane, int) {
    touch_ranges(run.ranges, lane.identity, "cudnnBackendExecute");
    run.compute();
    return cudaSuccess;
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS
                              : refuse(CUDNN_STATUS_EXECUTION_FAILED, cudaGetErrorName(error));
}
}  // namespace reel::emulate::dnn
