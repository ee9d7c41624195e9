// SPDX-License-Identifier: BSD-3-Clause
// Layer norm: two passes over a row forward, two backward.
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/numbers.hpp"
#include "lib/cpu/pool.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
template <class T>
struct Moments {
  T mean, scale;  // scale = 1 / sqrt(variance + epsilon)
  Moments(const T* x, std::int64_t n, T epsilon) {
    mean =
        lane_sum(row_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) { return chunk.get(x + i); })) /
        static_cast<T>(n);
    const Vector<T> middle(mean);
    const T squares = lane_sum(row_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      const Vector<T> d = chunk.only(chunk.get(x + i) - middle);
      return Vector<T>(d * d);
    }));
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
  parallel_rows(n ? x.elements / n : 0, n, 1 << 15, [&](std::int64_t i_row, std::int64_t end) {
    for (; i_row < end; ++i_row) {
      const T* row = x.as<T>() + i_row * n;
      T* y = call.output().as<T>() + i_row * n;
      const Moments<T> moments(row, n, epsilon);
      const Vector<T> mean(moments.mean), scale(moments.scale);
      for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
        chunk.put(y + i,
                  (chunk.get(row + i) - mean) * scale * chunk.get(gain + i) + chunk.get(shift + i));
      });
    }
  });
}

/// What a row's gradient needs and gives; pointers may be null.
template <class T>
struct GradientRow {
  const T *dy, *x, *gain;
  T *dx, *dgain, *dshift;
  std::int64_t n;

  /// With xhat = (x - mean) scale and g = dy gain: dx = scale (g - mean g - xhat mean(g xhat)),
  /// d gain += dy xhat, d shift += dy.
  void add(const Moments<T>& moments, bool add_dx) const {
    const Vector<T> mean(moments.mean), scale(moments.scale);
    const auto xhat = [&](std::int64_t i, Chunk<T> chunk) {
      return Vector<T>((chunk.get(x + i) - mean) * scale);
    };
    const Two<T> sums = row_sum<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      const Vector<T> up = chunk.get(dy + i), place = xhat(i, chunk);
      if (dshift) chunk.put(dshift + i, chunk.get(dshift + i) + up);
      if (dgain) chunk.put(dgain + i, chunk.get(dgain + i) + up * place);
      const Vector<T> g = dx ? up * chunk.get(gain + i) : up;
      return Two<T>{g, g * place};
    });
    if (!dx) return;
    const Vector<T> g_mean(lane_sum(sums.first) / static_cast<T>(n));
    const Vector<T> product(lane_sum(sums.second) / static_cast<T>(n));
    for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      const Vector<T> g = chunk.get(dy + i) * chunk.get(gain + i);
      chunk.give(dx + i, scale * (g - g_mean - xhat(i, chunk) * product), add_dx);
    });
  }
};

template <class T>
void layer_norm_gradient_rows(const KernelCall& call) {
  const Body& up = *call.inputs[0];
  const std::int64_t n = up.shape.data()[up.rank() - 1];
  const T* x = elements<T>(call.inputs[1]);
  GradientRow<T> row{up.as<T>(),
                     x,
                     elements<T>(call.inputs[2]),
                     elements<T>(call.outputs[0]),
                     elements<T>(call.outputs[1]),
                     elements<T>(call.outputs[2]),
                     n};
  const auto clear = [&](T* to, int bit) {
    for (std::int64_t i = 0; to && !(call.accumulate >> bit & 1) && i < n; ++i) to[i] = 0;
  };
  clear(row.dgain, 1);
  clear(row.dshift, 2);
  const T epsilon = static_cast<T>(call.option<EpsilonOptions>().epsilon);
  for (std::int64_t first = 0; n && first < up.elements; first += n) {
    row.x = x ? x + first : row.dy;  // for d shift alone x does not matter
    row.add(Moments<T>(row.x, n, epsilon), call.accumulate & 1);
    row.dy += n;
    if (row.dx) row.dx += n;
  }
}

KernelResult layer_norm(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) { layer_norm_rows<T>(call); });
}
KernelResult layer_norm_gradient(const KernelCall& call) {
  return with_floating(call.input(0).dtype,
                       [&]<class T>(Type<T>) { layer_norm_gradient_rows<T>(call); });
}

const NamedKernel kernels[] = {{"layer_norm", layer_norm, layer_norm_gradient}, {nullptr, nullptr}};
}  // namespace
extern const Family normalize_family;
const Family normalize_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
