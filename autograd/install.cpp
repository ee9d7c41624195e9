// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/install.hpp"

namespace reel {
const Rules gradient_rules[] = {reduce_rules,    matmul_rules,  softmax_rules, normalize_rules,
                                recurrent_rules, reshape_rules, gather_rules,  sequence_rules,
                                device_rules,    nullptr};
}  // namespace reel
