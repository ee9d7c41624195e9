// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/trigonometry.hpp"

namespace reel::kernels::REEL_ISA {
using namespace formulas;
extern const Family trigonometry_family = {no_kernels, pass_table<TrigonometryFormulas>};
}  // namespace reel::kernels::REEL_ISA
