// SPDX-License-Identifier: BSD-3-Clause
// Convolutions with one input channel and one output channel in each group: channels are the lanes
// of the vectors. Several outputs of a line at once share the weights that they load.
#pragma once
#include "lib/cpu/convolution_rows.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr int outputs_at_once = 4;

inline bool is_depthwise(const Geometry& g) {
  return g.channels == 1 && g.outputs == 1 && g.groups > 1 &&
         g.taps[0] * g.taps[1] <= most_window_rows;
}

/// `Outputs` outputs of a line, all channels: y = start + sum over taps. The taps of a row follow
/// one another with `tap` elements between them, the outputs with `step` in x and `y_step` in y.
template <int Outputs, class T>
[[gnu::noinline]] void depthwise_tile(const WindowRows<T>& rows, Int offset, Int taps, Int tap,
                                      Int step, Int channels, const T* weights, Int weight_row,
                                      const T* start, T* y, Int y_step) {
  constexpr Int L = lanes<T>;
  constexpr int vectors = Outputs > 1 && sizeof(T) == 4 ? 2 : 1;
  const auto at = [&]<int Vectors>(Width<Vectors>, Int e, Int left) {
    const auto get = [&](const T* from) { return left >= L ? load(from) : load_part(from, left); };
    Vector<T> sums[Outputs][Vectors];
    REEL_UNROLL
    for (auto& sum : sums) {
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[v] = start ? get(start + e + v * L) : Vector<T>(T(0));
    }
    for (Int i = 0; i < rows.count; ++i) {
      if (!rows.at[i]) continue;
      const T* p = rows.at[i] + offset + e;
      const T* f = weights + i * weight_row + e;
      for (Int j = 0; j < taps; ++j, p += tap, f += channels) {
        Vector<T> factors[Vectors];
        REEL_UNROLL
        for (int v = 0; v < Vectors; ++v) factors[v] = get(f + v * L);
        REEL_UNROLL
        for (int t = 0; t < Outputs; ++t) {
          REEL_UNROLL
          for (int v = 0; v < Vectors; ++v)
            sums[t][v] = xsimd::fma(get(p + t * step + v * L), factors[v], sums[t][v]);
        }
      }
    }
    if (Vectors > 1 && rows.at[rows.count - 1]) {  // what the next tile is the first to read
      const T* next = rows.at[rows.count - 1] + offset + e + (2 * Outputs) * step;
      REEL_UNROLL
      for (int t = 0; t < Outputs; ++t) {
        __builtin_prefetch(next + t * step);
        __builtin_prefetch(y + (t + Outputs) * y_step + e, 1);
      }
    }
    REEL_UNROLL
    for (int t = 0; t < Outputs; ++t) {
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        T* const to = y + t * y_step + e + v * L;
        left >= L ? store(to, sums[t][v]) : store_part(to, sums[t][v], left);
      }
    }
  };
  Int e = 0;
  for (; e + vectors * L <= channels; e += vectors * L) at(Width<vectors>(), e, L);
  for (; e < channels; e += L) at(Width<1>(), e, channels - e);
}
/// sums[tap][channel] += x dy of `Outputs` outputs.
template <int Outputs, class T>
[[gnu::noinline]] void depthwise_outer(const WindowRows<T>& rows, Int offset, Int taps, Int tap,
                                       Int step, Int channels, const T* dy, T* sums, Int sums_row) {
  constexpr Int L = lanes<T>;
  const auto at = [&](Int e, Int left) {
    const auto get = [&](const T* from) { return left >= L ? load(from) : load_part(from, left); };
    Vector<T> d[Outputs];
    REEL_UNROLL
    for (int t = 0; t < Outputs; ++t) d[t] = get(dy + t * channels + e);
    for (Int i = 0; i < rows.count; ++i) {
      if (!rows.at[i]) continue;
      const T* p = rows.at[i] + offset + e;
      T* f = sums + i * sums_row + e;
      for (Int j = 0; j < taps; ++j, p += tap, f += channels) {
        Vector<T> sum = get(f);
        REEL_UNROLL
        for (int t = 0; t < Outputs; ++t) sum = xsimd::fma(get(p + t * step), d[t], sum);
        if (left >= L)
          store(f, sum);
        else
          store_part(f, sum, left);
      }
    }
  };
  Int e = 0;
  for (; e + L <= channels; e += L) at(e, L);
  if (e < channels) at(e, channels - e);
}

/// f(row, row, row, channel, get, put) for each vector of channels of a window of 3x3: get and put
/// load and store the vector.
template <class T, class F>
void each_3x3(const WindowRows<T>& rows, Int offset, Int channels, const F& f) {
  constexpr Int L = lanes<T>;
  Int e = 0;
  const auto at = [&](const auto& get, const auto& put) {
    f(rows.at[0] + offset + e, rows.at[1] + offset + e, rows.at[2] + offset + e, e, get, put);
  };
  for (; e + L <= channels; e += L) at([](const T* from) { return load(from); }, store<T>);
  const Int left = channels - e;
  if (left > 0)
    at([&](const T* from) { return load_part(from, left); },
       [&](T* to, const Vector<T>& x) { store_part(to, x, left); });
}
/// depthwise_tile() for `count` outputs of a window of 3x3, whose weights stay in registers.
template <class T>
[[gnu::noinline]] void depthwise_3x3(const WindowRows<T>& rows, Int offset, Int count, Int tap,
                                     Int step, Int channels, const T* weights, const T* start, T* y,
                                     Int y_step) {
  each_3x3(rows, offset, channels,
           [=](const T* a, const T* b, const T* c, Int e, auto get, auto put) {
             const Vector<T> first = start ? get(start + e) : Vector<T>(T(0));
             Vector<T> factors[9];
             REEL_UNROLL
             for (int i = 0; i < 9; ++i) factors[i] = get(weights + i * channels + e);
             T* to = y + e;
             for (Int left = count, near = tap, next = step, y_next = y_step; left > 0; --left) {
               Vector<T> sum = first;
               REEL_UNROLL
               for (int j = 0; j < 3; ++j) sum = xsimd::fma(get(a + j * near), factors[j], sum);
               REEL_UNROLL
               for (int j = 0; j < 3; ++j) sum = xsimd::fma(get(b + j * near), factors[3 + j], sum);
               REEL_UNROLL
               for (int j = 0; j < 3; ++j) sum = xsimd::fma(get(c + j * near), factors[6 + j], sum);
               put(to, sum);
               a += next, b += next, c += next, to += y_next;
             }
           });
}
/// depthwise_outer() for `count` outputs of a window of 3x3, whose sums stay in registers.
template <class T>
[[gnu::noinline]] void depthwise_outer_3x3(const WindowRows<T>& rows, Int offset, Int count,
                                           Int tap, Int step, Int channels, const T* dy, T* sums) {
  each_3x3(rows, offset, channels,
           [=](const T* a, const T* b, const T* c, Int e, auto get, auto put) {
             Vector<T> sum[9];
             REEL_UNROLL
             for (int i = 0; i < 9; ++i) sum[i] = get(sums + i * channels + e);
             const T* from = dy + e;
             for (Int left = count, near = tap, next = step, dy_next = channels; left > 0; --left) {
               const Vector<T> d = get(from);
               REEL_UNROLL
               for (int j = 0; j < 3; ++j) sum[j] = xsimd::fma(get(a + j * near), d, sum[j]);
               REEL_UNROLL
               for (int j = 0; j < 3; ++j)
                 sum[3 + j] = xsimd::fma(get(b + j * near), d, sum[3 + j]);
               REEL_UNROLL
               for (int j = 0; j < 3; ++j)
                 sum[6 + j] = xsimd::fma(get(c + j * near), d, sum[6 + j]);
               a += next, b += next, c += next, from += dy_next;
             }
             REEL_UNROLL
             for (int i = 0; i < 9; ++i) put(sums + i * channels + e, sum[i]);
           });
}

/// Calls f(output, outputs, first tap, taps, offset) for the outputs of a line: together for those
/// where no tap is outside of the input, else one by one with the taps inside.
template <class F>
void for_outputs(const Geometry& g, const F& f) {
  const Int c = g.all_channels(), stride = g.stride[2], dilation = g.dilation[2];
  const Int last = g.in[2] - 1 - (g.taps[2] - 1) * dilation + g.before[2];
  const Int begin = within((g.before[2] + stride - 1) / stride, 0, g.out[2]);
  const Int end = last < 0 ? begin : within(last / stride + 1, begin, g.out[2]);
  for (Int q = 0, count; q < g.out[2]; q += count) {
    const Int at = q * stride - g.before[2];
    count = q == begin && end > begin ? end - begin : 1;
    const Int first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    const Int until = at >= g.in[2] ? 0 : least(g.taps[2], (g.in[2] - 1 - at) / dilation + 1);
    f(q, count, first, most(until - first, 0), (at + first * dilation) * c);
  }
}
/// The value of a depthwise convolution; see Gather for `call`, whose weights are not in panels.
template <class T>
void gather_depthwise(const Gather<T>& call) {
  const Geometry& g = call.g;
  const Int c = g.all_channels(), lines = g.batch * g.out[0] * g.out[1];
  parallel_rows(lines, g.out[2] * c * g.tap_count(), Int{1} << 17, [&](Int line, Int end) {
    WindowRows<T> rows(g, call.x, elements<T>(scratch, WindowRows<T>::size(g, call.x)));
    for (; line < end; ++line) {
      rows.find(line);
      const Int h = line % g.out[1], d = line / g.out[1] % g.out[0];
      const Int n = line / g.out[1] / g.out[0];
      const Int depth = n * call.y_length[0] + call.y_first[0] + d * call.y_step[0];
      const Int row = depth * call.y_length[1] + call.y_first[1] + h * call.y_step[1];
      T* const to = call.y + (row * call.y_length[2] + call.y_first[2]) * c;
      const Int y_step = call.y_step[2] * c;
      const bool is_3x3 = g.taps[2] == 3 && rows.three_inside();
      for_outputs(g, [&](Int q, Int count, Int first, Int taps, Int offset) {
        const Int tap = g.dilation[2] * c, step = g.stride[2] * c;
        if constexpr (has_wide_vectors && sizeof(T) == 4)  // no gain with AVX2 on a Zen 4
          if (is_3x3 && taps == 3)
            return depthwise_3x3(rows, offset, count, tap, step, c, call.packed, call.start,
                                 to + q * y_step, y_step);
        const Int some = count < outputs_at_once ? 1 : outputs_at_once;
        const auto compute = some > 1 ? depthwise_tile<outputs_at_once, T> : depthwise_tile<1, T>;
        for (Int i = 0; i < count; i += some) {
          const Int at = least(i, count - some);  // the last ones may be computed again
          compute(rows, offset + at * step, taps, tap, step, c, call.packed + first * c,
                  g.taps[2] * c, call.start, to + (q + at) * y_step, y_step);
        }
      });
    }
  });
}

template <class T>
void depthwise_weights(const Geometry& g, const Source<T>& x, const Source<T>& dy, T* dweight) {
  const Int c = g.all_channels(), lines = g.batch * g.out[0] * g.out[1];
  const Int weights = g.tap_count() * c;
  // The pieces depend on the shape alone.
  const double enough = g.work() / (1 << 19);
  const Int pieces = within(enough > 8 ? 8 : static_cast<Int>(enough), 1, most(lines, 1));
  T* const parts = pieces > 1 ? elements<T>(lasting_scratch, (pieces - 1) * weights) : nullptr;
  parallel_for(pieces, [&](Int piece) {
    T* const sums = piece ? parts + (piece - 1) * weights : dweight;
    std::memset(sums, 0, static_cast<std::size_t>(weights) * sizeof(T));
    const Int memory = WindowRows<T>::size(g, x), size = g.out[2] * c;
    T* const widened = elements<T>(scratch, memory + (dy.is_half() ? size : 0));
    WindowRows<T> rows(g, x, widened);
    for (Int line = lines * piece / pieces; line < lines * (piece + 1) / pieces; ++line) {
      rows.find(line);
      const T* const upstream = (dy + line * size).read(size, widened + memory);
      const bool is_3x3 = g.taps[2] == 3 && rows.three_inside();
      for_outputs(g, [&](Int q, Int count, Int first, Int taps, Int offset) {
        const Int tap = g.dilation[2] * c, step = g.stride[2] * c;
        const T* d = upstream + q * c;
        if constexpr (sizeof(T) == 4)
          if (is_3x3 && taps == 3)
            return depthwise_outer_3x3(rows, offset, count, tap, step, c, d, sums);
        for (Int some; count > 0; count -= some, offset += some * step, d += some * c) {
          some = count < outputs_at_once ? 1 : outputs_at_once;
          const auto add = some > 1 ? depthwise_outer<outputs_at_once, T> : depthwise_outer<1, T>;
          add(rows, offset, taps, tap, step, c, d, sums + first * c, g.taps[2] * c);
        }
      });
    }
  });
  for (Int i = 1; i < pieces; ++i)
    for (Int e = 0; e < weights; ++e) dweight[e] += parts[(i - 1) * weights + e];
}
}  // namespace reel::kernels::REEL_ISA
