// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>

#include "../serve.hpp"
#include "../task.hpp"
#include "dense.hpp"
#include "rows.hpp"

namespace limits {
namespace {

using harness::Numbers;
using Task = harness::TreeTask;

constexpr std::size_t width = Task::hidden, wide = 160;  // a gate, and padded to whole vectors
constexpr std::size_t columns = 5 * wide, leaf_columns = 3 * wide;
static_assert(wide % lanes == 0);

/// Groups of 150 numbers, each padded.
std::vector<float> pad(const std::vector<float>& from) {
  std::vector<float> out(from.size() / width * wide);
  for (std::size_t i = 0; i < from.size(); ++i) out[i / width * wide + i % width] = from[i];
  return out;
}

/// y += x A, four rows of A at a time, so that y is read once for four.
void add_product(std::size_t rows, std::size_t n, const float* x, const float* a, float* y) {
  std::size_t i = 0;
  for (const std::size_t whole = rows / 4 * 4; i < whole; i += 4, a += 4 * n) {
    for (std::size_t j = 0; j < n; ++j) {
      y[j] += x[i] * a[j] + x[i + 1] * a[n + j] + x[i + 2] * a[2 * n + j] + x[i + 3] * a[3 * n + j];
    }
  }
  for (; i < rows; ++i, a += n) {
    const float left = x[i];
    for (std::size_t j = 0; j < n; ++j) y[j] += left * a[j];
  }
}

/// dx = A dy.
void turned_product(std::size_t rows, std::size_t n, const float* a, const float* dy, float* dx) {
  for (std::size_t i = 0; i < rows; ++i, a += n) {
    Batch sums[2] = {Batch(0.0f), Batch(0.0f)};
    std::size_t j = 0;
    for (; j + 2 * lanes <= n; j += 2 * lanes) {
      for (std::size_t v : {0, 1}) {
        const std::size_t at = j + v * lanes;
        sums[v] = xsimd::fma(Batch::load_aligned(a + at), Batch::load_aligned(dy + at), sums[v]);
      }
    }
    dx[i] = total(sums[0] + sums[1]);
  }
}

/// dA += x^T dy.
void add_outer(std::size_t rows, std::size_t n, const float* x, const float* dy, float* da) {
  for (std::size_t i = 0; i < rows; ++i, da += n) {
    for (std::size_t j = 0; j < n; ++j) da[j] += x[i] * dy[j];
  }
}

/// What a node keeps between the passes. h of both children lie side by side.
struct alignas(64) State {
  float gates[columns], children[2 * width + 4], c[wide], tanh_c[wide], h[wide], dh[wide], dc[wide];
  State *left, *right;
  std::size_t word;
};

template <bool deferred>
struct TreeLstm {
  static constexpr std::size_t most = 64;  // nodes in a tree
  Buffer table{Numbers(1).vector(Task::vocabulary * width)};
  Buffer leaf_weight{pad(Numbers(4).vector(width * 3 * width, scale()))};
  Buffer leaf_bias{pad(Numbers(5).vector(3 * width, 0.1f))};
  Buffer weight{pad(Numbers(6).vector(2 * width * 5 * width, scale()))};
  Buffer bias{pad(Numbers(8).vector(5 * width, 0.1f))};
  Buffer dtable{table.size()}, dleaf_weight{leaf_weight.size()}, dleaf_bias{leaf_bias.size()};
  Buffer dweight{weight.size()}, dbias{bias.size()};
  Buffer inputs{most * 2 * width}, dsums{most * columns}, words{most * width};
  Buffer dleaf_sums{most * leaf_columns};
  std::size_t pairs = 0, leaves = 0;
  std::vector<std::unique_ptr<harness::Node>> trees = harness::random_trees();
  std::unique_ptr<State[]> states{new State[most]};
  std::size_t used = 0;

  static float scale() { return 1 / std::sqrt(static_cast<float>(width)); }

  void operator()() {
    for (const auto& tree : trees) learn(*tree);
  }

  /// Gradients of the sum of the root's h, written anew for each tree.
  void learn(const harness::Node& tree) {
    for (Buffer* g : {&dtable, &dleaf_weight, &dleaf_bias, &dweight, &dbias}) {
      if (!deferred || (g != &dweight && g != &dleaf_weight)) std::fill(g->begin(), g->end(), 0.0f);
    }
    used = pairs = leaves = 0;
    State& root = encode(tree);
    std::fill(root.dh, root.dh + width, 1.0f);
    std::fill(root.dc, root.dc + wide, 0.0f);
    for (std::size_t i = used; i-- > 0;) backward(states[i]);  // parents come after their children
    if (!deferred) return;
    dense(2 * width, columns, pairs, inputs, Turn::yes, dsums, Turn::no, 0, dweight);
    dense(width, leaf_columns, leaves, words, Turn::yes, dleaf_sums, Turn::no, 0, dleaf_weight);
  }

  State& encode(const harness::Node& node) {
    State *left = nullptr, *right = nullptr;
    if (node.left) {
      left = &encode(*node.left);
      right = &encode(*node.right);
    }
    State& state = states[used++];
    state.left = left;
    state.right = right;
    state.word = node.word;
    if (left == nullptr) {
      leaf_forward(state);
    } else {
      forward(state);
    }
    return state;
  }

  /// Gates i, g, o.
  void leaf_forward(State& s) const {
    std::copy(leaf_bias.begin(), leaf_bias.end(), s.gates);
    add_product(width, leaf_columns, table + s.word * width, leaf_weight, s.gates);
    for (std::size_t j = 0; j < wide; j += lanes) {
      const Batch in = sigmoid(Batch::load_aligned(s.gates + j));
      const Batch fresh = tanh(Batch::load_aligned(s.gates + wide + j));
      const Batch out = sigmoid(Batch::load_aligned(s.gates + 2 * wide + j));
      const Batch c = in * fresh, curved = tanh(c);
      in.store_aligned(s.gates + j);
      fresh.store_aligned(s.gates + wide + j);
      out.store_aligned(s.gates + 2 * wide + j);
      c.store_aligned(s.c + j);
      curved.store_aligned(s.tanh_c + j);
      (out * curved).store_aligned(s.h + j);
    }
  }

  /// Gates i, f left, f right, g, o.
  void forward(State& s) const {
    std::copy(s.left->h, s.left->h + width, s.children);
    std::copy(s.right->h, s.right->h + width, s.children + width);
    std::copy(bias.begin(), bias.end(), s.gates);
    add_product(2 * width, columns, s.children, weight, s.gates);
    for (std::size_t j = 0; j < wide; j += lanes) {
      for (const std::size_t gate : {0, 1, 2, 4}) {
        float* at = s.gates + gate * wide + j;
        sigmoid(Batch::load_aligned(at)).store_aligned(at);
      }
      const Batch fresh = tanh(Batch::load_aligned(s.gates + 3 * wide + j));
      const Batch c =
          Batch::load_aligned(s.gates + j) * fresh +
          Batch::load_aligned(s.gates + wide + j) * Batch::load_aligned(s.left->c + j) +
          Batch::load_aligned(s.gates + 2 * wide + j) * Batch::load_aligned(s.right->c + j);
      const Batch curved = tanh(c);
      fresh.store_aligned(s.gates + 3 * wide + j);
      c.store_aligned(s.c + j);
      curved.store_aligned(s.tanh_c + j);
      (Batch::load_aligned(s.gates + 4 * wide + j) * curved).store_aligned(s.h + j);
    }
  }

  void backward(State& s) {
    const std::size_t forgets = s.left == nullptr ? 0 : 2;
    float *in = s.gates, *fresh = in + (1 + forgets) * wide, *out = fresh + wide;
    for (std::size_t j = 0; j < width; ++j) {
      const float up = s.dh[j], dc = s.dc[j] + up * out[j] * (1 - s.tanh_c[j] * s.tanh_c[j]);
      const float i = in[j], u = fresh[j], o = out[j];
      in[j] = dc * u * i * (1 - i);
      fresh[j] = dc * i * (1 - u * u);
      out[j] = up * s.tanh_c[j] * o * (1 - o);
      s.dc[j] = dc;
    }
    clear_padding(in), clear_padding(out), clear_padding(fresh);
    if (s.left == nullptr) return leaf_weights(s);
    State* children[] = {s.left, s.right};
    for (std::size_t child = 0; child < 2; ++child) {
      float* forget = s.gates + (1 + child) * wide;
      for (std::size_t j = 0; j < width; ++j) {
        const float f = forget[j], dc = s.dc[j];
        forget[j] = dc * children[child]->c[j] * f * (1 - f);
        children[child]->dc[j] = dc * f;
      }
      clear_padding(forget);
    }
    for (std::size_t child = 0; child < 2; ++child) {
      turned_product(width, columns, weight + child * width * columns, s.gates,
                     children[child]->dh);
    }
    weights(s);
  }
  static void clear_padding(float* gate) { std::fill(gate + width, gate + wide, 0.0f); }

  void weights(const State& s) {
    add_outer(1, columns, &one, s.gates, dbias);
    if (deferred) {
      std::copy(s.children, s.children + 2 * width, inputs + pairs * 2 * width);
      std::copy(s.gates, s.gates + columns, dsums + pairs++ * columns);
    } else {
      add_outer(2 * width, columns, s.children, s.gates, dweight);
    }
  }
  void leaf_weights(const State& s) {
    const float* x = table + s.word * width;
    float dx[width];
    turned_product(width, leaf_columns, leaf_weight, s.gates, dx);
    add_outer(1, width, &one, dx, dtable + s.word * width);
    add_outer(1, leaf_columns, &one, s.gates, dleaf_bias);
    if (deferred) {
      std::copy(x, x + width, words + leaves * width);
      std::copy(s.gates, s.gates + leaf_columns, dleaf_sums + leaves++ * leaf_columns);
    } else {
      add_outer(width, leaf_columns, x, s.gates, dleaf_weight);
    }
  }
  static constexpr float one = 1;

  /// All gradients of the last tree.
  double value() {
    learn(*trees.back());
    double sum = 0;
    for (Buffer* g : {&dtable, &dleaf_weight, &dleaf_bias, &dweight, &dbias}) {
      sum += sum_of_squares(*g);
    }
    return sum;
  }
};

}  // namespace

void add_tree_lstm(harness::Rows& rows) {
  rows.push_back(harness::row<TreeLstm<false>>("Tree-LSTM, one tree", Task::trees));
  rows.push_back(
      harness::row<TreeLstm<true>>("Tree-LSTM, one tree, deferred products", Task::trees));
}

}  // namespace limits
