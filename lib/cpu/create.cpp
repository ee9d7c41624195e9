// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/options/create.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/pool/pool.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
constexpr std::int64_t elements_in_block = 1 << 17;

template <class T, class F>
void fill_each(T* out, std::int64_t n, const F& f) {
  parallel_ranges(n, elements_in_block, [=](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) out[i] = f(i);
  });
}
template <class T>
void fill_constant(T* out, std::int64_t n, T value) {
  fill_each(out, n, [=](std::int64_t) { return value; });
}

template <class T>
void fill_range(const FillOptions& options, T* out, std::int64_t n) {
  // Each number is computed from its position, so that errors do not add up. Integers wrap around.
  if constexpr (is_real<T>) {
    fill_each(out, n, [&](std::int64_t i) {
      return static_cast<T>(options.start + static_cast<double>(i) * options.step);
    });
  } else {
    const auto first = static_cast<std::uint64_t>(options.first);
    const auto stride = static_cast<std::uint64_t>(options.stride);
    fill_each(out, n, [=](std::int64_t i) {
      return static_cast<T>(first + static_cast<std::uint64_t>(i) * stride);
    });
  }
}

/// Ones on the diagonal of the last two axes.
template <class T>
void fill_identity(const Body& output, T* out) {
  fill_constant(out, output.elements, T(0));
  if (output.elements == 0 || output.rank() < 2) return;
  const std::int64_t* const lengths = output.shape.end() - 2;
  const std::int64_t matrix = lengths[0] * lengths[1];
  const std::int64_t ones = lengths[0] < lengths[1] ? lengths[0] : lengths[1];
  for (std::int64_t start = 0; start < output.elements; start += matrix)
    for (std::int64_t i = 0; i < ones; ++i) out[start + i * (lengths[1] + 1)] = T(1);
}

void fill_triangle(const FillOptions& options, Body& output) {
  const std::int64_t columns = output.shape.data()[1];
  parallel_rows(output.shape.data()[0], columns, elements_in_block,
                [&](std::int64_t row, std::int64_t end) {
                  for (; row < end; ++row) {
                    const std::int64_t last = row + options.first;
                    const std::int64_t ones = last < 0 ? 0 : last < columns ? last + 1 : columns;
                    std::byte* const to = output.data + row * columns;
                    __builtin_memset(to, 1, static_cast<std::size_t>(ones));
                    __builtin_memset(to + ones, 0, static_cast<std::size_t>(columns - ones));
                  }
                });
}

template <class T>
void fill_as(const FillOptions& options, Body& output) {
  T* const out = output.as<T>();
  const T value = [&] {
    if constexpr (is_real<T>)
      return static_cast<T>(options.start);
    else
      return static_cast<T>(options.first);
  }();
  switch (options.kind) {
    case FillOptions::Kind::constant:
      return fill_constant(out, output.elements, value);
    case FillOptions::Kind::range:
      return fill_range(options, out, output.elements);
    case FillOptions::Kind::identity:
      return fill_identity(output, out);
    case FillOptions::Kind::triangle:
      return fill_triangle(options, output);
  }
}

KernelResult fill(const KernelCall& call) {
  const auto& options = call.option<FillOptions>();
  Body& output = call.output();
  with_element(output.dtype, [&]<class T>(Type<T>) {
    // The bits are those of uint8.
    fill_as<std::conditional_t<std::is_same_v<T, std::int8_t>, std::uint8_t, T>>(options, output);
  });
  return {};
}
constexpr NamedKernel kernels[] = {{"fill", fill}, {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace
extern const Family create_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
