// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "lib/table/options/sequence.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

/// Visits x [time, batch, in] step by step, for sequences of any length.
struct Sequences {
  const Host &x, &weight, &lengths;
  bool reverse;
  std::size_t time, batch, in, hidden;

  Sequences(const Hosts& inputs, std::size_t states, const void* options)
      : x(inputs[0]),
        weight(inputs[states + 1]),
        lengths(inputs[states + 3]),
        reverse(as<DirectionOptions>(options).reverse),
        time(static_cast<std::size_t>(x.shape[0])),
        batch(static_cast<std::size_t>(x.shape[1])),
        in(static_cast<std::size_t>(x.shape[2])),
        hidden(static_cast<std::size_t>(weight.shape[0]) - in) {}

  /// The product of x[t, row] with column `column` of the first rows of the weight. state_sum() is
  /// the product of h[row] with the column of the other rows.
  double input_sum(std::size_t t, std::size_t row, std::size_t column) const {
    double sum = 0;
    for (std::size_t i = 0; i < in; ++i)
      sum += x.values[(t * batch + row) * in + i] * weight.values[i * columns() + column];
    return sum;
  }
  double state_sum(const Host& h, std::size_t row, std::size_t column) const {
    double sum = 0;
    for (std::size_t i = 0; i < hidden; ++i)
      sum += h.values[row * hidden + i] * weight.values[(in + i) * columns() + column];
    return sum;
  }
  std::size_t columns() const { return static_cast<std::size_t>(weight.shape[1]); }
  Host steps(std::size_t width) const {
    const Shape shape({x.shape[0], x.shape[1], static_cast<std::int64_t>(width)});
    return filled(shape, [](const auto&) { return 0.0; });
  }
  /// What the ops keep for the gradient: all of `gates`, then all of `rest`.
  Host kept(Host gates, const Host& rest) const {
    gates.values.insert(gates.values.end(), rest.values.begin(), rest.values.end());
    gates.shape = Shape({x.shape[0] * x.shape[1], static_cast<std::int64_t>(columns() + hidden)});
    return gates;
  }
  /// Calls f(t, row) for every step of every sequence, in order.
  template <class F>
  void each(const F& f) const {
    for (std::size_t s = 0; s < time; ++s)
      for (std::size_t row = 0; row < batch; ++row) {
        const std::size_t t = reverse ? time - 1 - s : s;
        if (lengths.values.empty() || static_cast<double>(t) < lengths.values[row]) f(t, row);
      }
  }
};

Hosts lstm(const Hosts& in, const void* options) {
  const Sequences sequences(in, 2, options);
  const std::size_t n = sequences.hidden;
  Host h = in[1], c = in[2];
  Host outputs = sequences.steps(n), gates = sequences.steps(4 * n), cells = sequences.steps(n);
  sequences.each([&](std::size_t t, std::size_t row) {
    const std::size_t place = t * sequences.batch + row;
    double* const gate = &gates.values[place * 4 * n];
    for (std::size_t k = 0; k < 4 * n; ++k) {
      const double sum =
          sequences.input_sum(t, row, k) + sequences.state_sum(h, row, k) + in[4].values[k];
      gate[k] = k / n == 2 ? std::tanh(sum) : logistic(sum);
    }
    for (std::size_t k = 0; k < n; ++k) {
      double& cell = c.values[row * n + k];
      cell = gate[n + k] * cell + gate[k] * gate[2 * n + k];
      cells.values[place * n + k] = cell;
      outputs.values[place * n + k] = h.values[row * n + k] = gate[3 * n + k] * std::tanh(cell);
    }
  });
  return {outputs, h, c, sequences.kept(gates, cells)};
}

Hosts gru(const Hosts& in, const void* options) {
  const Sequences sequences(in, 1, options);
  const std::size_t n = sequences.hidden;
  const std::vector<double>& bias = in[3].values;
  Host h = in[1], outputs = sequences.steps(n), gates = sequences.steps(3 * n),
       recalled = sequences.steps(n);
  sequences.each([&](std::size_t t, std::size_t row) {
    const std::size_t place = t * sequences.batch + row;
    double* const gate = &gates.values[place * 3 * n];
    for (std::size_t k = 0; k < 3 * n; ++k) {
      const double from_x = sequences.input_sum(t, row, k) + bias[k];
      double from_h = sequences.state_sum(h, row, k);
      if (k < 2 * n) {
        gate[k] = logistic(from_x + from_h);
        continue;
      }
      from_h += bias[n + k];
      recalled.values[place * n + k - 2 * n] = from_h;
      gate[k] = std::tanh(from_x + gate[k - 2 * n] * from_h);
    }
    for (std::size_t k = 0; k < n; ++k) {
      double& state = h.values[row * n + k];
      state = (1 - gate[n + k]) * gate[2 * n + k] + gate[n + k] * state;
      outputs.values[place * n + k] = state;
    }
  });
  return {outputs, h, sequences.kept(gates, recalled)};
}
}  // namespace

void add_sequence_references(References& table) {
  table["gru"] = gru;
  table["lstm"] = lstm;
}
}  // namespace reel::tests
