// SPDX-License-Identifier: BSD-3-Clause
// Sorting by merging. A block sorts a tile in shared memory: several short lines, or a part of a
// long one. Each further launch merges pairs of sorted runs of a long line: a block finds the parts
// of two runs that make up one tile of the result, and merges them in shared memory.
#include "cuda/places.hpp"
#include "lib/formulas/histogram.hpp"
#include "lib/formulas/order.hpp"
#include "lib/table/options/scan.hpp"

namespace reel::gpu {
namespace {
constexpr int tile = 1024;  // elements that a block sorts or merges at once

template <class T>
struct Lines {
  Places<2> starts;  // of each line: in x and in the output
  std::int64_t length, step, to_step;
  std::int64_t first, count;  // the ranks in the output
  bool descending;
  const T* x;
  std::int64_t* to;

  __device__ std::int64_t start(std::int64_t line, int operand) const {
    std::int64_t at[2];
    starts.find(line, at);
    return at[operand];
  }
  __device__ bool is_before(T a, T b) const {
    return descending ? formulas::is_before(b, a) : formulas::is_before(a, b);
  }
  /// How many elements of a sorted run of a tile come before x; with `or_equal`, equal ones count
  /// too. key(k): element k of the run.
  template <class F>
  __device__ int count_before(const F& key, int n, T x, bool or_equal) const {
    int low = 0;
    while (n > 0) {
      const int half = n / 2;
      const T middle = key(low + half);
      const bool before = or_equal ? !is_before(x, middle) : is_before(middle, x);
      low = before ? low + half + 1 : low;
      n = before ? n - half - 1 : half;
    }
    return low;
  }
  /// Writes the element with this rank, if the output has it.
  __device__ void put(std::int64_t line, std::int64_t rank, std::int64_t element) const {
    if (rank >= first && rank - first < count)
      to[start(line, 1) + (rank - first) * to_step] = element;
  }
};

/// The tiles of all lines. A tile has whole lines, or a part of one.
struct Tiles {
  std::int64_t n, length;  // of all lines, of one line
  std::int64_t size, of_line, count;
  Tiles(std::int64_t elements, std::int64_t its_length) : n(elements), length(its_length) {
    size = length < tile ? tile / length * length : tile;
    of_line = (length + tile - 1) / tile;
    count = length < tile ? (n + size - 1) / size : n / length * of_line;
  }
  __device__ std::int64_t first(std::int64_t number) const {
    return length < tile ? number * size : number / of_line * length + number % of_line * tile;
  }
  /// How many elements the tile from `first` has.
  __device__ int elements(std::int64_t first) const {
    const std::int64_t left = length < tile ? n - first : length - first % length;
    return static_cast<int>(left < size ? left : size);
  }
};

/// Sorts the elements of each tile. `order` gets them if a line has several tiles, else the output.
template <class T>
__global__ void sort_tiles(Lines<T> lines, Tiles tiles, std::int64_t* order) {
  REEL_SHARED(T, keys, tile);
  REEL_SHARED(std::uint16_t, orders, 2 * tile);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (std::int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
    const std::int64_t first = tiles.first(number);
    const int n = tiles.elements(first),
              length = tiles.length < n ? static_cast<int>(tiles.length) : n;
    std::uint16_t *from = orders, *to = orders + tile;
    for (int k = thread; k < n; k += threads) {
      const std::int64_t item = first + k, line = item / lines.length;
      keys[k] = lines.x[lines.start(line, 0) + item % lines.length * lines.step];
      from[k] = static_cast<std::uint16_t>(k);
    }
    __syncthreads();
    for (int run = 1; run < length; run *= 2) {
      for (int k = thread; k < n; k += threads) {
        const int line = k / length * length, i = k - line, pair = i / (2 * run) * 2 * run;
        const bool second = i - pair >= run;
        const int other = second ? pair : pair + run, left = length - other;
        const auto key = [&](int at) { return keys[from[line + other + at]]; };
        const int before = lines.count_before(key,
                                              left < 0     ? 0
                                              : left < run ? left
                                                           : run,
                                              keys[from[k]], second);
        to[line + (second ? i - run : i) + before] = from[k];
      }
      __syncthreads();
      std::uint16_t* const sorted = to;
      to = from;
      from = sorted;
    }
    for (int k = thread; k < n; k += threads) {
      const std::int64_t element = (first + from[k]) % lines.length;
      if (order)
        order[first + k] = element;
      else
        lines.put((first + k) / lines.length, k % length, element);
    }
    __syncthreads();
  }
}

/// Two sorted runs of a line that become one. Elements of the first run come before equal ones of
/// the second run.
template <class T>
struct Runs {
  const Lines<T>& lines;
  const T* x;  // the line
  const std::int64_t *left, *right;
  std::int64_t left_count, right_count;

  __device__ T key(std::int64_t element) const { return x[element * lines.step]; }
  /// How many of the first n elements of the result come from the first run.
  __device__ std::int64_t from_left(std::int64_t n) const {
    std::int64_t low = n < right_count ? 0 : n - right_count,
                 high = n < left_count ? n : left_count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (lines.is_before(key(right[n - 1 - middle]), key(left[middle])))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};
/// Merges pairs of sorted runs of `run` elements, a multiple of a tile. `order` gets the result if
/// a line has more runs, else the output.
template <class T>
__global__ void merge_tiles(Lines<T> lines, Tiles tiles, std::int64_t run,
                            const std::int64_t* __restrict__ from, std::int64_t* order) {
  REEL_SHARED(T, keys, tile);
  REEL_SHARED(std::int64_t, elements, tile);
  REEL_SHARED(std::int64_t, splits, 2);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (std::int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
    const std::int64_t first = tiles.first(number), line = first / lines.length,
                       place = first - line * lines.length, pair = place / (2 * run) * 2 * run,
                       rest = lines.length - pair;
    const int n = tiles.elements(first);
    if (!order && (place + n <= lines.first || place - lines.first >= lines.count)) continue;
    const std::int64_t* const left = from + line * lines.length + pair;
    const std::int64_t behind = rest < run ? 0 : rest - run;
    const Runs<T> runs = {lines,      lines.x + lines.start(line, 0), left,
                          left + run, rest < run ? rest : run,        behind < run ? behind : run};
    if (thread < 2) splits[thread] = runs.from_left(place - pair + thread * n);
    __syncthreads();
    const std::int64_t from_left = splits[0], from_right = place - pair - from_left;
    const int of_left = static_cast<int>(splits[1] - from_left);
    for (int k = thread; k < n; k += threads) {
      elements[k] = k < of_left ? left[from_left + k] : runs.right[from_right + k - of_left];
      keys[k] = runs.key(elements[k]);
    }
    __syncthreads();
    for (int k = thread; k < n; k += threads) {
      const bool second = k >= of_left;
      const T* const other = second ? keys : keys + of_left;
      const auto key = [&](int at) { return other[at]; };
      const int before = lines.count_before(key, second ? of_left : n - of_left, keys[k], second);
      const std::int64_t rank = place + (second ? k - of_left : k) + before;
      if (order)
        order[line * lines.length + rank] = elements[k];
      else
        lines.put(line, rank, elements[k]);
    }
    __syncthreads();
  }
}

template <class T>
void sort_lines(const Queue& queue, const Lines<T>& lines, std::int64_t n) {
  const Tiles tiles(n, lines.length);
  const auto launch = [&](auto kernel, auto... arguments) {
    const std::int64_t threads =
        std::min<std::int64_t>(256, (std::min(n, tiles.size) + 31) / 32 * 32);
    queue.launch(kernel, dim3(static_cast<unsigned>(std::min(tiles.count, queue.most_blocks()))),
                 dim3(static_cast<unsigned>(threads)), 0, lines, tiles, arguments...);
  };
  std::int64_t* const none = nullptr;
  if (lines.length <= tile) return launch(sort_tiles<T>, none);
  auto *order = queue.scratch_of<std::int64_t>(n),
       *other = lines.length > 2 * tile ? queue.scratch_of<std::int64_t>(n) : none;
  launch(sort_tiles<T>, order);
  for (std::int64_t run = tile; run < lines.length; run *= 2) {
    launch(merge_tiles<T>, run, order, 2 * run < lines.length ? other : none);
    std::swap(order, other);
  }
}

KernelResult argsort(const Call& call) {
  const auto& options = call.option<AxisSortOptions>();
  const Body &x = call.input(0), &output = call.output();
  if (output.elements == 0) return {};
  const std::int64_t length = x.shape.data()[options.axis];
  Body first[2] = {x, output};
  for (Body& body : first) body.shape.data()[options.axis] = 1;
  const auto starts = places_of<2>(first[0].shape, {&first[0], &first[1]});
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    sort_lines<T>(
        call.queue,
        {starts, length, x.strides[options.axis], output.strides[options.axis], options.first,
         options.ranks(length), options.descending, x.as<T>(), output.as<std::int64_t>()},
        x.elements);
  });
  return {};
}

template <class T>
__global__ void search(const T* __restrict__ sorted, std::int64_t length, std::int64_t step,
                       Places<1> places, std::int64_t n, const T* __restrict__ values, bool right,
                       std::int64_t* to) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    places.find(i, at);
    to[i] = formulas::place_in(sorted, length, step, values[at[0]], right);
  }
}
KernelResult searchsorted(const Call& call) {
  const Body &sorted = call.input(0), &values = call.input(1);
  with_arithmetic(values.dtype, [&]<class T>(Type<T>) {
    call.queue.launch_for(values.elements, search<T>, sorted.as<T>(), sorted.elements,
                          sorted.strides[0], places_of(values), values.elements, values.as<T>(),
                          call.option<SearchSortedOptions>().right,
                          call.output().as<std::int64_t>());
  });
  return {};
}

/// Each block counts in shared memory first, which has room for `shared_bins`: all bins, or none if
/// there are many.
template <class T>
__global__ void count_bins(Places<1> places, std::int64_t n, const T* __restrict__ x,
                           formulas::Bins bins, int shared_bins, unsigned long long* counts) {
  REEL_DYNAMIC_SHARED(unsigned, of_block);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int k = thread; k < shared_bins; k += threads) of_block[k] = 0;
  __syncthreads();
  for (std::int64_t i = first_index(); i < n; i += grid_step()) {
    std::int64_t at[1];
    places.find(i, at);
    const std::int64_t k = bins.of(static_cast<double>(x[at[0]]));
    if (k >= 0 && shared_bins > 0)
      atomicAdd(&of_block[k], 1u);
    else if (k >= 0)
      atomicAdd(&counts[k], 1ull);
  }
  __syncthreads();
  for (int k = thread; k < shared_bins; k += threads)
    if (of_block[k] > 0) atomicAdd(&counts[k], static_cast<unsigned long long>(of_block[k]));
}
KernelResult histogram(const Call& call) {
  const auto& options = call.option<HistogramOptions>();
  const Body &x = call.input(0), &counts = call.output();
  call.queue.check(
      cudaMemsetAsync(counts.data, 0, static_cast<std::size_t>(counts.bytes()), call.queue.stream));
  if (x.elements == 0) return {};
  constexpr std::int64_t threads = 256, most_shared = 4096;  // 16 KB of counts
  const bool fits = options.bins <= most_shared && options.bins <= x.elements;
  const int shared_bins = fits ? static_cast<int>(options.bins) : 0;
  const std::int64_t blocks =
      std::min((x.elements + threads - 1) / threads, call.queue.most_blocks());
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    call.queue.launch(count_bins<T>, dim3(static_cast<unsigned>(blocks)), dim3(threads),
                      static_cast<std::size_t>(std::max(shared_bins, 1)) * sizeof(unsigned),
                      places_of(x), x.elements, x.as<T>(),
                      formulas::Bins(options.bins, options.low, options.high), shared_bins,
                      counts.as<unsigned long long>());
  });
  return {};
}
}  // namespace

extern const NamedKernel sort_kernels[] = {{"argsort", argsort},
                                           {"searchsorted", searchsorted},
                                           {"histogram", histogram},
                                           {nullptr, nullptr}};
}  // namespace reel::gpu
