// SPDX-License-Identifier: BSD-3-Clause
// Compares named tensors in any order.
#pragma once
#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
inline bool same_tensor(const Tensor& x, const Tensor& y) {
  return x.dtype() == y.dtype() && equal(x, y.to(x.device()));
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
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bfloat16 && !bfloat16) continue;
    for (const Tensor& x : {numbers, transpose(numbers), numbers(0, 0, 0), numbers(range(0, 0))})
      tensors.emplace_back("x" + std::to_string(tensors.size()), x.to(dtype));
  }
  return tensors;
}
}  // namespace reel::tests
