// SPDX-License-Identifier: BSD-3-Clause
// Reductions. If an output has many elements to reduce, they are divided into parts, and the
// results of the parts are reduced again. The order depends on the shape only.
#include "lib/table/options/reduce.hpp"

#include <limits>

#include "cuda/fold.hpp"
#include "cuda/places.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel::gpu {
namespace {
// --- folds: of(x, j) is the value of element j; result() is what is stored ---
/// Shuffles cannot exchange 1-byte values.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 1, int, T>;

/// The type of sums and products of a type. A single fold for all integers makes fewer kernels.
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
template <class Number>
struct Added : Sum<Number> {
  using A = Number;
  using Out = A;
  template <class X>
  static __device__ A of(X x, std::int64_t) {
    return static_cast<A>(x);
  }
  static __device__ A result(A sum, std::int64_t) { return sum; }
};
template <class T>
using Total = Added<Accumulator<T>>;
template <class T>
struct Mean : Added<T> {
  static_assert(std::is_floating_point_v<T>);
  static __device__ T result(T sum, std::int64_t count) { return sum / static_cast<T>(count); }
};
/// A sum of squares. The type tells it from an element.
struct Squares {
  double sum;
};
__device__ Squares other_lane(const Squares& x, int by) { return {gpu::other_lane(x.sum, by)}; }
/// Squares of float32 neither overflow nor vanish in float64.
template <class T>
struct SumOfSquares {
  static_assert(std::is_floating_point_v<T>);
  using A = Squares;
  using Out = double;
  static __device__ A none() { return {0}; }
  static __device__ A join(const A& a, const A& b) { return {a.sum + b.sum}; }
  static __device__ A of(const A& part, std::int64_t) { return part; }
  static __device__ A of(T x, std::int64_t) {
    return {static_cast<double>(x) * static_cast<double>(x)};
  }
  static __device__ Out result(const A& all, std::int64_t) { return all.sum; }
};
template <class Number>
struct Multiplied : Added<Number> {
  using A = Number;
  static __device__ A none() { return A(1); }
  static __device__ A join(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return a * b;
    else
      return static_cast<A>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};
template <class T>
using Product = Multiplied<Accumulator<T>>;
/// The larger or the smaller of two elements. Of equal elements it is the first one. NaN wins over
/// any number.
template <class T, bool largest>
struct Extreme {
  using A = Wide<T>;
  using Out = T;
  static __device__ A none() {
    using Limits = std::numeric_limits<A>;
    if constexpr (Limits::has_infinity)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  static __device__ A join(A best, A x) {
    return (largest ? x > best : x < best) || x != x ? x : best;
  }
  template <class X>
  static __device__ A of(X x, std::int64_t) {
    return static_cast<A>(x);
  }
  static __device__ Out result(A best, std::int64_t) { return static_cast<Out>(best); }
};
template <class T>
using Largest = Extreme<T, true>;
template <class T>
using Smallest = Extreme<T, false>;

template <bool every>
struct Truth {
  using A = int;
  using Out = std::uint8_t;
  static __device__ A none() { return every; }
  static __device__ A join(A a, A b) { return every ? a & b : a | b; }
  template <class X>
  static __device__ A of(X x, std::int64_t) {
    return x != X(0);
  }
  static __device__ Out result(A truth, std::int64_t) { return static_cast<Out>(truth); }
};
template <class T>
using Any = Truth<false>;
template <class T>
using Every = Truth<true>;

template <class T>
struct Ranked {
  T value;
  std::int64_t place;
};
template <class T>
__device__ Ranked<T> other_lane(const Ranked<T>& x, int by) {
  return {gpu::other_lane(x.value, by), gpu::other_lane(x.place, by)};
}
/// The position of the first extreme element, or of the first NaN.
template <class T, bool largest>
struct PlaceOf {
  using A = Ranked<Wide<T>>;
  using Out = std::int64_t;
  static __device__ A none() {
    return {Extreme<T, largest>::none(), std::numeric_limits<std::int64_t>::max()};
  }
  static __device__ A join(const A& a, const A& b) {
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    const bool equal = a.value == b.value || (a_is_nan && b_is_nan);
    const bool better = largest ? b.value > a.value : b.value < a.value;
    const bool second = equal ? b.place < a.place : better || b_is_nan;
    return second && !(a_is_nan && !b_is_nan) ? b : a;
  }
  static __device__ A of(const A& x, std::int64_t) { return x; }
  static __device__ A of(T x, std::int64_t place) { return {static_cast<Wide<T>>(x), place}; }
  static __device__ Out result(const A& x, std::int64_t) { return x.place; }
};
template <class T>
using Argmax = PlaceOf<T, true>;
template <class T>
using Argmin = PlaceOf<T, false>;

// --- kernels ---
/// The elements of an input, grouped by the output that they belong to.
struct Task {
  Places<1> kept, gone;  // offsets: of an output's first element; of its elements from there
  std::int64_t outputs = 1, length = 1;  // `length` elements for each output
  std::int64_t inner = 1;                // outputs along the last axes; 1 if these are reduced
  std::int64_t part = 1, parts = 1;      // elements in a part, and parts of an output

  __device__ std::int64_t first(std::int64_t output) const { return at(kept, output); }
  /// The elements of a part: fewer than 2^31.
  __device__ int count(std::int64_t p) const {
    const std::int64_t left = length - p * part;
    return static_cast<int>(left < part ? left : part);
  }
  /// Calls f(element, j) for the elements j = first + i, first + i + by, ... of the output at x,
  /// while i < count. An element is a pack of n where in_packs() is true and n > 1. Along one axis,
  /// `deep` loads run at the same time.
  template <int deep, int n, class X, class F>
  __device__ void each(const X* x, std::int64_t first, int i, int count, int by, const F& f) const {
    using Packed = Pack<X, n>;
    if (gone.rank != 1) {
      REEL_NO_UNROLL
      for (; i < count; i += by) {
        const Packed pack = *reinterpret_cast<const Packed*>(x + at(gone, first + i));
        f(pack, first + i);
      }
      return;
    }
    const std::int64_t step = n > 1 ? 1 : gone.step[0][0];
    x += (first + i) * step;
    REEL_NO_UNROLL
    for (; i < count; i += deep * by) {
      Packed loaded[deep];
      REEL_UNROLL_ALL
      for (int k = 0; k < deep; ++k)
        if (i + k * by < count) loaded[k] = *reinterpret_cast<const Packed*>(x + k * by * step);
      REEL_UNROLL_ALL
      for (int k = 0; k < deep; ++k)
        if (i + k * by < count) f(loaded[k], first + i + k * by);
      x += deep * by * step;
    }
  }

 private:
  /// As Places::find(). Its unrolled loop would be most of a kernel and take registers.
  static __device__ std::int64_t at(const Places<1>& places, std::int64_t i) {
    std::int64_t place = 0;
    REEL_NO_UNROLL
    for (int axis = places.rank - 1; axis > 0; --axis) {
      const std::int64_t n = places.length[axis];
      const std::int64_t rest =
          places.narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(n) : i / n;
      place += (i - rest * n) * places.step[0][axis];
      i = rest;
    }
    return places.rank > 0 ? place + i * places.step[0][0] : place;
  }
};
/// The destination of the results. Results of parts are stored as they are. Final results are
/// converted as the op needs them.
template <class F>
struct Results {
  using A = typename F::A;
  A* parts;  // null for final results
  typename F::Out* last;
  bool adds;
  std::int64_t count;
  __device__ void put(std::int64_t i, const A& value) const {
    if (parts) {
      parts[i] = value;
      return;
    }
    const typename F::Out result = F::result(value, count);
    if constexpr (std::is_same_v<typename F::Out, A>) {
      if constexpr (requires { A() + A(); }) {
        last[i] = adds ? F::join(last[i], result) : result;
        return;
      }
    }
    last[i] = result;
  }
};

/// The elements of a row that a thread loads at once. Each has its own accumulator in registers.
template <class X>
inline constexpr int row_pack = sizeof(X) < 16 ? std::min(pack_size<X>, 4) : 1;
/// The blocks of 256 threads whose registers fit in a processor, without spills in the loops.
template <class F, class X>
inline constexpr int blocks_at_once = sizeof(typename F::A) > 4 || sizeof(X) > 4 ? 3 : 4;

/// Each group of `lanes` threads reduces one part of an output. Results: [outputs, parts].
template <class F, class X>
__global__ void __launch_bounds__(256, blocks_at_once<F, X>)
    fold_rows(Task task, const X* __restrict__ x, int lanes, bool packs, Results<F> to) {
  using A = typename F::A;
  constexpr int n = row_pack<X>, deep = sizeof(A) > 8 ? 2 : 4;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t groups = static_cast<int>(blockDim.x) / lanes;
  const std::int64_t group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t all = task.outputs * task.parts;
  for (std::int64_t round = blockIdx.x * groups; round < all; round += gridDim.x * groups) {
    const std::int64_t item = round + group;
    A values[n];
    for (A& value : values) value = F::none();
    if (item < all) {
      const std::int64_t output = task.parts == 1 ? item : item / task.parts;
      const std::int64_t p = item - output * task.parts, first = p * task.part;
      const X* const row = x + task.first(output);
      const int count = task.count(p);
      if (packs) {
        task.template each<deep, n>(row, first, lane * n, count, lanes * n,
                                    [&](const Pack<X, n>& pack, std::int64_t j) {
                                      REEL_UNROLL_ALL
                                      for (int k = 0; k < n; ++k)
                                        values[k] = F::join(values[k], F::of(pack.of[k], j + k));
                                    });
      } else {
        task.template each<4, 1>(row, first, lane, count, lanes, [&](const auto& one, auto j) {
          values[0] = F::join(values[0], F::of(one.of[0], j));
        });
      }
    }
    REEL_UNROLL_ALL
    for (int half = n / 2; half > 0; half /= 2) {
      REEL_UNROLL_ALL
      for (int k = 0; k < half; ++k) values[k] = F::join(values[k], values[k + half]);
    }
    const A value = fold_lanes<F>(values[0], lanes);
    if (lane == 0 && item < all) to.put(item, value);
  }
}

/// Each thread reduces the few elements of one output.
template <class F, class X>
__global__ void fold_each(Task task, const X* __restrict__ x, Results<F> to) {
  for (std::int64_t i = first_index(); i < task.outputs; i += grid_step()) {
    const X* const from = x + task.first(i);
    typename F::A value = F::none();
    task.template each<4, 1>(
        from, 0, 0, static_cast<int>(task.length), 1,
        [&](const auto& one, auto j) { value = F::join(value, F::of(one.of[0], j)); });
    to.put(i, value);
  }
}

/// Each block reduces a part of `width` adjacent outputs. Results: [parts, outputs].
template <class F, class X>
__global__ void __launch_bounds__(256, blocks_at_once<F, X>)
    fold_columns(Task task, const X* __restrict__ x, int width, Results<F> to) {
  using A = typename F::A;
  REEL_SHARED(A, shared, 256);
  const int column = static_cast<int>(threadIdx.x) % width;
  const int slot = static_cast<int>(threadIdx.x) / width;
  const int slots = static_cast<int>(blockDim.x) / width;
  const std::int64_t tiles_in_row = (task.inner + width - 1) / width;
  const std::int64_t tiles = task.outputs / task.inner * tiles_in_row;
  for (std::int64_t item = blockIdx.x; item < tiles * task.parts; item += gridDim.x) {
    const std::int64_t p = item / tiles, tile = item - p * tiles;
    const std::int64_t here = tile % tiles_in_row * width + column;
    const std::int64_t output = tile / tiles_in_row * task.inner + here;
    A value = F::none();
    if (here < task.inner) {
      const X* const from = x + task.first(output);
      task.template each<sizeof(X) < 16 ? 8 : 4, 1>(
          from, p * task.part, slot, task.count(p), slots,
          [&](const auto& one, auto j) { value = F::join(value, F::of(one.of[0], j)); });
    }
    value = fold_slots<F>(value, width, shared);
    if (slot == 0 && here < task.inner) to.put(p * task.outputs + output, value);
  }
}

// --- which kernel, and how many parts ---
/// Divides the elements of each output into parts, so that there are enough blocks for any device.
/// A part has between `least` and `most` elements, both multiples of `unit`.
void divide(Task& task, std::int64_t blocks, std::int64_t unit, std::int64_t least,
            std::int64_t most) {
  constexpr std::int64_t enough = 1024;
  const std::int64_t wanted = (enough + blocks - 1) / blocks * unit;
  task.part = std::clamp((task.length + wanted - 1) / wanted * unit, least, most);
  task.parts = (task.length + task.part - 1) / task.part;
}
/// The task that reduces the results of the parts: [outputs, parts] if `rows`, else [parts,
/// outputs].
Task rest_of(const Task& task, bool rows) {
  Task rest;
  rest.outputs = task.outputs;
  rest.length = task.parts;
  rest.inner = rows ? 1 : task.outputs;
  for (Places<1>* places : {&rest.kept, &rest.gone}) {
    places->rank = 1;
    places->narrow = rest.outputs < std::int64_t{1} << 31;
  }
  rest.kept.length[0] = rest.outputs, rest.kept.step[0][0] = rows ? rest.length : 1;
  rest.gone.length[0] = rest.length, rest.gone.step[0][0] = rows ? 1 : rest.outputs;
  return rest;
}
/// Whether packs of n elements are aligned and within the innermost axis.
template <class X>
bool in_packs(const Task& task, const X* x, int n) {
  const Places<1>& gone = task.gone;
  const int last = gone.rank - 1;
  bool whole =
      n > 1 && last >= 0 && gone.step[0][last] == 1 && gone.length[last] % n == 0 && aligned(x);
  for (int i = 0; i < last; ++i) whole = whole && gone.step[0][i] % n == 0;
  for (int i = 0; i < task.kept.rank; ++i) whole = whole && task.kept.step[0][i] % n == 0;
  return whole;
}

template <class F, class X>
void fold(const Queue& queue, Task task, bool rows, const X* x, const Results<F>& to) {
  constexpr std::int64_t few = 32, most_lanes = 256, chain = 64;
  constexpr int n = row_pack<X>;
  if (task.outputs == 0) return;
  task.part = task.length;
  if (task.length <= (rows ? 1 : few))
    return queue.launch_for(task.outputs, fold_each<F, X>, task, x, to);
  int lanes = power_of_two((task.length + 4 * n - 1) / (4 * n), most_lanes);
  int width = power_of_two(task.inner, 32);
  int slots = power_of_two((task.length + 7) / 8, static_cast<int>(most_lanes) / width);
  if (width * slots < 32) slots = 32 / width;
  if (rows && lanes > 32)
    divide(task, task.outputs, n * most_lanes, 16 * n * most_lanes, chain * n * most_lanes);
  else if (!rows)
    divide(task, task.outputs / task.inner * ((task.inner + width - 1) / width), slots, 8 * slots,
           chain * slots);
  Results<F> results = to;
  if (task.parts > 1) results.parts = queue.scratch_of<typename F::A>(task.outputs * task.parts);
  const auto grid = [&](std::int64_t blocks, std::int64_t threads) {
    return dim3(static_cast<unsigned>(std::min(blocks, queue.most_blocks() * 256 / threads)));
  };
  if (rows) {
    const std::int64_t items = task.outputs * task.parts;
    const std::int64_t threads =
        lanes > 32 ? lanes : std::min(most_lanes, (items * lanes + 31) / 32 * 32);
    queue.launch(fold_rows<F, X>, grid((items * lanes + threads - 1) / threads, threads),
                 dim3(static_cast<unsigned>(threads)), 0, task, x, lanes, in_packs(task, x, n),
                 results);
  } else {
    const std::int64_t tiles = task.outputs / task.inner * ((task.inner + width - 1) / width);
    queue.launch(fold_columns<F, X>, grid(tiles * task.parts, width * slots),
                 dim3(static_cast<unsigned>(width * slots)), 0, task, x, width, results);
  }
  if (task.parts > 1)
    fold<F>(queue, rest_of(task, rows), rows, static_cast<const typename F::A*>(results.parts), to);
}

// --- ops ---
void add_axis(Places<1>& places, std::int64_t length, std::int64_t step) {
  if (length == 1) return;
  int& rank = places.rank;
  if (rank > 0 && places.step[0][rank - 1] == step * length)
    places.length[rank - 1] *= length;
  else
    places.length[rank++] = length;
  places.step[0][rank - 1] = step;
}
/// Axis i is reduced if bit i of `gone` is set. `floating`: the dtype is float32 or float64.
template <template <class> class F, bool floating>
KernelResult reduce(const Call& call, unsigned gone) {
  const Body& x = call.input(0);
  Task task;
  bool rows = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t length = x.shape.data()[axis];
    const bool goes = gone >> axis & 1;
    add_axis(goes ? task.gone : task.kept, length, x.strides[axis]);
    (goes ? task.length : task.outputs) *= length;
    if (length == 1) continue;
    rows = goes;
    task.inner = goes ? 1 : task.inner * length;
  }
  task.kept.narrow = task.outputs < std::int64_t{1} << 31;
  task.gone.narrow = task.length < std::int64_t{1} << 31;
  const auto run = [&]<class T>(Type<T>) {
    using Fold = F<T>;
    const Results<Fold> results = {nullptr, call.output().as<typename Fold::Out>(),
                                   (call.accumulate & 1) != 0, task.length};
    fold<Fold>(call.queue, task, rows, x.as<T>(), results);
  };
  if constexpr (floating)
    return with_floating(x.dtype, run);
  else
    with_arithmetic(x.dtype, run);
  return {};
}
template <template <class> class F, bool floating = false>
KernelResult along_axes(const Call& call) {
  const Axes& axes = call.option<ReduceOptions>().axes;
  unsigned gone = axes.is_every() ? ~0u : 0;
  for (int i = 0; i < axes.count(); ++i) gone |= 1u << axes[i];
  return reduce<F, floating>(call, gone);
}
KernelResult sum_to(const Call& call) {
  const Shape &shape = call.input(0).shape, &target = call.output().shape;
  const int rank = static_cast<int>(shape.rank());
  const int added = rank - static_cast<int>(target.rank());
  unsigned gone = 0;
  for (int axis = 0; axis < rank; ++axis)
    if (axis < added || (target.data()[axis - added] == 1 && shape.data()[axis] != 1))
      gone |= 1u << axis;
  return reduce<Total, true>(call, gone);
}
}  // namespace

extern const NamedKernel reduce_kernels[] = {
    {"sum", along_axes<Total>},       {"sum_to", sum_to},
    {"mean", along_axes<Mean, true>}, {"sum_squares", along_axes<SumOfSquares, true>},
    {"max", along_axes<Largest>},     {"min", along_axes<Smallest>},
    {"prod", along_axes<Product>},    {"argmax", along_axes<Argmax>},
    {"argmin", along_axes<Argmin>},   {"any", along_axes<Any>},
    {"all", along_axes<Every>},       {nullptr, nullptr}};
}  // namespace reel::gpu
