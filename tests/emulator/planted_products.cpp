// SPDX-License-Identifier: BSD-3-Clause
// Faults in calls of cuBLASLt, and products against plain loops.
#include <cublasLt.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <thread>

#include "emulator/kernels.hpp"
#include "emulator/programs.hpp"

namespace programs {
namespace {
bool succeeds(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return true;
  std::fprintf(stderr, "%s\n", cublasLtGetStatusName(status));
  return false;
}

// A correct call. Each test makes one of its members wrong.
template <class T>
struct Call {
  bool transpose_a = false, transpose_b = true, by_rows = false;
  int m = 5, n = 4, k = 3, batches = 2;
  int spare = 1;  // padding: leading dimensions are larger than necessary
  T alpha = T(1.5), beta = T(0);
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool with_bias = true, with_c = true, in_place = false, with_algorithm = false;
  std::size_t allowed = 4096, workspace = 4096;
  int a_offset = 0, a_leading = 0, workspace_offset = 0, d_stride = 0, bias_offset = 0;
  bool bias_on_host = false;
  int algorithm_columns = 0;  // of B for which the algorithm is chosen, if it is another number
  unsigned a_alignment = 4;
  cublasComputeType_t compute = sizeof(T) == 4 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F;
  std::function<void(cublasLtMatmulDesc_t)> change;

  bool run();
};

constexpr std::size_t matrix_size = 256;  // elements of each matrix, enough for wrong calls too

template <class T>
std::vector<T> numbers(int seed) {
  std::vector<T> values(matrix_size);
  for (std::size_t i = 0; i < matrix_size; ++i)
    values[i] = T(int(i * 7 + std::size_t(seed)) % 11 - 5);
  return values;
}

struct Matrix {
  int rows, columns, leading;
  std::int64_t stride;
  bool by_rows;
  std::size_t at(int row, int column, int batch) const {
    return std::size_t(batch * stride) +
           std::size_t(by_rows ? row * leading + column : column * leading + row);
  }
};

template <class T>
cublasLtMatrixLayout_t layout_of(const Matrix& matrix, int batches) {
  cublasLtMatrixLayout_t layout = nullptr;
  const cudaDataType type = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F;
  cublasLtMatrixLayoutCreate(&layout, type, std::uint64_t(matrix.rows),
                             std::uint64_t(matrix.columns), matrix.leading);
  const std::int32_t order = matrix.by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
  const std::int32_t count = batches;
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order));
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                   sizeof(count));
  cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                   &matrix.stride, sizeof(matrix.stride));
  return layout;
}

template <class T>
T activated(T x, cublasLtEpilogue_t epilogue) {
  if (epilogue == CUBLASLT_EPILOGUE_RELU_BIAS) return x > 0 ? x : 0;
  if (epilogue == CUBLASLT_EPILOGUE_GELU_BIAS)
    return T(0.5) * x * (1 + std::tanh(T(0.7978845608) * (x + T(0.044715) * x * x * x)));
  return x;
}

template <class T>
bool Call<T>::run() {
  const auto matrix = [&](int rows, int columns) {
    const int leading = (by_rows ? columns : rows) + spare;
    return Matrix{rows, columns, leading, leading * (by_rows ? rows : columns), by_rows};
  };
  Matrix a = transpose_a ? matrix(k, m) : matrix(m, k), d = matrix(m, n);
  const Matrix b = transpose_b ? matrix(n, k) : matrix(k, n), c = d;
  const Matrix right_a = a;
  if (a_leading) a.leading = a_leading;
  if (d_stride) d.stride = d_stride;
  const std::vector<T> va = numbers<T>(1), vb = numbers<T>(2), vc = numbers<T>(3),
                       bias = numbers<T>(4);
  const T *const at_a = on_device(va), *const at_b = on_device(vb),
                 *const at_bias = on_device(bias);
  T *const at_c = on_device(vc), *const at_d = in_place ? at_c : device_memory<T>(matrix_size);
  std::byte* const space = device_memory<std::byte>(8192);

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&operation, compute, sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_64F);
  const auto set = [=](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return succeeds(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t(transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t(transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(epilogue));
  const bool biased = epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const auto* const biases = static_cast<const void*>(bias_on_host ? bias.data() : at_bias);
  if (biased && with_bias)
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        static_cast<const void*>(static_cast<const std::byte*>(biases) + bias_offset));
  const auto la = layout_of<T>(a, batches), lb = layout_of<T>(b, batches),
             lc = layout_of<T>(c, batches), ld = layout_of<T>(d, batches);
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &allowed, sizeof(allowed));
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                       &a_alignment, sizeof(a_alignment));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const int columns = algorithm_columns ? algorithm_columns : n;
  const auto chosen_b =
      layout_of<T>(transpose_b ? matrix(columns, k) : matrix(k, columns), batches);
  const auto chosen_d =
      algorithm_columns ? layout_of<T>(matrix(m, columns), batches) : layout_of<T>(d, batches);
  if (with_algorithm && !succeeds(cublasLtMatmulAlgoGetHeuristic(
                            handle, operation, la, chosen_b, algorithm_columns ? chosen_d : lc,
                            chosen_d, preference, 1, &result, &found)))
    return false;
  if (change) change(operation);
  ok(cudaDeviceSynchronize());
  if (!succeeds(cublasLtMatmul(handle, operation, &alpha, at_a + a_offset, la, at_b, lb, &beta,
                               with_c ? at_c : nullptr, lc, at_d, ld,
                               with_algorithm ? &result.algo : nullptr, space + workspace_offset,
                               workspace, nullptr)))
    return false;
  const std::vector<T> got = from_device(at_d, matrix_size);
  for (int batch = 0; batch < batches; ++batch)
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < n; ++column) {
        T sum = 0;
        for (int i = 0; i < k; ++i)
          sum += va[transpose_a ? right_a.at(i, row, batch) : right_a.at(row, i, batch)] *
                 vb[transpose_b ? b.at(column, i, batch) : b.at(i, column, batch)];
        sum = alpha * sum + beta * vc[c.at(row, column, batch)];
        if (biased) sum += bias[std::size_t(row)];
        const T want = activated(sum, epilogue);
        if (!(std::abs(got[d.at(row, column, batch)] - want) <= T(1e-5) * (1 + std::abs(want))))
          return false;
      }
  return true;
}

template <class T>
bool products(bool) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const bool by_rows : {false, true})
        for (const bool with_algorithm : {false, true}) {
          Call<T> call;
          call.transpose_a = transpose_a;
          call.transpose_b = transpose_b;
          call.by_rows = by_rows;
          call.with_algorithm = with_algorithm;
          call.beta = by_rows ? T(1) : T(0);
          call.in_place = by_rows;
          if (!call.run()) return false;
        }
  return true;
}

bool epilogues(bool) {
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    Call<float> call;
    call.epilogue = epilogue;
    if (!call.run()) return false;
  }
  Call<float> tf32;  // small integers keep all their bits
  tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  return tf32.run();
}

// A program with one fault: f makes a correct call wrong.
template <auto f>
bool with(bool fault) {
  Call<float> call;
  call.with_algorithm = true;
  if (fault) f(call);
  return call.run();
}
using C = Call<float>;

bool destroyed_descriptor(bool fault) {
  cublasLtMatmulDescOpaque_t operation{};
  if (!fault) cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const std::int32_t transpose = CUBLAS_OP_T;
  return succeeds(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                 &transpose, sizeof(transpose)));
}

bool attribute_size(bool fault) {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  const std::int64_t transpose = CUBLAS_OP_T;
  return succeeds(cublasLtMatmulDescSetAttribute(&operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                 &transpose, fault ? 8 : 4));
}

// A thread has no context before its first call that makes one. cudaGetDevice() is no such call.
bool thread_without_context(bool fault) {
  cublasLtHandle_t handle = nullptr;
  ok(cudaSetDevice(0));
  if (!succeeds(cublasLtCreate(&handle))) return false;
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::thread([&] {
    int device = -1;
    ok(fault ? cudaGetDevice(&device) : cudaSetDevice(0));
    cublasLtHandle_t other = nullptr;
    status = cublasLtCreate(&other);
  }).join();
  return succeeds(status);
}

// Two streams run products with one workspace.
bool shared_workspace(bool fault) {
  constexpr int n = 4;
  ok(cudaSetDevice(0));
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t layout{};
  cublasLtMatmulPreferenceOpaque_t preference{};
  cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, n, n, n);
  cublasLtMatmulPreferenceInit(&preference);
  const std::uint64_t bytes = 1024;
  cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &bytes, sizeof(bytes));
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  cublasLtMatmulAlgoGetHeuristic(handle, &operation, &layout, &layout, &layout, &layout,
                                 &preference, 1, &result, &found);
  const float* const x = on_device(std::vector<float>(n * n, 1.0f));
  std::byte* const space = device_memory<std::byte>(2 * bytes);
  ok(cudaDeviceSynchronize());
  const float one = 1, zero = 0;
  for (int i = 0; i < 2; ++i) {
    cudaStream_t stream = nullptr;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    float* const y = device_memory<float>(n * n);
    std::byte* const mine = space + (fault ? 0 : std::size_t(i) * bytes);
    if (!succeeds(cublasLtMatmul(handle, &operation, &one, x, &layout, x, &layout, &zero, y,
                                 &layout, y, &layout, &result.algo, mine, bytes, stream)))
      return false;
  }
  ok(cudaDeviceSynchronize());
  return true;
}

constexpr Program list[] = {
    {"products of float32", products<float>, 0, ""},
    {"products of float64", products<double>, 0, ""},
    {"epilogues and TF32", epilogues, 0, ""},
    {"leading dimension too small", with<[](C& c) { c.a_leading = 4; }>, check,
     "leading dimension"},
    {"wrong leading dimension", with<[](C& c) { c.a_leading = 7; }>, comparison, ""},
    {"workspace too small", with<[](C& c) { c.workspace = 1024; }>, check, "workspace is smaller"},
    {"workspace not aligned", with<[](C& c) { c.workspace_offset = 16; }>, check, "256 bytes"},
    {"matrix less aligned than the preference",
     with<[](C& c) { c.a_offset = 1, c.a_alignment = 16; }>, check, "less aligned"},
    {"bias without a pointer",
     with<[](C& c) { c.epilogue = CUBLASLT_EPILOGUE_BIAS, c.with_bias = false; }>, check, "bias"},
    {"bias on the host",
     with<[](C& c) { c.epilogue = CUBLASLT_EPILOGUE_BIAS, c.bias_on_host = true; }>, check,
     "bias is not in the memory"},
    {"bias not aligned", with<[](C& c) { c.epilogue = CUBLASLT_EPILOGUE_BIAS, c.bias_offset = 4; }>,
     check, "bias is not aligned"},
    {"algorithm of another shape", with<[](C& c) { c.algorithm_columns = 3; }>, check,
     "another product"},
    {"beta without C", with<[](C& c) { c.beta = 1, c.with_c = false; }>, check, "C is null"},
    {"batches of D overlap", with<[](C& c) { c.d_stride = 3; }>, check, "overlap"},
    {"C and D with different layouts", with<[](C& c) { c.in_place = true, c.d_stride = 40; }>,
     check, "two layouts"},
    {"double scale for float", with<[](C& c) { c.compute = CUBLAS_COMPUTE_64F; }>, check, "types"},
    {"algorithm of another product", with<[](C& c) {
       c.change = [](cublasLtMatmulDesc_t operation) {
         const std::uint32_t relu = CUBLASLT_EPILOGUE_RELU;
         cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &relu,
                                        sizeof(relu));
       };
     }>,
     check, "another product"},
    {"descriptor not initialised", destroyed_descriptor, check, "not initialised"},
    {"attribute of another size", attribute_size, check, "another size"},
    {"product on a thread without a context", thread_without_context, check, "no context"},
    {"workspace shared by two streams", shared_workspace, thread, "data race"},
};
}  // namespace

std::span<const Program> in_products() { return list; }
}  // namespace programs
