// SPDX-License-Identifier: BSD-3-Clause
// The reference product. It is queued like a kernel.
#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cuda/emulate/cublaslt.hpp"
#include "cuda/emulate/dice.hpp"
#include "cuda/emulate/memory.hpp"
#include "cuda/emulate/queue.hpp"

struct cublasLtContext {
  int device = 0;
};

namespace reel::emulate::products {
namespace {
std::set<cublasLtHandle_t>& handles() {
  static std::set<cublasLtHandle_t> all;
  return all;
}

// TF32 drops the last 13 bits of the fraction.
double as_tf32(double x) {
  const float value = float(x);
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x1000u) & ~0x1fffu;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(bits));
  return std::isfinite(value) ? double(rounded) : x;
}

// One matrix of a batch, in double.
struct View {
  const Layout& layout;
  std::byte* at;

  std::size_t index(std::uint64_t row, std::uint64_t column) const {
    const auto leading = std::uint64_t(layout.leading);
    return layout.order == CUBLASLT_ORDER_ROW ? row * leading + column : column * leading + row;
  }
  double get(std::uint64_t row, std::uint64_t column) const {
    return load(layout.type, at, index(row, column));
  }
  void set(std::uint64_t row, std::uint64_t column, double x) const {
    store(layout.type, at, index(row, column), x);
  }
  // Row by row (or column by column), because the gaps between them are not accessed.
  template <class F>
  void each_line(F f) const {
    const bool by_rows = layout.order == CUBLASLT_ORDER_ROW;
    const std::size_t element = bytes_of(layout.type);
    const std::uint64_t lines = by_rows ? layout.rows : layout.columns;
    const std::uint64_t length = by_rows ? layout.columns : layout.rows;
    for (std::uint64_t line = 0; line < lines; ++line)
      f(at + line * std::uint64_t(layout.leading) * element, length * element);
  }
};

View matrix(const Layout& layout, const void* at, std::int32_t batch) {
  const auto element = std::ptrdiff_t(bytes_of(layout.type));
  auto* const first = const_cast<std::byte*>(static_cast<const std::byte*>(at));
  return {layout, first + batch * layout.batch_stride * element};
}

double activate(double x, std::uint32_t epilogue) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return x > 0 ? x : 0;
  if (epilogue & CUBLASLT_EPILOGUE_GELU)  // the vendor uses the tanh approximation
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return x;
}

// alpha and beta as doubles. Host values were read at the call.
struct Scale {
  double alpha = 0, beta = 0;
};

void note_accesses(const Product& p, bool reads_c, Identity lane) {
  const char* const what = "cublasLtMatmul";
  const auto read = [=](const void* at, std::size_t bytes) { touch_read(lane, at, bytes, what); };
  for (std::int32_t batch = 0; batch < p.d.batches; ++batch) {
    matrix(p.a, p.at_a, batch).each_line(read);
    matrix(p.b, p.at_b, batch).each_line(read);
    if (reads_c) matrix(p.c, p.at_c, batch).each_line(read);
    matrix(p.d, p.at_d, batch).each_line([=](void* at, std::size_t bytes) {
      touch_write(lane, at, bytes, what);
    });
    if (p.operation.epilogue & CUBLASLT_EPILOGUE_BIAS) {
      Layout bias = p.d;
      bias.columns = 1;
      bias.batch_stride = p.operation.bias_stride;
      matrix(bias, p.operation.bias, batch).each_line(read);
    }
  }
  // Two concurrent products must not share a workspace.
  touch_write(lane, p.workspace, p.algorithm.workspace, "the workspace of cublasLtMatmul");
}

void multiply(const Product& p, std::int32_t batch, Scale scale) {
  const bool ta = p.operation.transpose_a != CUBLAS_OP_N,
             tb = p.operation.transpose_b != CUBLAS_OP_N;
  const bool tf32 = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const View a = matrix(p.a, p.at_a, batch), b = matrix(p.b, p.at_b, batch);
  const View d = matrix(p.d, p.at_d, batch);
  const std::uint64_t depth = ta ? p.a.rows : p.a.columns;
  Layout bias = p.d;
  bias.batch_stride = p.operation.bias_stride;
  const auto rounded = [](cudaDataType type, double x) {
    double number = 0;
    store(type, &number, 0, x);
    return load(type, &number, 0);
  };
  for (std::uint64_t column = 0; column < p.d.columns; ++column)
    for (std::uint64_t row = 0; row < p.d.rows; ++row) {
      double sum = 0;
      for (std::uint64_t i = 0; i < depth; ++i) {
        const double x = ta ? a.get(i, row) : a.get(row, i),
                     y = tb ? b.get(column, i) : b.get(i, column);
        sum += tf32 ? as_tf32(x) * as_tf32(y) : x * y;
        if (p.algorithm.rounds_parts && i == depth / 2) sum = rounded(p.d.type, sum);
      }
      sum *= scale.alpha;
      if (scale.beta != 0) sum += scale.beta * matrix(p.c, p.at_c, batch).get(row, column);
      if (p.operation.epilogue & CUBLASLT_EPILOGUE_BIAS)
        sum += matrix(bias, p.operation.bias, batch).get(row, 0);
      d.set(row, column, rounded(p.operation.scale, activate(sum, p.operation.epilogue)));
    }
}

/// An algorithm serves the layouts that it was chosen for (FNV-1a).
std::uint32_t hash_of_layouts(const Product& p) {
  std::uint32_t hash = 2166136261;
  for (const Layout* const x : {&p.a, &p.b, &p.c, &p.d})
    for (const std::uint64_t part :
         {x->rows, x->columns, std::uint64_t(x->leading), std::uint64_t(x->batch_stride)})
      hash = (hash ^ std::uint32_t(part)) * 16777619;
  return hash;
}

/// Whether there is no algorithm for a product whose matrices have these alignments.
bool is_refused(const Product& p, const std::array<std::uint32_t, 4>& alignment) {
  if (state().refuses_halves && bytes_of(p.d.type) == 2) return true;
  const auto has_gaps = [](const Layout& x) {
    return std::uint64_t(x.leading) != (x.order == CUBLASLT_ORDER_ROW ? x.columns : x.rows);
  };
  if (state().refuses_gaps && (*std::min_element(alignment.begin(), alignment.end()) < 16 ||
                               has_gaps(p.a) || has_gaps(p.b) || has_gaps(p.c)))
    return true;
  return p.operation.epilogue != CUBLASLT_EPILOGUE_DEFAULT && state().refuses_epilogues;
}

cublasStatus_t choose(const Product& p, const Preference& preference,
                      cublasLtMatmulHeuristicResult_t& result) {
  if (const cublasStatus_t status = check_shapes(p)) return status;
  result = {};
  Algorithm algorithm;
  // The algorithm needs the whole allowed workspace. So a program that passes less is found.
  algorithm.workspace = std::min<std::uint64_t>(preference.workspace, 4096);
  algorithm.alignment = preference.alignment;
  algorithm.type = p.d.type;
  algorithm.compute = p.operation.compute;
  algorithm.transpose_a = std::uint8_t(p.operation.transpose_a);
  algorithm.transpose_b = std::uint8_t(p.operation.transpose_b);
  algorithm.epilogue = std::uint16_t(p.operation.epilogue);
  algorithm.batches = p.d.batches;
  constexpr std::uint32_t in_type_of_d =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  algorithm.rounds_parts = preference.reductions & in_type_of_d;
  algorithm.layouts = hash_of_layouts(p);
  write(&result.algo, algorithm);
  result.workspaceSize = algorithm.workspace;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t read_algorithm(Product& p, const cublasLtMatmulAlgo_t* algorithm) {
  p.algorithm = {};
  p.algorithm.workspace = 0;
  p.chosen = algorithm != nullptr;
  if (!p.chosen) return CUBLAS_STATUS_SUCCESS;
  if (!read(p.algorithm, algorithm))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the algorithm is not initialised");
  const Algorithm& it = p.algorithm;
  if (it.type != p.d.type || it.compute != p.operation.compute || it.batches != p.d.batches ||
      it.transpose_a != p.operation.transpose_a || it.transpose_b != p.operation.transpose_b ||
      it.epilogue != p.operation.epilogue || it.layouts != hash_of_layouts(p))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "the algorithm was chosen for another product");
  return CUBLAS_STATUS_SUCCESS;
}

bool read_all(Product& p, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return read(p.operation, operation) && read(p.a, a) && read(p.b, b) && read(p.c, c) &&
         read(p.d, d);
}

cublasStatus_t queue(const Product& p, cublasLtHandle_t library, cudaStream_t handle) {
  const cudaStream_t stream = find_stream(handle);
  if (!stream) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no such stream");
  const bool on_host = p.operation.pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  Scale now;
  if (on_host) now = {load(p.operation.scale, p.alpha, 0), load(p.operation.scale, p.beta, 0)};
  if (on_host && now.beta != 0 && !p.at_c)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "beta is not 0 and C is null");
  ++state().counts.products;
  note_use(library, *stream);
  const cudaError_t error = enqueue(stream, [=](Lane& lane, int) {
    Scale scale = now;
    if (!on_host) {
      const std::size_t bytes = bytes_of(p.operation.scale);
      touch_read(lane.identity, p.alpha, bytes, "alpha of cublasLtMatmul");
      touch_read(lane.identity, p.beta, bytes, "beta of cublasLtMatmul");
      scale = {load(p.operation.scale, p.alpha, 0), load(p.operation.scale, p.beta, 0)};
    }
    note_accesses(p, scale.beta != 0, lane.identity);
    for (std::int32_t batch = 0; batch < p.d.batches; ++batch) multiply(p, batch, scale);
    return cudaSuccess;
  });
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                              : refuse(CUBLAS_STATUS_EXECUTION_FAILED, cudaGetErrorName(error));
}

/// cuBLASLt makes no context current on the calling thread. cudaGetDevice() does not either.
cublasStatus_t check_thread() {
  if (host_thread().has_context) return CUBLAS_STATUS_SUCCESS;
  return refuse(CUBLAS_STATUS_NOT_INITIALIZED,
                "no context is current on this thread: call cudaSetDevice() on it first");
}
cublasStatus_t check_handle(cublasLtHandle_t handle) {
  return handles().count(handle) ? check_thread() : CUBLAS_STATUS_NOT_INITIALIZED;
}
}  // namespace
}  // namespace reel::emulate::products

using namespace reel::emulate;
using namespace reel::emulate::products;

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  Entry entry;
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  if (const cublasStatus_t status = check_thread()) return status;
  *handle = new cublasLtContext{int(current_device().number)};
  handles().insert(*handle);
  ++state().counts.handles;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  Entry entry;
  if (!handles().erase(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "an unknown status of cuBLAS";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  Entry entry;
  Product p;
  Preference limits;
  if (const cublasStatus_t status = check_handle(handle)) return status;
  if (!found || wanted < 1 || !results) return CUBLAS_STATUS_INVALID_VALUE;
  *found = 0;
  if (!read_all(p, operation, a, b, c, d) || !read(limits, preference))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor was not initialised or is destroyed");
  if (const cublasStatus_t status = choose(p, limits, results[0])) return status;
  *found = 1;
  if (!is_refused(p, limits.alignment)) return CUBLAS_STATUS_SUCCESS;
  // The ways in which the vendor may say that there is no algorithm. In the last one, the product
  // says it.
  constexpr cublasStatus_t said[] = {CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_NOT_SUPPORTED,
                                     CUBLAS_STATUS_INVALID_VALUE};
  const std::size_t way = roll(5);
  if (way == 4) return CUBLAS_STATUS_SUCCESS;
  results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
  if (way == 3) return CUBLAS_STATUS_SUCCESS;
  *found = 0;
  return said[way];
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* at_a, cublasLtMatrixLayout_t a,
                              const void* at_b, cublasLtMatrixLayout_t b, const void* beta,
                              const void* at_c, cublasLtMatrixLayout_t c, void* at_d,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  if (host_thread().in_host_function) return CUBLAS_STATUS_EXECUTION_FAILED;
  Entry entry;
  if (const cublasStatus_t status = check_handle(handle)) return status;
  if (handle->device != host_thread().device)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the handle belongs to another device");
  if (current_device().sticky != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  Product p;
  if (!read_all(p, operation, a, b, c, d))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a descriptor was not initialised or is destroyed");
  p.alpha = alpha;
  p.beta = beta;
  p.at_a = at_a;
  p.at_b = at_b;
  p.at_c = at_c;
  p.at_d = at_d;
  p.workspace = workspace;
  p.workspace_bytes = workspace_bytes;
  if (const cublasStatus_t status = check_shapes(p)) return status;
  if (const cublasStatus_t status = read_algorithm(p, algorithm)) return status;
  if (const cublasStatus_t status = check_addresses(p)) return status;
  if (is_refused(p, p.algorithm.alignment)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return queue(p, handle, stream);
}
}
