// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "../serve.hpp"
#include "../task.hpp"
#include "cell.hpp"
#include "memory.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::keep;
using harness::Numbers;

std::size_t padded(std::size_t n) { return (n + lanes - 1) / lanes * lanes; }

/// Rows of `groups` times `width` floats, each group padded to whole vectors.
std::vector<float> pad(const std::vector<float>& from, std::size_t groups, std::size_t width) {
  const std::size_t wide = padded(width), rows = from.size() / (groups * width);
  std::vector<float> out(rows * groups * wide);
  for (std::size_t i = 0; i < rows * groups; ++i) {
    for (std::size_t j = 0; j < width; ++j) out[i * wide + j] = from[i * width + j];
  }
  return out;
}

/// A row-major matrix of whole panels in packed order.
std::vector<float> pack(const std::vector<float>& from, std::size_t rows) {
  const std::size_t columns = from.size() / rows;
  std::vector<float> out(from.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      out[j / panel * panel * rows + i * panel + j % panel] = from[i * columns + j];
    }
  }
  return out;
}

/// One cell, weights packed in panels; the gradient goes to weight and bias only.
struct Cell {
  explicit Cell(harness::CellSize size)
      : batch(size.batch),
        width(size.hidden),
        hidden(padded(width)),
        x(Numbers(1).vector(batch * width)),
        h(Numbers(2).vector(batch * width)),
        c(pad(Numbers(3).vector(batch * width), 1, width)),
        weight(pack(
            pad(Numbers(4).vector(2 * width * 4 * width, 1 / std::sqrt(static_cast<float>(width))),
                4, width),
            2 * width)),
        bias(pad(Numbers(5).vector(4 * width, 0.1f), 4, width)),
        gates(batch * 4 * hidden),
        c_next(batch * hidden),
        tanh_c(batch * hidden),
        h_next(batch * hidden) {}
  std::size_t batch, width, hidden;
  Buffer x, h, c, weight, bias, gates, c_next, tanh_c, h_next;

  /// x and h are the two halves of the left factor, so the weight's panels have 2 * width rows.
  void forward() {
    const std::size_t columns = 4 * hidden;
    const Panels<const float> upper = packed<const float>(weight, 2 * width);
    const Panels<const float> lower{upper.first + width * panel, upper.panel_step, upper.row_step};
    const auto sums = row_major<float>(gates, columns);
    product(batch, columns, width, {x, width, 1}, upper, sums, Onto::row, bias);
    product(batch, columns, width, {h, width, 1}, lower, sums, Onto::target);
    Gates{batch, hidden}.forward(gates, c, c_next, tanh_c, h_next);
    keep(*h_next.begin());
  }
  /// The hidden state without its padding.
  double state_squares() const {
    double sum = 0;
    for (std::size_t i = 0; i < batch; ++i) sum += sum_of_squares(h_next + i * hidden, width);
    return sum;
  }
};

struct Forward : Cell {
  using Cell::Cell;
  void operator()() { forward(); }
  double value() { return state_squares(); }
};

/// The gradient of the sum of h'.
struct Backward : Cell {
  explicit Backward(harness::CellSize size)
      : Cell(size),
        dh(std::vector<float>(batch * hidden, 1)),
        dc(batch * hidden),
        dweight(weight.size()),
        dbias(4 * hidden) {}
  Buffer dh, dc, dweight, dbias;
  void operator()() {
    forward();
    std::fill(dc.begin(), dc.end(), 0.0f);
    std::fill(dbias.begin(), dbias.end(), 0.0f);
    Gates{batch, hidden}.backward(gates, c, tanh_c, dh, dc);
    const std::size_t columns = 4 * hidden;
    const auto dsums = row_major<const float>(gates, columns);
    const auto upper = packed<float>(dweight, 2 * width);
    product(width, columns, batch, {x, 1, width}, dsums, upper);
    product(width, columns, batch, {h, 1, width}, dsums,
            {upper.first + width * panel, upper.panel_step, upper.row_step});
    add_column_sums(batch, columns, gates, dbias);
    keep(*dweight.begin());
  }
  /// Padded columns: h' is zero there but its gradient is not, so they are left out.
  double value() {
    double sum = 0;
    for (std::size_t gate = 0; gate < 4; ++gate) {
      for (std::size_t j = gate * hidden; j < gate * hidden + width; ++j) {
        sum += static_cast<double>(dbias[j]) * dbias[j];
        for (std::size_t i = 0; i < 2 * width; ++i) {
          const float g = dweight[j / panel * panel * 2 * width + i * panel + j % panel];
          sum += static_cast<double>(g) * g;
        }
      }
    }
    return sum;
  }
};

}  // namespace

void add_lstm(harness::Rows& rows) {
  using harness::row;
  for (const char* kind : {"fused", "primitive"}) {
    const std::string name = std::string("LSTM cell 10x10 ") + kind;
    rows.push_back(row<Forward>(name + ", forward", 1, harness::small_cell));
    rows.push_back(row<Backward>(name + ", with backward", 1, harness::small_cell));
  }
  rows.push_back(row<Forward>("LSTM cell 32x256, forward", 1, harness::large_cell));
  rows.push_back(row<Backward>("LSTM cell 32x256, with backward", 1, harness::large_cell));
}

}  // namespace limits
