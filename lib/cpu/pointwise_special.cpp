// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/special.hpp"

namespace reel::kernels::REEL_ISA {
extern const Family special_family = {no_kernels, pass_table<formulas::SpecialFormulas>};
}  // namespace reel::kernels::REEL_ISA
