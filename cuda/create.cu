// SPDX-License-Identifier: BSD-3-Clause
// Fills with constants, ranges, ones on the diagonal and triangles of truth.
#include "cuda/places.hpp"
#include "lib/table/options/create.hpp"

namespace reel::gpu {
namespace {
template <class T>
__global__ void fill_all(std::int64_t n, T number, T* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) y[i] = number;
}
/// Each number is computed from its position, so that rounding errors do not accumulate.
template <class T>
__global__ void fill_range(std::int64_t n, double start, double step, T* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step())
    y[i] = static_cast<T>(start + static_cast<double>(i) * step);
}
/// Integers wrap around.
template <class T>
__global__ void fill_integers(std::int64_t n, std::uint64_t first, std::uint64_t stride, T* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step())
    y[i] = static_cast<T>(first + static_cast<std::uint64_t>(i) * stride);
}
template <class T>
__global__ void fill_identity(std::int64_t n, std::int64_t rows, std::int64_t columns, T* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::int64_t at = i % (rows * columns);
    y[i] = T(at / columns == at % columns ? 1 : 0);
  }
}
__global__ void fill_triangle(std::int64_t n, std::int64_t columns, std::int64_t offset, bool* y) {
  for (std::int64_t i = first_index(); i < n; i += grid_step())
    y[i] = i % columns <= i / columns + offset;
}

template <class T>
void fill_as(const Queue& queue, const FillOptions& options, Body& output) {
  T* const y = output.as<T>();
  const std::int64_t n = output.elements;
  switch (options.kind) {
    case FillOptions::Kind::constant:
      if constexpr (is_real<T>)
        return queue.launch_for(n, fill_all<T>, n, static_cast<T>(options.start), y);
      else
        return queue.launch_for(n, fill_all<T>, n, static_cast<T>(options.first), y);
    case FillOptions::Kind::range:
      if constexpr (is_real<T>)
        return queue.launch_for(n, fill_range<T>, n, options.start, options.step, y);
      else
        return queue.launch_for(n, fill_integers<T>, n, static_cast<std::uint64_t>(options.first),
                                static_cast<std::uint64_t>(options.stride), y);
    case FillOptions::Kind::identity:
      return queue.launch_for(n, fill_identity<T>, n, output.shape.end()[-2],
                              output.shape.end()[-1], y);
    case FillOptions::Kind::triangle:
      return queue.launch_for(n, fill_triangle, n, output.shape.end()[-1], options.first,
                              output.as<bool>());
  }
}
KernelResult fill(const Call& call) {
  with_element(call.output().dtype, [&]<class T>(Type<T>) {
    fill_as<T>(call.queue, call.option<FillOptions>(), call.output());
  });
  return {};
}
}  // namespace

cudaError_t find_code() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(fill_identity<float>));
}
void fill_with(const Queue& queue, DType dtype, void* to, std::int64_t n, double number) {
  with_element(dtype, [&]<class T>(Type<T>) {
    queue.launch_for(n, fill_all<T>, n, static_cast<T>(number), static_cast<T*>(to));
  });
}
extern const NamedKernel create_kernels[] = {{"fill", fill}, {nullptr, nullptr}};
}  // namespace reel::gpu
