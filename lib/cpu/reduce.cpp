// SPDX-License-Identifier: BSD-3-Clause
// Reductions. Adjacent axes that are kept, or reduced, are merged into groups. The groups are
// reduced one at a time, from the last: [outer, gone, inner] to [outer, inner]. The order of every
// sum depends on the shape alone.
#include "lib/table/options/reduce.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/reduce_packed.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Groups of adjacent axes that are all kept or all reduced. Group i is reduced if i is odd.
struct Groups {
  int count = 1;
  std::int64_t lengths[Shape::max_rank + 1] = {1};

  void add(std::int64_t length, bool gone) {
    if ((count - 1) % 2 != gone) lengths[count++] = 1;
    lengths[count - 1] *= length;
  }
  int last_gone() const { return count % 2 ? count - 2 : count - 1; }
  /// The elements of a row of the last group that is reduced.
  std::int64_t inner(int last_gone) const {
    return last_gone + 1 < count ? lengths[last_gone + 1] : 1;
  }
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

std::int64_t rounded(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// A fold of elements of the input, and a fold of the results of the first one.
struct Folds {
  Fold first, then;
};
template <class R, class A, class X>
inline constexpr Folds folds_of = {fold_of<R, A, X>, fold_of<R, A, A>};

/// So many rows of `inner` elements are folded side by side, as one longer row: short rows would
/// leave lanes of vectors unused. The results, one for each of these rows, are folded afterwards.
std::int64_t rows_side_by_side(std::int64_t rows, std::int64_t inner) {
  constexpr std::int64_t least_rows = 64, most_elements = 64;
  std::int64_t count = 1;
  if (inner > 1 && rows >= least_rows)
    while (2 * count * inner <= most_elements && rows % (2 * count) == 0) count *= 2;
  return count;
}

/// Folds all groups in turn. Between the groups, elements are stored in scratch memory.
KernelResult reduce(const Folds& folds, const Body& x, Groups& groups, Body& output,
                    bool accumulate) {
  std::int64_t kept = 1, gone = 1;
  for (int i = 0; i < groups.count; ++i) (i % 2 ? gone : kept) *= groups.lengths[i];
  if (kept == 0) return {};
  const int size = folds.then.from_size;
  Packed view(x);
  const std::int64_t copied = x.contiguous ? 0 : rounded(view.bytes());
  const bool folds_any = groups.count > 1 && gone;
  // The first fold leaves more elements than later folds.
  const int last_gone = groups.last_gone();
  const std::int64_t first_rows = folds_any ? groups.lengths[last_gone] : 1;
  const std::int64_t first_inner = groups.inner(last_gone);
  const std::int64_t first_beside = rows_side_by_side(first_rows, first_inner);
  const std::int64_t most = folds_any ? x.elements / first_rows * first_beside : kept;
  const std::int64_t stage = rounded(most * size);
  const std::int64_t parts =
      copied ? rounded(packed_memory(folds.first, view, first_rows / first_beside,
                                     first_inner * first_beside))
             : 0;
  std::int64_t depth = 0, inner_kept = 1;
  for (int i = groups.count - 1; i >= 0; --i) {
    const std::int64_t here = i % 2 ? fold_memory(groups.lengths[i], inner_kept) : 0;
    depth = here > depth ? here : depth;
    if (i % 2 == 0) inner_kept *= groups.lengths[i];
  }
  auto* memory = static_cast<std::byte*>(
      scratch(static_cast<std::size_t>(copied + parts + 2 * stage + depth * fold_bytes)));
  view.use(memory);
  std::byte* const of_blocks = memory + copied;
  std::byte* const stages[2] = {of_blocks + parts, of_blocks + parts + stage};
  std::byte* const waiting = stages[1] + stage;
  const std::byte* folded = x.data;
  std::byte* const to = output.data;
  if (!folds_any) {
    std::byte* const target = accumulate ? stages[0] : to;
    const std::int64_t block = copied && gone ? view.most() : kept;
    for (std::int64_t i = 0; i < kept; i += block) {
      const std::int64_t n = least(block, kept - i);
      const std::byte* const here = copied && gone ? view.take(i, n) : folded;
      folds.first.start(gone ? here : nullptr, n, target + i * size);
    }
    folded = target;
    groups.count = 1;
  }
  for (int round = 0; groups.count > 1; ++round) {
    const int last = groups.last_gone();
    std::int64_t outer = 1;
    for (int i = 0; i < last; ++i) outer *= groups.lengths[i];
    const std::int64_t inner = groups.inner(last), rows = groups.lengths[last];
    const std::int64_t beside = rows_side_by_side(rows, inner);
    std::byte* const target = last == 1 && beside == 1 && !accumulate ? to : stages[round % 2];
    const std::int64_t long_rows = rows / beside, long_inner = beside * inner;
    if (round == 0 && copied)
      fold_packed(folds.first, view, outer, long_rows, long_inner, target, waiting, of_blocks);
    else
      fold_all(round ? folds.then : folds.first, folded, outer, long_rows, long_inner,
               in_tiles(outer, long_rows, long_inner), target, waiting);
    folded = target;
    if (beside > 1) {
      groups.lengths[last] = beside;
      continue;
    }
    groups.lengths[last - 1] *= inner;
    groups.count = last;
  }
  if (accumulate) folds.then.join(folded, kept, to);
  return {};
}

using Int = std::int64_t;
/// Calls f(Type<T>()) for the type in memory of each dtype in which kernels compute.
template <class F>
constexpr ByDType<Folds> folds_by_dtype(const F& f) {
  return by_dtype<Folds>([&]<class T>(Type<T>) {
    if constexpr (is_short_float<T> || only_stored<T>)
      return Folds();
    else
      return f(Type<in_memory<T>>());
  });
}
template <class T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, T, Int>;
constexpr ByDType<Folds> sums = by_dtype<Folds>([]<class T>(Type<T>) {
  using X = in_memory<T>;
  using A = std::conditional_t<is_short_float<X>, float, SumOf<X>>;
  if constexpr (only_stored<T>)
    return Folds();
  else
    return folds_of<Sum<A>, A, X>;
});
constexpr ByDType<Folds> products =
    folds_by_dtype([]<class T>(Type<T>) { return folds_of<Product<SumOf<T>>, SumOf<T>, T>; });
/// Squares of float32 neither overflow nor vanish in float64.
constexpr ByDType<Folds> squares = folds_by_dtype([]<class T>(Type<T>) {
  if constexpr (is_floating<T>)
    return Folds{fold_of<SumOfSquares<double>, double, T>, fold_of<Sum<double>, double, double>};
  else
    return Folds();
});
template <template <class> class R>
constexpr ByDType<Folds> extremes = folds_by_dtype([]<class T>(Type<T>) {
  return folds_of<R<T>, T, T>;
});
template <bool Every>
constexpr ByDType<Folds> truths = folds_by_dtype([]<class T>(Type<T>) {
  return folds_of<Truth<Every>, std::uint8_t, T>;
});

KernelResult reduce_by(const ByDType<Folds>& folds, const KernelCall& call, Groups&& groups) {
  const Body& x = call.input(0);
  return reduce(folds[x.dtype], x, groups, call.output(), call.accumulate & 1);
}
template <const ByDType<Folds>& folds>
KernelResult reduction(const KernelCall& call) {
  return reduce_by(folds, call, groups_of(call, call.input(0).shape));
}
KernelResult sum_to(const KernelCall& call) {
  return reduce_by(sums, call, groups_to(call.output().shape, call.input(0).shape));
}

template <class T>
void scale(Body& out, std::int64_t count) {
  for (std::int64_t i = 0; i < out.elements; ++i) out.as<T>()[i] /= static_cast<T>(count);
}
KernelResult mean(const KernelCall& call) {
  const Groups groups = groups_of(call, call.input(0).shape);
  reduce_by(sums, call, Groups(groups));
  std::int64_t gone = 1;
  for (int i = 1; i < groups.count; i += 2) gone *= groups.lengths[i];
  return with_floating(call.output().dtype,
                       [&]<class T>(Type<T>) { scale<T>(call.output(), gone); });
}

/// The first position of `best`, or of NaN, in a row that contains one.
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
/// For each column the position of its first extreme element, or of its first NaN, of rows from
/// `first` on. `best` has space for a row, and keeps the extremes for the next rows.
template <class R, class T>
void extremes_of_columns(const T* x, std::int64_t first, std::int64_t rows, std::int64_t inner,
                         T* best, std::int64_t* to) {
  std::int64_t r = 0;
  if (first == 0) {
    for (std::int64_t i = 0; i < inner; ++i) {
      best[i] = x[i];
      to[i] = 0;
    }
    r = 1;
  }
  for (; r < rows; ++r) {
    const T* row = x + r * inner;
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < inner; ++i) {
      const bool better = R::better(row[i], best[i]) | ((row[i] != row[i]) & (best[i] == best[i]));
      best[i] = better ? row[i] : best[i];
      to[i] = better ? first + r : to[i];
    }
  }
}

/// The positions of the first extreme elements in [outer, gone, inner].
template <class R, class T>
void find_places(const T* from, std::int64_t outer, std::int64_t gone, std::int64_t inner, T* best,
                 std::int64_t* to) {
  if (inner == 1)
    return parallel_rows(outer, gone, shared_elements, [&](std::int64_t o, std::int64_t end) {
      if (in_tiles(outer, gone))
        return for_tiles(reinterpret_cast<const std::byte*>(from + o * gone), end - o, gone,
                         sizeof(T),
                         [&](const std::byte* columns, std::int64_t first, std::int64_t rows) {
                           T extreme[tile_rows];
                           extremes_of_columns<R>(reinterpret_cast<const T*>(columns), 0, gone,
                                                  rows, extreme, to + o + first);
                         });
      for (; o < end; ++o) {
        const T* row = from + o * gone;
        T extreme;
        fold_long_row(fold_of<R, T, T>, reinterpret_cast<const std::byte*>(row), gone,
                      reinterpret_cast<std::byte*>(&extreme));
        to[o] = first_place(row, gone, extreme);
      }
    });
  for (std::int64_t o = 0; o < outer; ++o)
    extremes_of_columns<R>(from + o * gone * inner, 0, gone, inner, best, to + o * inner);
}

/// The functions of argmax or argmin for elements of one type.
struct Place {
  void (*find)(const void* x, std::int64_t outer, std::int64_t gone, std::int64_t inner, void* best,
               std::int64_t* to);
  void (*columns)(const void* x, std::int64_t first, std::int64_t rows, std::int64_t inner,
                  void* best, std::int64_t* to);
};
template <class R, class T>
constexpr Place place_of = {
    [](const void* x, std::int64_t outer, std::int64_t gone, std::int64_t inner, void* best,
       std::int64_t* to) {
      find_places<R>(static_cast<const T*>(x), outer, gone, inner, static_cast<T*>(best), to);
    },
    [](const void* x, std::int64_t first, std::int64_t rows, std::int64_t inner, void* best,
       std::int64_t* to) {
      extremes_of_columns<R>(static_cast<const T*>(x), first, rows, inner, static_cast<T*>(best),
                             to);
    }};

/// The position of the first extreme element along one axis, or of all elements.
void find_place(const KernelCall& call, const Place& place) {
  const Body& x = call.input(0);
  const Groups groups = groups_of(call, x.shape);
  const std::int64_t outer = groups.lengths[0], gone = groups.count > 1 ? groups.lengths[1] : 1;
  const std::int64_t inner = groups.count > 2 ? groups.lengths[2] : 1, each = gone * inner;
  std::int64_t* const to = call.output().as<std::int64_t>();
  Packed view(x);
  const std::int64_t copied = x.contiguous ? 0 : rounded(view.bytes()), most = view.most();
  auto* memory =
      static_cast<std::byte*>(scratch(static_cast<std::size_t>(copied + inner * size_of(x.dtype))));
  view.use(memory);
  std::byte* const best = memory + copied;
  if (!copied) return place.find(x.data, outer, gone, inner, best, to);
  const std::int64_t at_once = each <= most ? most / each : 1;
  const ColumnBlocks blocks(most, gone, inner);
  for (std::int64_t o = 0; o < outer; o += at_once) {
    if (each <= most) {
      const std::int64_t n = least(at_once, outer - o);
      place.find(view.take(o * each, n * each), n, gone, inner, best, to + o * inner);
    } else if (inner == 1) {
      for (std::int64_t at = 0; at < gone; at += most) {
        const std::int64_t n = least(most, gone - at);
        const std::byte* const row = view.take(o * gone + at, n);
        std::int64_t here = 0;  // in this block; find() of a row does not use `best`
        place.find(row, 1, n, 1, nullptr, &here);
        place.columns(row + here * size_of(x.dtype), at ? at + here : 0, 1, 1, best, to + o);
        if (at == 0) to[o] = here;
      }
    } else {
      // A block of columns, a block of its rows after the other.
      for (std::int64_t column = 0; column < inner; column += blocks.width)
        for (std::int64_t row = 0; row < gone; row += blocks.rows) {
          const std::int64_t width = least(blocks.width, inner - column);
          const std::int64_t rows = least(blocks.rows, gone - row);
          place.columns(view.take(o * each + row * inner + column, rows, width, inner), row, rows,
                        width, best, to + o * inner + column);
        }
    }
  }
}
template <template <class> class R>
KernelResult place(const KernelCall& call) {
  with_arithmetic(call.input(0).dtype,
                  [&]<class T>(Type<T>) { find_place(call, place_of<R<T>, T>); });
  return {};
}

const NamedKernel kernels[] = {{"sum", reduction<sums>},
                               {"sum_to", sum_to},
                               {"mean", mean},
                               {"sum_squares", reduction<squares>},
                               {"max", reduction<extremes<Largest>>},
                               {"min", reduction<extremes<Smallest>>},
                               {"prod", reduction<products>},
                               {"argmax", place<Largest>},
                               {"argmin", place<Smallest>},
                               {"any", reduction<truths<false>>},
                               {"all", reduction<truths<true>>},
                               {nullptr, nullptr}};
}  // namespace
extern const Family reduce_family;
const Family reduce_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
