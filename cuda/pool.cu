// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of windows, and their places. A thread computes one element of the result.
#include "cuda/numbers.hpp"
#include "cuda/queue.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::gpu {
namespace {
using Int = std::int64_t;

/// Either `y` or `places` is null.
template <class T>
__global__ void largest(Int n, ConvolutionSizes g, const T* x, T* y, Int* places) {
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int c = i % g.channels;
    Int pixel = i / g.channels, at[3], tap[3], found = -1;
    for (int a = 3; a-- > 0; pixel /= g.out[a]) at[a] = pixel % g.out[a];
    T best = 0;
    for (tap[0] = 0; tap[0] < g.taps[0]; ++tap[0])
      for (tap[1] = 0; tap[1] < g.taps[1]; ++tap[1])
        for (tap[2] = 0; tap[2] < g.taps[2]; ++tap[2]) {
          Int place = 0;
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            const Int from = at[a] * g.stride[a] + tap[a] * g.dilation[a] - g.before[a];
            inside = inside && from >= 0 && from < g.in[a];
            place = place * g.in[a] + from;
          }
          if (!inside) continue;
          const T now = x[(pixel * g.in[0] * g.in[1] * g.in[2] + place) * g.channels + c];
          if (found >= 0 && !(now > best || (now != now && best == best))) continue;
          best = now;
          found = place;
        }
    if (y)
      y[i] = best;
    else
      places[i] = found;
  }
}

template <bool place>
KernelResult pool(const Call& call) {
  const Body &x = call.input(0), &y = call.output();
  const ConvolutionSizes g = call.option<PoolGeometry>().sizes_for(x.shape);
  return with_floating(x.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(y.elements, largest<T>, y.elements, g, x.as<T>(),
                          place ? nullptr : y.as<T>(), place ? y.as<Int>() : nullptr);
  });
}
}  // namespace

extern const NamedKernel pool_kernels[];
const NamedKernel pool_kernels[] = {
    {"max_pool", pool<false>}, {"max_pool_places", pool<true>}, {nullptr, nullptr}};
}  // namespace reel::gpu
