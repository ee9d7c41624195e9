// SPDX-License-Identifier: BSD-3-Clause
// All kernels of one instruction set. REEL_SHARES is the set that has the shared ones, and
// REEL_BASE the set that has all but products of 16 bits, if these are other sets.
#include "lib/cpu/kernels.hpp"

#ifndef REEL_BASE
#define REEL_BASE REEL_ISA
#endif
#ifndef REEL_SHARES
#define REEL_SHARES REEL_BASE
#endif
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
namespace reel::kernels::REEL_SHARES {
#include "lib/table/families.def"
}  // namespace reel::kernels::REEL_SHARES
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
namespace reel::kernels::REEL_BASE {
#include "lib/table/families.def"
}  // namespace reel::kernels::REEL_BASE
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
namespace reel::kernels::REEL_ISA {
#include "lib/table/families.def"

extern const Family* const families[] = {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_CASE_##cpu(family)
#define REEL_CASE_yes(family) &REEL_BASE::family##_family,
#define REEL_CASE_no(family)
#define REEL_CASE_shared(family) &REEL_SHARES::family##_family,
#define REEL_CASE_halves(family) &REEL_ISA::family##_family,
#include "lib/table/families.def"
    nullptr};
}  // namespace reel::kernels::REEL_ISA
