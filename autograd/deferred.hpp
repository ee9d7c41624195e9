// SPDX-License-Identifier: BSD-3-Clause
// If several products use one matrix, its gradient is one product over the rows of all of them.
#pragma once
#include <vector>

#include "lib/flow/context.hpp"

namespace reel {
/// Collected rows of x and dz of products z = x y (+ bias). Later, xT dz is added to the gradient
/// of y, and the sum of dz to that of the bias.
class DeferredProduct {
 public:
  static constexpr std::uint32_t no_value = 0xffffffffu;
  static constexpr std::int64_t most_rows = 128;  // more make the product no faster
  static constexpr std::int64_t most_bytes = 16 << 20;

  /// Whether x and dz have few rows and are row-major.
  static bool fits(const Body& x, const Body& dz);
  bool has_space(const Body& x) const;
  /// Copies the rows. If interceptors must see the copy, an op makes it when the rows are taken.
  void append(Context& context, const Tensor& x, const Tensor& dz);
  bool empty() const { return rows_ == 0; }
  /// The rows that were collected so far.
  struct Rows {
    Tensor x, dz;
  };
  Rows rows();
  /// Forgets the rows; the next ones begin a new collection.
  void clear();

  std::uint32_t matrix = no_value, bias = no_value;  // the values whose gradients these are
  bool matrix_done = false, bias_done = false;       // the rows so far are added to it

 private:
  Tensor x_, dz_;
  std::vector<Tensor> all_x_, all_dz_;  // not copied yet
  std::int64_t rows_ = 0;
};
}  // namespace reel
