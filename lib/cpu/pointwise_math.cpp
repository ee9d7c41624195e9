// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/math.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family math_family = {no_kernels, pass_table<MathFormulas>};
}  // namespace reel::kernels::REEL_ISA
