// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of windows of images, channels last, their places and their gradient.
#include "lib/pool/pool.hpp"
#include "lib/cpu/bytes.hpp"
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
using Int = std::int64_t;

struct Windows : ConvolutionSizes {
  Windows(const KernelCall& call, const Body& x)
      : ConvolutionSizes(call.option<PoolGeometry>().sizes_for(x.shape)) {}
  Int lines() const { return batch * out[0] * out[1]; }

  /// The places along an axis that window `o` sees.
  struct Range {
    Int first, end;
  };
  Range range(int a, Int o) const {
    const Int start = o * stride[a] - before[a];
    const Int skipped = start < 0 ? (-start + dilation[a] - 1) / dilation[a] : 0;
    const Int last = start + taps[a] * dilation[a];
    return {start + skipped * dilation[a], last < in[a] ? last : in[a]};
  }
  /// The places that a window sees along all axes, in image n.
  struct Window {
    Int n;
    Range d, h, w;
  };
  /// f(output pixel, its window) for some lines of the output.
  template <class F>
  void each(Int line, Int end, const F& f) const {
    for (; line < end; ++line) {
      const Int n = line / out[1] / out[0];
      Window window{n, range(0, line / out[1] % out[0]), range(1, line % out[1]), {}};
      for (Int q = 0; q < out[2]; ++q) {
        window.w = range(2, q);
        f(line * out[2] + q, window);
      }
    }
  }
  /// f(pixel of x). Pixels count in the whole batch.
  template <class F>
  void each_pixel(const Window& window, const F& f) const {
    for (Int i = window.d.first; i < window.d.end; i += dilation[0])
      for (Int j = window.h.first; j < window.h.end; j += dilation[1])
        for (Int k = window.w.first; k < window.w.end; k += dilation[2])
          f(((window.n * in[0] + i) * in[1] + j) * in[2] + k);
  }
  /// Whether each element of x is in one window.
  bool divide_images() const {
    for (int a = 0; a < 3; ++a)
      if (before[a] != 0 || dilation[a] != 1 || stride[a] != taps[a] || in[a] != out[a] * taps[a])
        return false;
    return true;
  }
  /// The largest elements of a window, for some vectors of channels from x on; NaN is larger than
  /// all.
  template <int Vectors, class T>
  void find_largest(const Window& window, const T* x, Chunk<T> chunk,
                    Vector<T> (&best)[Vectors]) const {
    REEL_UNROLL
    for (auto& each : best) each = Vector<T>(-static_cast<T>(__builtin_inf()));
    each_pixel(window, [&](Int from) {
      REEL_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        const Vector<T> other = chunk.get(x + from * channels + v * lanes<T>);
        best[v] = xsimd::select((other > best[v]) | xsimd::isnan(other), other, best[v]);
      }
    });
  }
};
/// f(width, channel, chunk): several vectors at once, then one by one.
template <class T, class F>
void for_channels(Int count, const F& f) {
  constexpr Int L = lanes<T>;
  Int e = 0;
  for (; e + 4 * L <= count; e += 4 * L) f(Width<4>(), e, Chunk<T>{L});
  for (; e < count; e += L) f(Width<1>(), e, Chunk<T>{least(L, count - e)});
}
constexpr Int elements_in_block = 1 << 15;

KernelResult max_pool(const KernelCall& call) {
  const Windows windows(call, call.input(0));
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const T* const x = call.input(0).as<T>();
    T* const y = call.output().as<T>();
    const Int c = windows.channels;
    parallel_rows(windows.lines(), windows.out[2] * c, elements_in_block, [&](Int line, Int end) {
      windows.each(line, end, [&](Int to, const Windows::Window& window) {
        for_channels<T>(c, [&]<int Vectors>(Width<Vectors>, Int e, Chunk<T> chunk) {
          Vector<T> best[Vectors];
          windows.find_largest(window, x + e, chunk, best);
          REEL_UNROLL
          for (int v = 0; v < Vectors; ++v) chunk.put(y + to * c + e + v * lanes<T>, best[v]);
        });
      });
    });
  });
}

/// The place of the largest element of each window in its image: depth, height and width as one
/// axis.
KernelResult max_pool_places(const KernelCall& call) {
  const Windows windows(call, call.input(0));
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) {
    const T* const x = call.input(0).as<T>();
    Int* const places = call.output().as<Int>();
    const Int c = windows.channels, image = windows.in[0] * windows.in[1] * windows.in[2];
    parallel_rows(windows.lines(), windows.out[2] * c, elements_in_block, [&](Int line, Int end) {
      windows.each(line, end, [&](Int to, const Windows::Window& window) {
        Int* const at = places + to * c;
        const T* const all = x + window.n * image * c;
        bool first = true;
        windows.each_pixel(window, [&](Int from) {
          const T* const now = x + from * c;
          for (Int e = 0; e < c; ++e) {
            const T best = first ? now[e] : all[at[e] * c + e];
            if (first || now[e] > best || (now[e] != now[e] && best == best))
              at[e] = from - window.n * image;
          }
          first = false;
        });
      });
    });
  });
}

/// dy goes to the first of the largest elements of a window, or to its first NaN.
KernelResult max_pool_gradient(const KernelCall& given) {
  const GradientKernelCall call(given);
  const Windows windows(call, *call.x());
  return with_floating(call.dx()->dtype, [&]<class T>(Type<T>) {
    const T *const x = call.x()->as<T>(), *const dy = call.dy()->as<T>();
    T* const dx = call.dx()->as<T>();
    const Int c = windows.channels, lines = windows.out[0] * windows.out[1];
    const Int image = windows.in[0] * windows.in[1] * windows.in[2] * c;
    const bool writes = !call.adds() && windows.divide_images();
    parallel_rows(windows.batch, image, elements_in_block, [&](Int n, Int end) {
      if (!call.adds() && !writes)
        clear_bytes(reinterpret_cast<std::byte*>(dx + n * image),
                    (end - n) * image * static_cast<Int>(sizeof(T)));
      windows.each(n * lines, end * lines, [&](Int pixel, const Windows::Window& window) {
        for_channels<T>(c, [&]<int Vectors>(Width<Vectors>, Int e, Chunk<T> chunk) {
          Vector<T> best[Vectors], left[Vectors];
          windows.find_largest(window, x + e, chunk, best);
          REEL_UNROLL
          for (int v = 0; v < Vectors; ++v) left[v] = chunk.get(dy + pixel * c + e + v * lanes<T>);
          windows.each_pixel(window, [&](Int from) {
            REEL_UNROLL
            for (int v = 0; v < Vectors; ++v) {
              const Int at = from * c + e + v * lanes<T>;
              const Vector<T> now = chunk.get(x + at), none(T(0));
              const auto is_best = (now == best[v]) | xsimd::isnan(now);
              const Vector<T> part = xsimd::select(is_best, left[v], none);
              chunk.put(dx + at, writes ? part : chunk.get(dx + at) + part);
              left[v] = xsimd::select(is_best, none, left[v]);
            }
          });
        });
      });
    });
  });
}

const NamedKernel kernels[] = {{"max_pool", max_pool},
                               {"max_pool.d", max_pool_gradient},
                               {"max_pool_places", max_pool_places},
                               {nullptr, nullptr}};
}  // namespace
extern const Family pool_family;
const Family pool_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
