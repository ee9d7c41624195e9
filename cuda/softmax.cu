// SPDX-License-Identifier: BSD-3-Clause
// softmax, log_softmax and cross_entropy. A line that fits into registers is read once.
#include <cmath>

#include "cuda/line.hpp"
#include "cuda/positions.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"

namespace reel::gpu {
namespace {
/// The larger number. It may ignore a NaN, but the sum of exponentials is then NaN.
template <class T>
struct Larger {
  static __device__ T none() { return -static_cast<T>(__builtin_inf()); }
  static __device__ T join(T a, T b) { return b > a ? b : a; }
};

/// The largest of some numbers, and the sum of exp(x - largest). exp(x - largest) of the largest
/// number is 1, even if it is infinite.
template <class T>
struct LargestAndSum {
  static __device__ Two<T> none() { return {Larger<T>::none(), T(0)}; }
  static __device__ Two<T> join(const Two<T>& a, const Two<T>& b) {
    if (a.first == b.first) return {a.first, a.second + b.second};
    if (b.first > a.first) return {b.first, b.second + a.second * std::exp(a.first - b.first)};
    return {a.first, a.second + b.second * std::exp(b.first - a.first)};
  }
};

/// The largest element of a line, and the sum of exp(x - largest).
template <class Line, bool keeps_exponentials>
struct Exponentials {
  using T = typename Line::Number;
  using Packed = Pack<T, Line::n>;
  Held<Line> x;
  T max, sum;

  __device__ Exponentials(const Line& line, const T* from) : x(line, from) {
    if constexpr (Held<Line>::keeps) {
      max = fold_line<Larger<T>, T>(line, [&](int k, std::int64_t i) { return x.get(line, k, i); });
      sum = fold_line<Sum<T>, T>(line, [&](int k, std::int64_t i) {
        const Packed e = exponentials(x.get(line, k, i));
        if constexpr (keeps_exponentials) x.packs[k] = e;
        return e;
      });
    } else {
      const Two<T> both = in_one_pass(line);
      max = both.first;
      sum = both.second + (max - max);  // NaN if max is infinite
    }
  }
  /// exp(x - largest) for a pack.
  __device__ Packed get(const Line& line, int k, std::int64_t i) const {
    if constexpr (keeps_exponentials && Held<Line>::keeps)
      return x.packs[k];
    else
      return exponentials(x.get(line, k, i));
  }

 private:
  __device__ Packed exponentials(Packed pack) const {
    for (T& each : pack.of) each = std::exp(each - max);
    return pack;
  }
  /// A thread multiplies its sum by a factor when it finds a larger element.
  __device__ Two<T> in_one_pass(const Line& line) const {
    using Join = LargestAndSum<T>;
    Two<T> all = Join::none();
    line.each([&](int k, std::int64_t i) {
      const Packed pack = x.get(line, k, i);
      const int count = line.count(i);
      T largest = all.first;
      for (int v = 0; v < Line::n; ++v)
        if (v < count) largest = Larger<T>::join(largest, pack.of[v]);
      T e[Line::n];
      for (int v = 0; v < Line::n; ++v)
        e[v] = v >= count ? T(0) : pack.of[v] == largest ? T(1) : std::exp(pack.of[v] - largest);
      for (int half = Line::n / 2; half > 0; half /= 2)
        for (int v = 0; v < half; ++v) e[v] += e[v + half];
      all = Join::join(all, {largest, e[0]});
    });
    return line.template fold<Join>(all);
  }
};

template <class T>
struct Softmax {
  const T* x;
  T* y;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t) const {
    const Exponentials<Line, true> e(line, x + at);
    const T scale = T(1) / e.sum;
    line.each([&](int k, std::int64_t i) {
      auto pack = e.get(line, k, i);
      for (T& each : pack.of) each *= scale;
      line.write(y + at, i, pack);
    });
  }
  /// dx = y (dy - sum dy y)
  static __device__ T term(T dy, T y) { return dy * y; }
  static __device__ T gradient(T dy, T y, T sum) { return y * (dy - sum); }
};

template <class T>
struct LogSoftmax {
  const T* x;
  T* y;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t) const {
    const Exponentials<Line, false> e(line, x + at);
    // The logarithm is not added to the largest element first: a small logarithm would lose digits.
    const T rest = std::log(e.sum);
    line.each([&](int k, std::int64_t i) {
      auto pack = e.x.get(line, k, i);
      for (T& each : pack.of) each = each - e.max - rest;
      line.write(y + at, i, pack);
    });
  }
  /// dx = dy - exp(y) sum dy
  static __device__ T term(T dy, T) { return dy; }
  static __device__ T gradient(T dy, T y, T sum) { return dy - std::exp(y) * sum; }
};

template <class F, class T>
struct Gradient {
  const T *up, *y;
  T* down;
  bool adds;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t) const {
    const Held<Line> dy(line, up + at), of(line, y + at);
    const T sum = fold_line<Sum<T>, T>(line, [&](int k, std::int64_t i) {
      auto pack = dy.get(line, k, i);
      const auto ys = of.get(line, k, i);
      for (int v = 0; v < Line::n; ++v) pack.of[v] = F::term(pack.of[v], ys.of[v]);
      return pack;
    });
    line.each([&](int k, std::int64_t i) {
      auto pack = dy.get(line, k, i);
      const auto ys = of.get(line, k, i);
      for (int v = 0; v < Line::n; ++v) pack.of[v] = F::gradient(pack.of[v], ys.of[v], sum);
      line.write(down + at, i, pack, adds);
    });
  }
};

template <class T>
struct CrossEntropy {
  const T* scores;
  Integers labels;
  LabelOptions options;
  T* y;
  Fault* fault;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t row) const {
    const Exponentials<Line, false> e(line, scores + at);
    if (!line.is_first()) return;
    const std::int64_t label = labels[row];
    if (!options.counts(label))
      y[row] = T(0);
    else if (label < 0 || label >= line.length)
      report(fault, row, label);
    else
      y[row] = std::log(e.sum) - (scores[at + label] - e.max);
  }
};
/// d scores = (softmax(scores) - 1 at the label) dy
template <class T>
struct CrossEntropyGradient {
  const T *up, *scores;
  Integers labels;
  LabelOptions options;
  T* down;
  bool adds;
  template <class Line>
  __device__ void operator()(const Line& line, std::int64_t at, std::int64_t row) const {
    const Exponentials<Line, true> e(line, scores + at);
    if (!line.exists) return;
    const T scale = T(1) / e.sum, dy = up[row];
    const std::int64_t label = labels[row];
    const bool counts = options.counts(label);
    line.each([&](int k, std::int64_t i) {
      auto pack = e.get(line, k, i);
      for (int v = 0; v < Line::n; ++v)
        pack.of[v] =
            counts ? (pack.of[v] * scale - (line.place(i, v) == label ? T(1) : T(0))) * dy : T(0);
      line.write(down + at, i, pack, adds);
    });
  }
};

/// Runs op along an axis of a shape.
template <class T, class Op>
void along(const Queue& queue, const Op& op, const Shape& shape, std::int64_t axis, bool whole) {
  std::int64_t outer = 1, inner = 1;
  const int rank = static_cast<int>(shape.rank());
  const std::int64_t length = rank ? shape.data()[axis] : 1;
  for (int i = 0; i < rank; ++i)
    if (i != axis) (i < axis ? outer : inner) *= shape.data()[i];
  if (length == 0) return;
  if (inner == 1)
    over_rows<T>(queue, op, outer, length, whole);
  else
    over_columns<T>(queue, op, outer, length, inner);
}

template <template <class> class F>
KernelResult softmax(const Call& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const T* const x = call.input(0).as<T>();
    T* const y = call.output().as<T>();
    along<T>(call.queue, F<T>{x, y}, call.output().shape, call.option<AxisOptions>().axis,
             aligned(x, y));
  });
}
template <template <class> class F>
KernelResult softmax_gradient(const Call& call) {
  const GradientCall g(call);
  return with_floating(g.dx()->dtype, [&]<class T>(Type<T>) {
    const T *const dy = g.dy()->as<T>(), *const y = g.y()->as<T>();
    T* const dx = g.dx()->as<T>();
    along<T>(g.queue, Gradient<F<T>, T>{dy, y, dx, g.adds()}, g.dx()->shape,
             g.option<AxisOptions>().axis, aligned(dy, y, dx));
  });
}
KernelResult cross_entropy(const Call& call) {
  const Body &scores = call.input(0), &labels = call.input(1);
  const std::int64_t n = scores.shape.end()[-1];
  Fault* const fault = call.queue.fault(
      {.failure = "label out of range", .input = 1, .from_end = false, .limit = n});
  return with_floating(scores.dtype, [&]<class T>(Type<T>) {
    const T* const x = scores.as<T>();
    const CrossEntropy<T> op{x, Integers(labels), call.option<LabelOptions>(),
                             call.output().as<T>(), fault};
    over_rows<T>(call.queue, op, labels.elements, n, aligned(x));
  });
}
KernelResult cross_entropy_gradient(const Call& call) {
  const GradientCall g(call);
  if (!g.dx(0)) return {};
  const Body &scores = *g.x(0), &labels = *g.x(1);
  return with_floating(scores.dtype, [&]<class T>(Type<T>) {
    const T *const dy = g.dy()->as<T>(), *const x = scores.as<T>();
    T* const dx = g.dx(0)->as<T>();
    const CrossEntropyGradient<T> op{dy, x,       Integers(labels), call.option<LabelOptions>(),
                                     dx, g.adds()};
    over_rows<T>(g.queue, op, labels.elements, scores.shape.end()[-1], aligned(x, dx));
  });
}
}  // namespace

extern const NamedKernel softmax_kernels[] = {{"softmax", softmax<Softmax>},
                                              {"softmax.d", softmax_gradient<Softmax>},
                                              {"log_softmax", softmax<LogSoftmax>},
                                              {"log_softmax.d", softmax_gradient<LogSoftmax>},
                                              {"cross_entropy", cross_entropy},
                                              {"cross_entropy.d", cross_entropy_gradient},
                                              {nullptr, nullptr}};
}  // namespace reel::gpu
