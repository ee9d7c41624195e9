// SPDX-License-Identifier: BSD-3-Clause
// Large products through OpenBLAS, cross-entropy, and parameter updates in one pass.
#pragma once
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "memory.hpp"
#include "product.hpp"

namespace limits {

enum class Turn { no, yes };

/// C (m, n) = A B + beta C, each factor perhaps transposed, all row-major.
inline void dense(std::size_t m, std::size_t n, std::size_t k, const float* a, Turn turn_a,
                  const float* b, Turn turn_b, float beta, float* c) {
  const auto size = [](std::size_t x) { return static_cast<blasint>(x); };
  const auto turn = [](Turn t) { return t == Turn::yes ? CblasTrans : CblasNoTrans; };
  cblas_sgemm(CblasRowMajor, turn(turn_a), turn(turn_b), size(m), size(n), size(k), 1, a,
              size(turn_a == Turn::yes ? m : k), b, size(turn_b == Turn::yes ? k : n), beta, c,
              size(n));
}

inline void fill_rows(std::size_t rows, std::size_t columns, const float* row, float* x) {
  for (std::size_t i = 0; i < rows; ++i) std::copy(row, row + columns, x + i * columns);
}

/// Scores to their gradient in place; the mean loss.
inline float cross_entropy(std::size_t rows, std::size_t classes, float* scores,
                           const std::size_t* labels) {
  float loss = 0;
  const float share = 1 / static_cast<float>(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    float* score = scores + i * classes;
    float top = score[0], sum = 0;
    for (std::size_t j = 1; j < classes; ++j) top = std::max(top, score[j]);
    const float picked = score[labels[i]] - top;
    const std::size_t whole = classes - classes % lanes;
    Batch sums(0.0f);
    for (std::size_t j = 0; j < whole; j += lanes) {
      const Batch e = xsimd::exp(Batch::load_unaligned(score + j) - Batch(top));
      e.store_unaligned(score + j);
      sums += e;
    }
    sum = total(sums);
    for (std::size_t j = whole; j < classes; ++j) sum += score[j] = std::exp(score[j] - top);
    loss += std::log(sum) - picked;
    const float scale = share / sum;
    for (std::size_t j = 0; j < classes; ++j) score[j] *= scale;
    score[labels[i]] -= share;
  }
  return loss * share;
}

/// A parameter with its gradient and Adam's moments.
struct Parameter {
  explicit Parameter(const std::vector<float>& start)
      : value(start), gradient(start.size()), mean(start.size()), square(start.size()) {}
  Buffer value, gradient, mean, square;

  void adam(int step, float rate) {
    const float beta1 = 0.9f, beta2 = 0.999f, steps = static_cast<float>(step);
    const float first = rate / (1 - std::pow(beta1, steps));
    const float second = 1 / std::sqrt(1 - std::pow(beta2, steps));
    float *w = value, *g = gradient, *m = mean, *v = square;
    for (std::size_t i = 0; i < value.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      w[i] -= first * m[i] / (std::sqrt(v[i]) * second + 1e-8f);
    }
  }
  void sgd(float rate) {
    float *w = value, *g = gradient;
    for (std::size_t i = 0; i < value.size(); ++i) w[i] -= rate * g[i];
  }
};

}  // namespace limits
