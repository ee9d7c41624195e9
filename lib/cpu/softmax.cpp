// SPDX-License-Identifier: BSD-3-Clause
// softmax, log softmax and cross entropy. Along the last axis, a vector holds adjacent elements of
// one row. Along another axis, it holds one element of each of several adjacent columns.
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/pool/pool.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/axis.hpp"
#include "lib/table/options/gather.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// The larger element. If one is NaN, either may be returned.
template <class T>
Vector<T> larger(const Vector<T>& best, const Vector<T>& x) {
  return xsimd::max(x, best);
}
template <class T>
Vector<T> least() {
  return Vector<T>(-static_cast<T>(__builtin_inf()));
}

/// The largest elements of a row, one for each lane. If a NaN is lost here, the sum still has it.
template <class T>
[[gnu::always_inline]] inline Vector<T> row_max(const T* x, std::int64_t n) {
  return row_fold<T>(
      n, [&](std::int64_t i, Chunk<T> chunk) { return chunk.get(x + i); }, larger<T>);
}

/// y = exp(x - max); y may be null.
template <class T>
struct Exponential {
  const T* x;
  T* y;
  Vector<T> max;
  Vector<T> operator()(std::int64_t i, Chunk<T> chunk) const {
    const Vector<T> e = Maths<T>::exp(chunk.get(x + i) - max);
    if (y) chunk.put(y + i, e);
    return chunk.only(e);
  }
};
constexpr std::int64_t shared_elements = 1 << 14;  // at least, before rows are shared among threads
/// Rows that are computed in turn: while one row waits for the fold of its lanes, other rows are
/// computed.
constexpr std::int64_t row_block = 16;

/// Calls f(first, count) for blocks of rows of n elements.
template <class F>
void for_row_blocks(std::int64_t rows, std::int64_t n, const F& f) {
  parallel_rows(rows, n, shared_elements, [&](std::int64_t first, std::int64_t end) {
    for (; first < end; first += row_block)
      f(first, end - first < row_block ? end - first : row_block);
  });
}

/// For each row of a block: the largest element, and the sum of exp(x - largest). y gets the
/// exponentials, unless it is null.
template <class T>
struct RowSums {
  alignas(64) T max[row_block] = {}, sum[row_block] = {};
  std::int64_t rows;

  [[gnu::flatten]] RowSums(const T* x, T* y, std::int64_t row_count, std::int64_t n)
      : rows(row_count) {
    Lanes<T, row_block> of;
    for (std::int64_t r = 0; r < rows; ++r) store(of.row[r], row_max(x + r * n, n));
    of.fold(rows, larger<T>, max);
    // The loop over short rows contains no function calls (hence "flatten"), so that the constants
    // of exp stay in registers.
    const auto sum_rows = [&](const auto& sum_of) {
      for (std::int64_t r = 0; r < rows; ++r)
        store(of.row[r],
              sum_of(Exponential<T>{x + r * n, y ? y + r * n : nullptr, Vector<T>(max[r])}));
    };
    if (n <= leaf)
      sum_rows([n](const auto& exponential) { return leaf_sum<T>(n, exponential); });
    else
      sum_rows([n](const auto& exponential) { return sum_of_halves<T>(0, n, exponential); });
    of.fold(
        rows, [](const Vector<T>& a, const Vector<T>& b) { return a + b; }, sum);
  }
  /// The logarithm is not added to the largest element: a small logarithm would lose digits.
  void take_logarithms() {
    for_chunks<T>(rows, [&](std::int64_t r, Chunk<T> chunk) {
      chunk.put(sum + r, Maths<T>::log(chunk.get(sum + r)));
    });
  }
};

/// The sum of f(j) for first <= j < end down a column, by halves.
template <class T, class F>
Vector<T> column_sum(std::int64_t first, std::int64_t end, const F& f) {
  constexpr std::int64_t most = 64;
  if (end - first > most) {
    const std::int64_t middle = first + ((end - first) / 2 + most - 1) / most * most;
    const Vector<T> sum = column_sum<T>(first, middle, f);
    return sum + column_sum<T>(middle, end, f);
  }
  Vector<T> sum(T(0));
  for (; first < end; ++first) sum += f(first);
  return sum;
}

/// RowSums for adjacent columns.
template <class T>
struct ColumnSums {
  Vector<T> max = least<T>(), sum;
  ColumnSums(const T* x, T* y, std::int64_t n, std::int64_t step, Chunk<T> chunk) {
    for (std::int64_t j = 0; j < n; ++j) max = larger(max, chunk.get(x + j * step));
    sum = column_sum<T>(0, n, [&](std::int64_t j) {
      const Vector<T> e = Maths<T>::exp(chunk.get(x + j * step) - max);
      if (y) chunk.put(y + j * step, e);
      return e;
    });
  }
};

struct Softmax {
  template <class T>
  static void rows(const T* x, T* y, std::int64_t count, std::int64_t n) {
    const RowSums<T> sums(x, y, count, n);
    for (std::int64_t r = 0; r < count; ++r, y += n) {
      const Vector<T> scale(T(1) / sums.sum[r]);
      for_chunks<T>(
          n, [&](std::int64_t i, Chunk<T> chunk) { chunk.put(y + i, chunk.get(y + i) * scale); });
    }
  }
  template <class T>
  static void columns(const T* x, T* y, std::int64_t n, std::int64_t step, Chunk<T> chunk) {
    const Vector<T> scale = Vector<T>(T(1)) / ColumnSums<T>(x, y, n, step, chunk).sum;
    for (std::int64_t j = 0; j < n; ++j) chunk.put(y + j * step, chunk.get(y + j * step) * scale);
  }
  /// dx = y (dy - sum dy y)
  template <class V>
  static V term(const V& dy, const V& y) {
    return dy * y;
  }
  template <class V>
  static V gradient(const V& dy, const V& y, const V& sum) {
    return y * (dy - sum);
  }
};

struct LogSoftmax {
  template <class T>
  static void rows(const T* x, T* y, std::int64_t count, std::int64_t n) {
    RowSums<T> sums(x, nullptr, count, n);
    sums.take_logarithms();
    for (std::int64_t r = 0; r < count; ++r, x += n, y += n) {
      const Vector<T> max(sums.max[r]), rest(sums.sum[r]);
      for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
        chunk.put(y + i, chunk.get(x + i) - max - rest);
      });
    }
  }
  template <class T>
  static void columns(const T* x, T* y, std::int64_t n, std::int64_t step, Chunk<T> chunk) {
    const ColumnSums<T> sums(x, nullptr, n, step, chunk);
    const Vector<T> rest = Maths<T>::log(sums.sum);
    for (std::int64_t j = 0; j < n; ++j)
      chunk.put(y + j * step, chunk.get(x + j * step) - sums.max - rest);
  }
  /// dx = dy - exp(y) sum dy
  template <class V>
  static V term(const V& dy, const V&) {
    return dy;
  }
  template <class V>
  static V gradient(const V& dy, const V& y, const V& sum) {
    return dy - formulas::math::Functions<V>::exp(y) * sum;
  }
};

/// The shape as [outer, n, inner] around an axis.
struct AxisView {
  std::int64_t outer = 1, n = 1, inner = 1;
  AxisView(const Shape& shape, std::int64_t axis) {
    if (shape.rank()) n = shape.data()[axis];
    for (std::int64_t i = 0; i < axis; ++i) outer *= shape.data()[i];
    for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.rank(); ++i)
      inner *= shape.data()[i];
    if (n == 0) outer = 0;
  }
  /// Calls f(first, chunk) for adjacent columns.
  template <class T, class F>
  void for_columns(const F& f) const {
    const std::int64_t chunks = (inner + lanes<T> - 1) / lanes<T>;
    parallel_rows(
        outer * chunks, n * lanes<T>, shared_elements, [&](std::int64_t i, std::int64_t end) {
          for (; i < end; ++i) {
            const std::int64_t column = i % chunks * lanes<T>, left = inner - column;
            f(i / chunks * n * inner + column, Chunk<T>{left < lanes<T> ? left : lanes<T>});
          }
        });
  }
};

template <class F, class T>
void softmax_of(const AxisView& view, const T* x, T* y) {
  if (view.inner == 1)
    for_row_blocks(view.outer, view.n, [&](std::int64_t first, std::int64_t count) {
      F::rows(x + first * view.n, y + first * view.n, count, view.n);
    });
  else
    view.for_columns<T>([&](std::int64_t first, Chunk<T> chunk) {
      F::columns(x + first, y + first, view.n, view.inner, chunk);
    });
}

template <class F, class T>
void gradient_of(const AxisView& view, const T* dy, const T* y, T* dx, bool add) {
  if (view.inner == 1) {
    return for_row_blocks(view.outer, view.n, [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t r = first * view.n; r < (first + count) * view.n; r += view.n) {
        const Vector<T> sum(lane_sum(row_sum<T>(view.n, [&](std::int64_t i, Chunk<T> chunk) {
          return F::term(chunk.zero_padded(dy + r + i), chunk.get(y + r + i));
        })));
        for_chunks<T>(view.n, [&](std::int64_t i, Chunk<T> chunk) {
          chunk.give(dx + r + i, F::gradient(chunk.get(dy + r + i), chunk.get(y + r + i), sum),
                     add);
        });
      }
    });
  }
  view.for_columns<T>([&](std::int64_t first, Chunk<T> chunk) {
    const auto at = [&](const T* from, std::int64_t j) {
      return chunk.get(from + first + j * view.inner);
    };
    const Vector<T> sum =
        column_sum<T>(0, view.n, [&](std::int64_t j) { return F::term(at(dy, j), at(y, j)); });
    for (std::int64_t j = 0; j < view.n; ++j)
      chunk.give(dx + first + j * view.inner, F::gradient(at(dy, j), at(y, j), sum), add);
  });
}

template <class F>
KernelResult softmax(const KernelCall& call) {
  const AxisView view(call.output().shape, call.option<AxisOptions>().axis);
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    softmax_of<F>(view, call.input(0).as<T>(), call.output().as<T>());
  });
}
template <class F>
KernelResult softmax_gradient(const KernelCall& call) {
  const GradientKernelCall g(call);
  const AxisView view(g.dx()->shape, g.option<AxisOptions>().axis);
  return with_floating(g.dx()->dtype, [&]<class T>(Type<T>) {
    gradient_of<F>(view, g.dy()->as<T>(), g.y()->as<T>(), g.dx()->as<T>(), g.adds());
  });
}

KernelResult cross_entropy(const KernelCall& call) {
  const Body &scores = call.input(0), &labels = call.input(1);
  const std::int64_t n = scores.shape.end()[-1];
  const auto& options = call.option<LabelOptions>();
  for (std::int64_t i = 0; i < labels.elements; ++i) {
    const std::int64_t label = integer_at(labels, i);
    if (options.counts(label) && (label < 0 || label >= n))
      return {
          .failure = "label out of range", .input = 1, .from_end = false, .got = label, .limit = n};
  }
  return with_floating(scores.dtype, [&]<class T>(Type<T>) {
    for_row_blocks(labels.elements, n, [&](std::int64_t first, std::int64_t count) {
      const T* x = scores.as<T>() + first * n;
      RowSums<T> sums(x, nullptr, count, n);
      sums.take_logarithms();
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t label = integer_at(labels, first + r);
        call.output().as<T>()[first + r] =
            options.counts(label) ? sums.sum[r] - (x[r * n + label] - sums.max[r]) : T(0);
      }
    });
  });
}
/// d scores = (softmax(scores) - 1 at the label) dy
KernelResult cross_entropy_gradient(const KernelCall& call) {
  const GradientKernelCall g(call);
  const Body &dy = *g.dy(), &scores = *g.x(0), &labels = *g.x(1);
  const std::int64_t n = scores.shape.end()[-1];
  const auto& options = call.option<LabelOptions>();
  if (!g.dx(0) || n == 0) return {};
  return with_floating(scores.dtype, [&]<class T>(Type<T>) {
    for_row_blocks(labels.elements, n, [&](std::int64_t first, std::int64_t count) {
      T* block = static_cast<T*>(scratch(static_cast<std::size_t>(row_block * n) * sizeof(T)));
      Softmax::rows(scores.as<T>() + first * n, block, count, n);
      for (std::int64_t r = 0; r < count; ++r) {
        T* row = block + r * n;
        T* dx = g.dx(0)->as<T>() + (first + r) * n;
        const std::int64_t label = integer_at(labels, first + r);
        if (!options.counts(label)) {
          for (std::int64_t k = 0; k < n && !g.adds(); ++k) dx[k] = T(0);
          continue;
        }
        // A device that reports late may call this behind a wrong label.
        if (static_cast<std::uint64_t>(label) < static_cast<std::uint64_t>(n)) row[label] -= T(1);
        const Vector<T> up(dy.as<T>()[first + r]);
        for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
          chunk.give(dx + k, chunk.get(row + k) * up, g.adds());
        });
      }
    });
  });
}

const NamedKernel kernels[] = {{"softmax", softmax<Softmax>},
                               {"softmax.d", softmax_gradient<Softmax>},
                               {"log_softmax", softmax<LogSoftmax>},
                               {"log_softmax.d", softmax_gradient<LogSoftmax>},
                               {"cross_entropy", cross_entropy},
                               {"cross_entropy.d", cross_entropy_gradient},
                               {nullptr, nullptr}};
}  // namespace
extern const Family softmax_family;
const Family softmax_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
