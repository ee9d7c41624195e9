// SPDX-License-Identifier: BSD-3-Clause
// Reductions. Axes that stay and axes that go are merged into groups, and one group goes at a
// time, from the last: [outer, gone, inner] to [outer, inner]. The order of every sum depends on
// the shape alone.
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/reduce_fold.hpp"
#include "lib/cpu/scratch.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Neighbouring axes of one fate; group i goes if (i % 2 == 1).
struct Groups {
  int count = 1;
  std::int64_t lengths[Shape::max_rank + 1] = {1};

  void add(std::int64_t length, bool gone) {
    if ((count - 1) % 2 != gone) lengths[count++] = 1;
    lengths[count - 1] *= length;
  }
  int last_gone() const { return count % 2 ? count - 2 : count - 1; }
};

Groups groups_of(const KernelCall& call, const Shape& shape) {
  const Axes& axes = call.option<ReduceOptions>().axes;
  Groups groups;
  for (int axis = 0; axis < static_cast<int>(shape.rank()); ++axis) {
    bool gone = axes.is_every();
    for (int i = 0; i < axes.count(); ++i) gone |= axes[i] == axis;
    groups.add(shape.data()[axis], gone);
  }
  return groups;
}

Groups groups_to(const Shape& target, const Shape& shape) {
  Groups groups;
  const int added = static_cast<int>(shape.rank() - target.rank());
  for (int axis = 0; axis < static_cast<int>(shape.rank()); ++axis)
    groups.add(shape.data()[axis],
               axis < added || (target.data()[axis - added] == 1 && shape.data()[axis] != 1));
  return groups;
}

/// x's elements in row-major order, copied to `memory`.
template <class T>
const T* packed(const Body& x, void* memory) {
  Strides steps;
  std::int64_t step = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    steps[axis] = step;
    step *= x.shape.data()[axis];
  }
  copy_elements(walk_over(x.shape, x.strides, steps), x.elements, x.data, memory,
                static_cast<int>(sizeof(T)));
  return static_cast<const T*>(memory);
}

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Folds all groups; elements pass through scratch memory between the groups.
template <class R, class A, class X>
void reduce(const Body& x, Groups groups, A* to, bool accumulate) {
  std::int64_t kept = 1, gone = 1;
  for (int i = 0; i < groups.count; ++i) (i % 2 ? gone : kept) *= groups.lengths[i];
  if (kept == 0) return;
  const std::int64_t copied = x.contiguous ? 0 : rounded(x.bytes());
  // What the first fold leaves, the most of all.
  const std::int64_t most =
      groups.count > 1 && gone ? x.elements / groups.lengths[groups.last_gone()] : 0;
  const std::int64_t stage = rounded(most * static_cast<std::int64_t>(sizeof(A)));
  std::int64_t depth = 0;
  for (int i = 1; i < groups.count; i += 2) {
    const std::int64_t here = fold_depth(groups.lengths[i]);
    depth = here > depth ? here : depth;
  }
  const std::int64_t tree = depth * fold_width<A> * static_cast<std::int64_t>(sizeof(A));
  auto* memory =
      static_cast<std::byte*>(scratch(static_cast<std::size_t>(copied + 2 * stage + tree)));
  const X* from = x.as<X>();
  if (copied) from = packed<X>(x, memory);
  if (gone == 0 || groups.count == 1) {
    // Nothing goes, or there is nothing of it.
    for (std::int64_t i = 0; i < kept; ++i) {
      A value{};
      if constexpr (requires { R::none; })
        value = gone ? R::step(R::none, from[i]) : static_cast<A>(R::none);
      else
        value = static_cast<A>(from[i]);
      to[i] = accumulate ? static_cast<A>(R::step(to[i], value)) : value;
    }
    return;
  }
  A* stages[2] = {reinterpret_cast<A*>(memory + copied),
                  reinterpret_cast<A*>(memory + copied + stage)};
  A* const waiting = reinterpret_cast<A*>(memory + copied + 2 * stage);
  const A* folded = nullptr;
  for (int turn = 0; groups.count > 1; ++turn) {
    const int last = groups.last_gone();
    std::int64_t outer = 1;
    for (int i = 0; i < last; ++i) outer *= groups.lengths[i];
    const std::int64_t inner = groups.count % 2 ? groups.lengths[groups.count - 1] : 1;
    const bool done = last == 1;
    A* target = done && !accumulate ? to : stages[turn % 2];
    if (folded)
      fold<R>(folded, outer, groups.lengths[last], inner, target, waiting);
    else
      fold<R>(from, outer, groups.lengths[last], inner, target, waiting);
    folded = target;
    groups.lengths[last - 1] *= inner;
    groups.count = last;
  }
  if (!accumulate) return;
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < kept; ++i) to[i] = static_cast<A>(R::step(to[i], folded[i]));
}

KernelResult sum_groups(const KernelCall& call, const Groups& groups) {
  const Body& x = call.input(0);
  const bool add = call.accumulate & 1;
  switch (x.dtype) {
    case DType::boolean:
    case DType::uint8:
      reduce<Sum<std::int64_t>, std::int64_t, std::uint8_t>(x, groups,
                                                            call.output().as<std::int64_t>(), add);
      break;
    case DType::int32:
      reduce<Sum<std::int64_t>, std::int64_t, std::int32_t>(x, groups,
                                                            call.output().as<std::int64_t>(), add);
      break;
    case DType::int64:
      reduce<Sum<std::int64_t>, std::int64_t, std::int64_t>(x, groups,
                                                            call.output().as<std::int64_t>(), add);
      break;
    case DType::float32:
      reduce<Sum<float>, float, float>(x, groups, call.output().as<float>(), add);
      break;
    case DType::float64:
      reduce<Sum<double>, double, double>(x, groups, call.output().as<double>(), add);
      break;
  }
  return {};
}

KernelResult sum(const KernelCall& call) {
  return sum_groups(call, groups_of(call, call.input(0).shape));
}
KernelResult sum_to(const KernelCall& call) {
  return sum_groups(call, groups_to(call.output().shape, call.input(0).shape));
}

template <class T>
void scale(Body& out, std::int64_t count) {
  for (std::int64_t i = 0; i < out.elements; ++i) out.as<T>()[i] /= static_cast<T>(count);
}
KernelResult mean(const KernelCall& call) {
  const Groups groups = groups_of(call, call.input(0).shape);
  sum_groups(call, groups);
  std::int64_t gone = 1;
  for (int i = 1; i < groups.count; i += 2) gone *= groups.lengths[i];
  if (call.output().dtype == DType::float32)
    scale<float>(call.output(), gone);
  else
    scale<double>(call.output(), gone);
  return {};
}

template <template <class> class R, class T>
void extreme_of(const KernelCall& call) {
  reduce<R<T>, T, T>(call.input(0), groups_of(call, call.input(0).shape), call.output().as<T>(),
                     false);
}
template <template <class> class R>
KernelResult extreme(const KernelCall& call) {
  switch (call.input(0).dtype) {
    case DType::boolean:
    case DType::uint8:
      extreme_of<R, std::uint8_t>(call);
      break;
    case DType::int32:
      extreme_of<R, std::int32_t>(call);
      break;
    case DType::int64:
      extreme_of<R, std::int64_t>(call);
      break;
    case DType::float32:
      extreme_of<R, float>(call);
      break;
    case DType::float64:
      extreme_of<R, double>(call);
      break;
  }
  return {};
}

template <bool Every, class T>
void truth_of(const KernelCall& call) {
  reduce<Truth<Every>, bool, T>(call.input(0), groups_of(call, call.input(0).shape),
                                call.output().as<bool>(), false);
}
template <bool Every>
KernelResult truth(const KernelCall& call) {
  switch (call.input(0).dtype) {
    case DType::boolean:
    case DType::uint8:
      truth_of<Every, std::uint8_t>(call);
      break;
    case DType::int32:
      truth_of<Every, std::int32_t>(call);
      break;
    case DType::int64:
      truth_of<Every, std::int64_t>(call);
      break;
    case DType::float32:
      truth_of<Every, float>(call);
      break;
    case DType::float64:
      truth_of<Every, double>(call);
      break;
  }
  return {};
}

/// The first place of `best`, or of NaN, in a row where there is one.
template <class T>
std::int64_t first_place(const T* x, std::int64_t n, T best) {
  std::int64_t i = 0;
  if constexpr (is_floating<T>) {
    const auto here = [&](const Vector<T>& v) {
      return xsimd::any((v == Vector<T>(best)) | xsimd::isnan(v));
    };
    while (i + lanes<T> <= n && !here(load(x + i))) i += lanes<T>;
  }
  while (!((x[i] == best) | (x[i] != x[i]))) ++i;
  return i;
}
/// For each column the place of its first largest, or of its first NaN; `best` has room for a row.
template <class T>
void largest_of_columns(const T* x, std::int64_t rows, std::int64_t inner, T* best,
                        std::int64_t* to) {
  for (std::int64_t i = 0; i < inner; ++i) {
    best[i] = x[i];
    to[i] = 0;
  }
  for (std::int64_t r = 1; r < rows; ++r) {
    const T* row = x + r * inner;
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < inner; ++i) {
      const bool better = (row[i] > best[i]) | ((row[i] != row[i]) & (best[i] == best[i]));
      best[i] = better ? row[i] : best[i];
      to[i] = better ? r : to[i];
    }
  }
}

/// The place of the first largest along one axis, or of all.
template <class T>
void argmax_of(const KernelCall& call) {
  const Body& x = call.input(0);
  const Groups groups = groups_of(call, x.shape);
  const std::int64_t outer = groups.lengths[0], gone = groups.count > 1 ? groups.lengths[1] : 1;
  const std::int64_t inner = groups.count > 2 ? groups.lengths[2] : 1;
  const std::int64_t copied = x.contiguous ? 0 : rounded(x.bytes());
  auto* memory = static_cast<std::byte*>(
      scratch(static_cast<std::size_t>(copied + inner * static_cast<std::int64_t>(sizeof(T)))));
  const T* from = copied ? packed<T>(x, memory) : x.as<T>();
  T* best = reinterpret_cast<T*>(memory + copied);
  std::int64_t* to = call.output().as<std::int64_t>();
  if (inner == 1)
    return parallel_rows(outer, gone, shared_elements, [&](std::int64_t o, std::int64_t end) {
      for (; o < end; ++o) {
        const T* row = from + o * gone;
        to[o] = first_place(row, gone, fold_long_row<Largest<T>, T>(row, gone));
      }
    });
  for (std::int64_t o = 0; o < outer; ++o)
    largest_of_columns(from + o * gone * inner, gone, inner, best, to + o * inner);
}
KernelResult argmax(const KernelCall& call) {
  switch (call.input(0).dtype) {
    case DType::boolean:
    case DType::uint8:
      argmax_of<std::uint8_t>(call);
      break;
    case DType::int32:
      argmax_of<std::int32_t>(call);
      break;
    case DType::int64:
      argmax_of<std::int64_t>(call);
      break;
    case DType::float32:
      argmax_of<float>(call);
      break;
    case DType::float64:
      argmax_of<double>(call);
      break;
  }
  return {};
}

const NamedKernel kernels[] = {{"sum", sum},
                               {"sum_to", sum_to},
                               {"mean", mean},
                               {"max", extreme<Largest>},
                               {"min", extreme<Smallest>},
                               {"argmax", argmax},
                               {"any", truth<false>},
                               {"all", truth<true>},
                               {nullptr, nullptr}};
}  // namespace
extern const Family reduce_family;
const Family reduce_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
