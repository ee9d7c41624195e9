// SPDX-License-Identifier: BSD-3-Clause
// Shared by recurrent ops over whole sequences: the order of the steps, and the products and sums
// over all steps at once.
#pragma once
#include "cuda/matmul.hpp"
#include "cuda/numbers.hpp"
#include "cuda/rows.hpp"
#include "lib/table/options/sequence.hpp"

namespace reel::gpu {
/// Sizes of x [time, batch, in], of the state [batch, hidden] and of the weight's columns.
struct Sequence {
  std::int64_t time, batch, in, hidden, columns;
  bool reverse;
  const std::int64_t* lengths = nullptr;  // on the device; null if every sequence has all steps

  Sequence(const Body& x, const Body& weight, const Body& h, const void* options)
      : time(x.shape.data()[0]),
        batch(x.shape.data()[1]),
        in(x.shape.data()[2]),
        hidden(h.shape.data()[1]),
        columns(weight.shape.data()[1]),
        reverse(static_cast<const DirectionOptions*>(options)->reverse) {}

  std::int64_t rows() const { return time * batch; }
  std::int64_t state_size() const { return batch * hidden; }
  constexpr std::int64_t place(std::int64_t step) const { return reverse ? time - 1 - step : step; }
  constexpr std::int64_t before(std::int64_t t) const { return reverse ? t + 1 : t - 1; }
  __device__ std::int64_t length(std::int64_t row) const { return lengths ? lengths[row] : time; }
  __device__ bool begins(std::int64_t t, std::int64_t row) const {
    return t == (reverse ? length(row) - 1 : 0);
  }
};

namespace sequences {
/// A fault may be null.
template <class T>
__global__ void read_lengths(std::int64_t n, const T* from, std::int64_t most, Fault* fault,
                             std::int64_t* to) {
  for (std::int64_t row = first_index(); row < n; row += grid_step()) {
    const auto length = static_cast<std::int64_t>(from[row]);
    if (fault && (length < 0 || length > most)) report(fault, row, length);
    to[row] = length;
  }
}

/// Cell::operator() computes step t of one element of the state.
template <class Cell>
__global__ void step(Cell cell, std::int64_t t) {
  const Sequence& q = cell.q;
  for (std::int64_t i = first_index(); i < q.batch * q.hidden; i += grid_step())
    cell(t, InRow(i, q.hidden));
}

/// Copies the steps of all sequences, [time, batch, width], with zeros after the end of each one.
/// The rest of x may hold anything, even NaN. If `turns`, the first step of each one becomes the
/// last.
template <class T>
__global__ void arrange(Sequence q, std::int64_t width, bool turns, const T* x, T* to, bool adds) {
  for (std::int64_t i = first_index(); i < q.time * q.batch * width; i += grid_step()) {
    const InRow step(i, q.batch * width), in(step.k, width);
    const std::int64_t t = step.row, length = q.length(in.row);
    const std::int64_t from = turns ? length - 1 - t : t;
    give(to + i, t < length ? x[from * q.batch * width + step.k] : T(0), adds);
  }
}

template <class T>
__global__ void give_all(std::int64_t n, const T* from, T* to, bool adds) {
  for (std::int64_t i = first_index(); i < n; i += grid_step()) give(to + i, from[i], adds);
}

constexpr int sum_columns = 32, sum_lanes = 8, group_rows = 256;
/// The sum of each group of rows. Rows are `step` elements apart. A block of sum_columns by
/// sum_lanes threads sums sum_columns columns.
template <class T>
__global__ void sum_groups(std::int64_t rows, std::int64_t columns, const T* x, std::int64_t step,
                           T* to, bool adds) {
  REEL_SHARED(T, sums, sum_lanes * sum_columns);
  const std::int64_t column = std::int64_t{blockIdx.x} * sum_columns + threadIdx.x;
  T* const mine = sums + threadIdx.y * sum_columns + threadIdx.x;
  for (std::int64_t group = blockIdx.y; group == blockIdx.y || group * group_rows < rows;
       group += gridDim.y) {
    const std::int64_t end = (group + 1) * group_rows < rows ? (group + 1) * group_rows : rows;
    T sum = 0;
    if (column < columns)
      for (std::int64_t row = group * group_rows + threadIdx.y; row < end; row += sum_lanes)
        sum += x[row * step + column];
    *mine = sum;
    for (unsigned half = sum_lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half) *mine += mine[half * sum_columns];
    }
    if (threadIdx.y == 0 && column < columns) give(to + group * columns + column, *mine, adds);
    __syncthreads();
  }
}
}  // namespace sequences

/// Converts the lengths for a Sequence. If `input` is given, the lengths are checked, and errors
/// name the input of this index.
inline const std::int64_t* lengths_of(const Queue& queue, const Sequence& q, const Body& lengths,
                                      int input = -1) {
  if (lengths.elements == 0) return nullptr;
  Fault* const fault = input < 0 ? nullptr
                                 : queue.fault({.failure = "There are no more steps than x has.",
                                                .input = input,
                                                .counts = true,
                                                .limit = q.time});
  auto* const to = queue.scratch_of<std::int64_t>(q.batch);
  with_integers(lengths.dtype, [&]<class T>(Type<T>) {
    queue.launch_for(q.batch, sequences::read_lengths<T>, q.batch, lengths.as<T>(), q.time, fault,
                     to);
  });
  return to;
}

template <class T>
void copy(const Queue& queue, const T* from, std::int64_t n, T* to) {
  if (n > 0)
    queue.check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(n) * sizeof(T),
                                cudaMemcpyDeviceToDevice, queue.stream));
}
template <class T>
void clear(const Queue& queue, T* to, std::int64_t n) {
  if (n > 0)
    queue.check(cudaMemsetAsync(to, 0, static_cast<std::size_t>(n) * sizeof(T), queue.stream));
}

/// The sum over rows that are `step` elements apart. The order depends on the shape only.
template <class T>
void sum_rows(const Queue& queue, std::int64_t rows, std::int64_t columns, const T* x,
              std::int64_t step, T* to, bool adds) {
  using namespace sequences;
  constexpr std::int64_t most_groups = 65535;
  const dim3 block(sum_columns, sum_lanes);
  const auto blocks = static_cast<unsigned>((columns + sum_columns - 1) / sum_columns);
  while (rows > group_rows) {
    const std::int64_t groups = (rows + group_rows - 1) / group_rows;
    T* const sums = queue.scratch_of<T>(groups * columns);
    const auto height = static_cast<unsigned>(std::min(groups, most_groups));
    queue.launch(sum_groups<T>, dim3(blocks, height), block, 0, rows, columns, x, step, sums,
                 false);
    x = sums;
    rows = groups;
    step = columns;
  }
  queue.launch(sum_groups<T>, dim3(blocks), block, 0, rows, columns, x, step, to, adds);
}

/// Products of row-major matrices of one type.
template <class T>
class SequenceProducts {
 public:
  SequenceProducts(const Queue& queue, const Sequence& sequence, const T* its_weight)
      : products_(queue), q(sequence), weight(its_weight) {}

  /// sums = bias + x weight, for all steps.
  void of_inputs(const T* x, const T* bias, T* sums) {
    run({dtype,
         q.rows(),
         q.columns,
         q.in,
         {x, q.in, 1},
         {weight, q.columns, 1},
         sums,
         {bias, 0, 1}});
  }
  /// The part of one step's sums that comes from the state.
  void of_state(const T* h, T* sums, bool adds) {
    run({dtype, q.batch, q.columns, q.hidden, {h, q.hidden, 1}, {recurrent(), q.columns, 1}, sums},
        adds);
  }
  /// Adds the gradient that reaches the state through the sums.
  void state_gradient(const T* ds, T* dh) {
    run({dtype, q.batch, q.hidden, q.columns, {ds, q.columns, 1}, {recurrent(), 1, q.columns}, dh},
        true);
  }
  void input_gradient(const T* da, T* dx, bool adds) {
    run({dtype, q.rows(), q.in, q.columns, {da, q.columns, 1}, {weight, 1, q.columns}, dx}, adds);
  }
  /// The gradient of `width` rows of the weight. `left` is [steps, width].
  void weight_gradient(const T* left, std::int64_t width, const T* ds, std::int64_t steps, T* to,
                       bool adds) {
    run({dtype, width, q.columns, steps, {left, 1, width}, {ds, q.columns, 1}, to}, adds);
  }

 private:
  static constexpr DType dtype = sizeof(T) == 4 ? DType::float32 : DType::float64;
  const T* recurrent() const { return weight + q.in * q.columns; }
  void run(const Product& p, bool adds = false) { products_.multiply(adds ? p.added_to_c() : p); }
  Products products_;
  const Sequence& q;
  const T* weight;
};
}  // namespace reel::gpu
