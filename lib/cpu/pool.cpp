// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of windows of images, channels last, and their places.
#include "lib/pool/pool.hpp"
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
using Int = std::int64_t;

struct Windows : ConvolutionSizes {
  explicit Windows(const KernelCall& call)
      : ConvolutionSizes(call.option<PoolGeometry>().sizes_for(call.input(0).shape)) {}
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
  /// f(output pixel, pixel of x, whether it is the first of its window) for line `line` of the
  /// output. Pixels of x count in the whole batch.
  template <class F>
  void each(Int line, const F& f) const {
    const Int n = line / out[1] / out[0];
    const Range d = range(0, line / out[1] % out[0]), h = range(1, line % out[1]);
    for (Int q = 0; q < out[2]; ++q) {
      const Range w = range(2, q);
      bool first = true;
      for (Int i = d.first; i < d.end; i += dilation[0])
        for (Int j = h.first; j < h.end; j += dilation[1])
          for (Int k = w.first; k < w.end; k += dilation[2]) {
            f(line * out[2] + q, ((n * in[0] + i) * in[1] + j) * in[2] + k, first);
            first = false;
          }
    }
  }
};
constexpr Int elements_in_block = 1 << 15;

KernelResult max_pool(const KernelCall& call) {
  const Windows windows(call);
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
                        xsimd::select((other > best) | (other != other), other, best));
            });
          }
        });
    });
  });
}

/// The place of the largest element of each window in its image: depth, height and width as one
/// axis.
KernelResult max_pool_places(const KernelCall& call) {
  const Windows windows(call);
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

const NamedKernel kernels[] = {
    {"max_pool", max_pool}, {"max_pool_places", max_pool_places}, {nullptr, nullptr}};
}  // namespace
extern const Family pool_family;
const Family pool_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
