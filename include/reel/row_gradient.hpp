// SPDX-License-Identifier: BSD-3-Clause
// Gradients of tables, such as those of nn::Embedding, of which a step reads few rows.
#pragma once  // defined in lib/ops, autograd
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include <reel/variable.hpp>

namespace reel {
/// The gradient of a Variable: of some rows, or of all of it.
struct RowGradient {
  /// The gradient of each of the rows, [n, ...]; if `rows` is undefined, of the whole Variable.
  Tensor values;
  /// Positions along the first axis, int64 [n]. Each occurs once. A position of -1 stands for no
  /// row; its values are 0.
  Tensor rows = {};
};

/// take(table, rows) along the first axis. GradientTape::row_gradients() gives the gradient of such
/// a table as rows; for gradient() there is no difference.
REEL_API Tensor lookup(Operand table, Operand rows);

namespace detail {
/// Each of these rows once, with the sum of its values; then -1 with 0. The shapes depend on the
/// number of rows alone.
REEL_API RowGradient sum_rows(const Tensor& rows, const Tensor& values);
}  // namespace detail

/// One gradient for each Variable: Tensors, or what row_gradients() returned. The list must outlive
/// the call that takes it.
class GradientList {
 public:
  GradientList(std::initializer_list<Tensor> list) : count_(list.size()) { dense_ = list.begin(); }
  GradientList(std::span<const Tensor> list) : dense_(list.data()), count_(list.size()) {}
  GradientList(std::span<const RowGradient> list) : mixed_(list.data()), count_(list.size()) {}
  GradientList(const std::vector<Tensor>& list) : dense_(list.data()), count_(list.size()) {}
  GradientList(const std::vector<RowGradient>& list) : mixed_(list.data()), count_(list.size()) {}
  std::size_t size() const { return count_; }
  /// Of gradient i: the values, and the rows that they belong to; null if it is dense.
  const Tensor& values(std::size_t i) const { return mixed_ ? mixed_[i].values : dense_[i]; }
  const Tensor* rows(std::size_t i) const {
    return mixed_ && mixed_[i].rows.defined() ? &mixed_[i].rows : nullptr;
  }
  /// So many gradients from `first` on.
  GradientList part(std::size_t first, std::size_t count) const {
    return mixed_ ? GradientList(std::span(mixed_ + first, count))
                  : GradientList(std::span(dense_ + first, count));
  }

 private:
  const Tensor* dense_ = nullptr;
  const RowGradient* mixed_ = nullptr;
  std::size_t count_ = 0;
};
}  // namespace reel
