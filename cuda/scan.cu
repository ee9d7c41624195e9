// SPDX-License-Identifier: BSD-3-Clause
// Scans along an axis. Long lines are divided into parts: the parts are folded, their results are
// scanned, and each part is scanned from there on.
#include "lib/formulas/scan.hpp"

#include "cuda/numbers.hpp"
#include "cuda/pack.hpp"
#include "cuda/places.hpp"
#include "lib/table/options/scan.hpp"

namespace reel::gpu {
namespace {
namespace scans = formulas::scan;

constexpr int side = 32;  // of a tile: parts, and elements of each

template <class F, class T>
struct Lines {
  using State = typename F::State;
  Places<3> starts;  // of each line: in x, in y and in the output
  std::int64_t count, length, part, parts;
  std::int64_t step[3];
  bool reverse;
  const T *x, *y;
  typename F::Out* to;
  State* before;  // for each part of each line: the fold of what comes before it

  /// Calls f(state of an element, its place in the output) along a part.
  template <class Each>
  __device__ void each(std::int64_t line, std::int64_t p, const Each& f) const {
    std::int64_t at[3];
    starts.find(line, at);
    const std::int64_t end = (p + 1) * part < length ? (p + 1) * part : length;
    for (std::int64_t k = p * part; k < end; ++k) {
      const std::int64_t i = reverse ? length - 1 - k : k;
      const T here = x[at[0] + i * step[0]];
      if constexpr (F::inputs == 2)
        f(F::of(here, y[at[1] + i * step[1]]), at[2] + i * step[2]);
      else
        f(F::of(here), at[2] + i * step[2]);
    }
  }
};
template <class State>
struct Maybe {
  State state = {};
  bool exists = false;
  template <class F>
  __device__ void join(const State& next) {
    state = exists ? F::join(state, next) : next;
    exists = true;
  }
};

template <class F, class T>
__global__ void fold_parts(Lines<F, T> lines) {
  const std::int64_t n = lines.count * lines.parts;
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    Maybe<typename F::State> sum;
    lines.each(item % lines.count, item / lines.count,
               [&](const auto& x, std::int64_t) { sum.template join<F>(x); });
    lines.before[item] = sum.state;
  }
}
/// Replaces the fold of each part by the fold of the parts before it.
template <class F, class T>
__global__ void scan_folds(Lines<F, T> lines) {
  for (std::int64_t line = first_index(); line < lines.count; line += grid_step()) {
    Maybe<typename F::State> sum;
    for (std::int64_t p = 0; p < lines.parts; ++p) {
      typename F::State& here = lines.before[p * lines.count + line];
      const typename F::State own = here;
      here = sum.state;
      sum.template join<F>(own);
    }
  }
}
template <class F, class T>
__global__ void scan_parts(Lines<F, T> lines) {
  const std::int64_t n = lines.count * lines.parts;
  for (std::int64_t item = first_index(); item < n; item += grid_step()) {
    const std::int64_t p = item / lines.count;
    Maybe<typename F::State> sum;
    if (p > 0) sum.template join<F>(lines.before[item]);
    lines.each(item % lines.count, p, [&](const auto& x, std::int64_t to) {
      sum.template join<F>(x);
      lines.to[to] = F::result(sum.state);
    });
  }
}

/// fold_parts() if `folds`, else scan_parts(), for lines of adjacent elements. Each thread has a
/// part, as in these kernels, so that the results are equal. The threads read and write a tile of
/// their parts together, in rows of adjacent elements.
template <bool folds, class F, class T>
__global__ void scan_tiles(Lines<F, T> lines) {
  constexpr int deep = 8;  // loads that run at the same time
  REEL_SHARED(T, x, side * (side + 1));
  REEL_SHARED(T, y, F::inputs == 2 ? side * (side + 1) : 1);
  REEL_SHARED(typename F::Out, results, folds ? 1 : side * (side + 1));
  REEL_SHARED(std::int64_t, starts, 3 * side);
  REEL_SHARED(std::int64_t, counts, side);
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t n = lines.count * lines.parts, by = lines.reverse ? -1 : 1;
  const auto read = [&](const T* from, std::int64_t k, int operand, T* tile) {
    REEL_NO_UNROLL
    for (int row = 0; row < side; row += deep) {
      T loaded[deep];
      REEL_UNROLL_ALL
      for (int r = 0; r < deep; ++r)
        if (k < counts[row + r]) loaded[r] = from[starts[operand * side + row + r] + k * by];
      REEL_UNROLL_ALL
      for (int r = 0; r < deep; ++r)
        if (k < counts[row + r]) tile[(row + r) * (side + 1) + lane] = loaded[r];
    }
  };
  for (std::int64_t round = blockIdx.x * std::int64_t{side}; round < n;
       round += gridDim.x * std::int64_t{side}) {
    const std::int64_t item = round + lane, p = item < n ? item / lines.count : 0;
    Maybe<typename F::State> sum;
    std::int64_t count = 0;
    if (item < n) {
      std::int64_t at[3];
      lines.starts.find(item - p * lines.count, at);
      const std::int64_t first = p * lines.part, left = lines.length - first;
      count = left < lines.part ? left : lines.part;
      for (int operand = 0; operand < 3; ++operand)
        starts[operand * side + lane] = at[operand] + (lines.reverse ? left - 1 : first);
      if (!folds && p > 0) sum.template join<F>(lines.before[item]);
    }
    counts[lane] = count;
    for (std::int64_t first = 0; first < lines.part; first += side) {
      __syncthreads();
      read(lines.x, first + lane, 0, x);
      if constexpr (F::inputs == 2) read(lines.y, first + lane, 1, y);
      __syncthreads();
      for (int k = 0; k < side && first + k < count; ++k) {
        const int here = lane * (side + 1) + k;
        if constexpr (F::inputs == 2)
          sum.template join<F>(F::of(x[here], y[here]));
        else
          sum.template join<F>(F::of(x[here]));
        if constexpr (!folds) results[here] = F::result(sum.state);
      }
      if constexpr (!folds) {
        __syncthreads();
        for (int row = 0; row < side; ++row)
          if (first + lane < counts[row])
            lines.to[starts[2 * side + row] + (first + lane) * by] =
                results[row * (side + 1) + lane];
      }
    }
    if (folds && item < n) lines.before[item] = sum.state;
    __syncthreads();
  }
}

template <class F, class T>
void scan_axis(const Call& call) {
  constexpr std::int64_t enough = 1 << 16, least_part = 32, most_parts = 1024;
  const auto& options = call.option<AxisScanOptions>();
  const std::int64_t axis = options.axis;
  const Body &x = call.input(0), &y = call.input(F::inputs - 1), &output = call.output();
  if (output.elements == 0) return;
  Shape starts = output.shape;
  starts.data()[axis] = 1;
  const std::int64_t n = output.shape.data()[axis], count = output.elements / n;
  const std::int64_t wanted = std::clamp<std::int64_t>(enough / count, 1, most_parts);
  const std::int64_t part = std::max((n + wanted - 1) / wanted, least_part);
  const std::int64_t parts = (n + part - 1) / part;
  Body first[3] = {x, y, output};
  for (Body& body : first) body.shape = starts;
  const Lines<F, T> lines = {places_of<3>(starts, {&first[0], &first[1], &first[2]}),
                             count,
                             n,
                             part,
                             parts,
                             {x.strides[axis], y.strides[axis], output.strides[axis]},
                             options.reverse,
                             x.as<T>(),
                             y.as<T>(),
                             output.as<typename F::Out>(),
                             call.queue.scratch_of<typename F::State>(count * parts)};
  const bool adjacent = n >= side && lines.step[0] == 1 && lines.step[1] == 1 && lines.step[2] == 1;
  const std::int64_t items = count * parts;
  const auto launch_tiles = [&](auto kernel) {
    const std::int64_t blocks =
        std::min((items + side - 1) / side, call.queue.most_blocks() * (256 / side));
    call.queue.launch(kernel, dim3(static_cast<unsigned>(blocks)), dim3(side), 0, lines);
  };
  if (parts > 1) {
    if (adjacent)
      launch_tiles(scan_tiles<true, F, T>);
    else
      call.queue.launch_for(items, fold_parts<F, T>, lines);
    call.queue.launch_for(count, scan_folds<F, T>, lines);
  }
  if (adjacent)
    launch_tiles(scan_tiles<false, F, T>);
  else
    call.queue.launch_for(items, scan_parts<F, T>, lines);
}
template <template <class> class F>
KernelResult scan(const Call& call) {
  with_arithmetic(call.input(0).dtype, [&]<class T>(Type<T>) { scan_axis<F<T>, T>(call); });
  return {};
}
template <template <class> class F>
KernelResult floating_scan(const Call& call) {
  return with_floating(call.input(0).dtype, [&]<class T>(Type<T>) { scan_axis<F<T>, T>(call); });
}
}  // namespace

extern const NamedKernel scan_kernels[] = {{"cumsum", scan<scans::Sum>},
                                           {"cumprod", scan<scans::Product>},
                                           {"cummax", scan<scans::Largest>},
                                           {"logcumsumexp", floating_scan<scans::LogSum>},
                                           {"linear_scan", floating_scan<scans::Linear>},
                                           {nullptr, nullptr}};
}  // namespace reel::gpu
