// SPDX-License-Identifier: BSD-3-Clause
// A matrix that several products use has one product for its gradient, over the rows of all.
#pragma once
#include "lib/dispatch/context.hpp"

namespace reel {
/// Rows of x and dz of products z = x y (+ bias): xT dz is still to be added to the gradient of y,
/// the sum of dz to that of the bias.
class DeferredProduct {
 public:
  static constexpr std::uint32_t no_value = 0xffffffffu;
  static constexpr std::int64_t most_rows = 128;  // more make the product no faster
  static constexpr std::int64_t most_bytes = 16 << 20;

  /// Whether x and dz have few rows, which lie in order.
  static bool fits(const Body& x, const Body& dz);
  bool has_room(const Body& x) const;
  void append(Context& context, const Body& x, const Body& dz);
  bool empty() const { return rows_ == 0; }
  /// The rows so far; those that are appended next start anew.
  struct Rows {
    const Tensor &x, &dz;
  };
  Rows take();

  std::uint32_t matrix = no_value, bias = no_value;  // the values whose gradients these are

 private:
  Tensor x_, dz_;
  std::int64_t rows_ = 0;
};
}  // namespace reel
