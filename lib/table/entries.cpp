// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/entries.hpp"

namespace reel {
Op* activation_op(Activation activation) {
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return &relu_op;
    case Activation::sigmoid:
      return &sigmoid_op;
    case Activation::tanh:
      return &tanh_op;
  }
  return nullptr;
}
}  // namespace reel
