// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/numbers.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Positions along an axis, counted from its end where negative; -1 for one outside.
template <class Index>
struct Positions {
  const Index* index;
  std::int64_t limit;
  std::int64_t operator[](std::int64_t i) const { return inside(index[i]); }
  std::int64_t inside(std::int64_t at) const {
    const std::int64_t place = at < 0 ? at + limit : at;
    return place >= 0 && place < limit ? place : -1;
  }
};

/// Checks all positions, then calls f(positions).
template <class Index, class F>
KernelResult with_checked(const Body& indices, std::int64_t limit, int input, const F& f) {
  const Positions<Index> positions{indices.as<Index>(), limit};
  for (std::int64_t i = 0; i < indices.elements; ++i)
    if (positions[i] < 0) return {"index out of range", input, positions.index[i], limit};
  f(positions);
  return {};
}
template <class F>
KernelResult with_positions(const Body& indices, std::int64_t limit, int input, const F& f) {
  return indices.dtype == DType::int32 ? with_checked<std::int32_t>(indices, limit, input, f)
                                       : with_checked<std::int64_t>(indices, limit, input, f);
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

/// The rows that positions [first, end) name.
template <class P>
void take_rows(const P& positions, std::int64_t first, std::int64_t end, std::int64_t row,
               const std::byte* from, std::byte* to) {
  if (row == 4) {
    for (std::int64_t i = first; i < end; ++i, to += 4)
      __builtin_memcpy(to, from + positions[i] * 4, 4);
  } else if (row == 8) {
    for (std::int64_t i = first; i < end; ++i, to += 8)
      __builtin_memcpy(to, from + positions[i] * 8, 8);
  } else {
    for (std::int64_t i = first; i < end; ++i, to += row)
      __builtin_memcpy(to, from + positions[i] * row, static_cast<std::size_t>(row));
  }
}

KernelResult take(const KernelCall& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const AxisView view(x.shape, call.option<AxisOptions>().axis);
  const std::int64_t size = size_of(x.dtype), count = indices.elements, row = view.inner * size;
  return with_positions(indices, view.length, 1, [&](const auto& positions) {
    std::byte* const to = call.output().data;
    parallel_rows(view.outer * count, row, bytes_in_block,
                  [&](std::int64_t first, std::int64_t end) {
                    for (std::int64_t next; first < end; first = next) {
                      const std::int64_t outer = first / count, start = outer * count;
                      next = end < start + count ? end : start + count;
                      take_rows(positions, first - start, next - start, row,
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
  return with_positions(indices, view.length, 1, [&](const auto& positions) {
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
            add_row(row, place + positions[i] * view.inner, end - first, truth);
      };
      if (updates.elements < 4 * elements_in_block)
        add(0, view.inner);
      else
        parallel_ranges(view.inner, 64, add);
    });
  });
}

/// Calls f(i, place) for each index i and the place that it names in a row-major tensor of `shape`.
template <class Index, class F>
void for_each_place(const Body& indices, const Positions<Index>& positions, const Shape& shape,
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
      f(first + i, place + i * walk.to[last] + positions[first + i] * along);
  });
}

KernelResult gather(const KernelCall& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const std::int64_t axis = call.option<AxisOptions>().axis;
  return with_positions(indices, x.shape.data()[axis], 1, [&](const auto& positions) {
    with_type(x.dtype, [&]<class T>(Type<T>) {
      const T* const from = x.as<T>();
      T* const to = call.output().as<T>();
      for_each_place(indices, positions, x.shape, axis,
                     [=](std::int64_t i, std::int64_t place) { to[i] = from[place]; });
    });
  });
}

KernelResult scatter_elements(const KernelCall& call) {
  const Body &updates = call.input(0), &indices = call.input(1);
  const auto& options = call.option<UnTakeOptions>();
  Body& output = call.output();
  const bool truth = updates.dtype == DType::boolean;
  return with_positions(indices, options.shape.data()[options.axis], 1, [&](const auto& positions) {
    if (!(call.accumulate & 1)) clear(output);
    with_type(updates.dtype, [&]<class T>(Type<T>) {
      const T* const from = updates.as<T>();
      T* const to = output.as<T>();
      for_each_place(
          indices, positions, options.shape, options.axis,
          [=](std::int64_t i, std::int64_t place) { to[place] = plus(to[place], from[i], truth); });
    });
  });
}

KernelResult one_hot(const KernelCall& call) {
  const Body& indices = call.input(0);
  Body& output = call.output();
  const std::int64_t depth = call.option<OneHotOptions>().depth;
  return with_positions(indices, depth, 0, [&](const auto& positions) {
    clear(output);
    with_type(output.dtype, [&]<class T>(Type<T>) {
      for (std::int64_t i = 0; i < indices.elements; ++i)
        output.as<T>()[i * depth + positions[i]] = T(1);
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
