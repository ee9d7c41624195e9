// SPDX-License-Identifier: BSD-3-Clause
// Scatter: adds updates to the output at the given indices, in the order of the updates. If each
// line has few updates, one thread adds all updates of a line. Otherwise the updates are sorted by
// place and summed in tiles. Places that span several tiles are completed at the end.
#include "cuda/pack.hpp"
#include "cuda/places.hpp"
#include "cuda/positions.hpp"
#include "lib/table/options/gather.hpp"

namespace reel::gpu {
namespace {
/// A sum and its rounding error (Kahan's summation with Knuth's exact error).
template <class T>
struct Accurate {
  T sum = T(0), lost = T(0);
  __device__ void add(T x, bool truth) {
    if constexpr (std::is_floating_point_v<T>) {
      x += lost;
      const T before = sum, now = before + x, added = now - before;
      const T rest = (before - (now - added)) + (x - added);
      lost = rest == rest ? rest : T(0);  // the error of an infinite sum would be NaN
      sum = now;
    } else {
      sum = plus(sum, x, truth);
    }
  }
};

// --- one thread for each line ---
/// Lines of the updates and of the output. Updates of a line go to the same line of the output.
struct Lines {
  Places<2> places;  // the start of a line: in the updates and in the output
  std::int64_t count = 0, updates_along = 1;  // number and step of a line's updates
  std::int64_t limit = 0, along = 1;          // number and step of a line's places
  bool own_indices = false;                   // false: all lines share the indices
};
template <class T>
__global__ void add_lines(Lines lines, std::int64_t n, Integers indices, const T* updates, T* y,
                          bool truth, Fault* fault) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[2];
    lines.places.find(i, at);
    for (std::int64_t k = 0; k < lines.count; ++k) {
      const std::int64_t update = at[0] + k * lines.updates_along;
      const std::int64_t place =
          position(indices, lines.own_indices ? update : k, lines.limit, fault);
      if (place < 0) continue;
      T& to = y[at[1] + place * lines.along];
      to = plus(to, updates[update], truth);
    }
  }
}

// --- sorting: keys are place << bits | index of the update, and all different ---
using Key = unsigned long long;
constexpr Key no_key = ~Key{0};  // for wrong indices and for padding; sorts last
constexpr int sorted_at_once = 1024, sorting_threads = 256;

/// The destination of the updates. For scatter_elements, `places` has the offset of each update's
/// line.
struct Target {
  std::int64_t count, limit, along;
  bool elements;
  int bits;
  Places<1> places;
};
/// Sorts runs of `sorted_at_once` keys.
__global__ void sort_runs(Target target, Integers indices, Key* keys, std::int64_t runs,
                          Fault* fault) {
  REEL_SHARED(Key, run, sorted_at_once);
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t number = blockIdx.x; number < runs; number += gridDim.x) {
    const std::int64_t first = number * sorted_at_once;
    for (int k = thread; k < sorted_at_once; k += sorting_threads) {
      const std::int64_t i = first + k;
      run[k] = no_key;
      if (i >= target.count) continue;
      std::int64_t place = position(indices, i, target.limit, fault), base[1] = {0};
      if (place < 0) continue;
      if (target.elements) target.places.find(i, base);
      place = base[0] + place * target.along;
      run[k] = static_cast<Key>(place) << target.bits | static_cast<Key>(i);
    }
    __syncthreads();
    for (int size = 2; size <= sorted_at_once; size *= 2)
      for (int by = size / 2; by > 0; by /= 2) {
        for (int pair = thread; pair < sorted_at_once / 2; pair += sorting_threads) {
          const int a = pair / by * 2 * by + pair % by, b = a + by;
          const Key x = run[a], y = run[b];
          if ((x > y) == ((a & size) == 0)) run[a] = y, run[b] = x;
        }
        __syncthreads();
      }
    for (int k = thread; k < sorted_at_once; k += sorting_threads) keys[first + k] = run[k];
    __syncthreads();
  }
}
/// How many keys of a sorted run are smaller.
__device__ std::int64_t count_less(const Key* keys, std::int64_t n, Key key, bool or_equal) {
  std::int64_t low = 0;
  while (n > 0) {
    const std::int64_t half = n / 2;
    const Key middle = keys[low + half];
    if (middle < key || (or_equal && middle == key))
      low += half + 1, n -= half + 1;
    else
      n = half;
  }
  return low;
}
/// Merges pairs of sorted runs.
__global__ void merge_runs(const Key* __restrict__ from, std::int64_t n, std::int64_t run,
                           Key* to) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    const std::int64_t first = i / run * run, pair = i / (2 * run) * 2 * run;
    const bool second = first != pair;
    const std::int64_t other = second ? pair : pair + run;
    const std::int64_t length = other >= n ? 0 : n - other < run ? n - other : run;
    const Key key = from[i];
    to[pair + (i - first) + count_less(from + other, length, key, second)] = key;
  }
}

// --- sums of places ---
constexpr int tile = 32;    // updates that one thread adds
constexpr int at_once = 4;  // of them: those whose loads run at the same time

template <class T>
struct Sums {
  const Key* keys;
  std::int64_t count, tiles, outer, inner, length;  // [outer, length, inner] is the output
  int bits;
  const T* updates;
  T *y, *edges;  // for each tile: the sums of its first and its last place, if these span tiles
  bool adds, truth;

  __device__ Key place(std::int64_t i) const { return keys[i] >> bits; }
  __device__ bool right(std::int64_t i) const { return keys[i] != no_key; }
  __device__ std::int64_t update(Key key) const {
    return static_cast<std::int64_t>(key & ((Key{1} << bits) - 1));
  }
  __device__ T& edge(std::int64_t o, std::int64_t t, int which, std::int64_t column) const {
    return edges[((o * tiles + t) * 2 + which) * inner + column];
  }
  __device__ void put(std::int64_t o, Key at, std::int64_t column, T sum) const {
    T& to = y[(o * length + static_cast<std::int64_t>(at)) * inner + column];
    to = adds ? plus(to, sum, truth) : sum;
  }
};
/// Sums of the places within each tile. The sums of places that span several tiles go to `edges`.
template <class T>
__global__ void sum_tiles(Sums<T> of) {
  const std::int64_t n = of.outer * of.tiles * of.inner;
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    const std::int64_t column = item % of.inner, row = item / of.inner;
    const std::int64_t o = row / of.tiles, t = row % of.tiles, first = t * tile;
    const std::int64_t end = first + tile < of.count ? first + tile : of.count;
    const T* const updates = of.updates + o * of.count * of.inner + column;
    Key place = no_key;  // of `sum`, whose first update is `begin`
    std::int64_t begin = first;
    T sum = T(0);
    const auto finish = [&](bool behind) {
      const bool before = begin == first && first > 0 && of.place(first - 1) == place;
      if (before || behind)
        of.edge(o, t, before ? 0 : 1, column) = sum;
      else
        of.put(o, place, column, sum);
    };
    for (std::int64_t i = first; i < end; i += at_once) {
      Key keys[at_once];
      T values[at_once];
      REEL_UNROLL_ALL
      for (int k = 0; k < at_once; ++k) keys[k] = i + k < end ? of.keys[i + k] : no_key;
      REEL_UNROLL_ALL
      for (int k = 0; k < at_once; ++k)
        if (keys[k] != no_key) values[k] = updates[of.update(keys[k]) * of.inner];
      REEL_UNROLL_ALL
      for (int k = 0; k < at_once; ++k) {
        if (keys[k] == no_key) continue;
        const Key here = keys[k] >> of.bits;
        if (here == place) {
          sum = plus(sum, values[k], of.truth);
          continue;
        }
        if (place != no_key) finish(false);
        place = here, begin = i + k, sum = values[k];
      }
    }
    if (place != no_key) finish(end < of.count && of.right(end) && of.place(end) == place);
  }
}
/// Completes the sums of places that span several tiles.
template <class T>
__global__ void sum_edges(Sums<T> of) {
  const std::int64_t n = of.outer * (of.tiles - 1) * of.inner;
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    const std::int64_t column = item % of.inner, row = item / of.inner;
    const std::int64_t o = row / (of.tiles - 1), t = row % (of.tiles - 1), first = t * tile;
    std::int64_t next = first + tile;
    if (!of.right(next)) continue;
    const Key place = of.place(next);
    if (of.place(next - 1) != place || (first > 0 && of.place(first - 1) == place)) continue;
    Accurate<T> sum;
    sum.add(of.edge(o, t, 1, column), of.truth);
    for (; next < of.count && of.right(next) && of.place(next) == place; next += tile)
      sum.add(of.edge(o, next / tile, 0, column), of.truth);
    of.put(o, place, column, sum.sum);
  }
}

std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Adds updates [outer, count, inner] to an output [outer, length, inner].
template <class T>
void add_sorted(const Call& call, Target target, std::int64_t outer, std::int64_t inner,
                std::int64_t length, Fault* fault) {
  const Queue& queue = call.queue;
  const Body &updates = call.input(0), &indices = call.input(1);
  while (target.count >> target.bits) ++target.bits;
  if (length > std::int64_t{1} << (62 - target.bits))
    queue.refuse("at most 2^62 pairs of an update and a place", "more", "Scatter in parts.");
  const std::int64_t n = up(target.count, sorted_at_once);
  Key *keys = queue.scratch_of<Key>(n),
      *other = n > sorted_at_once ? queue.scratch_of<Key>(n) : nullptr;
  const std::int64_t runs = n / sorted_at_once;
  queue.launch(sort_runs, dim3(static_cast<unsigned>(std::min(runs, queue.most_blocks()))),
               dim3(sorting_threads), 0, target, Integers(indices), keys, runs, fault);
  for (std::int64_t run = sorted_at_once; run < n; run *= 2) {
    queue.launch_for(n, merge_runs, keys, n, run, other);
    std::swap(keys, other);
  }
  const std::int64_t tiles = up(target.count, tile) / tile;
  const Sums<T> sums = {keys,
                        target.count,
                        tiles,
                        outer,
                        inner,
                        length,
                        target.bits,
                        updates.as<T>(),
                        call.output().as<T>(),
                        queue.scratch_of<T>(2 * outer * tiles * inner),
                        (call.accumulate & 1) != 0,
                        updates.dtype == DType::boolean};
  queue.launch_for(outer * tiles * inner, sum_tiles<T>, sums);
  queue.launch_for(outer * (tiles - 1) * inner, sum_edges<T>, sums);
}

/// Sets the output to 0, unless the call adds to it.
void begin(const Call& call) {
  Body& output = call.output();
  if (!(call.accumulate & 1) && output.elements > 0)
    call.queue.check(cudaMemsetAsync(output.data, 0, static_cast<std::size_t>(output.bytes()),
                                     call.queue.stream));
}
/// Adds the updates. Sorts them first if `sorts` is true.
KernelResult scatter_by(const Call& call, const Lines& lines, const Target& target, bool sorts,
                        std::int64_t outer, std::int64_t inner, std::int64_t length) {
  const Body &updates = call.input(0), &indices = call.input(1);
  Fault* const fault =
      call.queue.fault({.failure = "index out of range", .input = 1, .limit = lines.limit});
  begin(call);
  if (updates.elements == 0) {
    call.queue.launch_for(indices.elements, check_positions<>, indices.elements, lines.limit,
                          Integers(indices), fault);
    return {};
  }
  with_type(updates.dtype, [&]<class T>(Type<T>) {
    if (sorts) return add_sorted<T>(call, target, outer, inner, length, fault);
    const std::int64_t n = updates.elements / lines.count;
    call.queue.launch_for(n, add_lines<T>, lines, n, Integers(indices), updates.as<T>(),
                          call.output().as<T>(), updates.dtype == DType::boolean, fault);
  });
  return {};
}
/// Whether sorting is faster than one thread for each line, whose updates wait for each other.
/// Lines with indices of their own have as many keys as updates.
bool worth_sorting(std::int64_t updates_of_each, std::int64_t lines_of_keys) {
  return updates_of_each > (lines_of_keys < 4096 ? 32 : 256);
}
}  // namespace

KernelResult scatter(const Call& call) {
  const auto& options = call.option<UnTakeOptions>();
  const std::int64_t* const lengths = options.shape.data();
  const std::int64_t limit = lengths[options.axis], count = call.input(1).elements;
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < static_cast<int>(options.shape.rank()); ++i)
    if (i != options.axis) (i < options.axis ? outer : inner) *= lengths[i];
  Lines lines = {{}, count, inner, limit, inner, false};
  lines.places.rank = 2;
  lines.places.length[0] = outer, lines.places.length[1] = inner;
  lines.places.step[0][0] = count * inner, lines.places.step[1][0] = limit * inner;
  lines.places.step[0][1] = lines.places.step[1][1] = 1;
  lines.places.narrow = outer * inner < std::int64_t{1} << 31;
  const Target target = {count, limit, 1, false, 0, {}};
  return scatter_by(call, lines, target, worth_sorting(count, 1), outer, inner, limit);
}
KernelResult scatter_elements(const Call& call) {
  const auto& options = call.option<UnTakeOptions>();
  const Body &indices = call.input(1), &output = call.output();
  const std::int64_t axis = options.axis, count = indices.shape.data()[axis];
  const std::int64_t limit = options.shape.data()[axis], along = output.strides[axis];
  // `base` has the output's strides in the shape of the indices, with stride 0 along the axis.
  // `first` has one index for each line.
  Body base = output, first = indices;
  base.shape = indices.shape;
  base.strides[axis] = 0;
  first.shape.data()[axis] = 1;
  first.elements = count > 0 ? indices.elements / count : 0;
  const Places<2> places = places_of<2>(first.shape, {&indices, &base});
  const Lines lines = {places, count, indices.strides[axis], limit, along, true};
  const Target target = {indices.elements, limit, along, true, 0, places_of(base)};
  return scatter_by(call, lines, target, worth_sorting(count, first.elements), 1, 1,
                    output.elements);
}
}  // namespace reel::gpu
