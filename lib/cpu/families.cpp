// SPDX-License-Identifier: BSD-3-Clause
// All kernels of one instruction set.
#include "lib/cpu/kernels.hpp"

namespace reel::kernels::REEL_ISA {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
#include "lib/table/families.def"

extern const Family* const families[] = {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(&family##_family, )
#include "lib/table/families.def"
    nullptr};
}  // namespace reel::kernels::REEL_ISA
