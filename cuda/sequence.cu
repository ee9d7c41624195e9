// SPDX-License-Identifier: BSD-3-Clause
// lstm and gru, by cuDNN where it takes the call (sequence_cudnn.cu), else by the kernels of this
// file. For the gradient these also store the activated gates of all steps, then the cells of an
// LSTM or, for a GRU, the part of n that comes from the state. These are 0 after the end of a
// sequence. Each step is one product by cuBLASLt and one launch for the gates.
#include "cuda/sequence.hpp"
#include "cuda/sequence_cudnn.hpp"

namespace reel::gpu {
namespace {
namespace math = formulas::math;

/// Sets the elements k, n + k and so on of a row to 0.
template <class T>
__device__ void clear_gates(T* row, std::int64_t count, std::int64_t n) {
  for (std::int64_t j = 0; j < count; ++j) row[j * n] = T(0);
}

/// c' = f c + i g, h' = o tanh c', from sums in the order i, f, g, o.
template <class T>
struct Lstm {
  Sequence q;
  T *outputs, *h, *c, *gates, *cells;

  __device__ void operator()(std::int64_t t, const InRow& at) const {
    const std::int64_t n = q.hidden, here = at.row * n + at.k, place = t * q.batch * n + here;
    T* const a = gates + (t * q.batch + at.row) * 4 * n + at.k;
    if (t >= q.length(at.row)) {
      clear_gates(a, 4, n);
      outputs[place] = cells[place] = T(0);
      return;
    }
    const T i = math::sigmoid(a[0]), f = math::sigmoid(a[n]), g = math::tanh(a[2 * n]),
            o = math::sigmoid(a[3 * n]);
    const T next = i * g + f * c[here], shown = o * math::tanh(next);
    a[0] = i;
    a[n] = f;
    a[2 * n] = g;
    a[3 * n] = o;
    c[here] = cells[place] = next;
    h[here] = outputs[place] = shown;
  }
};

/// n = tanh(a + r u), h' = n + z (h - n), from sums in the order r, z, n. a comes from x, and u
/// from h, including their biases.
template <class T>
struct Gru {
  Sequence q;
  const T *sums, *bias;
  T *outputs, *h, *gates, *recalled;

  __device__ void operator()(std::int64_t t, const InRow& at) const {
    const std::int64_t n = q.hidden, here = at.row * n + at.k, place = t * q.batch * n + here;
    T* const a = gates + (t * q.batch + at.row) * 3 * n + at.k;
    if (t >= q.length(at.row)) {
      clear_gates(a, 3, n);
      outputs[place] = recalled[place] = T(0);
      return;
    }
    const T* const s = sums + at.row * 3 * n + at.k;
    const T r = math::sigmoid(a[0] + s[0]), z = math::sigmoid(a[n] + s[n]);
    const T of_state = s[2 * n] + bias[at.k];
    const T fresh = math::tanh(a[2 * n] + r * of_state);
    a[0] = r;
    a[n] = z;
    a[2 * n] = fresh;
    recalled[place] = of_state;
    h[here] = outputs[place] = fresh + z * (h[here] - fresh);
  }
};

/// The gradients of the sums of one step, and of the state before it. The gradient through the
/// product with the weight is added elsewhere. Pointers are null for missing inputs and for
/// gradients that are not needed.
template <class T>
struct LstmBack {
  Sequence q;
  const T *dy, *c, *gates, *cells;
  T *dh, *dc, *da, *begun;  // `begun`: the gradients of each sequence's first step

  /// With s = sigmoid a: da = ds s (1 - s); with g = tanh a: da = dg (1 - g^2).
  __device__ void operator()(std::int64_t t, const InRow& at) const {
    const std::int64_t n = q.hidden, here = at.row * n + at.k, place = t * q.batch * n + here;
    const std::int64_t first = (t * q.batch + at.row) * 4 * n + at.k;
    T* const d = da + first;
    if (t >= q.length(at.row)) return clear_gates(d, 4, n);
    const bool begins = q.begins(t, at.row);
    const T* const a = gates + first;
    const T i = a[0], f = a[n], g = a[2 * n], o = a[3 * n];
    const T before = begins ? c[here] : cells[q.before(t) * q.batch * n + here];
    const T shown = math::tanh(cells[place]), up = dh[here] + (dy ? dy[place] : T(0));
    const T dcell = dc[here] + up * o * (1 - shown * shown);
    d[0] = dcell * g * i * (1 - i);
    d[n] = dcell * before * f * (1 - f);
    d[2 * n] = dcell * i * (1 - g * g);
    d[3 * n] = up * shown * o * (1 - o);
    dc[here] = dcell * f;
    dh[here] = T(0);
    if (begun && begins)
      for (std::int64_t j = 0; j < 4; ++j) begun[at.row * 4 * n + j * n + at.k] = d[j * n];
  }
};

template <class T>
struct GruBack {
  Sequence q;
  const T *dy, *h, *outputs, *gates, *recalled;
  T *dh, *da, *ds, *begun;  // da: gradient of the sums from x; ds: of the sums from h

  __device__ void operator()(std::int64_t t, const InRow& at) const {
    const std::int64_t n = q.hidden, here = at.row * n + at.k, place = t * q.batch * n + here;
    const std::int64_t first = (t * q.batch + at.row) * 3 * n + at.k;
    T *const of_x = da + first, *const of_h = ds + first;
    if (t >= q.length(at.row)) {
      clear_gates(of_x, 3, n);
      return clear_gates(of_h, 3, n);
    }
    const bool begins = q.begins(t, at.row);
    const T* const a = gates + first;
    const T r = a[0], z = a[n], fresh = a[2 * n];
    const T before = begins ? h[here] : outputs[q.before(t) * q.batch * n + here];
    const T d = dh[here] + (dy ? dy[place] : T(0));
    const T dn = d * (1 - z) * (1 - fresh * fresh);
    of_x[0] = of_h[0] = dn * recalled[place] * r * (1 - r);
    of_x[n] = of_h[n] = d * (before - fresh) * z * (1 - z);
    of_x[2 * n] = dn;
    of_h[2 * n] = dn * r;
    dh[here] = d * z;
    if (begun && begins)
      for (std::int64_t j = 0; j < 3; ++j) begun[at.row * 3 * n + j * n + at.k] = of_h[j * n];
  }
};

/// Inputs: x, h, c, weight, bias, lengths. Outputs: all h, last h, last c, gates with cells.
KernelResult lstm(const Call& call) {
  if (run_by_cudnn(call)) return {};
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const auto x = [&](int i) { return call.input(i).template as<T>(); };
    const auto y = [&](int i) { return call.output(i).template as<T>(); };
    Sequence q(call.input(0), call.input(3), call.input(1), call.options);
    q.lengths = lengths_of(call.queue, q, call.input(5), 5);
    const Lstm<T> cell{q, y(0), y(1), y(2), y(3), y(3) + q.rows() * q.columns};
    copy(call.queue, x(1), q.state_size(), cell.h);
    copy(call.queue, x(2), q.state_size(), cell.c);
    SequenceProducts<T> products(call.queue, q, x(3));
    products.of_inputs(x(0), x(4), cell.gates);
    for (std::int64_t s = 0; s < q.time; ++s) {
      const std::int64_t t = q.place(s);
      products.of_state(cell.h, cell.gates + t * q.batch * q.columns, true);
      call.queue.launch_for(q.state_size(), sequences::step<Lstm<T>>, cell, t);
    }
  });
}

/// Inputs: x, h, weight, bias, lengths. Outputs: all h, last h, gates with the parts of n from the
/// state.
KernelResult gru(const Call& call) {
  if (run_by_cudnn(call)) return {};
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) {
    const auto x = [&](int i) { return call.input(i).template as<T>(); };
    const auto y = [&](int i) { return call.output(i).template as<T>(); };
    Sequence q(call.input(0), call.input(2), call.input(1), call.options);
    q.lengths = lengths_of(call.queue, q, call.input(4), 4);
    T* const sums = call.queue.scratch_of<T>(q.batch * q.columns);
    const Gru<T> cell{q, sums, x(3) + q.columns, y(0), y(1), y(2), y(2) + q.rows() * q.columns};
    copy(call.queue, x(1), q.state_size(), cell.h);
    SequenceProducts<T> products(call.queue, q, x(2));
    products.of_inputs(x(0), x(3), cell.gates);
    for (std::int64_t s = 0; s < q.time; ++s) {
      products.of_state(cell.h, sums, false);
      call.queue.launch_for(q.state_size(), sequences::step<Gru<T>>, cell, q.place(s));
    }
  });
}

/// The common part of the gradients of lstm and gru.
template <class T>
struct PlayBack {
  const GradientCall& g;
  const Queue& queue = g.queue;
  int weight;  // the index of this input; the bias and the lengths follow
  Sequence q{*g.x(0), *g.x(weight), *g.x(1), g.options};
  SequenceProducts<T> products{queue, q, elements<T>(g.x(weight))};
  T* begun = nullptr;  // null if all sequences begin at the same step

  PlayBack(const GradientCall& call, int weight_input) : g(call), weight(weight_input) {
    q.lengths = lengths_of(queue, q, *g.x(weight + 2));
    if (!q.reverse || !q.lengths || !g.dx(weight)) return;
    begun = queue.scratch_of<T>(q.batch * q.columns);
    clear(queue, begun, q.batch * q.columns);  // a sequence may have no steps
  }

  /// The gradient of state i after the last step.
  T* state(int i) const {
    T* const now = queue.scratch_of<T>(q.state_size());
    if (g.dy(i))
      copy(queue, elements<const T>(g.dy(i)), q.state_size(), now);
    else
      clear(queue, now, q.state_size());
    return now;
  }
  void give_state(int i, const T* now) const {
    if (g.dx(i))
      queue.launch_for(q.state_size(), sequences::give_all<T>, q.state_size(), now,
                       elements<T>(g.dx(i)), g.adds(i));
  }

  template <class Cell>
  void run(const Cell& cell, const T* ds, T* dh) {
    for (std::int64_t s = q.time; s-- > 0;) {
      const std::int64_t t = q.place(s);
      queue.launch_for(q.state_size(), sequences::step<Cell>, cell, t);
      if (s > 0 || g.dx(1)) products.state_gradient(ds + t * q.batch * q.columns, dh);
    }
  }

  /// The gradients that are computed by one product over all steps.
  void finish(const T* da, const T* ds) {
    if (g.dx(0)) products.input_gradient(da, elements<T>(g.dx(0)), g.adds(0));
    T* const dweight = elements<T>(g.dx(weight));
    if (!dweight) return;
    const T* x = elements<T>(g.x(0));
    if (q.lengths) {
      const std::int64_t size = q.rows() * q.in;
      T* const kept = queue.scratch_of<T>(size);
      queue.launch_for(size, sequences::arrange<T>, q, q.in, false, x, kept, false);
      x = kept;
    }
    const bool adds = g.adds(weight);
    products.weight_gradient(x, q.in, da, q.rows(), dweight, adds);
    // The state before a step is the output of the step before. The first one is that of the op.
    T* const recurrent = dweight + q.in * q.columns;
    const std::int64_t step = q.batch * q.columns, later = q.time > 0 ? q.rows() - q.batch : 0;
    const T* const outputs = elements<T>(g.y(0));
    products.weight_gradient(q.reverse && later > 0 ? outputs + q.state_size() : outputs, q.hidden,
                             q.reverse || later == 0 ? ds : ds + step, later, recurrent, adds);
    if (q.time == 0) return;
    const T* const first = begun ? begun : ds + q.place(0) * step;
    products.weight_gradient(elements<T>(g.x(1)), q.hidden, first, q.batch, recurrent, true);
  }
};

KernelResult lstm_gradient(const Call& call) {
  const GradientCall g(call);
  if (run_gradient_by_cudnn(g)) return {};
  return with_floating(g.x(0)->dtype, [&]<class T>(Type<T>) {
    PlayBack<T> back(g, 3);
    const Sequence& q = back.q;
    T *const dh = back.state(1), *const dc = back.state(2);
    T* const da = call.queue.scratch_of<T>(q.rows() * q.columns);
    const T* const gates = elements<T>(g.y(3));
    back.run(LstmBack<T>{q, elements<T>(g.dy(0)), elements<T>(g.x(2)), gates,
                         gates + q.rows() * q.columns, dh, dc, da, back.begun},
             da, dh);
    back.give_state(1, dh);
    back.give_state(2, dc);
    back.finish(da, da);
    if (T* const dbias = elements<T>(g.dx(4)))
      sum_rows(call.queue, q.rows(), q.columns, static_cast<const T*>(da), q.columns, dbias,
               g.adds(4));
  });
}

KernelResult gru_gradient(const Call& call) {
  const GradientCall g(call);
  if (run_gradient_by_cudnn(g)) return {};
  return with_floating(g.x(0)->dtype, [&]<class T>(Type<T>) {
    PlayBack<T> back(g, 2);
    const Sequence& q = back.q;
    T* const dh = back.state(1);
    T *const da = call.queue.scratch_of<T>(q.rows() * q.columns), *const ds =
                                                                      call.queue.scratch_of<T>(
                                                                          q.rows() * q.columns);
    const T* const gates = elements<T>(g.y(2));
    back.run(GruBack<T>{q, elements<T>(g.dy(0)), elements<T>(g.x(1)), elements<T>(g.y(0)), gates,
                        gates + q.rows() * q.columns, dh, da, ds, back.begun},
             ds, dh);
    back.give_state(1, dh);
    back.finish(da, ds);
    T* const dbias = elements<T>(g.dx(3));
    if (!dbias) return;
    sum_rows(call.queue, q.rows(), q.columns, static_cast<const T*>(da), q.columns, dbias,
             g.adds(3));
    sum_rows(call.queue, q.rows(), q.hidden, static_cast<const T*>(ds) + 2 * q.hidden, q.columns,
             dbias + q.columns, g.adds(3));
  });
}
}  // namespace

extern const NamedKernel sequence_kernels[] = {{"lstm", lstm},
                                               {"lstm.d", lstm_gradient},
                                               {"gru", gru},
                                               {"gru.d", gru_gradient},
                                               {nullptr, nullptr}};
}  // namespace reel::gpu
