// SPDX-License-Identifier: BSD-3-Clause
#include "lib/cpu/pointwise.hpp"
#include "lib/formulas/loss.hpp"

namespace reel::kernels::REEL_ISA {
extern const Family loss_family = {no_kernels, pass_table<formulas::LossFormulas>};
}  // namespace reel::kernels::REEL_ISA
