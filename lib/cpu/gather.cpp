// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <type_traits>

#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/numbers.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// Makes x the lesser of the two, whatever other threads do.
void lower(std::int64_t& x, std::int64_t value) {
  std::int64_t seen = __atomic_load_n(&x, __ATOMIC_RELAXED);
  while (value < seen &&
         !__atomic_compare_exchange_n(&x, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

constexpr std::int64_t bytes_in_block = 256 << 10, elements_in_block = 1 << 16;

/// All positions along an axis of so many places; those from its end, where they are allowed, as
/// what they mean.
template <class Index>
KernelResult resolve(const Body& indices, std::int64_t limit, int input, bool from_end,
                     std::int64_t* places) {
  const Index* const index = indices.as<Index>();
  std::int64_t wrong = indices.elements;  // the first of those out of range
  parallel_ranges(indices.elements, elements_in_block, [&](std::int64_t first, std::int64_t end) {
    for (std::int64_t i = first; i < end; ++i) {
      const std::int64_t at = index[i], place = at < 0 && from_end ? at + limit : at;
      if (place < 0 || place >= limit) [[unlikely]]
        return lower(wrong, i);
      places[i] = place;
    }
  });
  if (wrong == indices.elements) [[likely]]
    return {};
  return {"index out of range", input, index[wrong], limit, from_end};
}

/// Checks all positions, then calls f(places).
template <class F>
KernelResult with_places(const Body& indices, std::int64_t limit, int input, const F& f,
                         bool from_end = true) {
  auto* const places = static_cast<std::int64_t*>(
      scratch(static_cast<std::size_t>(indices.elements) * sizeof(std::int64_t)));
  const KernelResult result = with_integers(indices.dtype, [&]<class T>(Type<T>) {
    return resolve<T>(indices, limit, input, from_end, places);
  });
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

void clear(Body& body) { clear_bytes(body.data, body.bytes()); }

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

/// The same; `lost` is what rounding took from the sums (Kahan's, with Knuth's exact error).
template <class T>
void add_row(const T* from, T* to, T* lost, std::int64_t n) {
  REEL_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    const T before = to[i], x = from[i] + lost[i], sum = before + x, added = sum - before;
    const T rest = (before - (sum - added)) + (x - added);
    lost[i] = rest == rest ? rest : T(0);  // nothing of an infinite sum
    to[i] = sum;
  }
}

/// Places that so many updates go to that their rounding would add up. Each has a row of what its
/// sums have lost. Few places can be such, so this takes little memory.
template <class T>
class CrowdedPlaces {
 public:
  static constexpr std::int64_t many = 8;  // more updates than that

  CrowdedPlaces(std::int64_t places, std::int64_t updates, std::int64_t row_width)
      : width_(row_width) {
    if (updates <= many) return;
    // Of many places most get no update: a table of those that do is smaller then.
    const bool sparse = places / 16 > updates;
    const auto slots = sparse ? std::bit_ceil(static_cast<std::uint64_t>(2 * updates))
                              : static_cast<std::uint64_t>(places);
    const auto lost = static_cast<std::size_t>(updates / many * width_) * sizeof(T);
    const std::size_t keys = sparse ? slots * sizeof(std::int64_t) : 0;
    const std::size_t counts = slots * sizeof(std::int32_t);
    auto* const memory = static_cast<std::byte*>(lasting_scratch(keys + lost + counts));
    if (sparse) {
      keys_ = reinterpret_cast<std::int64_t*>(memory);
      shift_ = 64 - std::countr_zero(slots);
      last_ = slots - 1;
      std::fill_n(keys_, slots, std::int64_t{-1});
    }
    lost_ = reinterpret_cast<T*>(memory + keys);
    counts_ = reinterpret_cast<std::int32_t*>(memory + keys + lost);
    clear_bytes(memory + keys + lost, static_cast<std::int64_t>(counts));
  }
  bool possible() const { return counts_; }
  void count(std::int64_t place) {
    const std::size_t slot = slot_of(place);
    if (keys_) keys_[slot] = place;
    std::int32_t& here = counts_[slot];
    if (here < 0 || ++here <= many) return;
    here = static_cast<std::int32_t>(-++number_);
  }
  bool any() const { return number_ > 0; }

  /// Nothing is lost yet in these columns.
  void begin(std::int64_t first, std::int64_t end) const {
    for (std::int64_t k = 0; k < number_; ++k)
      for (std::int64_t i = first; i < end; ++i) lost_[k * width_ + i] = T(0);
  }
  /// Adds the columns of one update to its place, which is in `to`.
  void add(const T* from, T* to, std::int64_t place, std::int64_t first, std::int64_t end) const {
    const std::int32_t number = counts_[slot_of(place)];
    if (number < 0)
      add_row(from, to, lost_ - (number + 1) * width_ + first, end - first);
    else
      add_row(from, to, end - first, false);
  }

 private:
  std::size_t slot_of(std::int64_t place) const {
    const auto at = static_cast<std::uint64_t>(place);
    if (!keys_) return at;
    std::size_t slot = at * 0x9e3779b97f4a7c15u >> shift_;
    while (keys_[slot] >= 0 && keys_[slot] != place) slot = (slot + 1) & last_;
    return slot;
  }
  std::int64_t width_, number_ = 0;
  std::int64_t* keys_ = nullptr;  // the place of each slot; null where slots are places
  std::uint64_t last_ = 0;
  int shift_ = 0;
  std::int32_t* counts_ = nullptr;  // or minus the number of a crowded place, from 1 on
  T* lost_ = nullptr;
};

/// to[places[i]] += row i of `from`, for i < count. Columns are shared out: updates of one place
/// come in their order.
template <class T>
void scatter_rows(const AxisView& view, const std::int64_t* places, std::int64_t count,
                  const T* from, T* to, bool truth) {
  const auto share = [&](const auto& add) {
    if (view.outer * count * view.inner < 4 * elements_in_block)
      add(std::int64_t{0}, view.inner);
    else
      parallel_ranges(view.inner, 64, add);
  };
  const auto for_rows = [&](std::int64_t o, std::int64_t first, const auto& add) {
    const T* row = from + o * count * view.inner + first;
    T* const place = to + o * view.length * view.inner + first;
    for (std::int64_t i = 0; i < count; ++i, row += view.inner)
      add(row, place + places[i] * view.inner, places[i]);
  };
  if constexpr (std::is_floating_point_v<T>) {
    CrowdedPlaces<T> crowded(view.length, count, view.inner);
    for (std::int64_t i = 0; i < count && crowded.possible(); ++i) crowded.count(places[i]);
    if (crowded.any())
      return share([&](std::int64_t first, std::int64_t end) {
        for (std::int64_t o = 0; o < view.outer; ++o) {
          crowded.begin(first, end);
          for_rows(o, first, [&](const T* row, T* place, std::int64_t at) {
            crowded.add(row, place, at, first, end);
          });
        }
      });
  }
  share([&](std::int64_t first, std::int64_t end) {
    for (std::int64_t o = 0; o < view.outer; ++o)
      for_rows(o, first, [&](const T* row, T* place, std::int64_t) {
        add_row(row, place, end - first, truth);
      });
  });
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
      scatter_rows(view, places, indices.elements, updates.as<T>(), output.as<T>(), truth);
    });
  });
}

/// A walk over all indices, and over where the elements that they name would lie at index 0 in a
/// row-major tensor of `shape`.
struct Naming {
  CopyLoop walk;
  std::int64_t along = 1;  // the step of the axis that is indexed

  Naming(const Body& indices, const Shape& shape, std::int64_t axis) {
    Strides steps = {};
    std::int64_t step = 1;
    for (int i = indices.rank() - 1; i >= 0; step *= shape.data()[i--])
      (i == axis ? along : steps[i]) = step;
    walk = walk_over(indices.shape, indices.strides, steps);
  }
};
/// Calls f(i, place) for each index i of a part of the walk, which begins at these two.
template <class F>
void for_each_place(const CopyLoop& part, std::int64_t along, const std::int64_t* places,
                    std::int64_t first_index, std::int64_t first_place, const F& f) {
  const int last = part.rank - 1;
  for_each_row(part, 1, [&](std::int64_t index, std::int64_t place) {
    index += first_index;
    place += first_place;
    for (std::int64_t i = 0; i < part.lengths[last]; ++i)
      f(index + i, place + i * part.to[last] + places[index + i] * along);
  });
}

KernelResult gather(const KernelCall& call) {
  const Body &x = call.input(0), &indices = call.input(1);
  const std::int64_t axis = call.option<AxisOptions>().axis;
  const Naming naming(indices, x.shape, axis);
  return with_places(indices, x.shape.data()[axis], 1, [&](const std::int64_t* places) {
    with_type(x.dtype, [&]<class T>(Type<T>) {
      const T* const from = x.as<T>();
      T* const to = call.output().as<T>();
      for_parts(naming.walk, indices.elements,
                [&](const CopyLoop& part, std::int64_t index, std::int64_t place) {
                  for_each_place(part, naming.along, places, index, place,
                                 [=](std::int64_t i, std::int64_t at) { to[i] = from[at]; });
                });
    });
  });
}

/// to[place of i] += from[i] for each of `count` indices.
template <class T>
void scatter_each(const Naming& naming, const std::int64_t* places, std::int64_t count,
                  const T* from, Body& output, bool truth) {
  T* const to = output.as<T>();
  const auto for_all = [&](const auto& f) {
    for_each_place(naming.walk, naming.along, places, 0, 0, f);
  };
  if constexpr (std::is_floating_point_v<T>) {
    CrowdedPlaces<T> crowded(output.elements, count, 1);
    if (crowded.possible()) for_all([&](std::int64_t, std::int64_t at) { crowded.count(at); });
    if (crowded.any()) {
      crowded.begin(0, 1);
      return for_all(
          [&](std::int64_t i, std::int64_t at) { crowded.add(from + i, to + at, at, 0, 1); });
    }
  }
  for_all([=](std::int64_t i, std::int64_t at) { to[at] = plus(to[at], from[i], truth); });
}

KernelResult scatter_elements(const KernelCall& call) {
  const Body &updates = call.input(0), &indices = call.input(1);
  const auto& options = call.option<UnTakeOptions>();
  Body& output = call.output();
  const Naming naming(indices, options.shape, options.axis);
  return with_places(indices, options.shape.data()[options.axis], 1,
                     [&](const std::int64_t* places) {
                       if (!(call.accumulate & 1)) clear(output);
                       if (indices.elements == 0) return;
                       with_type(updates.dtype, [&]<class T>(Type<T>) {
                         scatter_each(naming, places, indices.elements, updates.as<T>(), output,
                                      updates.dtype == DType::boolean);
                       });
                     });
}

KernelResult one_hot(const KernelCall& call) {
  const Body& indices = call.input(0);
  Body& output = call.output();
  const std::int64_t depth = call.option<OneHotOptions>().depth;
  const auto mark = [&](const std::int64_t* places) {
    clear(output);
    with_type(output.dtype, [&]<class T>(Type<T>) {
      for (std::int64_t i = 0; i < indices.elements; ++i)
        output.as<T>()[i * depth + places[i]] = T(1);
    });
  };
  return with_places(indices, depth, 0, mark, false);  // a class, not a position from the end
}

constexpr NamedKernel kernels[] = {{"gather", gather},   {"one_hot", one_hot},
                                   {"scatter", scatter}, {"scatter_elements", scatter_elements},
                                   {"take", take},       {nullptr, nullptr}};
constexpr NamedTiles tiles[] = {{nullptr, nullptr}};
}  // namespace
extern const Family gather_family = {kernels, tiles};
}  // namespace reel::kernels::REEL_ISA
