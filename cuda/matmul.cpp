// SPDX-License-Identifier: BSD-3-Clause
// matmul, matmul_add and dense by cuBLASLt. cuBLASLt expects column-major matrices, and reads a
// row-major matrix as its transpose. So it computes cT = yT xT. Its bias has one element for each
// row of cT, which is a column of c.
#include "cuda/matmul.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "cuda/own_memory.hpp"
#include "lib/body/dtypes.hpp"
#include "lib/table/options/matmul.hpp"

namespace reel::gpu {
namespace {
/// What cuBLASLt calls a dtype. The gate refuses products of others.
cudaDataType_t data_type(DType dtype) {
  return with_element(dtype, []<class T>(Type<T>) -> cudaDataType_t {
    if constexpr (std::is_same_v<T, float>) return CUDA_R_32F;
    if constexpr (std::is_same_v<T, double>) return CUDA_R_64F;
    if constexpr (std::is_same_v<T, Float16>) return CUDA_R_16F;
    if constexpr (std::is_same_v<T, BFloat16>) return CUDA_R_16BF;
    __builtin_trap();
  });
}

/// An operand as cuBLASLt reads it. op(matrix) is the transpose of the operand.
struct Layout {
  std::int64_t leading = 0;
  bool transposed = false, fits = true;

  Layout(const Matrix& x, std::int64_t rows, std::int64_t columns) {
    // The step along an axis of length 1 is never used.
    const std::int64_t row = rows == 1 ? columns : x.row;
    if ((x.column == 1 || columns == 1) && row >= columns) {
      leading = row;
    } else if ((x.row == 1 || rows == 1) && x.column >= rows) {
      leading = x.column;
      transposed = true;
    } else {
      fits = false;
    }
  }
};

/// cuBLASLt reads a row-major matrix as column-major, so rows and columns are swapped, unless the
/// matrix is transposed.
class Descriptor {
 public:
  Descriptor(const Product& p, const Layout& layout, std::int64_t rows, std::int64_t columns,
             std::int64_t batch_step)
      : rows_(layout.transposed ? rows : columns), columns_(layout.transposed ? columns : rows) {
    cublasLtMatrixLayoutInit(&opaque_, data_type(p.dtype), static_cast<std::uint64_t>(rows_),
                             static_cast<std::uint64_t>(columns_), layout.leading);
    if (p.batches == 1) return;
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(p.batches));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_step);
  }
  cublasLtMatrixLayout_t get() { return &opaque_; }

 private:
  template <class T>
  void set(cublasLtMatrixLayoutAttribute_t attribute, const T& value) {
    cublasLtMatrixLayoutSetAttribute(&opaque_, attribute, &value, sizeof value);
  }
  std::int64_t rows_, columns_;
  cublasLtMatrixLayoutOpaque_t opaque_;
};

/// The arguments of cublasLtMatmul, without the algorithm and the workspace.
struct Request {
  cublasLtMatmulDescOpaque_t operation;
  DType dtype;
  const void *a, *b, *c;
  void* d;
  Descriptor a_layout, b_layout, c_layout, d_layout;
  bool bias;

  /// Whether cuBLASLt does not take the product in this form. It may refuse a bias by any error.
  bool is_refused_by(cublasStatus_t status) const {
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                         status == CUBLAS_STATUS_INVALID_VALUE ||
                         status == CUBLAS_STATUS_ARCH_MISMATCH;
    return status != CUBLAS_STATUS_SUCCESS && (bias || refused) &&
           cudaPeekAtLastError() == cudaSuccess;
  }
};

/// The alignment of an address, at most 16 bytes. cuBLASLt does not use more.
std::uint32_t alignment_of(const void* at) {
  return std::uint32_t{1} << std::countr_zero(reinterpret_cast<std::uintptr_t>(at) | 16);
}

void check(const Queue& queue, cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  queue.check(cudaPeekAtLastError());  // an error of CUDA itself says more
  queue.refuse("a product that cuBLASLt computes", cublasLtGetStatusString(status),
               "Compute the product on the CPU.");
}

struct Choice {
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;  // success: cuBLASLt has an algorithm
  cublasLtMatmulAlgo_t algorithm = {};
  std::size_t workspace = 0;
};
Choice choose(const Queue& queue, cublasLtHandle_t handle, Request& request) {
  constexpr std::uint64_t most_workspace = 32 << 20;
  cublasLtMatmulPreferenceOpaque_t preference;
  check(queue, cublasLtMatmulPreferenceInit(&preference));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(queue,
          cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(request.a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(request.b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(request.c));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(request.d));
  // Parts of a sum of 16 bits stay in float32, so that the sum is rounded once.
  if (is_half(request.dtype))
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  cublasLtMatmulHeuristicResult_t best;
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &request.operation, request.a_layout.get(), request.b_layout.get(),
      request.c_layout.get(), request.d_layout.get(), &preference, 1, &best, &found);
  if (request.is_refused_by(status)) return {status};
  check(queue, status);
  if (!found || best.state != CUBLAS_STATUS_SUCCESS) return {};
  return {status, best.algo, best.workspaceSize};
}

/// Everything that the choice of an algorithm depends on.
using Key = std::array<std::int64_t, 10>;

/// Shared by all threads.
class Shared {
 public:
  static Shared& the() {
    static Shared& it = *new_for_ever<Shared>();
    return it;
  }
  cublasStatus_t find_handle(int device, cublasLtHandle_t& handle) {
    const std::lock_guard held(lock_);
    cublasLtHandle_t& of_device = handles_[device];
    const cublasStatus_t status = of_device ? CUBLAS_STATUS_SUCCESS : cublasLtCreate(&of_device);
    handle = of_device;
    return status;
  }
  /// The choice for a key. If it is not known, choose() makes it, without the lock.
  template <class F>
  Choice find(const Key& key, const F& choose) {
    {
      const std::lock_guard held(lock_);
      if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
    }
    const Choice made = choose();
    remember(key, made);
    return made;
  }
  void remember(const Key& key, const Choice& choice) {
    const std::lock_guard held(lock_);
    if (choices_.size() == most_choices) choices_.clear();
    choices_[key] = choice;
  }

 private:
  static constexpr std::size_t most_choices = 4096;
  std::mutex lock_;
  OwnMap<int, cublasLtHandle_t> handles_;  // key: device
  OwnMap<Key, Choice> choices_;
};
// As REEL_CUDA_TF32 and REEL_CUDA_FUSED_RELU say.
bool uses_tf32 = false, fuses_relu = false;
// Not all kernels of cuBLASLt take more than 65535 matrices. A round number keeps the rest aligned.
constexpr std::int64_t most_batches = 1 << 15;

const void* moved(const Product& p, const void* from, std::int64_t elements) {
  return static_cast<const std::byte*>(from) + p.bytes(elements);
}

void add_axis(Places<1>& places, std::int64_t length, std::int64_t step) {
  if (length == 1) return;
  places.length[places.rank] = length;
  places.step[0][places.rank++] = step;
}
}  // namespace

const char* Products::read_options() {
  const auto read = [](const char* name, bool& to) {
    const char* const text = std::getenv(name);
    const std::string_view asked = text ? text : "";
    to = asked == "1";
    return asked.empty() || asked == "0" || to;
  };
  if (!read("REEL_CUDA_TF32", uses_tf32)) return "REEL_CUDA_TF32 is neither 0 nor 1.";
  if (!read("REEL_CUDA_FUSED_RELU", fuses_relu)) return "REEL_CUDA_FUSED_RELU is neither 0 nor 1.";
  return nullptr;
}

void Products::open(int device) {
  cublasLtHandle_t handle = nullptr;
  if (Shared::the().find_handle(device, handle) != CUBLAS_STATUS_SUCCESS) cudaGetLastError();
}
bool Products::use_tf32() { return uses_tf32; }

/// Copies z to c.
void Products::start_from_z(const Product& p) const {
  Places<1> places;
  add_axis(places, p.rows, p.z.row);
  add_axis(places, p.columns, p.z.column);
  const std::int64_t n = p.rows * p.columns;
  places.narrow = n < std::int64_t{1} << 31;
  copy_from_places(queue_, p.dtype, n, places, p.z.data, p.c);
}

/// Copies an operand that cuBLASLt does not take as it is, or may not take: a batch in reverse.
void Products::fit(const Product& p, Matrix& x, std::int64_t rows, std::int64_t columns) const {
  if (!Layout(x, rows, columns).fits || x.batch < 0) copy(p, x, rows, columns);
}
void Products::copy(const Product& p, Matrix& x, std::int64_t rows, std::int64_t columns) const {
  const std::int64_t batches = x.batch ? p.batches : 1, n = batches * rows * columns;
  Places<1> places;
  add_axis(places, batches, x.batch);
  add_axis(places, rows, x.row);
  add_axis(places, columns, x.column);
  places.narrow = n < std::int64_t{1} << 31;
  void* const copy = queue_.scratch(static_cast<std::size_t>(p.bytes(n)));
  copy_from_places(queue_, p.dtype, n, places, x.data, copy);
  x = {copy, columns, 1, x.batch ? rows * columns : 0};
}

bool Products::multiply(Product p) {
  const std::int64_t elements = p.batches * p.rows * p.columns;
  if (elements == 0) return false;
  if (p.depth == 0) {
    if (!p.z.data)
      queue_.check(
          cudaMemsetAsync(p.c, 0, static_cast<std::size_t>(p.bytes(elements)), queue_.stream));
    else if (p.z.data != p.c)
      start_from_z(p);
    return false;
  }
  fit(p, p.x, p.rows, p.depth);
  fit(p, p.y, p.depth, p.columns);
  const Layout z(p.z, p.rows, p.columns);
  const bool bias = p.z.data && p.z.row == 0 && (p.z.column == 1 || p.columns == 1) &&
                    alignment_of(p.z.data) == 16;
  if (p.z.data && !bias && (!z.fits || z.transposed)) {
    start_from_z(p);
    p = p.added_to_c();
  }
  bool with_relu = false;
  for (std::int64_t left = p.batches; left > 0; left -= most_batches) {
    p.batches = std::min(left, most_batches);
    with_relu = run(p, bias);
    p.x.data = moved(p, p.x.data, p.batches * p.x.batch);
    p.y.data = moved(p, p.y.data, p.batches * p.y.batch);
    p.c = static_cast<std::byte*>(p.c) + p.bytes(p.batches * p.rows * p.columns);
    if (p.z.data) p.z.data = p.c;
  }
  return with_relu;
}

/// Computes a product that cuBLASLt refuses. It may have no algorithm that adds a bias, for example
/// for a single row or column. Then the product is added to copies of it. It may have none for the
/// addresses and steps of operands. Then all of them are copied, aligned and without gaps. A GPU
/// that multiplies no 16 bits refuses the copies, too.
bool Products::run_otherwise(const Product& p, bool bias) {
  if (bias) {
    start_from_z(p);
    return run(p.added_to_c(), false);
  }
  Product copies = p;
  copies.copied = true;
  copy(p, copies.x, p.rows, p.depth);
  copy(p, copies.y, p.depth, p.columns);
  const auto bytes = static_cast<std::size_t>(p.bytes(p.batches * p.rows * p.columns));
  copies.c = queue_.scratch(bytes);
  if (p.z.data && p.z.data != p.c) start_from_z(copies);
  const auto move = [&](void* to, const void* from) {
    queue_.check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_.stream));
  };
  if (p.z.data == p.c) move(copies.c, p.c);
  run(p.z.data ? copies.added_to_c() : copies, false);
  move(p.c, copies.c);
  return false;
}

/// Computes a product. cuBLASLt accepts the layouts of all operands, but it may refuse the product.
bool Products::run(const Product& p, bool bias) {
  if (declined_) return false;
  const bool is_double = p.dtype == DType::float64, adds = p.z.data && !bias;
  const std::int64_t step = p.rows * p.columns;
  const Layout x(p.x, p.rows, p.depth), y(p.y, p.depth, p.columns),
      c({p.c, p.columns, 1}, p.rows, p.columns), z = adds ? Layout(p.z, p.rows, p.columns) : c;
  Request request{{},
                  p.dtype,
                  p.y.data,
                  p.x.data,
                  adds ? p.z.data : p.c,
                  p.c,
                  {p, y, p.depth, p.columns, p.y.batch},
                  {p, x, p.rows, p.depth, p.x.batch},
                  {p, z, p.rows, p.columns, step},
                  {p, c, p.rows, p.columns, step},
                  bias};
  const bool with_tf32 = uses_tf32 && p.dtype == DType::float32;
  const cublasComputeType_t compute = is_double   ? CUBLAS_COMPUTE_64F
                                      : with_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
  check(queue_,
        cublasLtMatmulDescInit(&request.operation, compute, is_double ? CUDA_R_64F : CUDA_R_32F));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(queue_,
          cublasLtMatmulDescSetAttribute(&request.operation, attribute, &value, sizeof value));
  };
  const std::int32_t transpose = CUBLAS_OP_T;
  if (y.transposed) set(CUBLASLT_MATMUL_DESC_TRANSA, transpose);
  if (x.transposed) set(CUBLASLT_MATMUL_DESC_TRANSB, transpose);
  if (bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE,
        p.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.z.data);
  }

  int device = 0;
  queue_.check(cudaGetDevice(&device));
  std::int64_t facts = device * 16 + static_cast<std::int64_t>(p.dtype);
  for (const void* at : {request.a, request.b, request.c, static_cast<const void*>(p.c)})
    facts = facts * 32 + alignment_of(at);
  for (const bool fact : {bias, bias && p.relu, adds, request.c == p.c, x.transposed, y.transposed})
    facts = facts * 2 + fact;
  const Key key = {facts,     p.rows,    p.columns, p.depth,   x.leading,
                   y.leading, z.leading, p.batches, p.x.batch, p.y.batch};
  cublasLtHandle_t handle = nullptr;
  check(queue_, Shared::the().find_handle(device, handle));
  const Choice choice = Shared::the().find(key, [&] { return choose(queue_, handle, request); });
  const auto otherwise = [&](cublasStatus_t status) {
    if (p.copied && is_half(p.dtype) && !computed_) {
      declined_ = true;
      return false;
    }
    if (p.copied) check(queue_, status);
    return run_otherwise(p, bias);
  };
  if (choice.status != CUBLAS_STATUS_SUCCESS) return otherwise(choice.status);
  if (choice.workspace > workspace_bytes_) {
    workspace_ = queue_.scratch(choice.workspace);
    workspace_bytes_ = choice.workspace;
  }
  const float factors[] = {1, adds ? 1.f : 0.f};
  const double double_factors[] = {1, adds ? 1. : 0.};
  const auto factor = [&](int i) -> const void* {
    return is_double ? static_cast<const void*>(double_factors + i) : factors + i;
  };
  const cublasStatus_t status = cublasLtMatmul(
      handle, &request.operation, factor(0), request.a, request.a_layout.get(), request.b,
      request.b_layout.get(), factor(1), request.c, request.c_layout.get(), request.d,
      request.d_layout.get(), &choice.algorithm, workspace_, workspace_bytes_, queue_.stream);
  if (request.is_refused_by(status)) {
    Shared::the().remember(key, {status});
    return otherwise(status);
  }
  check(queue_, status);
  computed_ = true;
  return bias && p.relu;
}

namespace {
Matrix last_axes(const Body& x) {
  return {x.data, x.strides[x.rank() - 2], x.strides[x.rank() - 1]};
}

/// z as a matrix. The step is 0 along an axis over which z broadcasts.
Matrix added(const Body& z) {
  const auto step = [&](int axis) {
    return axis < 0 || z.shape.data()[axis] == 1 ? 0 : z.strides[axis];
  };
  return {z.data, step(z.rank() - 2), step(z.rank() - 1)};
}

/// Whether one step goes through all matrices of operand k.
bool is_even(const Places<2>& batch, int k) {
  for (int axis = batch.rank - 1; axis > 0; --axis)
    if (batch.step[k][axis - 1] != batch.step[k][axis] * batch.length[axis]) return false;
  return true;
}

/// Copies the matrices of operand k into contiguous memory.
void gather(const Queue& queue, DType dtype, Places<2>& batch, int k, Matrix& x, std::int64_t rows,
            std::int64_t columns) {
  Places<1> places;
  std::int64_t n = rows * columns;
  for (int axis = 0; axis < batch.rank; ++axis) {
    add_axis(places, batch.length[axis], batch.step[k][axis]);
    n *= batch.length[axis];
  }
  add_axis(places, rows, x.row);
  add_axis(places, columns, x.column);
  places.narrow = n < std::int64_t{1} << 31;
  void* const copy = queue.scratch(static_cast<std::size_t>(n * size_of(dtype)));
  copy_from_places(queue, dtype, n, places, x.data, copy);
  x = {copy, columns, 1};
  std::int64_t step = rows * columns;
  for (int axis = batch.rank; axis-- > 0; step *= batch.length[axis]) batch.step[k][axis] = step;
}

/// Adds to the output if call.accumulate is set.
KernelResult matmul(const Call& call) {
  const Body &x = call.input(0), &y = call.input(1), &out = call.output();
  if (out.elements == 0) return {};
  const std::int64_t* const lengths = out.shape.end() - 2;
  Product p{out.dtype,    lengths[0],   lengths[1], x.shape.end()[-1],
            last_axes(x), last_axes(y), out.data};
  Places<2> batch = places_of<2>(out.shape, {&x, &y}, 2);
  // Adjacent matrices x that are multiplied by the same y become one matrix.
  for (int last; (last = batch.rank - 1) >= 0 && batch.step[1][last] == 0; --batch.rank) {
    if (p.rows == 1) p.x.row = batch.step[0][last];
    if (batch.step[0][last] != p.rows * p.x.row) break;
    p.rows *= batch.length[last];
  }
  std::int64_t calls = 1;
  for (int axis = 0; axis < batch.rank - 1; ++axis) calls *= batch.length[axis];
  constexpr std::int64_t most_calls = 8;  // more calls take longer than a copy
  if (calls > most_calls) {
    if (!is_even(batch, 0)) gather(call.queue, p.dtype, batch, 0, p.x, p.rows, p.depth);
    if (!is_even(batch, 1)) gather(call.queue, p.dtype, batch, 1, p.y, p.depth, p.columns);
    const int last = batch.rank - 1;
    batch.length[0] = calls * batch.length[last];
    for (auto& step : batch.step) step[0] = step[last];
    batch.rank = 1;
    calls = 1;
  }
  if (batch.rank > 0) {
    const int last = batch.rank - 1;
    p.batches = batch.length[last];
    p.x.batch = batch.step[0][last];
    p.y.batch = batch.step[1][last];
  }
  Products products(call.queue);
  for (std::int64_t i = 0; i < calls; ++i) {
    Product part = p;
    std::int64_t rest = i;
    for (int axis = batch.rank - 2; axis >= 0; rest /= batch.length[axis--]) {
      const std::int64_t here = rest % batch.length[axis];
      part.x.data = moved(p, part.x.data, here * batch.step[0][axis]);
      part.y.data = moved(p, part.y.data, here * batch.step[1][axis]);
    }
    part.c = out.data + p.bytes(i * p.batches * p.rows * p.columns);
    products.multiply(call.accumulate & 1 ? part.added_to_c() : part);
  }
  return products.result();
}

/// x y + z.
Product sum_of_inputs(const Call& call) {
  const Body &x = call.input(0), &y = call.input(1), &out = call.output();
  const std::int64_t* const lengths = out.shape.data();
  return {out.dtype,    lengths[0],   lengths[1], x.shape.data()[1],
          last_axes(x), last_axes(y), out.data,   added(call.input(2))};
}
KernelResult matmul_add(const Call& call) {
  Products products(call.queue);
  products.multiply(sum_of_inputs(call));
  return products.result();
}

KernelResult dense(const Call& call) {
  const Activation activation = call.option<ActivationOptions>().activation;
  Product p = sum_of_inputs(call);
  p.relu = fuses_relu && activation == Activation::relu;
  Products products(call.queue);
  const bool with_relu = products.multiply(p);
  const Body& out = call.output();
  if (!with_relu) activate(call.queue, activation, out.dtype, out.elements, out.data);
  return products.result();
}

/// cuBLASLt sums 16 bits in float32 and rounds once.
bool takes_halves(const KernelCall& call) {
  return std::all_of(call.inputs, call.inputs + call.input_count,
                     [&](const Body* x) { return x->dtype == call.output().dtype; });
}
/// ReLU of a rounded sum is the rounded ReLU of the sum. Other activations would round twice.
bool dense_takes_halves(const KernelCall& call) {
  const Activation activation = call.option<ActivationOptions>().activation;
  return takes_halves(call) && (activation == Activation::none || activation == Activation::relu);
}
}  // namespace

extern const NamedKernel matmul_kernels[] = {{"matmul", matmul, takes_halves},
                                             {"matmul_add", matmul_add, takes_halves},
                                             {"dense", dense, dense_takes_halves},
                                             {nullptr, nullptr}};
}  // namespace reel::gpu
