// SPDX-License-Identifier: BSD-3-Clause
// The gates of recurrent cells, in one pass.
#include "cuda/numbers.hpp"
#include "cuda/rows.hpp"

namespace reel::gpu {
namespace {
namespace math = formulas::math;

/// The gates of one row, n apart: the input gate, a forget gate for each previous cell (one for an
/// LSTM, two for a tree node, none for its leaf and for a sum of children), the new content, and
/// the output gate.
template <int Cells>
constexpr int gate_count = Cells + 3;

/// Pointers for each previous cell. Without forget gates, at[0] is what the children have kept, or
/// null.
template <int Cells, class T>
struct OfCells {
  T* at[Cells + 1] = {};
};

template <int Cells, class T>
__global__ void forward(std::int64_t elements, std::int64_t n, const T* gates,
                        OfCells<Cells, const T> cells, T* h, T* c) {
  for (std::int64_t i = first_index(); i < elements; i += grid_step()) {
    const InRow in(i, n);
    const T* const a = gates + in.row * n * gate_count<Cells> + in.k;
    T sum = math::sigmoid(a[0]) * math::tanh(a[(Cells + 1) * n]);
    for (int j = 0; j < Cells; ++j) sum += cells.at[j][i] * math::sigmoid(a[(j + 1) * n]);
    if (Cells == 0 && cells.at[0]) sum += cells.at[0][i];
    c[i] = sum;
    h[i] = math::sigmoid(a[(Cells + 2) * n]) * math::tanh(sum);
  }
}

/// Pointers are null for missing inputs and for gradients that are not needed. If bit i of `adds`
/// is set, the kernel adds to gradient i.
template <int Cells, class T>
struct Backward {
  const T *dh, *dc_next, *gates, *c_next;
  OfCells<Cells, const T> cells;
  T* dgates;
  OfCells<Cells, T> dcells;
  unsigned adds;
};

/// c' = sum f c + i g, h = o tanh c'. With s = sigmoid a: da = ds s (1 - s); with g = tanh a:
/// da = dg (1 - g^2).
template <int Cells, class T>
__global__ void backward(std::int64_t elements, std::int64_t n, Backward<Cells, T> b) {
  for (std::int64_t i = first_index(); i < elements; i += grid_step()) {
    const InRow at(i, n);
    const std::int64_t first = at.row * n * gate_count<Cells> + at.k;
    const T* const a = b.gates + first;
    const auto put = [&](int j, T da) {
      if (b.dgates) give(b.dgates + first + j * n, da, b.adds & 1);
    };
    const T in = math::sigmoid(a[0]), content = math::tanh(a[(Cells + 1) * n]);
    const T out = math::sigmoid(a[(Cells + 2) * n]), shown = math::tanh(b.c_next[i]);
    const T up = b.dh ? b.dh[i] : T(0);
    const T dc = (b.dc_next ? b.dc_next[i] : T(0)) + up * out * (1 - shown * shown);
    put(0, dc * content * in * (1 - in));
    for (int j = 0; j < Cells; ++j) {
      const T f = math::sigmoid(a[(j + 1) * n]);
      if (b.dgates) put(j + 1, dc * b.cells.at[j][i] * f * (1 - f));
      if (b.dcells.at[j]) give(b.dcells.at[j] + i, dc * f, b.adds >> (j + 1) & 1);
    }
    if (Cells == 0 && b.dcells.at[0]) give(b.dcells.at[0] + i, dc, b.adds >> 1 & 1);
    put(Cells + 1, dc * in * (1 - content * content));
    put(Cells + 2, up * shown * out * (1 - out));
  }
}

template <int Cells>
KernelResult gates(const Call& call) {
  const Body& c = call.output(1);
  return with_floating(c.dtype, [&]<class T>(Type<T>) {
    OfCells<Cells, const T> cells;
    for (int j = 0; j + 1 < call.input_count; ++j) cells.at[j] = call.input(1 + j).template as<T>();
    call.queue.launch_for(c.elements, forward<Cells, T>, c.elements, c.shape.end()[-1],
                          call.input(0).template as<T>(), cells, call.output(0).template as<T>(),
                          c.template as<T>());
  });
}

template <int Cells>
KernelResult gates_gradient(const Call& call) {
  const GradientCall g(call);
  const Body& c = *g.y(1);
  return with_floating(c.dtype, [&]<class T>(Type<T>) {
    Backward<Cells, T> b{elements<T>(g.dy(0)),
                         elements<T>(g.dy(1)),
                         elements<T>(g.x(0)),
                         c.template as<T>(),
                         {},
                         elements<T>(g.dx(0)),
                         {},
                         g.accumulate};
    for (int j = 0; j + 1 < g.output_count; ++j) {
      b.cells.at[j] = elements<T>(g.x(1 + j));
      b.dcells.at[j] = elements<T>(g.dx(1 + j));
    }
    call.queue.launch_for(c.elements, backward<Cells, T>, c.elements, c.shape.end()[-1], b);
  });
}
}  // namespace

extern const NamedKernel recurrent_kernels[] = {{"lstm_gates", gates<1>},
                                                {"lstm_gates.d", gates_gradient<1>},
                                                {"tree_lstm_gates", gates<2>},
                                                {"tree_lstm_gates.d", gates_gradient<2>},
                                                {"tree_lstm_leaf_gates", gates<0>},
                                                {"tree_lstm_leaf_gates.d", gates_gradient<0>},
                                                {"child_sum_gates", gates<0>},
                                                {"child_sum_gates.d", gates_gradient<0>},
                                                {nullptr, nullptr}};
}  // namespace reel::gpu
