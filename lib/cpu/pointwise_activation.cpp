// SPDX-License-Identifier: BSD-3-Clause
#include <reel/activation.hpp>

#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/activation.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family activation_family = {no_kernels, pass_table<ActivationFormulas>};

/// Null for none.
PassFunction activation_pass(Activation activation, DType dtype) {
  const auto pass = [dtype](const Passes& passes) { return passes.value[static_cast<int>(dtype)]; };
  switch (activation) {
    case Activation::none:
      return nullptr;
    case Activation::relu:
      return pass(passes<Relu>);
    case Activation::sigmoid:
      return pass(passes<Sigmoid>);
    case Activation::tanh:
      return pass(passes<Tanh>);
  }
  return nullptr;
}
}  // namespace reel::kernels::REEL_ISA
