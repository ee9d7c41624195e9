// SPDX-License-Identifier: BSD-3-Clause
// The largest elements of windows, their places and their gradient. A thread computes one element
// of the result.
#include "cuda/numbers.hpp"
#include "cuda/queue.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/convolution.hpp"

namespace reel::gpu {
namespace {
using Int = std::int64_t;

template <class T>
struct Largest {
  T value;
  Int place;  // in its image
};
/// The first of the largest elements of window `at`, or its first NaN, in one channel of an image.
template <class T>
__device__ Largest<T> largest_of(const ConvolutionSizes& g, const T* image, const Int (&at)[3]) {
  Largest<T> found{0, -1};
  Int tap[3];
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
        const T now = image[place * g.channels], best = found.value;
        if (found.place < 0 || now > best || (now != now && best == best)) found = {now, place};
      }
  return found;
}
/// Either `y` or `places` is null.
template <class T>
__global__ void largest(Int n, ConvolutionSizes g, const T* x, T* y, Int* places) {
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int c = i % g.channels;
    Int image = i / g.channels, at[3];
    for (int a = 3; a-- > 0; image /= g.out[a]) at[a] = image % g.out[a];
    const T* const from = x + image * g.in[0] * g.in[1] * g.in[2] * g.channels + c;
    const Largest<T> found = largest_of(g, from, at);
    if (y)
      y[i] = found.value;
    else
      places[i] = found.place;
  }
}
/// An element of dx is the sum of dy over the windows whose largest element it is, from the first
/// window to the last.
template <class T>
__global__ void largest_gradient(Int n, ConvolutionSizes g, const T* x, const T* dy, T* dx,
                                 bool adds) {
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int c = i % g.channels, pixels = g.in[0] * g.in[1] * g.in[2];
    const Int place = i / g.channels % pixels, image = i / g.channels / pixels;
    const T* const from = x + image * pixels * g.channels + c;
    Int at[3], tap[3], window[3], rest = place;
    for (int a = 3; a-- > 0; rest /= g.in[a]) at[a] = rest % g.in[a];
    T sum = adds ? dx[i] : T(0);
    for (tap[0] = g.taps[0]; tap[0]-- > 0;)
      for (tap[1] = g.taps[1]; tap[1]-- > 0;)
        for (tap[2] = g.taps[2]; tap[2]-- > 0;) {
          Int pixel = image;
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            const Int start = at[a] + g.before[a] - tap[a] * g.dilation[a];
            window[a] = start / g.stride[a];
            inside = inside && start >= 0 && start % g.stride[a] == 0 && window[a] < g.out[a];
            pixel = pixel * g.out[a] + window[a];
          }
          if (inside && largest_of(g, from, window).place == place)
            sum += dy[pixel * g.channels + c];
        }
    dx[i] = sum;
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
KernelResult pool_gradient(const Call& given) {
  const GradientCall call(given);
  const Body &x = *call.x(), &dx = *call.dx();
  const ConvolutionSizes g = call.option<PoolGeometry>().sizes_for(x.shape);
  return with_floating(x.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(dx.elements, largest_gradient<T>, dx.elements, g, x.as<T>(),
                          call.dy()->as<T>(), dx.as<T>(), call.adds());
  });
}
}  // namespace

extern const NamedKernel pool_kernels[];
const NamedKernel pool_kernels[] = {{"max_pool", pool<false>},
                                    {"max_pool.d", pool_gradient},
                                    {"max_pool_places", pool<true>},
                                    {nullptr, nullptr}};
}  // namespace reel::gpu
