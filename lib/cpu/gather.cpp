// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <bit>
#include <type_traits>

#include "lib/cpu/bytes.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/places.hpp"
#include "lib/cpu/simd.hpp"
#include "lib/cpu/walk.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
void clear(Body& body) { clear_bytes(body.data, body.bytes()); }

/// Copies the rows of `from` at places[first] to places[end - 1], one after another.
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

/// f(i) for i < n. n is 1 if it is a constant.
void for_row(auto n, const auto& f) {
  if constexpr (std::is_same_v<decltype(n), std::int64_t>) {
    REEL_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) f(i);
  } else {
    f(0);
  }
}
template <class T>
void add_row(const T* from, T* to, auto n, bool truth) {
  for_row(n, [=](std::int64_t i) { to[i] = plus(to[i], from[i], truth); });
}

/// add_row() with compensated summation: `lost` holds the rounding errors of the sums (Kahan's
/// method, with Knuth's exact error).
template <class T>
void add_row(const T* from, T* to, T* lost, auto n) {
  for_row(n, [=](std::int64_t i) {
    const T before = to[i], x = from[i] + lost[i], sum = before + x, added = sum - before;
    const T rest = (before - (sum - added)) + (x - added);
    lost[i] = rest == rest ? rest : T(0);  // an infinite sum has no rounding error
    to[i] = sum;
  });
}

/// The places that get many updates, so that rounding errors would add up. Each such place has a
/// row of rounding errors. There can be only few such places, so this takes little memory.
template <class T>
class CrowdedPlaces {
 public:
  static constexpr std::int64_t many = 8;  // a place with more updates is crowded

  CrowdedPlaces(std::int64_t places, std::int64_t updates, std::int64_t row_width)
      : width_(row_width) {
    if (updates <= many) return;
    // If there are far more places than updates, a hash table of the updated places is smaller.
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

  /// Sets the rounding errors of these columns to 0.
  void begin(std::int64_t first, std::int64_t end) const {
    for (std::int64_t k = 0; k < number_; ++k)
      for (std::int64_t i = first; i < end; ++i) lost_[k * width_ + i] = T(0);
  }
  /// Adds n columns of one update to the row `to` of its place.
  void add(const T* from, T* to, std::int64_t place, std::int64_t first, auto n) const {
    const std::int32_t number = counts_[slot_of(place)];
    if (number < 0)
      add_row(from, to, lost_ - (number + 1) * width_ + first, n);
    else
      add_row(from, to, n, false);
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
  // the place of each slot of the hash table; null if a slot is a place
  std::int64_t* keys_ = nullptr;
  std::uint64_t last_ = 0;
  int shift_ = 0;
  // the updates of each slot, or minus the number of its crowded place, counted from 1
  std::int32_t* counts_ = nullptr;
  T* lost_ = nullptr;
};

/// to[places[i]] += row i of `from`, for i < count. Threads share the columns, so each place adds
/// its updates in order.
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
  // Rows of one float have loops of their own.
  [[maybe_unused]] constexpr std::integral_constant<std::int64_t, 1> single;
  if constexpr (std::is_floating_point_v<T>) {
    CrowdedPlaces<T> crowded(view.length, count, view.inner);
    for (std::int64_t i = 0; i < count && crowded.possible(); ++i) crowded.count(places[i]);
    const auto add = [&](std::int64_t first, auto n) {
      for (std::int64_t o = 0; o < view.outer; ++o) {
        crowded.begin(first, first + n);
        for_rows(o, first, [&](const T* row, T* place, std::int64_t at) {
          crowded.add(row, place, at, first, n);
        });
      }
    };
    if (crowded.any()) {
      if constexpr (std::is_same_v<T, float>)
        if (view.inner == 1) return add(0, single);
      return share([&](std::int64_t first, std::int64_t end) { add(first, end - first); });
    }
  }
  const auto add = [&](std::int64_t first, auto n) {
    for (std::int64_t o = 0; o < view.outer; ++o)
      for_rows(o, first,
               [&](const T* row, T* place, std::int64_t) { add_row(row, place, n, truth); });
  };
  if constexpr (std::is_same_v<T, float>)
    if (view.inner == 1) return add(0, single);
  share([&](std::int64_t first, std::int64_t end) { add(first, end - first); });
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

/// A loop over all indices. For each index it also gives an offset into a row-major tensor of
/// `shape`: that of the element that the index would select if it were 0.
struct Naming {
  CopyLoop walk;
  std::int64_t along = 1;  // the step of the indexed axis

  Naming(const Body& indices, const Shape& shape, std::int64_t axis) {
    Strides steps = {};
    std::int64_t step = 1;
    for (int i = indices.rank() - 1; i >= 0; step *= shape.data()[i--])
      (i == axis ? along : steps[i]) = step;
    walk = walk_over(indices.shape, indices.strides, steps);
  }
};
/// Calls f(i, place) for each index i of a part of the loop. The part begins at first_index and
/// first_place.
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
  Places positions(indices, x.shape.data()[axis], 1);
  const auto copy = [&]<class T>(Type<T>) {
    const T* const from = x.as<T>();
    T* const to = call.output().as<T>();
    constexpr std::int64_t block = 512;  // positions, which stay in the cache
    for_parts(
        naming.walk, indices.elements,
        [&](const CopyLoop& part, std::int64_t first_index, std::int64_t first_place) {
          const std::int64_t length = part.lengths[part.rank - 1], step = part.to[part.rank - 1];
          for_each_row(part, 1, [&](std::int64_t index, std::int64_t place) {
            std::int64_t places[block];
            const T* row = from + first_place + place;
            for (std::int64_t i = first_index + index, end = i + length; i < end; i += block) {
              const std::int64_t count = end - i < block ? end - i : block;
              if (!positions.write(i, i + count, places)) return;
              for (std::int64_t k = 0; k < count; ++k, row += step)
                to[i + k] = row[places[k] * naming.along];
            }
          });
        });
  };
  with_unit(size_of(x.dtype), copy);
  return positions.result();
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

/// Output k is the row-major position, in a tensor with these lengths, of element k of each input.
KernelResult flat_positions(const KernelCall& call) {
  const Shape& lengths = call.option<ShapeOptions>().shape;
  Body& output = call.output();
  std::int64_t* const flat = output.as<std::int64_t>();
  for (int i = 0; i < call.input_count; ++i) {
    const Body& indices = call.input(i);
    const std::int64_t length = lengths.data()[i];
    Strides steps = {};
    for (int axis = output.rank() - 1, own = indices.rank() - 1; own >= 0; --axis, --own)
      steps[axis] = indices.shape.data()[own] == 1 ? 0 : indices.strides[own];
    const CopyLoop walk = walk_over(output.shape, steps, output.strides);
    const KernelResult result = with_places(indices, length, i, [&](const std::int64_t* places) {
      if (output.elements == 0) return;
      for_parts(walk, output.elements,
                [&](const CopyLoop& part, std::int64_t from, std::int64_t to) {
                  const int last = part.rank - 1;
                  for_each_row(part, 1, [&](std::int64_t source, std::int64_t target) {
                    const std::int64_t* const place = places + from + source;
                    std::int64_t* const y = flat + to + target;
                    for (std::int64_t k = 0; k < part.lengths[last]; ++k)
                      y[k] = (i ? y[k] * length : 0) + place[k * part.from[last]];
                  });
                });
    });
    if (result.failure) return result;
  }
  return {};
}

KernelResult check_range(const KernelCall& call) {
  const Body& x = call.input(0);
  const auto& range = call.option<RangeOptions>();
  if (*range.expected) {
    copy_bytes(x.data, call.output().data, x.bytes());
    for (std::int64_t i = 0; i < x.elements; ++i)
      if (const double got = x.as<double>()[i]; !(got >= range.lowest && got < HUGE_VAL))
        return {
            .failure = "", .expected = range.expected, .number = got, .argument = range.argument};
    return {};
  }
  std::int64_t* const to = call.output().as<std::int64_t>();
  std::int64_t wrong = x.elements;
  const auto check = [&]<class T>(Type<T>) {
    const T* const from = x.as<T>();
    parallel_ranges(x.elements, elements_in_block, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) {
        to[i] = from[i];
        if (to[i] < range.least || to[i] > range.most) [[unlikely]]
          return lower(wrong, i);
      }
    });
    return KernelResult{};
  };
  with_integers(x.dtype, check);
  if (wrong == x.elements) return {};
  return {.failure = "number out of range",
          .counts = true,
          .got = to[wrong],
          .limit = range.most,
          .least = range.least,
          .argument = range.argument};
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
  // an index is a class here, so it cannot count from the end
  return with_places(indices, depth, 0, mark, false);
}

constexpr NamedKernel kernels[] = {{"gather", gather},
                                   {"one_hot", one_hot},
                                   {"scatter", scatter},
                                   {"scatter_elements", scatter_elements},
                                   {"take", take},
                                   {"lookup", take},
                                   {"flat_positions", flat_positions},
                                   {"check_range", check_range},
                                   {nullptr, nullptr}};
constexpr NamedPasses passes[] = {{nullptr, nullptr}};
}  // namespace
extern const Family gather_family = {kernels, passes};
}  // namespace reel::kernels::REEL_ISA
