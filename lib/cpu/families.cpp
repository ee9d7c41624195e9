// SPDX-License-Identifier: BSD-3-Clause
// All kernels of one instruction set. REEL_SHARES is the set that has the shared ones, if it is
// another one.
#include "lib/cpu/kernels.hpp"

#ifdef REEL_SHARES
namespace reel::kernels::REEL_SHARES {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
#include "lib/table/families.def"
}  // namespace reel::kernels::REEL_SHARES
#define REEL_SHARED_FAMILY(family) &REEL_SHARES::family##_family,
#else
#define REEL_SHARED_FAMILY(family) &family##_family,
#endif

namespace reel::kernels::REEL_ISA {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_IF_##cpu(extern const Family family##_family;)
#include "lib/table/families.def"

extern const Family* const families[] = {
#define REEL_FAMILY(family, rules, cpu, cuda) REEL_CASE_##cpu(family)
#define REEL_CASE_yes(family) &family##_family,
#define REEL_CASE_no(family)
#define REEL_CASE_shared(family) REEL_SHARED_FAMILY(family)
#include "lib/table/families.def"
    nullptr};
}  // namespace reel::kernels::REEL_ISA
