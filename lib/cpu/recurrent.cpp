// SPDX-License-Identifier: BSD-3-Clause
// The gates of recurrent cells. Every element is computed in one pass.
#include "lib/cpu/chunk.hpp"
#include "lib/cpu/kernels.hpp"
#include "lib/pool/pool.hpp"
#include "lib/table/numbers.hpp"

namespace reel::kernels::REEL_ISA {
namespace {
/// The gates of one row, n apart: the input gate, a forget gate for each previous cell (one for an
/// LSTM, two for a tree node, none for its leaf and for a sum of children), the new content, and
/// the output gate. Without forget gates, cells[0] is what the children have kept, or null.
template <int Cells>
constexpr int gate_count = Cells + 3;

// Zeros behind the end of a row are safe here, because nothing is divided by an element.

/// sigmoid x = 1 / denominator. x is cut, so that the product of two denominators is a normal
/// number. Then a cell divides once for a sigmoid and a tanh.
template <class T>
Vector<T> sigmoid_denominator(const Vector<T>& x) {
  return constant<T>(2) - one_less_exponential<T>(
                              clamped<T>(-x, is_single<T> ? -86 : -300, is_single<T> ? 86 : 300));
}

template <int Cells, class T>
void forward(std::int64_t first_row, std::int64_t end, std::int64_t n, const T* gates,
             const T* const* cells, T* h, T* c) {
  for (std::int64_t row = first_row; row < end; ++row) {
    const T* a = gates + row * n * gate_count<Cells>;
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const std::int64_t at = row * n + k;
      const auto gate = [&](int j) { return chunk.zero_padded(a + j * n + k); };
      const TanhFraction<T> g(gate(Cells + 1));
      Vector<T> sum = g.top / (g.denominator * sigmoid_denominator<T>(gate(0)));
      for (int j = 0; j < Cells; ++j)
        sum += chunk.zero_padded(cells[j] + at) / sigmoid_denominator<T>(gate(j + 1));
      if (Cells == 0 && cells[0]) sum += chunk.zero_padded(cells[0] + at);
      const TanhFraction<T> t(sum);
      chunk.put(c + at, sum);
      chunk.put(h + at, t.top / (t.denominator * sigmoid_denominator<T>(gate(Cells + 2))));
    });
  }
}

/// A sigmoid gate s and a tanh t that share one division.
template <class T>
struct GatePair {
  Vector<T> s, t;
  GatePair(const Vector<T>& sigmoid_of, const Vector<T>& tanh_of) {
    const TanhFraction<T> fraction(tanh_of);
    const Vector<T> denominator = sigmoid_denominator<T>(sigmoid_of);
    const Vector<T> inverse = constant<T>(1) / (denominator * fraction.denominator);
    s = inverse * fraction.denominator;
    t = fraction.top * (inverse * denominator);
  }
};

/// c' = sum f c + i g, h = o tanh c'. With s = sigmoid a: da = ds s (1 - s); with g = tanh a:
/// da = dg (1 - g^2).
template <int Cells, class T>
void backward(std::int64_t first_row, std::int64_t end, std::int64_t n,
              const GradientKernelCall& call) {
  const T* dh = elements<T>(call.dy(0));
  const T* dc_next = elements<T>(call.dy(1));
  const T* gates = elements<T>(call.x(0));
  const T* c_next = elements<T>(call.y(1));
  T* dgates = elements<T>(call.dx(0));
  const Vector<T> one(T(1)), zero(T(0));
  for (std::int64_t row = first_row; row < end; ++row) {
    const std::int64_t first = row * n * gate_count<Cells>;
    for_chunks<T>(n, [&](std::int64_t k, Chunk<T> chunk) {
      const std::int64_t at = row * n + k;
      const auto gate = [&](int j) { return chunk.zero_padded(gates + first + j * n + k); };
      const auto give = [&](int j, const Vector<T>& da) {
        if (dgates) chunk.give(dgates + first + j * n + k, da, call.adds(0));
      };
      const GatePair<T> in(gate(0), gate(Cells + 1)),
          out(gate(Cells + 2), chunk.zero_padded(c_next + at));
      const Vector<T> up = dh ? chunk.zero_padded(dh + at) : zero;
      const Vector<T> dc =
          (dc_next ? chunk.zero_padded(dc_next + at) : zero) + up * out.s * (one - out.t * out.t);
      give(0, dc * in.t * in.s * (one - in.s));
      for (int j = 0; j < Cells; ++j) {
        const Vector<T> f = one / sigmoid_denominator<T>(gate(j + 1));
        if (dgates)
          give(j + 1, dc * chunk.zero_padded(elements<T>(call.x(1 + j)) + at) * f * (one - f));
        if (T* dcell = elements<T>(call.dx(1 + j)))
          chunk.give(dcell + at, dc * f, call.adds(1 + j));
      }
      if (T* const dkept = Cells == 0 && call.output_count > 1 ? elements<T>(call.dx(1)) : nullptr)
        chunk.give(dkept + at, dc, call.adds(1));
      give(Cells + 1, dc * in.s * (one - in.t * in.t));
      give(Cells + 2, up * out.t * out.s * (one - out.s));
    });
  }
}

constexpr std::int64_t elements_in_block = 1 << 12;  // in rows that threads share

template <int Cells>
KernelResult gates(const KernelCall& call) {
  const Body& c = call.output(1);
  const std::int64_t n = c.rank() ? c.shape.data()[c.rank() - 1] : 1, rows = n ? c.elements / n : 0;
  return with_floating(c.dtype, [&]<class T>(Type<T>) {
    const T* cells[Cells + 1] = {};
    for (int i = 0; i + 1 < call.input_count; ++i) cells[i] = call.input(1 + i).as<T>();
    parallel_rows(rows, n, elements_in_block, [&](std::int64_t first, std::int64_t end) {
      forward<Cells>(first, end, n, call.input(0).as<T>(), cells, call.output(0).as<T>(),
                     call.output(1).as<T>());
    });
  });
}

template <int Cells>
KernelResult gates_gradient(const KernelCall& call) {
  const GradientKernelCall g(call);
  const Body& c = *g.y(1);
  const std::int64_t n = c.rank() ? c.shape.data()[c.rank() - 1] : 1, rows = n ? c.elements / n : 0;
  return with_floating(c.dtype, [&]<class T>(Type<T>) {
    parallel_rows(rows, n, elements_in_block, [&](std::int64_t first, std::int64_t end) {
      backward<Cells, T>(first, end, n, g);
    });
  });
}

const NamedKernel kernels[] = {{"lstm_gates", gates<1>},
                               {"lstm_gates.d", gates_gradient<1>},
                               {"tree_lstm_gates", gates<2>},
                               {"tree_lstm_gates.d", gates_gradient<2>},
                               {"tree_lstm_leaf_gates", gates<0>},
                               {"tree_lstm_leaf_gates.d", gates_gradient<0>},
                               {"child_sum_gates", gates<0>},
                               {"child_sum_gates.d", gates_gradient<0>},
                               {nullptr, nullptr}};
}  // namespace
extern const Family recurrent_family;
const Family recurrent_family = {kernels, nullptr};
}  // namespace reel::kernels::REEL_ISA
