// SPDX-License-Identifier: BSD-3-Clause
// gru: x, h, weight, bias, lengths give outputs and h. For the gradient they also give one output
// with the activated gates of all steps, then the shares of the state in n. These are zero behind
// the end of a sequence.
#include "lib/cpu/sequence.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// n = tanh(a + r u), h' = n + z (h - n), from sums in the order r, z, n. a is the share of x, and
/// u is the share of h.
template <class T>
struct Gru {
  Sequence q;
  T *outputs, *h, *gates;
  T* const recalled = gates + q.rows() * q.columns;

  void run(const KernelCall& call) const {
    const T *const weight = call.input(2).as<T>(), *const bias = call.input(3).as<T>();
    const std::int64_t m = q.columns;
    copy(call.input(1).as<T>(), q.batch * q.hidden, h);
    product<T>({call.input(0).as<T>(), q.rows(), q.in, q.in, 1}, {weight, q.in, m, m, 1},
               {bias, q.rows(), m, 0, 1}, gates);
    const Matrix<T> recurrent{weight + q.in * m, q.hidden, m, m, 1};
    using P = Pieces<T>;
    P memory(P::size(m) + P::size(q.batch * m));
    T *const start = memory.take(m), *const sums = memory.take(q.batch * m);
    clear(start, 2 * q.hidden);
    copy(bias + m, q.hidden, start + 2 * q.hidden);
    for (std::int64_t s = 0; s < q.time; ++s) {
      product<T>({h, q.batch, q.hidden, q.hidden, 1}, recurrent, {start, q.batch, m, 0, 1}, sums);
      for (std::int64_t row = 0; row < q.batch; ++row) step(q.place(s), row, sums + row * m);
    }
  }

 private:
  void step(std::int64_t t, std::int64_t row, const T* sums) const {
    using M = Maths<T>;
    const std::int64_t n = q.hidden, place = t * q.batch + row;
    T *const a = gates + place * 3 * n, *const y = outputs + place * n;
    T *const u = recalled + place * n, *const state = h + row * n;
    if (t >= q.length(row)) {
      clear(a, 3 * n);
      clear(y, n);
      return clear(u, n);
    }
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const Vector<T> r = M::sigmoid(chunk.get(a + k) + chunk.get(sums + k));
      const Vector<T> z = M::sigmoid(chunk.get(a + n + k) + chunk.get(sums + n + k));
      const Vector<T> of_state = chunk.get(sums + 2 * n + k);
      const Vector<T> fresh = M::tanh(chunk.get(a + 2 * n + k) + r * of_state);
      const Vector<T> next = fresh + z * (chunk.get(state + k) - fresh);
      chunk.put(a + k, r);
      chunk.put(a + n + k, z);
      chunk.put(a + 2 * n + k, fresh);
      chunk.put(u + k, of_state);
      chunk.put(state + k, next);
      chunk.put(y + k, next);
    });
  }
};

template <class T>
struct GruBack {
  static constexpr bool separate_sums = true;
  static constexpr int states = 1;
  const Sequence& q;
  const T *dy, *h, *outputs, *gates, *recalled;
  BiasGradient<T> bias;
  StateGradient<T> state[states];

  void step_back(std::int64_t t, std::int64_t row, T* da, T* ds) const {
    const std::int64_t n = q.hidden, place = t * q.batch + row;
    const T *const a = gates + place * 3 * n, *const u = recalled + place * n;
    const T* const before =
        q.begins(t, row) ? h + row * n : outputs + (q.before(t) * q.batch + row) * n;
    T* const dh = state[0].now + row * n;
    const Vector<T> one(T(1));
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const auto give = [&](int gate, const Vector<T>& of_x, const Vector<T>& of_h) {
        chunk.put(da + gate * n + k, of_x);
        chunk.put(ds + gate * n + k, of_h);
        if (bias.recent) chunk.give(bias.recent + gate * n + k, of_x, true);
      };
      const Vector<T> r = chunk.get(a + k), z = chunk.get(a + n + k);
      const Vector<T> fresh = chunk.get(a + 2 * n + k);
      Vector<T> d = chunk.get(dh + k);
      if (dy) d += chunk.get(dy + place * n + k);
      const Vector<T> dn = d * (one - z) * (one - fresh * fresh), du = dn * r;
      const Vector<T> dr = dn * chunk.get(u + k) * r * (one - r);
      const Vector<T> dz = d * (chunk.get(before + k) - fresh) * z * (one - z);
      give(0, dr, dr);
      give(1, dz, dz);
      give(2, dn, du);
      if (bias.recent) chunk.give(bias.recent + 3 * n + k, du, true);
      chunk.put(dh + k, d * z);
    });
  }
};

template <class T>
KernelResult gru_of(const KernelCall& call) {
  const Gru<T> gru{{call.input(0), call.input(2), call.input(1), call.input(4), call.options},
                   call.output(0).as<T>(),
                   call.output(1).as<T>(),
                   call.output(2).as<T>()};
  const KernelResult checked = gru.q.check(4);
  if (!checked.failure) gru.run(call);
  return checked;
}

/// Inputs: x, h, weight, bias, lengths; outputs: every h, h, gates with the state's shares of n.
template <class T>
void gru_gradient_of(const GradientKernelCall& g) {
  const auto dy = [&](int i) { return elements<T>(g.dy(i)); };
  const auto x = [&](int i) { return elements<T>(g.x(i)); };
  const auto y = [&](int i) { return elements<T>(g.y(i)); };
  const auto dx = [&](int i) { return elements<T>(g.dx(i)); };
  const Sequence q(*g.x(0), *g.x(2), *g.x(1), *g.x(4), g.options);
  T* const dbias = dx(3);
  if (dbias && !g.adds(3)) clear(dbias, 4 * q.hidden);
  GruBack<T> cell{q,
                  dy(0),
                  x(1),
                  y(0),
                  y(2),
                  y(2) + q.rows() * q.columns,
                  {dbias, 4 * q.hidden},
                  {{dy(1), dx(1), g.adds(1)}}};
  PlayBack<T, GruBack<T>>(q, cell, {q, x(0), x(1), x(2), y(0), dx(0), dx(2), g.adds(0), g.adds(2)})
      .run();
}
}  // namespace

KernelResult gru(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) { return gru_of<T>(call); });
}
KernelResult gru_gradient(const KernelCall& call) {
  const GradientKernelCall g(call);
  return with_floating(g.x(0)->dtype, [&]<class T>(Type<T>) { gru_gradient_of<T>(g); });
}
}  // namespace reel::kernels::REEL_ISA
