// SPDX-License-Identifier: BSD-3-Clause
// Reductions. Axes that stay and axes that go are merged into groups, and one group goes at a
// time, from the last: [outer, gone, inner] to [outer, inner]. The order of every sum depends on
// the shape alone.
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/scratch.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
template <class A>
struct Sum {
  static constexpr A none = 0;
  template <class X>
  static A step(A sum, X x) {
    if constexpr (static_cast<A>(0.5) != 0)
      return sum + static_cast<A>(x);
    else
      return static_cast<A>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(x));
  }
};
/// The first of two that compare equal; NaN wins.
template <class A>
struct Largest {
  static A step(A best, A x) { return ((x > best) | (x != x)) ? x : best; }
};
template <class A>
struct Smallest {
  static A step(A best, A x) { return ((x < best) | (x != x)) ? x : best; }
};
template <bool Every>
struct Truth {
  static constexpr bool none = Every;
  template <class X>
  static bool step(bool sofar, X x) {
    const bool yes = x != X(0);
    return Every ? sofar & yes : sofar | yes;
  }
};

constexpr std::int64_t lane_count = 32;  // sums that run side by side
constexpr std::int64_t leaf = 1024;      // elements below which sums are not halved
constexpr std::int64_t row_block = 64;   // rows that are added one after the other
constexpr std::int64_t column_block = 512;

/// A row of up to `leaf` elements: lanes side by side, then joined by halves.
template <class R, class A, class X>
A fold_leaf(const X* x, std::int64_t n) {
  alignas(64) A sums[lane_count];
  std::int64_t i = 0, filled = 0;
  if (n >= lane_count) {
    for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = static_cast<A>(x[l]);
    if constexpr (requires { R::none; })
      for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = R::step(R::none, x[l]);
    filled = lane_count;
    for (i = lane_count; i + lane_count <= n; i += lane_count)
      for (std::int64_t l = 0; l < lane_count; ++l) sums[l] = R::step(sums[l], x[i + l]);
  }
  for (; i < n; ++i) {
    const std::int64_t l = i % lane_count;
    if (l < filled) {
      sums[l] = R::step(sums[l], x[i]);
    } else {
      if constexpr (requires { R::none; })
        sums[l] = R::step(R::none, x[i]);
      else
        sums[l] = static_cast<A>(x[i]);
      filled = l + 1;
    }
  }
  for (std::int64_t width = lane_count / 2; width > 0; width /= 2)
    for (std::int64_t l = 0; l < width && l + width < filled; ++l)
      sums[l] = R::step(sums[l], sums[l + width]);
  return sums[0];
}

template <class R, class A, class X>
A fold_row(const X* x, std::int64_t n) {
  if (n <= leaf) return fold_leaf<R, A>(x, n);
  const std::int64_t half = (n / 2 + leaf - 1) / leaf * leaf;
  return R::step(fold_row<R, A>(x, half), fold_row<R, A>(x + half, n - half));
}

/// to[j] = fold of x[.][j] for j < width over rows `step` apart: one after the other up to
/// row_block rows, by halves above.
template <class R, class A, class X>
void fold_block(const X* x, std::int64_t rows, std::int64_t step, std::int64_t width, A* to) {
  if (rows > row_block) {
    alignas(64) A part[column_block];
    const std::int64_t half = (rows / 2 + row_block - 1) / row_block * row_block;
    fold_block<R>(x, half, step, width, to);
    fold_block<R>(x + half * step, rows - half, step, width, part);
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j) to[j] = R::step(to[j], part[j]);
    return;
  }
  if constexpr (requires { R::none; }) {
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j) to[j] = R::step(R::none, x[j]);
  } else {
    for (std::int64_t j = 0; j < width; ++j) to[j] = static_cast<A>(x[j]);
  }
  for (std::int64_t r = 1; r < rows; ++r) {
    const X* row = x + r * step;
    REEL_INDEPENDENT
    for (std::int64_t j = 0; j < width; ++j) to[j] = R::step(to[j], row[j]);
  }
}

template <class R, class A, class X>
void fold_columns(const X* x, std::int64_t rows, std::int64_t inner, A* to) {
  for (std::int64_t first = 0; first < inner; first += column_block)
    fold_block<R>(x + first, rows, inner,
                  inner - first < column_block ? inner - first : column_block, to + first);
}

/// [outer, gone, inner] to [outer, inner].
template <class R, class A, class X>
void fold(const X* x, std::int64_t outer, std::int64_t gone, std::int64_t inner, A* to) {
  if (gone == 0) {
    if constexpr (requires { R::none; })
      for (std::int64_t i = 0; i < outer * inner; ++i) to[i] = R::none;
    return;
  }
  for (std::int64_t o = 0; o < outer; ++o, x += gone * inner, to += inner) {
    if (inner == 1)
      *to = fold_row<R, A>(x, gone);
    else
      fold_columns<R>(x, gone, inner, to);
  }
}

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
  copy_elements(walk_over(x.shape, x.strides, steps), x.data, memory, static_cast<int>(sizeof(T)));
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
  auto* memory = static_cast<std::byte*>(scratch(static_cast<std::size_t>(copied + 2 * stage)));
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
  const A* folded = nullptr;
  for (int turn = 0; groups.count > 1; ++turn) {
    const int last = groups.last_gone();
    std::int64_t outer = 1;
    for (int i = 0; i < last; ++i) outer *= groups.lengths[i];
    const std::int64_t inner = groups.count % 2 ? groups.lengths[groups.count - 1] : 1;
    const bool done = last == 1;
    A* target = done && !accumulate ? to : stages[turn % 2];
    if (folded)
      fold<R>(folded, outer, groups.lengths[last], inner, target);
    else
      fold<R>(from, outer, groups.lengths[last], inner, target);
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

/// The place of the first largest along one axis, or of all.
template <class T>
void argmax_of(const KernelCall& call) {
  const Body& x = call.input(0);
  const Groups groups = groups_of(call, x.shape);
  const std::int64_t outer = groups.lengths[0], gone = groups.count > 1 ? groups.lengths[1] : 1;
  const std::int64_t inner = groups.count > 2 ? groups.lengths[2] : 1;
  const T* from = x.as<T>();
  if (!x.contiguous) from = packed<T>(x, scratch(static_cast<std::size_t>(x.bytes())));
  std::int64_t* to = call.output().as<std::int64_t>();
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const T* column = from + o * gone * inner + i;
      std::int64_t best = 0;
      for (std::int64_t g = 1; g < gone && column[best * inner] == column[best * inner]; ++g) {
        const T value = column[g * inner];
        if (value > column[best * inner] || value != value) best = g;
      }
      *to++ = best;
    }
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
