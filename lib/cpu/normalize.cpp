// SPDX-License-Identifier: BSD-3-Clause
// Layer norm: two passes over a row forward, two backward.
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// The sum of f(i, chunk) over a row.
template <class T, class F>
T row_sum(std::int64_t n, const F& f) {
  Vector<T> sums(T(0));
  T rest = 0;
  for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
    const Vector<T> values = f(i, chunk);
    if (chunk.whole()) {
      sums += values;
      return;
    }
    alignas(64) T last[lanes<T>];
    values.store_aligned(last);
    for (std::int64_t l = 0; l < chunk.n; ++l) rest += last[l];
  });
  return lane_sum(sums) + rest;
}

template <class T>
struct Moments {
  T mean, scale;  // scale = 1 / sqrt(variance + epsilon)
  Moments(const T* x, std::int64_t n, T epsilon) {
    mean = row_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) { return chunk.get(x + i); }) /
           static_cast<T>(n);
    const Vector<T> middle(mean);
    const T squares = row_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      const Vector<T> d = chunk.get(x + i) - middle;
      return d * d;
    });
    const T variance = squares / static_cast<T>(n);
    scale = T(1) / static_cast<T>(__builtin_sqrt(static_cast<double>(variance + epsilon)));
  }
};

template <class T>
void layer_norm_rows(const KernelCall& call) {
  const Body& x = call.input(0);
  const std::int64_t n = x.shape.data()[x.rank() - 1];
  const T* gain = call.input(1).as<T>();
  const T* shift = call.input(2).as<T>();
  const T epsilon = static_cast<T>(call.option<EpsilonOptions>().epsilon);
  for (std::int64_t first = 0; n && first < x.elements; first += n) {
    const T* row = x.as<T>() + first;
    T* y = call.output().as<T>() + first;
    const Moments<T> moments(row, n, epsilon);
    const Vector<T> mean(moments.mean), scale(moments.scale);
    for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      chunk.put(y + i,
                (chunk.get(row + i) - mean) * scale * chunk.get(gain + i) + chunk.get(shift + i));
    });
  }
}

/// With xhat = (x - mean) scale and g = dy gain: dx = scale (g - mean g - xhat mean(g xhat)).
template <class T>
void layer_norm_gradient_rows(const KernelCall& call) {
  const Body& up = *call.inputs[0];
  const std::int64_t n = up.shape.data()[up.rank() - 1];
  const T* x = elements<T>(call.inputs[1]);
  const T* gain = elements<T>(call.inputs[2]);
  T *dx = elements<T>(call.outputs[0]), *dgain = elements<T>(call.outputs[1]),
    *dshift = elements<T>(call.outputs[2]);
  const auto clear = [&](T* to, int bit) {
    for (std::int64_t i = 0; to && !(call.accumulate >> bit & 1) && i < n; ++i) to[i] = 0;
  };
  clear(dgain, 1);
  clear(dshift, 2);
  const T epsilon = static_cast<T>(call.option<EpsilonOptions>().epsilon);
  for (std::int64_t first = 0; n && first < up.elements; first += n) {
    const T* dy = up.as<T>() + first;
    if (dshift)
      for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
        chunk.give(dshift + i, chunk.get(dy + i), true);
      });
    if (!dx && !dgain) continue;
    const T* row = x + first;
    const Moments<T> moments(row, n, epsilon);
    const Vector<T> mean(moments.mean), scale(moments.scale);
    const auto xhat = [&](std::int64_t i, Chunk<T> chunk) {
      return (chunk.get(row + i) - mean) * scale;
    };
    if (dgain)
      for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
        chunk.give(dgain + i, chunk.get(dy + i) * xhat(i, chunk), true);
      });
    if (!dx) continue;
    const auto g = [&](std::int64_t i, Chunk<T> chunk) {
      return chunk.get(dy + i) * chunk.get(gain + i);
    };
    const T count = static_cast<T>(n);
    const Vector<T> g_mean(row_sum<T>(n, g) / count);
    const Vector<T> product(
        row_sum<T>(n,
                   [&](std::int64_t i, Chunk<T> chunk) { return g(i, chunk) * xhat(i, chunk); }) /
        count);
    for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      chunk.give(dx + first + i, scale * (g(i, chunk) - g_mean - xhat(i, chunk) * product),
                 call.accumulate & 1);
    });
  }
}

KernelResult layer_norm(const KernelCall& call) {
  if (call.output().dtype == DType::float32)
    layer_norm_rows<float>(call);
  else
    layer_norm_rows<double>(call);
  return {};
}
KernelResult layer_norm_gradient(const KernelCall& call) {
  if (call.inputs[0]->dtype == DType::float32)
    layer_norm_gradient_rows<float>(call);
  else
    layer_norm_gradient_rows<double>(call);
  return {};
}

const NamedKernel kernels[] = {{"layer_norm", layer_norm, layer_norm_gradient}, {nullptr, nullptr}};
}  // namespace
extern const Family normalize_family;
const Family normalize_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
