// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/install.hpp"

namespace reel {
const Rules gradient_rules[] = {
#define REEL_POINTWISE(...)
#define REEL_FAMILY(family, rules, ...) REEL_IF_##rules(family##_rules, )
#include "lib/table/families.def"
    nullptr};
}  // namespace reel
