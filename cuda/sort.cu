// SPDX-License-Identifier: BSD-3-Clause
// Sorting by merging: each pass merges pairs of sorted runs of every line. Each thread finds the
// new place of one element.
#include "cuda/places.hpp"
#include "lib/formulas/histogram.hpp"
#include "lib/formulas/order.hpp"
#include "lib/table/options/scan.hpp"

namespace reel::gpu {
namespace {
template <class T>
struct Lines {
  Places<2> starts;  // of each line: in x and in the output
  std::int64_t length, step, to_step;
  std::int64_t first, count;  // the ranks in the output
  bool descending;
  const T* x;

  __device__ std::int64_t start(std::int64_t line, int operand) const {
    std::int64_t at[2];
    starts.find(line, at);
    return at[operand];
  }
  /// Whether element a of a line comes before element b.
  __device__ bool is_before(const T* line, std::int64_t a, std::int64_t b) const {
    const T first = line[a * step], second = line[b * step];
    return descending ? formulas::is_before(second, first) : formulas::is_before(first, second);
  }
  /// How many elements of a run come before element i; with `or_equal`, equal ones count too.
  __device__ std::int64_t count_before(const T* line, const std::int64_t* run, std::int64_t n,
                                       std::int64_t i, bool or_equal) const {
    std::int64_t low = 0;
    while (n > 0) {
      const std::int64_t half = n / 2, middle = run[low + half];
      const bool before = or_equal ? !is_before(line, i, middle) : is_before(line, middle, i);
      low = before ? low + half + 1 : low;
      n = before ? n - half - 1 : half;
    }
    return low;
  }
};

template <class T>
__global__ void count_up(Lines<T> lines, std::int64_t n, std::int64_t* to) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) to[i] = i % lines.length;
}
template <class T>
__global__ void merge_runs(Lines<T> lines, std::int64_t n, std::int64_t run,
                           const std::int64_t* __restrict__ from, std::int64_t* to) {
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    const std::int64_t line = item / lines.length, i = item % lines.length;
    const std::int64_t* const order = from + line * lines.length;
    const std::int64_t first = i / run * run, pair = i / (2 * run) * 2 * run;
    const bool second = first != pair;
    const std::int64_t other = second ? pair : pair + run, left = lines.length - other;
    const std::int64_t length = left < 0 ? 0 : left < run ? left : run;
    const std::int64_t before =
        lines.count_before(lines.x + lines.start(line, 0), order + other, length, order[i], second);
    to[line * lines.length + pair + (i - first) + before] = order[i];
  }
}
template <class T>
__global__ void put_lines(Lines<T> lines, std::int64_t n, const std::int64_t* __restrict__ from,
                          std::int64_t* to) {
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    const std::int64_t line = item / lines.count, i = item % lines.count;
    to[lines.start(line, 1) + i * lines.to_step] = from[line * lines.length + lines.first + i];
  }
}

KernelResult argsort(const Call& call) {
  const auto& options = call.option<AxisSortOptions>();
  const Body &x = call.input(0), &output = call.output();
  const std::int64_t n = x.elements, length = x.shape.data()[options.axis];
  if (output.elements == 0) return {};
  Body first[2] = {x, output};
  for (Body& body : first) body.shape.data()[options.axis] = 1;
  const auto starts = places_of<2>(first[0].shape, {&first[0], &first[1]});
  auto *order = call.queue.scratch_of<std::int64_t>(n),
       *other = call.queue.scratch_of<std::int64_t>(n);
  with_arithmetic(x.dtype, [&]<class T>(Type<T>) {
    const Lines<T> lines = {starts,
                            length,
                            x.strides[options.axis],
                            output.strides[options.axis],
                            options.first,
                            options.ranks(length),
                            options.descending,
                            x.as<T>()};
    call.queue.launch_for(n, count_up<T>, lines, n, order);
    for (std::int64_t run = 1; run < length; run *= 2) {
      call.queue.launch_for(n, merge_runs<T>, lines, n, run, order, other);
      std::swap(order, other);
    }
    call.queue.launch_for(output.elements, put_lines<T>, lines, output.elements, order,
                          output.as<std::int64_t>());
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
