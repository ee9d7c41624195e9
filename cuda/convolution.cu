// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by cuDNN, or in their plainest form: a thread computes one element of the result.
#include "cuda/convolution_cudnn.hpp"
#include "cuda/matmul.hpp"
#include "cuda/numbers.hpp"
#include "lib/formulas/activation.hpp"
#include "lib/table/numbers.hpp"

namespace reel::gpu {
namespace {
using Int = std::int64_t;
using Result = CudnnConvolution::Result;

/// Divides a position in [batch, lengths] into the element of the batch and three coordinates.
__device__ inline Int divide(Int pixel, const Int* lengths, Int* at) {
  for (int a = 3; a-- > 0; pixel /= lengths[a]) at[a] = pixel % lengths[a];
  return pixel;
}
/// A position in [batch, lengths].
__device__ inline Int pixel_of(Int batch, const Int* lengths, const Int* at) {
  for (int a = 0; a < 3; ++a) batch = batch * lengths[a] + at[a];
  return batch;
}

template <class T>
__global__ void values(Int n, ConvolutionSizes g, const T* x, const T* weight, const T* bias,
                       T* y) {
  const Int in = g.channels * g.groups, out = g.outputs * g.groups;
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int k = i % out, first = k / g.outputs * g.channels;
    Int at[3], from[3], tap[3], number = 0;
    const Int batch = divide(i / out, g.out, at);
    T sum = bias ? bias[k] : T(0);
    for (tap[0] = 0; tap[0] < g.taps[0]; ++tap[0])
      for (tap[1] = 0; tap[1] < g.taps[1]; ++tap[1])
        for (tap[2] = 0; tap[2] < g.taps[2]; ++tap[2], ++number) {
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            from[a] = at[a] * g.stride[a] + tap[a] * g.dilation[a] - g.before[a];
            inside = inside && from[a] >= 0 && from[a] < g.in[a];
          }
          if (!inside) continue;
          const T* const source = x + pixel_of(batch, g.in, from) * in + first;
          const T* const factor = weight + number * g.channels * out + k;
          for (Int c = 0; c < g.channels; ++c) sum += source[c] * factor[c * out];
        }
    y[i] = sum;
  }
}
template <class T>
__global__ void of_data(Int n, ConvolutionSizes g, const T* dy, const T* weight, T* dx) {
  const Int in = g.channels * g.groups, out = g.outputs * g.groups;
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int c = i % in, first = c / g.channels * g.outputs;
    Int at[3], to[3], tap[3], number = 0;
    const Int batch = divide(i / in, g.in, at);
    T sum = 0;
    for (tap[0] = 0; tap[0] < g.taps[0]; ++tap[0])
      for (tap[1] = 0; tap[1] < g.taps[1]; ++tap[1])
        for (tap[2] = 0; tap[2] < g.taps[2]; ++tap[2], ++number) {
          bool inside = true;
          for (int a = 0; a < 3; ++a) {
            const Int moved = at[a] + g.before[a] - tap[a] * g.dilation[a];
            to[a] = moved / g.stride[a];
            inside = inside && moved >= 0 && moved % g.stride[a] == 0 && to[a] < g.out[a];
          }
          if (!inside) continue;
          const T* const source = dy + pixel_of(batch, g.out, to) * out + first;
          const T* const factor = weight + (number * g.channels + c % g.channels) * out + first;
          for (Int k = 0; k < g.outputs; ++k) sum += source[k] * factor[k];
        }
    dx[i] = sum;
  }
}
template <class T>
__global__ void of_weights(Int n, ConvolutionSizes g, const T* x, const T* dy, T* dweight) {
  const Int in = g.channels * g.groups, out = g.outputs * g.groups;
  const Int pixels = g.batch * g.out[0] * g.out[1] * g.out[2];
  for (Int i = first_index(); i < n; i += grid_step()) {
    const Int k = i % out, c = k / g.outputs * g.channels + i / out % g.channels;
    Int tap[3], at[3], from[3];
    divide(i / out / g.channels, g.taps, tap);
    T sum = 0;
    for (Int p = 0; p < pixels; ++p) {
      const Int batch = divide(p, g.out, at);
      bool inside = true;
      for (int a = 0; a < 3; ++a) {
        from[a] = at[a] * g.stride[a] + tap[a] * g.dilation[a] - g.before[a];
        inside = inside && from[a] >= 0 && from[a] < g.in[a];
      }
      if (inside) sum += x[pixel_of(batch, g.in, from) * in + c] * dy[p * out + k];
    }
    dweight[i] = sum;
  }
}

/// Adds the bias, which may be null, and applies the activation.
template <class T>
__global__ void finish(Int n, Int outputs, const T* bias, Activation activation, T* y) {
  for (Int i = first_index(); i < n; i += grid_step()) {
    const T sum = bias ? y[i] + bias[i % outputs] : y[i];
    y[i] = activation == Activation::relu      ? formulas::Relu()(sum)
           : activation == Activation::sigmoid ? formulas::Sigmoid()(sum)
           : activation == Activation::tanh    ? formulas::Tanh()(sum)
                                               : sum;
  }
}

KernelResult convolution(const Call& call) {
  const Body &x = call.input(0), &weight = call.input(1), &y = call.output();
  const auto& options = call.option<ConvolutionGeometry>();
  const ConvolutionSizes g = sizes_of(options, x.shape, weight.shape, y.shape);
  const Queue& queue = call.queue;
  const bool halves = is_half(y.dtype), has_bias = call.input_count > 2;
  const bool done = convolve_by_cudnn(queue, {Result::y, y.dtype, g, x.data, weight.data, y.data,
                                              halves && has_bias ? call.input(2).data : nullptr});
  if (halves) return {.failure = done ? nullptr : declined};
  return with_floating(y.dtype, [&]<class T>(Type<T>) {
    const T* const bias = has_bias ? call.input(2).as<T>() : nullptr;
    if (!done) {
      queue.launch_for(y.elements, values<T>, y.elements, g, x.as<T>(), weight.as<T>(), bias,
                       y.as<T>());
      activate(queue, options.activation, y.dtype, y.elements, y.data);
    } else if (bias || options.activation != Activation::none) {
      queue.launch_for(y.elements, finish<T>, y.elements, g.outputs * g.groups, bias,
                       options.activation, y.as<T>());
    }
  });
}
KernelResult convolution_data(const Call& call) {
  const Body &dy = call.input(0), &weight = call.input(1), &dx = call.output();
  const ConvolutionSizes g =
      sizes_of(call.option<ConvolutionGeometry>(), dx.shape, weight.shape, dy.shape);
  const bool done =
      convolve_by_cudnn(call.queue, {Result::x, dx.dtype, g, dx.data, weight.data, dy.data});
  if (done || is_half(dx.dtype)) return {.failure = done ? nullptr : declined};
  return with_floating(dx.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(dx.elements, of_data<T>, dx.elements, g, dy.as<T>(), weight.as<T>(),
                          dx.as<T>());
  });
}
KernelResult convolution_weights(const Call& call) {
  const Body &x = call.input(0), &dy = call.input(1), &dweight = call.output();
  const ConvolutionSizes g =
      sizes_of(call.option<ConvolutionGeometry>(), x.shape, dweight.shape, dy.shape);
  const bool done =
      convolve_by_cudnn(call.queue, {Result::weight, x.dtype, g, x.data, dweight.data, dy.data});
  if (done || is_half(x.dtype)) return {.failure = done ? nullptr : declined};
  return with_floating(dweight.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(dweight.elements, of_weights<T>, dweight.elements, g, x.as<T>(),
                          dy.as<T>(), dweight.as<T>());
  });
}
/// cuDNN sums 16 bits in float32 and rounds once. An activation would be applied to rounded sums.
bool takes_halves(const KernelCall& call) {
  return call.option<ConvolutionGeometry>().activation == Activation::none &&
         std::all_of(call.inputs, call.inputs + call.input_count,
                     [&](const Body* x) { return x->dtype == call.output().dtype; });
}
}  // namespace

extern const NamedKernel convolution_kernels[];
const NamedKernel convolution_kernels[] = {
    {"convolution", convolution, takes_halves},
    {"convolution_add", convolution, takes_halves},
    {"convolution_dense", convolution, takes_halves},
    {"convolution_data", convolution_data, takes_halves},
    {"convolution_weights", convolution_weights, takes_halves},
    {nullptr, nullptr}};
}  // namespace reel::gpu
