// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/arithmetic.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family arithmetic_family = {no_kernels, tile_table<ArithmeticFormulas>};
}  // namespace reel::kernels::REEL_ISA
