// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "lib/table/options/matmul.hpp"
#include "sweep/reference.hpp"

namespace reel::tests {
namespace {
/// x y, row by column, for each position of the leading axes.
Host product(const Host& x, const Host& y) {
  const auto lead = [](const Shape& shape) {
    Host host;
    host.shape = Shape(std::span(shape.data(), shape.rank() - 2));
    return host;
  };
  Shape out = broadcast_shape({lead(x.shape), lead(y.shape)});
  const std::size_t rank = out.rank() + 2;
  out.resize(rank);
  out.data()[rank - 2] = x.shape[-2];
  out.data()[rank - 1] = y.shape[-1];
  return filled(out, [&](const std::vector<std::int64_t>& index) {
    std::vector<std::int64_t> of_x = index, of_y = index;
    long double sum = 0;
    for (std::int64_t k = 0; k < x.shape[-1]; ++k) {
      of_x[rank - 1] = of_y[rank - 2] = k;
      sum += static_cast<long double>(at(x, of_x)) * at(y, of_y);
    }
    return static_cast<double>(sum);
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Gate k of element e in an array of shape [..., gates n].
struct Gates {
  const Host& all;
  std::size_t count, n;
  double operator()(std::size_t e, std::size_t k) const {
    return all.values[e / n * n * count + k * n + e % n];
  }
};

Hosts lstm(const Hosts& in, const void*) {
  Host h = in[1], c = in[1];
  if (c.values.empty()) return {h, c};
  const Gates gate{in[0], 4, static_cast<std::size_t>(in[1].shape[-1])};
  for (std::size_t e = 0; e < c.values.size(); ++e) {
    c.values[e] =
        sigmoid(gate(e, 1)) * in[1].values[e] + sigmoid(gate(e, 0)) * std::tanh(gate(e, 2));
    h.values[e] = sigmoid(gate(e, 3)) * std::tanh(c.values[e]);
  }
  return {h, c};
}

Hosts tree_lstm(const Hosts& in, const void*) {
  Host h = in[1], c = in[1];
  if (c.values.empty()) return {h, c};
  const Gates gate{in[0], 5, static_cast<std::size_t>(in[1].shape[-1])};
  for (std::size_t e = 0; e < c.values.size(); ++e) {
    c.values[e] = sigmoid(gate(e, 0)) * std::tanh(gate(e, 3)) +
                  sigmoid(gate(e, 1)) * in[1].values[e] + sigmoid(gate(e, 2)) * in[2].values[e];
    h.values[e] = sigmoid(gate(e, 4)) * std::tanh(c.values[e]);
  }
  return {h, c};
}

/// A cell without forget gates. in[1] is what children have kept, if there are any.
Hosts tree_lstm_leaf(const Hosts& in, const void*) {
  Host h = in[0];
  h.shape.data()[h.shape.rank() - 1] /= 3;
  h.values.resize(h.values.size() / 3);
  Host c = h;
  if (c.values.empty()) return {h, c};
  const Gates gate{in[0], 3, static_cast<std::size_t>(h.shape[-1])};
  for (std::size_t e = 0; e < c.values.size(); ++e) {
    c.values[e] = sigmoid(gate(e, 0)) * std::tanh(gate(e, 1));
    if (in.size() > 1) c.values[e] += in[1].values[e];
    h.values[e] = sigmoid(gate(e, 2)) * std::tanh(c.values[e]);
  }
  return {h, c};
}
}  // namespace

void add_product_references(References& table) {
  table["matmul"] = [](const Hosts& in, const void*) { return Hosts{product(in[0], in[1])}; };
  table["matmul_add"] = [](const Hosts& in, const void*) {
    Host out = product(in[0], in[1]);
    each_position(out.shape, [&](const auto& index, std::size_t flat) {
      out.values[flat] += at(in[2], index);
    });
    return Hosts{out};
  };
  table["dense"] = [](const Hosts& in, const void* options) {
    Host out = product(in[0], in[1]);
    each_position(out.shape, [&](const auto& index, std::size_t flat) {
      double& y = out.values[flat];
      y += at(in[2], index);
      switch (as<ActivationOptions>(options).activation) {
        case Activation::none:
          break;
        case Activation::relu:
          y = std::fmax(y, 0);
          break;
        case Activation::sigmoid:
          y = sigmoid(y);
          break;
        case Activation::tanh:
          y = std::tanh(y);
          break;
      }
    });
    return Hosts{out};
  };
  table["lstm_gates"] = lstm;
  table["tree_lstm_gates"] = tree_lstm;
  table["tree_lstm_leaf_gates"] = table["child_sum_gates"] = tree_lstm_leaf;
}
}  // namespace reel::tests
