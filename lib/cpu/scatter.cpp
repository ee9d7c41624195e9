// SPDX-License-Identifier: BSD-3-Clause
// Scatter that keeps one of several elements: the last, the largest or the smallest. gather.cpp has
// the one that adds.
#include <type_traits>

#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/places.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/table/options/axis.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Copies x [outer, length, inner] to the output and calls scatter(view, places): the updates are
/// [outer, count, inner].
template <class Scatter>
KernelResult scatter_into_copy(const KernelCall& call, const Scatter& scatter) {
  const Body &x = call.input(0), &indices = call.input(2);
  const AxisView view(x.shape, call.option<AxisOptions>().axis);
  return with_places(indices, view.length, 2, [&](const std::int64_t* places) {
    copy_bytes(x.data, call.output().data, x.bytes());
    scatter(view, places);
  });
}
/// Calls put(from, to, n) for the row of each update, in order. Threads share the columns. Rows of
/// one element have a loop of their own, in which n is known.
template <class T, class Put>
void for_each_update(const KernelCall& call, const AxisView& view, const std::int64_t* places,
                     const Put& put) {
  const Body& updates = call.input(1);
  const std::int64_t count = call.input(2).elements;
  const T* const from = updates.as<T>();
  T* const to = call.output().as<T>();
  if (view.inner == 1) {
    for (std::int64_t o = 0; o < view.outer; ++o)
      for (std::int64_t i = 0; i < count; ++i)
        put(from + o * count + i, to + o * view.length + places[i],
            std::integral_constant<std::int64_t, 1>());
    return;
  }
  const auto columns = [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t o = 0; o < view.outer; ++o)
      for (std::int64_t i = 0; i < count; ++i)
        put(from + (o * count + i) * view.inner + first,
            to + (o * view.length + places[i]) * view.inner + first, end - first);
  };
  if (updates.elements < 4 * elements_in_block)
    columns(0, view.inner);
  else
    parallel_ranges(view.inner, 64, columns);
}

KernelResult scatter_assign(const KernelCall& call) {
  return scatter_into_copy(call, [&](const AxisView& view, const std::int64_t* places) {
    with_unit(size_of(call.input(0).dtype), [&]<class T>(Type<T>) {
      for_each_update<T>(call, view, places, [](const T* from, T* to, auto n) {
        if constexpr (std::is_same_v<decltype(n), std::int64_t>)
          __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
        else
          *to = *from;
      });
    });
  });
}

/// Whether x takes the place of `best`: it is larger (sign 1) or smaller (sign -1), or NaN.
template <int sign, class T>
bool wins(T x, T best) {
  if constexpr (std::is_floating_point_v<T>)
    return (sign > 0 ? x > best : x < best) | (x != x);
  else
    return sign > 0 ? x > best : x < best;
}
/// lib/ops/scatter.cpp widens bytes.
template <int sign>
KernelResult scatter_extreme(const KernelCall& call) {
  return scatter_into_copy(call, [&](const AxisView& view, const std::int64_t* places) {
    with_arithmetic(call.input(0).dtype, [&]<class T>(Type<T>) {
      if constexpr (sizeof(T) == 1)
        __builtin_trap();
      else
        for_each_update<T>(call, view, places, [](const T* x, T* best, auto n) {
          if constexpr (std::is_same_v<decltype(n), std::int64_t>) {
            REEL_INDEPENDENT
            for (std::int64_t i = 0; i < n; ++i)
              best[i] = wins<sign>(x[i], best[i]) ? x[i] : best[i];
          } else {
            *best = wins<sign>(*x, *best) ? *x : *best;
          }
        });
    });
  });
}

constexpr NamedKernel kernels[] = {{"scatter_assign", scatter_assign},
                                   {"scatter_max", scatter_extreme<1>},
                                   {"scatter_min", scatter_extreme<-1>},
                                   {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace
extern const Family scatter_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
