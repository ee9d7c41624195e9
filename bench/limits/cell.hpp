// SPDX-License-Identifier: BSD-3-Clause
// The LSTM's gates, forward and backward, one pass over memory each.
#pragma once
#include "product.hpp"

namespace limits {

/// Rows of `hidden` floats padded to whole vectors; gates are i, f, g, o side by side.
struct Gates {
  std::size_t batch, hidden;  // padded

  /// Turns sums into gates in place; c' = f c + i g, h' = o tanh c'.
  void forward(float* gates, const float* c, float* c_next, float* tanh_c, float* h_next) const {
    for (std::size_t row = 0; row < batch; ++row) {
      float* g = gates + row * 4 * hidden;
      for (std::size_t j = 0; j < hidden; j += lanes) {
        const std::size_t at = row * hidden + j;
        const Batch in = sigmoid(Batch::load_aligned(g + j));
        const Batch forget = sigmoid(Batch::load_aligned(g + hidden + j));
        const Batch fresh = tanh(Batch::load_aligned(g + 2 * hidden + j));
        const Batch out = sigmoid(Batch::load_aligned(g + 3 * hidden + j));
        const Batch state = forget * Batch::load_aligned(c + at) + in * fresh;
        const Batch curved = tanh(state);
        in.store_aligned(g + j);
        forget.store_aligned(g + hidden + j);
        fresh.store_aligned(g + 2 * hidden + j);
        out.store_aligned(g + 3 * hidden + j);
        state.store_aligned(c_next + at);
        curved.store_aligned(tanh_c + at);
        (out * curved).store_aligned(h_next + at);
      }
    }
  }

  /// Gates to the gradients of their sums in place; dc becomes that of the former c.
  void backward(float* gates, const float* c, const float* tanh_c, const float* dh,
                float* dc) const {
    const Batch one(1.0f);
    for (std::size_t row = 0; row < batch; ++row) {
      float* g = gates + row * 4 * hidden;
      for (std::size_t j = 0; j < hidden; j += lanes) {
        const std::size_t at = row * hidden + j;
        const Batch in = Batch::load_aligned(g + j), forget = Batch::load_aligned(g + hidden + j);
        const Batch fresh = Batch::load_aligned(g + 2 * hidden + j);
        const Batch out = Batch::load_aligned(g + 3 * hidden + j);
        const Batch curved = Batch::load_aligned(tanh_c + at), up = Batch::load_aligned(dh + at);
        const Batch state = Batch::load_aligned(dc + at) + up * out * (one - curved * curved);
        (state * fresh * in * (one - in)).store_aligned(g + j);
        (state * Batch::load_aligned(c + at) * forget * (one - forget))
            .store_aligned(g + hidden + j);
        (state * in * (one - fresh * fresh)).store_aligned(g + 2 * hidden + j);
        (up * curved * out * (one - out)).store_aligned(g + 3 * hidden + j);
        (state * forget).store_aligned(dc + at);
      }
    }
  }
};

inline void add_column_sums(std::size_t rows, std::size_t columns, const float* x, float* sums) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) sums[j] += x[i * columns + j];
  }
}

}  // namespace limits
