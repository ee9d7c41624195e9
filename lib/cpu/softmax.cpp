// SPDX-License-Identifier: BSD-3-Clause
// softmax, log softmax and cross entropy, by rows; an axis that is not the last is walked in steps.
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/scratch.hpp"
#include "lib/dispatch/op_options.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
template <class T>
T lane_max(const Vector<T>& x) {
  alignas(64) T values[lanes<T>];
  x.store_aligned(values);
  T best = values[0];
  for (std::int64_t l = 1; l < lanes<T>; ++l) best = values[l] > best ? values[l] : best;
  return best;
}
/// The largest of a row, NaN left out: it comes back through the sum.
template <class T>
T row_max(const T* x, std::int64_t n) {
  const T least = -static_cast<T>(__builtin_inf());
  Vector<T> best(least);
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>)
    best = xsimd::select(load(x + i) > best, load(x + i), best);
  T result = lane_max(best);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// y = exp(x - max) and their sum; y may be null.
template <class T>
T exponentials(const T* x, T* y, std::int64_t n, T max) {
  Vector<T> sums(T(0));
  T rest = 0;
  const Vector<T> least(max);
  for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
    const Vector<T> e = Maths<T>::exp(chunk.get(x + i) - least);
    if (y) chunk.put(y + i, e);
    if (chunk.whole()) {
      sums += e;
    } else {
      alignas(64) T last[lanes<T>];
      e.store_aligned(last);
      for (std::int64_t l = 0; l < chunk.n; ++l) rest += last[l];
    }
  });
  return lane_sum(sums) + rest;
}

template <class T>
void softmax_row(const T* x, T* y, std::int64_t n) {
  const Vector<T> scale(T(1) / exponentials(x, y, n, row_max(x, n)));
  for_chunks<T>(
      n, [&](std::int64_t i, Chunk<T> chunk) { chunk.put(y + i, chunk.get(y + i) * scale); });
}
/// The largest of a row, and the logarithm of the sum of exp(x - largest): added up they would lose
/// the places that a small logarithm has.
template <class T>
struct LogSum {
  T max, rest;
  LogSum(const T* x, std::int64_t n) : max(row_max(x, n)) {
    rest = static_cast<T>(__builtin_log(static_cast<double>(exponentials<T>(x, nullptr, n, max))));
  }
};
template <class T>
void log_softmax_row(const T* x, T* y, std::int64_t n) {
  const LogSum<T> sum(x, n);
  const Vector<T> max(sum.max), rest(sum.rest);
  for_chunks<T>(
      n, [&](std::int64_t i, Chunk<T> chunk) { chunk.put(y + i, chunk.get(x + i) - max - rest); });
}

/// dx = y (dy - sum dy y)
template <class T>
void softmax_gradient_row(const T* dy, const T* y, T* dx, std::int64_t n, bool add) {
  Vector<T> sums(T(0));
  for_chunks<T>(
      n, [&](std::int64_t i, Chunk<T> chunk) { sums += chunk.get(dy + i) * chunk.get(y + i); });
  const Vector<T> total(lane_sum(sums));
  for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
    chunk.give(dx + i, chunk.get(y + i) * (chunk.get(dy + i) - total), add);
  });
}
/// dx = dy - exp(y) sum dy
template <class T>
void log_softmax_gradient_row(const T* dy, const T* y, T* dx, std::int64_t n, bool add) {
  Vector<T> sums(T(0));
  for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) { sums += chunk.get(dy + i); });
  const Vector<T> total(lane_sum(sums));
  for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
    chunk.give(dx + i, chunk.get(dy + i) - Maths<T>::exp(chunk.get(y + i)) * total, add);
  });
}

/// Rows along an axis: neighbours if it is the last, else copied out and back.
template <class T, int Inputs, class Row>
void for_rows(const Shape& shape, std::int64_t axis, const T* const (&inputs)[Inputs], T* output,
              bool add, const Row& row) {
  std::int64_t outer = 1, inner = 1;
  const std::int64_t n = shape.rank() ? shape.data()[axis] : 1;
  for (std::int64_t i = 0; i < axis; ++i) outer *= shape.data()[i];
  for (auto i = static_cast<std::size_t>(axis) + 1; i < shape.rank(); ++i) inner *= shape.data()[i];
  if (n == 0) return;
  const T* rows[Inputs];
  if (inner == 1) {
    for (std::int64_t o = 0; o < outer; ++o) {
      for (int k = 0; k < Inputs; ++k) rows[k] = inputs[k] + o * n;
      row(rows, output + o * n, n, add);
    }
    return;
  }
  T* copies = static_cast<T*>(scratch(static_cast<std::size_t>((Inputs + 1) * n) * sizeof(T)));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t first = o * n * inner + i;
      for (int k = 0; k < Inputs; ++k) {
        for (std::int64_t j = 0; j < n; ++j) copies[k * n + j] = inputs[k][first + j * inner];
        rows[k] = copies + k * n;
      }
      T* result = copies + Inputs * n;
      row(rows, result, n, false);
      for (std::int64_t j = 0; j < n; ++j) {
        T& to = output[first + j * inner];
        to = add ? to + result[j] : result[j];
      }
    }
}

template <bool Log>
KernelResult softmax(const KernelCall& call) {
  const auto run = [&]<class T>(T) {
    const T* const inputs[] = {call.input(0).as<T>()};
    for_rows<T, 1>(call.input(0).shape, call.option<AxisOptions>().axis, inputs,
                   call.output().as<T>(), false, [](const T* const* x, T* y, std::int64_t n, bool) {
                     if constexpr (Log)
                       log_softmax_row(x[0], y, n);
                     else
                       softmax_row(x[0], y, n);
                   });
  };
  if (call.output().dtype == DType::float32)
    run(0.0f);
  else
    run(0.0);
  return {};
}
template <bool Log>
KernelResult softmax_gradient(const KernelCall& call) {
  const auto run = [&]<class T>(T) {
    const T* const inputs[] = {call.inputs[0]->as<T>(), call.inputs[2]->as<T>()};
    for_rows<T, 2>(call.output().shape, call.option<AxisOptions>().axis, inputs,
                   call.output().as<T>(), call.accumulate & 1,
                   [](const T* const* rows, T* dx, std::int64_t n, bool add) {
                     if constexpr (Log)
                       log_softmax_gradient_row(rows[0], rows[1], dx, n, add);
                     else
                       softmax_gradient_row(rows[0], rows[1], dx, n, add);
                   });
  };
  if (call.output().dtype == DType::float32)
    run(0.0f);
  else
    run(0.0);
  return {};
}

std::int64_t label_at(const Body& labels, std::int64_t i) {
  return labels.dtype == DType::int32 ? labels.as<std::int32_t>()[i] : labels.as<std::int64_t>()[i];
}

KernelResult cross_entropy(const KernelCall& call) {
  const Body &scores = call.input(0), &labels = call.input(1);
  const std::int64_t n = scores.shape.data()[1];
  for (std::int64_t i = 0; i < labels.elements; ++i) {
    const std::int64_t label = label_at(labels, i);
    if (label < 0 || label >= n) return {"label out of range", 1, label, n};
  }
  const auto run = [&]<class T>(T) {
    for (std::int64_t i = 0; i < labels.elements; ++i) {
      const T* row = scores.as<T>() + i * n;
      const LogSum<T> sum(row, n);
      call.output().as<T>()[i] = sum.rest - (row[label_at(labels, i)] - sum.max);
    }
  };
  if (scores.dtype == DType::float32)
    run(0.0f);
  else
    run(0.0);
  return {};
}
/// d scores = (softmax(scores) - 1 at the label) dy
KernelResult cross_entropy_gradient(const KernelCall& call) {
  const Body &dy = *call.inputs[0], &scores = *call.inputs[1], &labels = *call.inputs[2];
  const std::int64_t n = scores.shape.data()[1];
  if (!call.outputs[0] || n == 0) return {};
  const bool add = call.accumulate & 1;
  const auto run = [&]<class T>(T) {
    T* row = static_cast<T*>(scratch(static_cast<std::size_t>(n) * sizeof(T)));
    for (std::int64_t i = 0; i < labels.elements; ++i) {
      softmax_row(scores.as<T>() + i * n, row, n);
      row[label_at(labels, i)] -= T(1);
      const Vector<T> up(dy.as<T>()[i]);
      T* dx = call.output().as<T>() + i * n;
      for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
        chunk.give(dx + k, chunk.get(row + k) * up, add);
      });
    }
  };
  if (scores.dtype == DType::float32)
    run(0.0f);
  else
    run(0.0);
  return {};
}

const NamedKernel kernels[] = {{"softmax", softmax<false>, softmax_gradient<false>},
                               {"log_softmax", softmax<true>, softmax_gradient<true>},
                               {"cross_entropy", cross_entropy, cross_entropy_gradient},
                               {nullptr, nullptr}};
}  // namespace
extern const Family softmax_family;
const Family softmax_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
