// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/activation.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family activation_family = {no_kernels, tile_table<Relu, Sigmoid, Tanh>};
}  // namespace reel::kernels::REEL_ISA
