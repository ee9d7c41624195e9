// SPDX-License-Identifier: BSD-3-Clause
// Layer norm. Rows that fit into registers are read once. The gradients of gain and shift are
// summed in two steps: over the rows of each strip, then over the strips. The norm of several
// tensors: one launch adds the squares in shares, the next one adds the shares and scales.
#include <cmath>

#include "cuda/fold.hpp"
#include "cuda/line.hpp"
#include "cuda/spread.hpp"
#include "lib/table/options/normalize.hpp"

namespace reel::gpu {
namespace {
template <class T>
struct Moments {
  T mean = 0, scale = 0;  // scale = 1 / sqrt(variance + epsilon)

  Moments() = default;
  template <class Line>
  __device__ Moments(const Line& line, const Held<Line>& x, T epsilon) {
    if constexpr (Held<Line>::keeps) {
      mean = average(line, x, T(0));
      finish(line, x, variance_of(line, x), epsilon);
    } else {
      using Join = JoinSpreads<T>;
      Spread<T> all = Join::none();
      line.each([&](int k, std::int64_t i) {
        all = Join::join(all, spread_of(x.get(line, k, i), line.count(i)));
      });
      *this = Moments(line, x, line.template fold<Join>(all), epsilon);
    }
  }
  template <class Line>
  __device__ Moments(const Line& line, const Held<Line>& x, const Spread<T>& all, T epsilon)
      : mean(all.mean()) {
    finish(line, x, all.squares / static_cast<T>(line.length), epsilon);
  }
  /// (x - mean) scale
  template <int n>
  __device__ Pack<T, n> of(Pack<T, n> x) const {
    for (T& each : x.of) each = (each - mean) * scale;
    return x;
  }

 private:
  template <class Line>
  __device__ void finish(const Line& line, const Held<Line>& x, T variance, T epsilon) {
    constexpr T rounding = sizeof(T) == 4 ? T(0x1p-17) : T(0x1p-46);  // the mean's error bound
    // If all elements are near the mean, rounding errors would look like differences. Then the mean
    // is computed relative to the first element, so that the mean of equal elements is exact.
    const bool near = line.exists && !(variance > rounding * mean * (rounding * mean));
    if (__any_sync(all_lanes, near)) {
      const T first = near ? x.x[0] : T(0);
      const T again = first + average(line, x, first);
      if (near) mean = again;
      variance = variance_of(line, x);
    }
    scale = T(1) / std::sqrt(variance + epsilon);
  }
  template <class Line>
  static __device__ T average(const Line& line, const Held<Line>& x, T by) {
    const T sum = fold_line<Sum<T>, T>(line, [&](int k, std::int64_t i) {
      auto pack = x.get(line, k, i);
      for (T& each : pack.of) each -= by;
      return pack;
    });
    return sum / static_cast<T>(line.length);
  }
  template <class Line>
  __device__ T variance_of(const Line& line, const Held<Line>& x) const {
    const T sum = fold_line<Sum<T>, T>(line, [&](int k, std::int64_t i) {
      auto pack = x.get(line, k, i);
      for (T& each : pack.of) each = (each - mean) * (each - mean);
      return pack;
    });
    return sum / static_cast<T>(line.length);
  }
};

template <class T>
struct LayerNorm {
  const T *x, *gain, *shift;
  T* y;
  T epsilon;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t) const {
    const Held<Line> row(line, x + at);
    const Moments<T> moments(line, row, epsilon);
    line.each([&](int k, std::int64_t i) {
      auto pack = moments.of(row.get(line, k, i));
      const auto by = line.read(gain, i), plus = line.read(shift, i);
      for (int v = 0; v < Line::n; ++v) pack.of[v] = pack.of[v] * by.of[v] + plus.of[v];
      line.write(y + at, i, pack);
    });
  }
};

/// A thread's sums over all rows, one for each of its elements. They are in registers or in memory.
template <class Line>
struct RowSums {
  using T = typename Line::Number;
  using Packed = Pack<T, Line::n>;
  T* to;  // null if not needed
  Packed sums[Line::packs > 0 ? Line::packs : 1] = {};

  __device__ explicit RowSums(T* memory) : to(memory) {}
  __device__ void add(const Line& line, int k, std::int64_t i, const Packed& pack, bool first) {
    if (!to) return;
    if constexpr (Line::packs > 0)
      for (int v = 0; v < Line::n; ++v) sums[k].of[v] += pack.of[v];
    else
      line.write(to, i, pack, !first);
  }
  __device__ void finish(const Line& line) const {
    if constexpr (Line::packs > 0)
      if (to) line.each([&](int k, std::int64_t i) { line.write(to, i, sums[k]); });
  }
};

/// Pointers are null for missing inputs and for gradients that are not needed. If only dshift is
/// needed, x is null.
template <class T>
struct GradientRows {
  const T *dy, *x, *gain;
  T *dx, *dgain, *dshift;  // dgain and dshift: one row for each strip, `step` apart
  std::int64_t rows, length, strip, step;
  T epsilon;
  bool adds, whole;

  /// With xhat = (x - mean) scale and g = dy gain: dx = scale (g - mean g - xhat mean(g xhat)),
  /// d gain += dy xhat, d shift += dy.
  template <class Line>
  __device__ void run(const Line& line, std::int64_t number) const {
    RowSums<Line> gains(dgain ? dgain + number * step : nullptr);
    RowSums<Line> shifts(dshift ? dshift + number * step : nullptr);
    const Held<Line> by(line, dx ? gain : dy);
    const std::int64_t begin = number * strip, end = begin + strip < rows ? begin + strip : rows;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * length;
      const Held<Line> up(line, dy + at), from(line, (x ? x : dy) + at);
      const Factors factors = factors_of(line, up, from, by);
      line.each([&](int k, std::int64_t i) {
        const auto ups = up.get(line, k, i), places = factors.moments.of(from.get(line, k, i));
        auto pack = places;
        for (int v = 0; v < Line::n; ++v) pack.of[v] *= ups.of[v];
        gains.add(line, k, i, pack, row == begin);
        shifts.add(line, k, i, ups, row == begin);
        if (!dx) return;
        const auto scales = by.get(line, k, i);
        for (int v = 0; v < Line::n; ++v)
          pack.of[v] = factors.moments.scale *
                       (ups.of[v] * scales.of[v] - factors.mean - places.of[v] * factors.product);
        line.write(dx + at, i, pack, adds);
      });
    }
    gains.finish(line);
    shifts.finish(line);
  }

 private:
  /// mean: of g; product: mean(g xhat).
  struct Factors {
    Moments<T> moments;
    T mean = 0, product = 0;
  };
  template <class Line>
  __device__ Factors factors_of(const Line& line, const Held<Line>& up, const Held<Line>& from,
                                const Held<Line>& by) const {
    if (!dx) return {x ? Moments<T>(line, from, epsilon) : Moments<T>()};
    const T n = static_cast<T>(length);
    if constexpr (Held<Line>::keeps) {
      const Moments<T> moments(line, from, epsilon);
      const auto sums = fold_line<TwoSums<T>, Two<T>>(line, [&](int k, std::int64_t i) {
        const auto ups = up.get(line, k, i), scales = by.get(line, k, i);
        const auto places = moments.of(from.get(line, k, i));
        Pack<Two<T>, Line::n> both;
        for (int v = 0; v < Line::n; ++v) {
          const T g = ups.of[v] * scales.of[v];
          both.of[v] = {g, g * places.of[v]};
        }
        return both;
      });
      return {moments, sums.first / n, sums.second / n};
    } else {
      using Join = JoinCovariances<T>;
      Covariance<T> all = Join::none();
      line.each([&](int k, std::int64_t i) {
        const auto ups = up.get(line, k, i), scales = by.get(line, k, i);
        const auto xs = from.get(line, k, i);
        const int count = line.count(i);
        Covariance<T> part{spread_of(xs, count), T(0), T(0)};
        const T mean = part.x.mean();
        for (int v = 0; v < Line::n; ++v) {
          const T g = v < count ? ups.of[v] * scales.of[v] : T(0);
          part.sum += g;
          part.product += v < count ? g * (xs.of[v] - mean) : T(0);
        }
        all = Join::join(all, part);
      });
      all = line.template fold<Join>(all);
      const Moments<T> moments(line, from, all.x, epsilon);
      return {moments, all.sum / n, Join::about(all, moments.mean) * moments.scale / n};
    }
  }
};
/// Each block processes a strip of rows.
template <class T, int held>
__global__ void __launch_bounds__(512) gradient_rows(GradientRows<T> of, std::int64_t strips) {
  const RowLine<T, held> line{of.length, true, of.whole, static_cast<int>(blockDim.x),
                              static_cast<int>(threadIdx.x)};
  for (std::int64_t number = blockIdx.x; number < strips; number += gridDim.x) of.run(line, number);
}

constexpr int columns_at_once = 8;
/// Sums over the strips: [strips, 2, n] to two arrays [n].
template <class T>
__global__ void add_strips(const T* __restrict__ sums, std::int64_t strips, std::int64_t n,
                           T* dgain, T* dshift, bool gain_adds, bool shift_adds) {
  REEL_SHARED(T, shared, 256);
  const int column = static_cast<int>(threadIdx.x) % columns_at_once;
  const int slot = static_cast<int>(threadIdx.x) / columns_at_once;
  const int slots = static_cast<int>(blockDim.x) / columns_at_once;
  for (std::int64_t first = std::int64_t{blockIdx.x} * columns_at_once; first < 2 * n;
       first += std::int64_t{gridDim.x} * columns_at_once) {
    const std::int64_t at = first + column, i = at < n ? at : at - n;
    T* const to = at < n ? dgain : dshift;
    const bool adds = at < n ? gain_adds : shift_adds, wanted = at < 2 * n && to;
    T sum = 0;
    if (wanted) {
      REEL_UNROLL
      for (std::int64_t j = slot; j < strips; j += slots) sum += sums[j * 2 * n + at];
    }
    sum = fold_slots<Sum<T>>(sum, columns_at_once, shared);
    if (wanted && slot == 0) to[i] = adds ? to[i] + sum : sum;
  }
}

template <class T>
T* elements(const Body* body) {
  return body ? body->as<T>() : nullptr;
}

template <class T>
void layer_norm_of(const Call& call) {
  const Body& x = call.input(0);
  const std::int64_t n = x.shape.data()[x.rank() - 1];
  if (n == 0) return;
  const LayerNorm<T> op = {x.as<T>(), call.input(1).as<T>(), call.input(2).as<T>(),
                           call.output().as<T>(),
                           static_cast<T>(call.option<EpsilonOptions>().epsilon)};
  over_rows<T>(call.queue, op, x.elements / n, n, aligned(op.x, op.gain, op.shift, op.y));
}

template <class T>
void layer_norm_gradient_of(const GradientCall& call) {
  const Body& up = *call.dy();
  const Queue& queue = call.queue;
  const std::int64_t n = up.shape.data()[up.rank() - 1];
  if (n == 0) return;
  const std::int64_t rows = up.elements / n, packs = (n + pack_size<T> - 1) / pack_size<T>;
  constexpr int few = 4, most_lanes = 512;
  const std::int64_t lanes =
      packs <= 32 ? 32
                  : std::min<std::int64_t>(most_lanes, (packs + 32 * few - 1) / (32 * few) * 32);
  // Depends on the shape only. The rows of a strip are added in sequence.
  const std::int64_t strip = std::clamp<std::int64_t>((rows * lanes + (1 << 17) - 1) >> 17, 1, 256);
  const std::int64_t strips = (rows + strip - 1) / strip;
  T *const dgain = elements<T>(call.dx(1)), *const dshift = elements<T>(call.dx(2));
  T* const sums = dgain || dshift ? queue.scratch_of<T>(2 * strips * n) : nullptr;
  GradientRows<T> of = {up.as<T>(),
                        elements<T>(call.x(0)),
                        elements<T>(call.x(1)),
                        elements<T>(call.dx(0)),
                        dgain ? sums : nullptr,
                        dshift ? sums + n : nullptr,
                        rows,
                        n,
                        strip,
                        2 * n,
                        static_cast<T>(call.template option<EpsilonOptions>().epsilon),
                        call.adds(0),
                        false};
  of.whole = n % pack_size<T> == 0 && aligned(of.dy, of.x, of.gain, of.dx, sums);
  const auto kernel = packs <= 32                 ? gradient_rows<T, 1>
                      : packs <= few * most_lanes ? gradient_rows<T, few>
                                                  : gradient_rows<T, 0>;
  const auto grid = [](std::int64_t blocks) { return dim3(static_cast<unsigned>(blocks)); };
  if (rows > 0)
    queue.launch(kernel, grid(std::min(strips, queue.most_blocks() * 256 / lanes)), grid(lanes), 0,
                 of, strips);
  if (!sums) return;
  const std::int64_t tiles = (2 * n + columns_at_once - 1) / columns_at_once;
  queue.launch(add_strips<T>, grid(std::min(tiles, queue.most_blocks())),
               grid(columns_at_once * std::max(4, power_of_two(strips, 32))), 0, sums, strips, n,
               dgain, dshift, call.adds(1), call.adds(2));
}

KernelResult layer_norm(const Call& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) { layer_norm_of<T>(call); });
}
KernelResult layer_norm_gradient(const Call& call) {
  return with_floating(call.input(0).dtype,
                       [&]<class T>(Type<T>) { layer_norm_gradient_of<T>(GradientCall(call)); });
}

/// Some tensors of one dtype, as many as fit into a kernel's arguments. Each is divided into shares
/// of `share` elements.
template <class T>
struct Pieces {
  static constexpr int most = 128, width = 16 / sizeof(T);
  std::int64_t share;
  int count = 0;
  unsigned first = 0;       // of all shares, the first one here
  unsigned end[most] = {};  // cumulative number of shares
  const T* x[most] = {};
  T* y[most] = {};
  std::int64_t elements[most] = {};

  __host__ __device__ unsigned shares() const { return count ? end[count - 1] : 0; }
  /// f(pointer to x, pointer to y, number of elements, packed) for each share of this block.
  template <class F>
  __device__ void each_share(const F& f) const {
    for (unsigned part = blockIdx.x; part < shares(); part += gridDim.x) {
      int p = 0;
      for (int last = count - 1; p < last;) {
        const int middle = (p + last) / 2;
        part < end[middle] ? last = middle : p = middle + 1;
      }
      const std::int64_t at = (part - (p ? end[p - 1] : 0)) * share;
      f(part, x[p] + at, y[p] + at, std::min(share, elements[p] - at));
    }
  }
};

template <class T>
__global__ void add_squares(const Pieces<T> pieces, double* sums) {
  pieces.each_share([&](unsigned part, const T* x, const T*, std::int64_t n) {
    constexpr int width = Pieces<T>::width;
    const std::int64_t whole = is_aligned<width>(x) ? n - n % width : 0;
    double sum = 0;
    REEL_UNROLL
    for (std::int64_t i = threadIdx.x * width; i < whole; i += blockDim.x * width) {
      const Pack<T, width> pack = *reinterpret_cast<const Pack<T, width>*>(x + i);
      for (const T value : pack.of) sum += static_cast<double>(value) * value;
    }
    for (std::int64_t i = whole + threadIdx.x; i < n; i += blockDim.x)
      sum += static_cast<double>(x[i]) * x[i];
    sum = fold_lanes<Sum<double>>(sum, static_cast<int>(blockDim.x));
    if (threadIdx.x == 0) sums[pieces.first + part] = sum;
  });
}
/// Each block adds the sums of all shares again, in one order.
template <class T>
__global__ void scale_to(const Pieces<T> pieces, const double* sums, unsigned count, double most) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) sum += sums[i];
  const double norm = std::sqrt(fold_lanes<Sum<double>>(sum, static_cast<int>(blockDim.x)));
  const T factor = static_cast<T>(norm <= most ? 1 : most / norm);
  pieces.each_share([&](unsigned, const T* x, T* y, std::int64_t n) {
    constexpr int width = Pieces<T>::width;
    const std::int64_t whole = is_aligned<width>(x) && is_aligned<width>(y) ? n - n % width : 0;
    REEL_UNROLL
    for (std::int64_t i = threadIdx.x * width; i < whole; i += blockDim.x * width) {
      Pack<T, width> pack = *reinterpret_cast<const Pack<T, width>*>(x + i);
      for (T& value : pack.of) value *= factor;
      store(y + i, pack);
    }
    for (std::int64_t i = whole + threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * factor;
  });
}

/// Calls f(Pieces) for all tensors of one dtype. Returns the number of their shares.
template <class T, class F>
unsigned for_pieces(const Call& call, DType dtype, std::int64_t share, unsigned first, const F& f) {
  Pieces<T> pieces{share};
  pieces.first = first;
  const auto finish = [&] {
    const unsigned shares = pieces.shares();
    if (shares) f(pieces);
    first += shares;
    pieces = {share};
    pieces.first = first;
  };
  for (int i = 0; i < call.input_count; ++i) {
    const Body& x = call.input(i);
    if (x.dtype != dtype || x.elements == 0) continue;
    const auto shares = static_cast<unsigned>((x.elements + share - 1) / share);
    pieces.end[pieces.count] = pieces.shares() + shares;
    pieces.x[pieces.count] = x.as<T>();
    pieces.y[pieces.count] = call.output(i).as<T>();
    pieces.elements[pieces.count++] = x.elements;
    if (pieces.count == Pieces<T>::most) finish();
  }
  finish();
  return first;
}
KernelResult limit_norm(const Call& call) {
  const Queue& queue = call.queue;
  constexpr std::int64_t least_share = 8192, most_shares = 1024;
  std::int64_t elements = 0;
  for (int i = 0; i < call.input_count; ++i) elements += call.input(i).elements;
  if (elements == 0) return {};
  // A multiple of what a block reads at once; it depends on the shapes alone.
  const std::int64_t unit = std::max(least_share, elements / most_shares);
  const std::int64_t share = (unit + least_share - 1) / least_share * least_share;
  const auto sums =
      queue.scratch_of<double>(elements / share + static_cast<std::int64_t>(call.input_count));
  const auto blocks = [&](unsigned shares) {
    return dim3(static_cast<unsigned>(std::min<std::int64_t>(shares, queue.most_blocks())));
  };
  const auto for_all = [&](const auto& f) {
    const unsigned shares = for_pieces<float>(call, DType::float32, share, 0, f);
    return for_pieces<double>(call, DType::float64, share, shares, f);
  };
  const unsigned shares = for_all([&]<class T>(const Pieces<T>& pieces) {
    queue.launch(add_squares<T>, blocks(pieces.shares()), dim3(256), 0, pieces, sums);
  });
  for_all([&]<class T>(const Pieces<T>& pieces) {
    queue.launch(scale_to<T>, blocks(pieces.shares()), dim3(256), 0, pieces, sums, shares,
                 call.option<LimitNormOptions>().norm);
  });
  return {};
}
}  // namespace

extern const NamedKernel normalize_kernels[] = {{"layer_norm", layer_norm},
                                                {"layer_norm.d", layer_norm_gradient},
                                                {"limit_norm", limit_norm},
                                                {nullptr, nullptr}};
}  // namespace reel::gpu
