// SPDX-License-Identifier: BSD-3-Clause
// The activation of dense, in place. cuBLASLt has no sigmoid and no tanh, and its ReLU gives 0 for
// NaN.
#include "cuda/matmul.hpp"
#include "cuda/numbers.hpp"
#include "lib/formulas/activation.hpp"

namespace reel::gpu {
namespace {
template <class T>
struct alignas(16) Vector {
  T at[16 / sizeof(T)];
};

/// Whole vectors first, then the remaining elements.
template <class F, class T>
__global__ void apply(std::int64_t n, std::int64_t vectors, T* x) {
  const F f;
  for (std::int64_t i = first_index(); i < vectors; i += grid_step()) {
    Vector<T> v = reinterpret_cast<Vector<T>*>(x)[i];
    for (T& element : v.at) element = f(element);
    reinterpret_cast<Vector<T>*>(x)[i] = v;
  }
  constexpr auto length = static_cast<std::int64_t>(16 / sizeof(T));
  for (std::int64_t i = vectors * length + first_index(); i < n; i += grid_step()) x[i] = f(x[i]);
}

/// ReLU of the bits of float16 or bfloat16, whose infinity is `infinity`.
template <std::uint16_t infinity>
struct ReluOfBits {
  __device__ std::uint16_t operator()(std::uint16_t x) const {
    const bool is_negative = x >= 0x8000 && x <= (0x8000 | infinity);
    return is_negative ? std::uint16_t{0} : x;
  }
};

template <class F, class T>
void apply_to(const Queue& queue, std::int64_t n, T* x) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
  const std::int64_t vectors = aligned ? n / static_cast<std::int64_t>(16 / sizeof(T)) : 0;
  queue.launch_for(vectors ? vectors : n, apply<F, T>, n, vectors, x);
}
}  // namespace

void activate(const Queue& queue, Activation activation, DType dtype, std::int64_t n, void* x) {
  if (is_half(dtype)) {
    if (activation != Activation::relu) return;
    auto* const bits = static_cast<std::uint16_t*>(x);
    return dtype == DType::float16 ? apply_to<ReluOfBits<0x7c00>>(queue, n, bits)
                                   : apply_to<ReluOfBits<0x7f80>>(queue, n, bits);
  }
  with_floating(dtype, [&]<class T>(Type<T>) {
    T* const at = static_cast<T*>(x);
    if (activation == Activation::relu)
      apply_to<formulas::Relu>(queue, n, at);
    else if (activation == Activation::sigmoid)
      apply_to<formulas::Sigmoid>(queue, n, at);
    else if (activation == Activation::tanh)
      apply_to<formulas::Tanh>(queue, n, at);
  });
}
}  // namespace reel::gpu
