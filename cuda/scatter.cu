// SPDX-License-Identifier: BSD-3-Clause
// Scatter that keeps one of several elements: the last, the largest or the smallest. The result
// does not depend on the order in which threads run.
#include <type_traits>

#include "cuda/pack.hpp"
#include "cuda/positions.hpp"
#include "lib/table/options/axis.hpp"

namespace reel::gpu {
namespace {
/// x is [outer, length, inner], the updates are [outer, count, inner].
struct Slices {
  std::int64_t outer = 1, length, inner = 1, count;
  explicit Slices(const Call& call)
      : length(call.input(0).shape.data()[call.option<AxisOptions>().axis]),
        count(call.input(2).elements) {
    const Shape& shape = call.input(0).shape;
    const std::int64_t axis = call.option<AxisOptions>().axis;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(shape.rank()); ++i)
      if (i != axis) (i < axis ? outer : inner) *= shape.data()[i];
  }
};

/// last[p] is the largest number of an update of place p.
__global__ void find_last(Slices slices, Integers indices, long long* last, Fault* fault) {
  for (std::int64_t i = first_index(); i < slices.count; i += grid_step()) {
    const std::int64_t place = position(indices, i, slices.length, fault);
    if (place >= 0) atomicMax(&last[place], static_cast<long long>(i));
  }
}
template <class Unit>
__global__ void pick(Slices slices, const long long* last, const Unit* __restrict__ x,
                     const Unit* __restrict__ updates, Unit* y) {
  const std::int64_t n = slices.outer * slices.length * slices.inner;
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::int64_t row = i / slices.inner, column = i % slices.inner;
    const std::int64_t update = last[row % slices.length];
    y[i] = update < 0
               ? x[i]
               : updates[(row / slices.length * slices.count + update) * slices.inner + column];
  }
}
KernelResult scatter_assign(const Call& call) {
  const Slices slices(call);
  const Body &x = call.input(0), &y = call.output();
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .input = 2, .limit = slices.length});
  const std::int64_t places = std::max<std::int64_t>(slices.length, 1);
  auto* const last = call.queue.scratch_of<long long>(places);
  call.queue.check(cudaMemsetAsync(last, 0xff, static_cast<std::size_t>(places) * sizeof(*last),
                                   call.queue.stream));
  call.queue.launch_for(slices.count, find_last, slices, Integers(call.input(2)), last, fault);
  with_unit(size_of(x.dtype), [&]<class Unit>(Type<Unit>) {
    call.queue.launch_for(y.elements, pick<Unit>, slices, last, x.as<Unit>(),
                          call.input(1).as<Unit>(), y.as<Unit>());
  });
  return {};
}

template <class T>
using WordOf = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
template <class To, class From>
__device__ To as_bits(From x) {
  To to;
  memcpy(&to, &x, sizeof to);
  return to;
}
/// Whether x takes the place of `best`. NaN does; of zeros, the one that counts as beyond the
/// other by its sign does, so that the order of updates does not matter.
template <bool largest, class T>
__device__ bool wins(T x, T best) {
  if (x != x) return best == best;
  if constexpr (std::is_floating_point_v<T>)
    if (x == 0 && best == 0) return largest ? 1 / x > 1 / best : 1 / x < 1 / best;
  return largest ? x > best : x < best;
}
template <class T>
__global__ void copy_all(std::int64_t n, const T* __restrict__ x, T* __restrict__ y) {
  REEL_UNROLL
  for (std::int64_t i = first_index(); i < n; i += grid_step()) y[i] = x[i];
}
template <bool largest, class T>
__global__ void keep_extremes(Slices slices, Integers indices, const T* updates, T* y,
                              Fault* fault) {
  using Word = WordOf<T>;
  const std::int64_t n = slices.outer * slices.count * slices.inner;
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::int64_t row = i / slices.inner, column = i % slices.inner;
    const std::int64_t place = position(indices, row % slices.count, slices.length, fault);
    if (place < 0) continue;
    auto* const at = reinterpret_cast<Word*>(
        y + (row / slices.count * slices.length + place) * slices.inner + column);
    const T x = updates[i];
    for (Word seen = atomicOr(at, Word(0)); wins<largest>(x, as_bits<T>(seen));) {
      const Word before = atomicCAS(at, seen, as_bits<Word>(x));
      if (before == seen) break;
      seen = before;
    }
  }
}
template <bool largest>
KernelResult scatter_extreme(const Call& call) {
  const Slices slices(call);
  const Body &x = call.input(0), &updates = call.input(1), &y = call.output();
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .input = 2, .limit = slices.length});
  const Integers indices(call.input(2));
  if (updates.elements == 0)
    call.queue.launch_for(slices.count, check_positions<>, slices.count, slices.length, indices,
                          fault);
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    if constexpr (sizeof(T) >= 4) {
      call.queue.launch_for(y.elements, copy_all<T>, y.elements, x.as<T>(), y.as<T>());
      call.queue.launch_for(updates.elements, keep_extremes<largest, T>, slices, indices,
                            updates.as<T>(), y.as<T>(), fault);
    } else {
      __builtin_trap();  // lib/ops/scatter.cpp widens bytes
    }
  });
  return {};
}
}  // namespace

extern const NamedKernel scatter_kernels[] = {{"scatter_assign", scatter_assign},
                                              {"scatter_max", scatter_extreme<true>},
                                              {"scatter_min", scatter_extreme<false>},
                                              {nullptr, nullptr}};
}  // namespace reel::gpu
