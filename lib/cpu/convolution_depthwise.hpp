// SPDX-License-Identifier: BSD-3-Clause
// Convolutions with one input channel and one output channel in each group: channels are the lanes
// of the vectors. Several outputs of a line at once share the weights that they load.
#pragma once
#include "lib/cpu/convolution.hpp"

namespace reel::kernels::REEL_ISA {
inline constexpr int outputs_at_once = 4;
inline constexpr Int most_window_rows = 64;  // of a depthwise convolution

inline bool is_depthwise(const Geometry& g) {
  return g.channels == 1 && g.outputs == 1 && g.groups > 1 &&
         g.taps[0] * g.taps[1] <= most_window_rows;
}

/// One line of the output: the rows of the input that its window rows meet, null for zeros.
template <class T>
struct WindowRows {
  const T* at[most_window_rows];
  Int count;
};

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

/// Calls f(output, outputs, first tap, taps, offset) for the outputs of a line: several at once
/// where no tap is outside of the input, else one by one with the taps inside. If `again`, the last
/// of several outputs at once may be some of those before them.
template <class F>
void for_outputs(const Geometry& g, bool again, const F& f) {
  const Int c = g.all_channels(), stride = g.stride[2], dilation = g.dilation[2];
  const Int last = g.in[2] - 1 - (g.taps[2] - 1) * dilation + g.before[2];
  const Int begin = within((g.before[2] + stride - 1) / stride, 0, g.out[2]);
  const Int end = last < 0 ? begin : within(last / stride + 1, begin, g.out[2]);
  for (Int q = 0; q < g.out[2];) {
    if (again && q > end - outputs_at_once && q < end && end - outputs_at_once >= begin)
      q = end - outputs_at_once;
    const Int at = q * stride - g.before[2];
    if (q >= begin && q + outputs_at_once <= end) {
      f(q, true, Int{0}, g.taps[2], at * c);
      q += outputs_at_once;
      continue;
    }
    const Int first = at < 0 ? (-at + dilation - 1) / dilation : 0;
    const Int until = at >= g.in[2] ? 0 : least(g.taps[2], (g.in[2] - 1 - at) / dilation + 1);
    f(q, false, first, most(until - first, 0), (at + first * dilation) * c);
    ++q;
  }
}
/// The window rows of line `line` of the output, which counts batch, depth and height.
template <class T>
void find_rows(const Geometry& g, const T* x, Int line, WindowRows<T>& rows) {
  const Int h = line % g.out[1], d = line / g.out[1] % g.out[0], n = line / g.out[1] / g.out[0];
  rows.count = 0;
  for (Int i = 0; i < g.taps[0]; ++i)
    for (Int j = 0; j < g.taps[1]; ++j) {
      const Int depth = d * g.stride[0] + i * g.dilation[0] - g.before[0];
      const Int row = h * g.stride[1] + j * g.dilation[1] - g.before[1];
      const bool inside = depth >= 0 && depth < g.in[0] && row >= 0 && row < g.in[1];
      rows.at[rows.count++] =
          inside ? x + ((n * g.in[0] + depth) * g.in[1] + row) * g.in[2] * g.all_channels()
                 : nullptr;
    }
}

/// The value of a depthwise convolution; see Gather for `call`, whose weights are not in panels.
template <class T>
void gather_depthwise(const Gather<T>& call) {
  const Geometry& g = call.g;
  const Int c = g.all_channels(), lines = g.batch * g.out[0] * g.out[1];
  parallel_rows(lines, g.out[2] * c * g.tap_count(), Int{1} << 17, [&](Int line, Int end) {
    WindowRows<T> rows;
    for (; line < end; ++line) {
      find_rows(g, call.x.in_place(), line, rows);
      const Int h = line % g.out[1], d = line / g.out[1] % g.out[0];
      const Int n = line / g.out[1] / g.out[0];
      const Int depth = n * call.y_length[0] + call.y_first[0] + d * call.y_step[0];
      const Int row = depth * call.y_length[1] + call.y_first[1] + h * call.y_step[1];
      T* const to = call.y + (row * call.y_length[2] + call.y_first[2]) * c;
      const Int y_step = call.y_step[2] * c;
      for_outputs(g, true, [&](Int q, bool several, Int first, Int taps, Int offset) {
        const auto compute = several ? depthwise_tile<outputs_at_once, T> : depthwise_tile<1, T>;
        compute(rows, offset, taps, g.dilation[2] * c, g.stride[2] * c, c, call.packed + first * c,
                g.taps[2] * c, call.start, to + q * y_step, y_step);
      });
    }
  });
}

template <class T>
void depthwise_weights(const Geometry& g, const T* x, const T* dy, T* dweight) {
  const Int c = g.all_channels(), lines = g.batch * g.out[0] * g.out[1];
  const Int weights = g.tap_count() * c;
  // The pieces depend on the shape alone.
  const double enough = g.work() / (1 << 19);
  const Int pieces = within(enough > 8 ? 8 : static_cast<Int>(enough), 1, most(lines, 1));
  T* const parts = pieces > 1 ? elements<T>(lasting_scratch, (pieces - 1) * weights) : nullptr;
  parallel_for(pieces, [&](Int piece) {
    T* const sums = piece ? parts + (piece - 1) * weights : dweight;
    std::memset(sums, 0, static_cast<std::size_t>(weights) * sizeof(T));
    WindowRows<T> rows;
    for (Int line = lines * piece / pieces; line < lines * (piece + 1) / pieces; ++line) {
      find_rows(g, x, line, rows);
      for_outputs(g, false, [&](Int q, bool several, Int first, Int taps, Int offset) {
        const auto add = several ? depthwise_outer<outputs_at_once, T> : depthwise_outer<1, T>;
        add(rows, offset, taps, g.dilation[2] * c, g.stride[2] * c, c,
            dy + (line * g.out[2] + q) * c, sums + first * c, g.taps[2] * c);
      });
    }
  });
  for (Int i = 1; i < pieces; ++i)
    for (Int e = 0; e < weights; ++e) dweight[e] += parts[(i - 1) * weights + e];
}
}  // namespace reel::kernels::REEL_ISA
