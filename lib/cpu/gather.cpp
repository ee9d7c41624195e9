// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/numbers.hpp"
#include "lib/cpu/scratch.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// All positions along an axis of so many places, those from its end as what they mean.
template <class Index>
KernelResult resolve(const Body& indices, std::int64_t limit, int input, std::int64_t* places) {
  const Index* const index = indices.as<Index>();
  for (std::int64_t i = 0; i < indices.elements; ++i) {
    const std::int64_t at = index[i], place = at < 0 ? at + limit : at;
    if (place < 0 || place >= limit) return {"index out of range", input, at, limit};
    places[i] = place;
  }
  return {};
}

/// Checks all positions, then calls f(places).
template <class F>
KernelResult with_places(const Body& indices, std::int64_t limit, int input, const F& f) {
  auto* const places = static_cast<std::int64_t*>(
      scratch(static_cast<std::size_t>(indices.elements) * sizeof(std::int64_t)));
  const KernelResult result = indices.dtype == DType::int32
                                  ? resolve<std::int32_t>(indices, limit, input, places)
                                  : resolve<std::int64_t>(indices, limit, input, places);
  if (!result.failure) f(static_cast<const std::int64_t*>(places));
  return result;
}

/// A shape as seen from one axis: what is before it, itself, and what follows.
struct AxisView {
  std::int64_t outer = 1, length, inner = 1;
  AxisView(const Shape& shape, std::int64_t axis) : length(shape.data()[axis]) {
    for (std::int64_t i = 0; i < axis; ++i) outer *= shape.data()[i];
    for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.rank(); ++i)
      inner *= shape.data()[i];
  }
};

constexpr std::int64_t bytes_in_block = 256 << 10, elements_in_block = 1 << 16;

void clear(Body& body) {
  parallel_ranges(body.bytes(), 4 * bytes_in_block, [&](std::int64_t first, std::int64_t end) {
    __builtin_memset(body.data + first, 0, static_cast<std::size_t>(end - first));
  });
}

/// The rows at places [first, end).
void take_rows(const std::int64_t* places, std::int64_t first, std::int64_t end, std::int64_t row,
               const std::byte* from, std::byte* to) {
  if (row == 4) {
    for (std::int64_t i = first; i < end; ++i, to += 4)
      __builtin_memcpy(to, from + places[i] * 4, 4);
  } else if (row == 8) {
    for (std::int64_t i = first; i < end; ++i, to += 8)
      __builtin_memcpy(to, from + places[i] * 8, 8);
  } else {
    for (std::int64_t i = first; i < end; ++i, to += row)
      __builtin_memcpy(to, from + places[i] * row, static_cast<std::size_t>(row));
  }
}

KernelResult take(const KernelCall& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const AxisView view(x.shape, call.option<AxisOptions>().axis);
  const std::int64_t size = size_of(x.dtype), count = indices.elements, row = view.inner * size;
  return with_places(indices, view.length, 1, [&](const std::int64_t* places) {
    std::byte* const to = call.output().data;
    parallel_rows(view.outer * count, row, bytes_in_block,
                  [&](std::int64_t first, std::int64_t end) {
                    for (std::int64_t next; first < end; first = next) {
                      const std::int64_t outer = first / count, start = outer * count;
                      next = end < start + count ? end : start + count;
                      take_rows(places, first - start, next - start, row,
                                x.data + outer * view.length * row, to + first * row);
                    }
                  });
  });
}

template <class T>
void add_row(const T* from, T* to, std::int64_t n, bool truth) {
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) to[i] = plus(to[i], from[i], truth);
}

KernelResult scatter(const KernelCall& call) {
  const Body &updates = call.input(0), &indices = call.input(1);
  const auto& options = call.option<UnTakeOptions>();
  Body& output = call.output();
  const AxisView view(options.shape, options.axis);
  const bool truth = updates.dtype == DType::boolean;
  return with_places(indices, view.length, 1, [&](const std::int64_t* places) {
    if (!(call.accumulate & 1)) clear(output);
    with_type(updates.dtype, [&]<class T>(Type<T>) {
      const T* const from = updates.as<T>();
      T* const to = output.as<T>();
      // Columns are shared out: updates of one place come in their order.
      const auto add = [&](std::int64_t first, std::int64_t end) {
        const T* row = from + first;
        T* place = to + first;
        for (std::int64_t o = 0; o < view.outer; ++o, place += view.length * view.inner)
          for (std::int64_t i = 0; i < indices.elements; ++i, row += view.inner)
            add_row(row, place + places[i] * view.inner, end - first, truth);
      };
      if (updates.elements < 4 * elements_in_block)
        add(0, view.inner);
      else
        parallel_ranges(view.inner, 64, add);
    });
  });
}

/// Calls f(i, place) for each index i and the place that it names in a row-major tensor of `shape`.
template <class F>
void for_each_place(const Body& indices, const std::int64_t* places, const Shape& shape,
                    std::int64_t axis, const F& f) {
  if (indices.elements == 0) return;
  Strides steps = {};
  std::int64_t step = 1, along = 1;
  for (int i = indices.rank() - 1; i >= 0; step *= shape.data()[i--])
    (i == axis ? along : steps[i]) = step;
  const Walk walk = walk_over(indices.shape, indices.strides, steps);
  const int last = walk.rank - 1;
  for_each_row(walk, 1, [&](std::int64_t first, std::int64_t place) {
    for (std::int64_t i = 0; i < walk.lengths[last]; ++i)
      f(first + i, place + i * walk.to[last] + places[first + i] * along);
  });
}

KernelResult gather(const KernelCall& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const std::int64_t axis = call.option<AxisOptions>().axis;
  return with_places(indices, x.shape.data()[axis], 1, [&](const std::int64_t* places) {
    with_type(x.dtype, [&]<class T>(Type<T>) {
      const T* const from = x.as<T>();
      T* const to = call.output().as<T>();
      for_each_place(indices, places, x.shape, axis,
                     [=](std::int64_t i, std::int64_t place) { to[i] = from[place]; });
    });
  });
}

KernelResult scatter_elements(const KernelCall& call) {
  const Body &updates = call.input(0), &indices = call.input(1);
  const auto& options = call.option<UnTakeOptions>();
  Body& output = call.output();
  const bool truth = updates.dtype == DType::boolean;
  return with_places(indices, options.shape.data()[options.axis], 1,
                     [&](const std::int64_t* places) {
                       if (!(call.accumulate & 1)) clear(output);
                       with_type(updates.dtype, [&]<class T>(Type<T>) {
                         const T* const from = updates.as<T>();
                         T* const to = output.as<T>();
                         for_each_place(indices, places, options.shape, options.axis,
                                        [=](std::int64_t i, std::int64_t place) {
                                          to[place] = plus(to[place], from[i], truth);
                                        });
                       });
                     });
}

KernelResult one_hot(const KernelCall& call) {
  const Body& indices = call.input(0);
  Body& output = call.output();
  const std::int64_t depth = call.option<OneHotOptions>().depth;
  return with_places(indices, depth, 0, [&](const std::int64_t* places) {
    clear(output);
    with_type(output.dtype, [&]<class T>(Type<T>) {
      for (std::int64_t i = 0; i < indices.elements; ++i)
        output.as<T>()[i * depth + places[i]] = T(1);
    });
  });
}

constexpr NamedKernel kernels[] = {{"gather", gather},   {"one_hot", one_hot},
                                   {"scatter", scatter}, {"scatter_elements", scatter_elements},
                                   {"take", take},       {nullptr, nullptr}};
constexpr NamedTiles tiles[] = {{nullptr, nullptr}};
}  // namespace
extern const Family gather_family = {kernels, tiles};
}  // namespace reel::kernels::REEL_ISA
