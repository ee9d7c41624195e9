// SPDX-License-Identifier: BSD-3-Clause
// Compares named tensors in any order.
#pragma once
#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
inline bool same_tensor(const Tensor& x, const Tensor& y) {
  if (x.dtype() != y.dtype() || !(x.shape() == y.shape())) return false;
  const DType wide = has_arithmetic(x.dtype()) ? x.dtype() : DType::float32;
  return equal(x.to(wide), y.to(wide).to(x.device()));
}
inline void check_same(const io::NamedTensors& read, const io::NamedTensors& wanted) {
  CHECK(read.size() == wanted.size());
  for (const auto& [name, x] : wanted) {
    bool found = false;
    for (const auto& [other, y] : read) found |= name == other && same_tensor(x, y);
    INFO(name);
    CHECK(found);
  }
}
/// Tensors of every dtype, rank and layout.
inline io::NamedTensors of_every_dtype(bool bfloat16 = true) {
  io::NamedTensors tensors;
  const Tensor numbers = arange(0.0f, 24.0f).reshape({2, 3, 4});
  for (int dtype = 0; dtype < dtype_count - !bfloat16; ++dtype)
    for (const Tensor& x : {numbers, transpose(numbers), numbers(0, 0, 0), numbers(range(0, 0))})
      tensors.emplace_back("x" + std::to_string(tensors.size()), x.to(static_cast<DType>(dtype)));
  return tensors;
}
}  // namespace reel::tests
