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
  Window window(Int line) const {
    const Int n = line / out[1] / out[0];
    return {n, range(0, line / out[1] % out[0]), range(1, line % out[1]), {}};
  }
  /// f(pixel of x, whether it is the first). Pixels count in the whole batch.
  template <class F>
  void each_pixel(const Window& of, const F& f) const {
    bool first = true;
    for (Int i = of.d.first; i < of.d.end; i += dilation[0])
      for (Int j = of.h.first; j < of.h.end; j += dilation[1])
        for (Int k = of.w.first; k < of.w.end; k += dilation[2]) {
          f(((of.n * in[0] + i) * in[1] + j) * in[2] + k, first);
          first = false;
        }
  }
  /// f(output pixel, pixel of x, whether it is the first of its window) for a line of the output.
  template <class F>
  void each(Int line, const F& f) const {
    Window of = window(line);
    for (Int q = 0; q < out[2]; ++q) {
      of.w = range(2, q);
      each_pixel(of, [&](Int from, bool first) { f(line * out[2] + q, from, first); });
    }
  }
};
constexpr Int elements_in_block = 1 << 15;

KernelResult max_pool(const KernelCall& call) {
  const Windows windows(call, call.input(0));
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const T* const x = call.input(0).as<T>();
    T* const y = call.output().as<T>();
    const Int c = windows.channels;
    parallel_rows(windows.lines(), windows.out[2] * c, elements_in_block, [&](Int line, Int end) {
      for (; line < end; ++line)
        windows.each(line, [&](Int to, Int from, bool first) {
          if (first) {
            for_chunks<T>(c, [=](Int e, Chunk<T> chunk) {
              chunk.put(y + to * c + e, chunk.get(x + from * c + e));
            });
          } else {
            for_chunks<T>(c, [=](Int e, Chunk<T> chunk) {
              const Vector<T> best = chunk.get(y + to * c + e), other = chunk.get(x + from * c + e);
              chunk.put(y + to * c + e,
                        xsimd::select((other > best) | xsimd::isnan(other), other, best));
            });
          }
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
      for (; line < end; ++line) {
        const Int n = line / windows.out[1] / windows.out[0];
        windows.each(line, [&](Int to, Int from, bool first) {
          Int* const at = places + to * c;
          const T *const now = x + from * c, *const all = x + n * image * c;
          const Int place = from - n * image;
          if (first) {
            for (Int e = 0; e < c; ++e) at[e] = place;
          } else {
            for (Int e = 0; e < c; ++e) {
              const T best = all[at[e] * c + e];
              if (now[e] > best || (now[e] != now[e] && best == best)) at[e] = place;
            }
          }
        });
      }
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
    parallel_rows(windows.batch, image, elements_in_block, [&](Int n, Int end) {
      if (!call.adds())
        clear_bytes(reinterpret_cast<std::byte*>(dx + n * image),
                    (end - n) * image * static_cast<Int>(sizeof(T)));
      for (Int line = n * lines; line < end * lines; ++line) {
        Windows::Window of = windows.window(line);
        for (Int q = 0; q < windows.out[2]; ++q) {
          of.w = windows.range(2, q);
          const T* const up = dy + (line * windows.out[2] + q) * c;
          for_chunks<T>(c, [&](Int e, Chunk<T> chunk) {
            Vector<T> best(T(0)), left = chunk.get(up + e);
            const Vector<T> none(T(0));
            windows.each_pixel(of, [&](Int from, bool first) {
              const Vector<T> other = chunk.get(x + from * c + e);
              best =
                  first ? other : xsimd::select((other > best) | xsimd::isnan(other), other, best);
            });
            windows.each_pixel(of, [&](Int from, bool) {
              const Vector<T> now = chunk.get(x + from * c + e);
              const auto is_best = (now == best) | xsimd::isnan(now);
              T* const to = dx + from * c + e;
              chunk.put(to, chunk.get(to) + xsimd::select(is_best, left, none));
              left = xsimd::select(is_best, none, left);
            });
          });
        }
      }
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
