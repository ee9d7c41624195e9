// SPDX-License-Identifier: BSD-3-Clause
#include <reel/activation.hpp>

#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/activation.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family activation_family = {no_kernels, tile_table<Relu, Sigmoid, Tanh>};

/// Null for none.
Tile activation_pass(Activation activation, DType dtype) {
  static constexpr const Tiles* passes[] = {nullptr, &tiles<Relu>, &tiles<Sigmoid>, &tiles<Tanh>};
  const Tiles* const found = passes[static_cast<int>(activation)];
  return found ? found->value[static_cast<int>(dtype)] : nullptr;
}
}  // namespace reel::kernels::REEL_ISA
