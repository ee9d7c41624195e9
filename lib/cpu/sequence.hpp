// SPDX-License-Identifier: BSD-3-Clause
// Shared by recurrent ops over whole sequences: the order of the steps, and the products for all
// steps at once.
#pragma once
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/cpu/product.hpp"
#include "lib/pool/scratch.hpp"
#include "lib/table/numbers.hpp"
#include "lib/table/options/sequence.hpp"

namespace reel::kernels::REEL_ISA {
/// Sizes of x [time, batch, in], of the state [batch, hidden] and of the weight's columns.
struct Sequence {
  std::int64_t time, batch, in, hidden, columns;
  bool reverse;
  const Body* lengths;  // empty if every sequence has all steps

  Sequence(const Body& x, const Body& weight, const Body& h, const Body& row_lengths,
           const void* options)
      : time(x.shape.data()[0]),
        batch(x.shape.data()[1]),
        in(x.shape.data()[2]),
        hidden(h.shape.data()[1]),
        columns(weight.shape.data()[1]),
        reverse(static_cast<const DirectionOptions*>(options)->reverse),
        lengths(&row_lengths) {}

  bool is_ragged() const { return lengths->elements > 0; }
  std::int64_t length(std::int64_t row) const {
    return is_ragged() ? integer_at(*lengths, row) : time;
  }
  /// `input` is the number of the input that holds the lengths.
  KernelResult check(int input) const {
    for (std::int64_t row = 0; row < lengths->elements; ++row)
      if (const std::int64_t got = length(row); got < 0 || got > time)
        return {.failure = "There are no more steps than x has.",
                .input = input,
                .counts = true,
                .got = got,
                .limit = time};
    return {};
  }
  std::int64_t rows() const { return time * batch; }
  std::int64_t place(std::int64_t step) const { return reverse ? time - 1 - step : step; }
  std::int64_t before(std::int64_t t) const { return reverse ? t + 1 : t - 1; }
  bool begins(std::int64_t t, std::int64_t row) const {
    return t == (reverse ? length(row) - 1 : 0);
  }
};

template <class T>
void copy(const T* from, std::int64_t n, T* to) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}
template <class T>
void clear(T* to, std::int64_t n) {
  __builtin_memset(to, 0, static_cast<std::size_t>(n) * sizeof(T));
}

/// Pieces of one buffer. Each begins at a cache line.
template <class T>
class Pieces {
 public:
  static std::int64_t size(std::int64_t elements) { return rounded_up(elements, line); }
  explicit Pieces(std::int64_t elements)
      : next_(static_cast<T*>(lasting_scratch(static_cast<std::size_t>(elements) * sizeof(T)))) {}
  T* take(std::int64_t elements) {
    T* const piece = next_;
    next_ += size(elements);
    return piece;
  }

 private:
  static constexpr std::int64_t line = 64 / size_in_bytes<T>;
  T* next_;
};

/// The gradients that are one product over many steps. They are computed from the gradients of the
/// sums before the gates: `da` for the share of x, `ds` for the share of h. Both are the same if
/// the shares are only added.
template <class T>
class SequenceProducts {
 public:
  const Sequence& q;
  const T *x, *h, *weight, *outputs;
  T *dx, *dweight;
  bool adds_dx, adds_dweight;

  /// The scratch memory for the products of this number of steps, in elements.
  std::int64_t scratch_size(std::int64_t steps) const {
    return dweight && q.is_ragged() ? steps * q.batch * q.in : 0;
  }
  /// Adds the steps t = first to end - 1, whose gradients are in da and ds.
  void add(std::int64_t first, std::int64_t end, const T* da, const T* ds, T* memory) {
    const std::int64_t rows = (end - first) * q.batch, m = q.columns;
    const Matrix<T> up{da, rows, m, m, 1};
    if (dx) {
      T* const to = dx + first * q.batch * q.in;
      product<T>(up, Matrix<T>{weight, q.in, m, m, 1}.transposed(), start(to, rows, q.in, adds_dx),
                 to);
    }
    if (!dweight) return;
    const T* const from = inputs(first, end, memory);
    product<T>(Matrix<T>{from, rows, q.in, q.in, 1}.transposed(), up,
               start(dweight, q.in, m, adds_dweight), dweight);
    // The state before a step is the output of the step before. finish() handles steps without such
    // an output.
    const std::int64_t from_t = q.reverse ? first : first > 1 ? first : 1;
    const std::int64_t end_t = q.reverse ? least(end, q.time - 1) : end;
    const std::int64_t pairs = end_t > from_t ? (end_t - from_t) * q.batch : 0;
    const T* const before = outputs + (pairs ? q.before(from_t) * q.batch * q.hidden : 0);
    add_recurrent(before, ds + (pairs ? (from_t - first) * q.batch * m : 0), pairs);
    adds_dweight = true;
  }
  /// ds [batch, columns] of the first step of each sequence.
  void finish(const T* ds) {
    if (dweight) add_recurrent(h, ds, q.batch);
  }

 private:
  static Matrix<T> start(const T* c, std::int64_t rows, std::int64_t columns, bool adds) {
    return {adds ? c : nullptr, rows, columns, columns, 1};
  }
  void add_recurrent(const T* before, const T* ds, std::int64_t rows) {
    T* const to = dweight + q.in * q.columns;
    product<T>(Matrix<T>{before, rows, q.hidden, q.hidden, 1}.transposed(),
               {ds, rows, q.columns, q.columns, 1}, start(to, q.hidden, q.columns, adds_dweight),
               to);
  }
  /// x, with zeros behind the end of each sequence. x may hold anything there, even NaN.
  const T* inputs(std::int64_t first, std::int64_t end, T* memory) const {
    if (!q.is_ragged()) return x + first * q.batch * q.in;
    for (std::int64_t t = first; t < end; ++t)
      for (std::int64_t row = 0; row < q.batch; ++row) {
        T* const to = memory + ((t - first) * q.batch + row) * q.in;
        if (t < q.length(row))
          copy(x + (t * q.batch + row) * q.in, q.in, to);
        else
          clear(to, q.in);
      }
    return memory;
  }
};

/// The number of steps whose gradients wait for one product. It is limited, so that they stay in
/// the caches and use little memory.
template <class T>
std::int64_t steps_at_once(const Sequence& q) {
  constexpr std::int64_t most_bytes = 8 << 20;
  const std::int64_t one = q.batch * q.columns * size_in_bytes<T>;
  return one ? least(q.time, most_bytes / one > 1 ? most_bytes / one : 1) : q.time;
}

/// The gradient of a state during the backward pass through the steps.
template <class T>
struct StateGradient {
  const T* last;  // of the state that the op returned; null for zeros
  T* first;       // of the state that the op got; null if it is not needed
  bool adds;
  T* now = nullptr;

  void begin(T* memory, std::int64_t n) {
    now = memory;
    if (last)
      copy(last, n, now);
    else
      clear(now, n);
  }
  void finish(std::int64_t n) const {
    for_chunks<T>(n, [&](std::int64_t i, Chunk<T> chunk) {
      chunk.give(first ? first + i : nullptr, chunk.get(now + i), adds);
    });
  }
};

/// The gradient of a bias: the sum over all rows of all steps, some rows at a time.
template <class T>
struct BiasGradient {
  T* total;  // null if it is not needed
  std::int64_t width;
  T* recent = nullptr;  // the sum of the last rows
  std::int64_t rows = 0;

  void begin(T* memory) {
    if (!total) return;
    recent = memory;
    clear(recent, width);
  }
  void end_row() {
    constexpr std::int64_t some = 256;
    if (++rows == some) finish();
  }
  void finish() {
    rows = 0;
    if (!total) return;
    for (std::int64_t i = 0; i < width; ++i) total[i] += recent[i];
    clear(recent, width);
  }
};

/// Runs the steps backward. cell.step_back(t, row, da, ds) computes the gradients of the sums of
/// one row. It writes to cell.state[0], the gradient of h, what does not go through the product
/// with the weight.
template <class T, class Cell>
class PlayBack {
 public:
  PlayBack(const Sequence& sequence, Cell& its_cell, const SequenceProducts<T>& its_products)
      : q(sequence), cell(its_cell), products(its_products) {}

  void run() {
    const std::int64_t m = q.columns, waiting = some * q.batch * m, n = q.batch * q.hidden;
    using P = Pieces<T>;
    P memory(P::size(waiting) * (1 + apart) + P::size(q.batch * m) + P::size(n) * Cell::states +
             P::size(cell.bias.width) + P::size(products.scratch_size(some)));
    da = memory.take(waiting);
    ds = apart ? memory.take(waiting) : da;
    begun = memory.take(q.batch * m);
    clear(begun, q.batch * m);
    for (StateGradient<T>& state : cell.state) state.begin(memory.take(n), n);
    cell.bias.begin(memory.take(cell.bias.width));
    T* const copies = memory.take(products.scratch_size(some));
    std::int64_t end = q.time;
    do {
      const std::int64_t begin = end > some ? end - some : 0;
      const std::int64_t first = q.reverse ? q.time - end : begin;
      for (std::int64_t s = end; s-- > begin;) step(q.place(s), first);
      products.add(first, first + end - begin, da, ds, copies);
      end = begin;
    } while (end > 0);
    cell.bias.finish();
    products.finish(begun);
    for (const StateGradient<T>& state : cell.state) state.finish(n);
  }

 private:
  static constexpr bool apart = Cell::separate_sums;
  const Sequence& q;
  Cell& cell;
  SequenceProducts<T> products;
  const std::int64_t some = steps_at_once<T>(q);
  const Matrix<T> recurrent{products.weight + q.in * q.columns, q.hidden, q.columns, q.columns, 1};
  T *da = nullptr, *ds = nullptr, *begun = nullptr;

  /// The gradients of step t. The memory begins with those of step `first`.
  void step(std::int64_t t, std::int64_t first) {
    const std::int64_t m = q.columns, at = (t - first) * q.batch * m;
    for (std::int64_t row = 0; row < q.batch; ++row) {
      const std::int64_t here = at + row * m;
      if (t >= q.length(row)) {
        clear(da + here, m);
        if (apart) clear(ds + here, m);
        continue;
      }
      cell.step_back(t, row, da + here, ds + here);
      cell.bias.end_row();
      if (q.begins(t, row)) copy(ds + here, m, begun + row * m);
    }
    T* const dh = cell.state[0].now;
    product<T>({ds + at, q.batch, m, m, 1}, recurrent.transposed(),
               {dh, q.batch, q.hidden, q.hidden, 1}, dh);
  }
};

KernelResult gru(const KernelCall& call);  // sequence_gru.cpp
KernelResult gru_gradient(const KernelCall& call);
}  // namespace reel::kernels::REEL_ISA
