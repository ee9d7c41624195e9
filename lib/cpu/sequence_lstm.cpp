// SPDX-License-Identifier: BSD-3-Clause
// lstm: x, h, c, weight, bias, lengths give outputs, h and c. For the gradient they also give one
// output with the activated gates of all steps, then the cells. These are zero behind the end of a
// sequence.
#include "lib/cpu/sequence.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// c' = f c + i g, h' = o tanh c', from sums in the order i, f, g, o.
template <class T>
struct Lstm {
  Sequence q;
  T *outputs, *h, *c, *gates;
  T* const cells = gates + q.rows() * q.columns;

  void run(const KernelCall& call) const {
    const T* const weight = call.input(3).as<T>();
    const std::int64_t m = q.columns;
    copy(call.input(1).as<T>(), q.batch * q.hidden, h);
    copy(call.input(2).as<T>(), q.batch * q.hidden, c);
    product<T>({call.input(0).as<T>(), q.rows(), q.in, q.in, 1}, {weight, q.in, m, m, 1},
               {call.input(4).as<T>(), q.rows(), m, 0, 1}, gates);
    const Matrix<T> recurrent{weight + q.in * m, q.hidden, m, m, 1};
    for (std::int64_t s = 0; s < q.time; ++s) {
      const std::int64_t t = q.place(s);
      T* const sums = gates + t * q.batch * m;
      product<T>({h, q.batch, q.hidden, q.hidden, 1}, recurrent, {sums, q.batch, m, m, 1}, sums);
      for (std::int64_t row = 0; row < q.batch; ++row) step(t, row);
    }
  }

 private:
  void step(std::int64_t t, std::int64_t row) const {
    using M = Maths<T>;
    const std::int64_t n = q.hidden, place = t * q.batch + row;
    T *const a = gates + place * 4 * n, *const y = outputs + place * n;
    T *const cell = cells + place * n, *const h_row = h + row * n, *const c_row = c + row * n;
    if (t >= q.length(row)) {
      clear(a, 4 * n);
      clear(y, n);
      return clear(cell, n);
    }
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const Vector<T> i = M::sigmoid(chunk.get(a + k)), f = M::sigmoid(chunk.get(a + n + k));
      const Vector<T> g = M::tanh(chunk.get(a + 2 * n + k));
      const Vector<T> o = M::sigmoid(chunk.get(a + 3 * n + k));
      const Vector<T> next = i * g + f * chunk.get(c_row + k), shown = o * M::tanh(next);
      chunk.put(a + k, i);
      chunk.put(a + n + k, f);
      chunk.put(a + 2 * n + k, g);
      chunk.put(a + 3 * n + k, o);
      chunk.put(c_row + k, next);
      chunk.put(cell + k, next);
      chunk.put(h_row + k, shown);
      chunk.put(y + k, shown);
    });
  }
};

template <class T>
struct LstmBack {
  static constexpr bool separate_sums = false;
  static constexpr int states = 2;
  const Sequence& q;
  const T *dy, *c, *gates, *cells;
  BiasGradient<T> bias;
  StateGradient<T> state[states];  // of h and c

  /// With s = sigmoid a: da = ds s (1 - s); with g = tanh a: da = dg (1 - g^2).
  void step_back(std::int64_t t, std::int64_t row, T* da, T*) const {
    using M = Maths<T>;
    const std::int64_t n = q.hidden, place = t * q.batch + row;
    const T *const a = gates + place * 4 * n, *const cell = cells + place * n;
    const T* const before =
        q.begins(t, row) ? c + row * n : cells + (q.before(t) * q.batch + row) * n;
    T *const dh = state[0].now + row * n, *const dc = state[1].now + row * n;
    const Vector<T> one(T(1)), zero(T(0));
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const auto give = [&](int gate, const Vector<T>& d) {
        chunk.put(da + gate * n + k, d);
        if (bias.recent) chunk.give(bias.recent + gate * n + k, d, true);
      };
      const Vector<T> i = chunk.get(a + k), f = chunk.get(a + n + k);
      const Vector<T> g = chunk.get(a + 2 * n + k), o = chunk.get(a + 3 * n + k);
      const Vector<T> shown = M::tanh(chunk.get(cell + k));
      const Vector<T> seen = dy ? chunk.get(dy + place * n + k) : zero;
      const Vector<T> up = chunk.get(dh + k) + seen;
      const Vector<T> d = chunk.get(dc + k) + up * o * (one - shown * shown);
      give(0, d * g * i * (one - i));
      give(1, d * chunk.get(before + k) * f * (one - f));
      give(2, d * i * (one - g * g));
      give(3, up * shown * o * (one - o));
      chunk.put(dc + k, d * f);
      chunk.put(dh + k, zero);
    });
  }
};

template <class T>
KernelResult lstm_of(const KernelCall& call) {
  const Lstm<T> lstm{{call.input(0), call.input(3), call.input(1), call.input(5), call.options},
                     call.output(0).as<T>(),
                     call.output(1).as<T>(),
                     call.output(2).as<T>(),
                     call.output(3).as<T>()};
  const KernelResult checked = lstm.q.check(5);
  if (!checked.failure) lstm.run(call);
  return checked;
}
KernelResult lstm(const KernelCall& call) {
  return with_floating(call.output().dtype, [&]<class T>(Type<T>) { return lstm_of<T>(call); });
}

/// Inputs: x, h, c, weight, bias, lengths; outputs: every h, h, c, gates with cells.
template <class T>
void lstm_gradient_of(const GradientKernelCall& g) {
  const auto dy = [&](int i) { return elements<T>(g.dy(i)); };
  const auto x = [&](int i) { return elements<T>(g.x(i)); };
  const auto y = [&](int i) { return elements<T>(g.y(i)); };
  const auto dx = [&](int i) { return elements<T>(g.dx(i)); };
  const Sequence q(*g.x(0), *g.x(3), *g.x(1), *g.x(5), g.options);
  T* const dbias = dx(4);
  if (dbias && !g.adds(4)) clear(dbias, q.columns);
  LstmBack<T> cell{q,
                   dy(0),
                   x(2),
                   y(3),
                   y(3) + q.rows() * q.columns,
                   {dbias, q.columns},
                   {{dy(1), dx(1), g.adds(1)}, {dy(2), dx(2), g.adds(2)}}};
  PlayBack<T, LstmBack<T>>(q, cell, {q, x(0), x(1), x(3), y(0), dx(0), dx(3), g.adds(0), g.adds(3)})
      .run();
}
KernelResult lstm_gradient(const KernelCall& call) {
  const GradientKernelCall g(call);
  return with_floating(g.x(0)->dtype, [&]<class T>(Type<T>) { lstm_gradient_of<T>(g); });
}

const NamedKernel kernels[] = {{"gru", gru},
                               {"gru.d", gru_gradient},
                               {"lstm", lstm},
                               {"lstm.d", lstm_gradient},
                               {nullptr, nullptr}};
}  // namespace
extern const Family sequence_family;
const Family sequence_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
