// SPDX-License-Identifier: BSD-3-Clause
// Layer norm: two passes over a row forward, two backward. The norm of several tensors.
#include "lib/table/options/normalize.hpp"
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
template <class T>
struct Moments {
  T mean, scale;  // scale = 1 / sqrt(variance + epsilon)
  Moments(const T* x, std::int64_t n, T epsilon) {
    constexpr T rounding = sizeof(T) == 4 ? T(0x1p-17) : T(0x1p-46);  // of the mean, at most
    mean = average(n, [&](std::int64_t i, Chunk<T> chunk) { return chunk.zero_padded(x + i); });
    T variance = variance_of(x, n);
    // If all elements are near the mean, rounding errors would look like differences. Then the mean
    // is computed relative to the first element, so that the mean of equal elements is exact.
    if (!(variance > rounding * mean * (rounding * mean))) [[unlikely]] {
      const T near = x[0];
      mean = near + average(n, [&, by = Vector<T>(near)](std::int64_t i, Chunk<T> chunk) {
               return chunk.only(chunk.get(x + i) - by);
             });
      variance = variance_of(x, n);
    }
    scale = T(1) / static_cast<T>(__builtin_sqrt(static_cast<double>(variance + epsilon)));
  }

 private:
  template <class F>
  [[gnu::always_inline]] static T average(std::int64_t n, const F& f) {
    return lane_sum<T>(row_sum<T>(n, f)) / static_cast<T>(n);
  }
  T variance_of(const T* x, std::int64_t n) const {
    return average(n, [&, middle = Vector<T>(mean)](std::int64_t i, Chunk<T> chunk) {
      const Vector<T> d = chunk.only(chunk.get(x + i) - middle);
      return Vector<T>(d * d);
    });
  }
};

constexpr std::int64_t elements_in_block = 1 << 15, most_blocks = 64, most_rows = 256;
/// Depends on the shape alone, so that sums over rows have the same bits for every number of
/// threads.
std::int64_t rows_in_block(std::int64_t rows, std::int64_t n) {
  const std::int64_t enough = n < elements_in_block ? elements_in_block / (n ? n : 1) : 1;
  const std::int64_t few = (rows + most_blocks - 1) / most_blocks;
  const std::int64_t block = enough > few ? enough : few;
  return block < most_rows ? block : most_rows;  // rows are added one after the other
}

template <class T>
void layer_norm_rows(const KernelCall& call) {
  const Body& x = call.input(0);
  const std::int64_t n = x.shape.data()[x.rank() - 1];
  const T* gain = call.input(1).as<T>();
  const T* shift = call.input(2).as<T>();
  const T epsilon = static_cast<T>(call.option<EpsilonOptions>().epsilon);
  parallel_rows(n ? x.elements / n : 0, n, elements_in_block,
                [&](std::int64_t i_row, std::int64_t end) {
                  for (; i_row < end; ++i_row) {
                    const T* row = x.as<T>() + i_row * n;
                    T* y = call.output().as<T>() + i_row * n;
                    const Moments<T> moments(row, n, epsilon);
                    const Vector<T> mean(moments.mean), scale(moments.scale);
                    for_chunks<T>(n, [=](std::int64_t i, Chunk<T> chunk) {
                      chunk.put(y + i, (chunk.get(row + i) - mean) * scale * chunk.get(gain + i) +
                                           chunk.get(shift + i));
                    });
                  }
                });
}

/// The inputs and results of a row's gradient. Pointers may be null.
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
      const Vector<T> up = chunk.zero_padded(dy + i), place = xhat(i, chunk);
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
void clear(T* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = T(0);
}

/// Blocks of rows. Each has its own sums for d gain and d shift, which are then added in pairs.
template <class T>
void layer_norm_gradient_rows(const GradientKernelCall& call) {
  const Body& up = *call.dy();
  const std::int64_t n = up.shape.data()[up.rank() - 1], rows = n ? up.elements / n : 0;
  const T *dy = up.as<T>(), *x = elements<T>(call.x(0)), *gain = elements<T>(call.x(1));
  T* const dx = elements<T>(call.dx(0));
  T* const totals[] = {elements<T>(call.dx(1)), elements<T>(call.dx(2))};
  const T epsilon = static_cast<T>(call.option<EpsilonOptions>().epsilon);
  const std::int64_t block = rows_in_block(rows, n), blocks = (rows + block - 1) / block;
  T* const sums = static_cast<T*>(scratch(static_cast<std::size_t>(2 * blocks * n) * sizeof(T)));
  parallel_for(blocks, [&](std::int64_t i) {
    T* const own = sums + 2 * i * n;
    clear(own, 2 * n);
    const std::int64_t end = (i + 1) * block < rows ? (i + 1) * block : rows;
    for (std::int64_t r = i * block; r < end; ++r) {
      const T* place = (x ? x : dy) + r * n;  // for d shift alone, x is not used
      GradientRow<T>{dy + r * n,
                     place,
                     gain,
                     dx ? dx + r * n : nullptr,
                     totals[0] ? own : nullptr,
                     totals[1] ? own + n : nullptr,
                     n}
          .add(Moments<T>(place, n, epsilon), call.adds(0));
    }
  });
  const auto add = [n](const T* from, T* to) {
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < n; ++j) to[j] += from[j];
  };
  for (std::int64_t step = 1; step < blocks; step *= 2)
    for (std::int64_t i = 0; i + step < blocks; i += 2 * step)
      for (int k = 0; k < 2; ++k) add(sums + (2 * (i + step) + k) * n, sums + (2 * i + k) * n);
  for (int k = 0; k < 2; ++k) {
    T* const total = totals[k];
    if (!total) continue;
    if (!call.adds(k + 1)) clear(total, n);
    if (blocks) add(sums + k * n, total);
  }
}

KernelResult layer_norm(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) { layer_norm_rows<T>(call); });
}
KernelResult layer_norm_gradient(const KernelCall& call) {
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    layer_norm_gradient_rows<T>(GradientKernelCall(call));
  });
}

/// The sum of the squares of n elements.
template <class T>
double squares_of(const T* x, std::int64_t n) {
  constexpr int lanes = 16;
  double sums[lanes] = {}, total = 0;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) sums[k] += static_cast<double>(x[i + k]) * x[i + k];
  for (; i < n; ++i) total += static_cast<double>(x[i]) * x[i];
  for (const double sum : sums) total += sum;
  return total;
}
/// The sum of the squares of n elements, in blocks that depend on n alone.
template <class T>
double squares_in_blocks(const T* x, std::int64_t n) {
  constexpr std::int64_t most = 64, least = 1 << 15;
  const std::int64_t share = (n + most - 1) / most, block = share < least ? least : share;
  const std::int64_t blocks = (n + block - 1) / block;
  double sums[most], total = 0;
  parallel_for(blocks, [&](std::int64_t i) {
    const std::int64_t first = i * block;
    sums[i] = squares_of(x + first, n - first < block ? n - first : block);
  });
  for (std::int64_t i = 0; i < blocks; ++i) total += sums[i];
  return total;
}
KernelResult limit_norm(const KernelCall& call) {
  const double most = call.option<LimitNormOptions>().norm;
  double squares = 0;
  for (int i = 0; i < call.input_count; ++i) {
    const Body& x = call.input(i);
    with_floating(x.dtype,
                  [&]<class T>(Type<T>) { squares += squares_in_blocks(x.as<T>(), x.elements); });
  }
  const double norm = __builtin_sqrt(squares), scale = norm <= most ? 1 : most / norm;
  for (int i = 0; i < call.input_count; ++i)
    with_floating(call.input(i).dtype, [&]<class T>(Type<T>) {
      const T *const x = call.input(i).as<T>(), factor = static_cast<T>(scale);
      T* const y = call.output(i).as<T>();
      parallel_ranges(call.input(i).elements, elements_in_block,
                      [=](std::int64_t first, std::int64_t end) {
                        REEL_INDEPENDENT
                        for (std::int64_t k = first; k < end; ++k) y[k] = x[k] * factor;
                      });
    });
  return {};
}

const NamedKernel kernels[] = {{"layer_norm", layer_norm},
                               {"layer_norm.d", layer_norm_gradient},
                               {"limit_norm", limit_norm},
                               {nullptr, nullptr}};
}  // namespace
extern const Family normalize_family;
const Family normalize_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
