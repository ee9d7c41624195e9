// SPDX-License-Identifier: BSD-3-Clause
// The rows as a user of reel would write them: public headers only.
#pragma once
#include <reel/reel.hpp>

#include <cmath>
#include <initializer_list>
#include <vector>

#include "serve.hpp"
#include "task.hpp"

namespace rows {

using harness::keep;
using harness::Numbers;
using namespace reel;

/// Whether the work of this program is replayed instead of run.
inline bool traced = false;

inline Tensor numbers(std::uint64_t seed, std::initializer_list<std::size_t> lengths,
                      float scale = 1) {
  std::size_t count = 1;
  std::vector<std::int64_t> shape;
  for (const std::size_t n : lengths) {
    count *= n;
    shape.push_back(static_cast<std::int64_t>(n));
  }
  return from_span(Numbers(seed).vector(count, scale), Shape(shape));
}

inline Tensor digits(std::size_t count, std::size_t classes) {
  Numbers numbers(21);
  std::vector<std::int64_t> labels(count);
  for (auto& label : labels) label = static_cast<std::int64_t>(numbers.below(classes));
  return tensor(labels);
}

inline double squares(const Tensor& x) {
  double sum = 0;
  for (const float element : x.values<float>()) sum += static_cast<double>(element) * element;
  return sum;
}
template <class Tensors>
double squares_of(const Tensors& tensors) {
  double sum = 0;
  for (const Tensor& x : tensors) sum += squares(x);
  return sum;
}

void add_ops(harness::Rows& rows);
void add_kernels(harness::Rows& rows);
void add_tape(harness::Rows& rows);
void add_lstm(harness::Rows& rows);
void add_char_rnn(harness::Rows& rows);
void add_tree_lstm(harness::Rows& rows);
void add_mlp(harness::Rows& rows);
void add_conv_net(harness::Rows& rows);

}  // namespace rows
