// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/install.hpp"

namespace reel {
const Rules gradient_rules[] = {copy_rules,     ctc_rules,     device_rules,    gather_rules,
                                join_rules,     matmul_rules,  normalize_rules, recurrent_rules,
                                reduce_rules,   reshape_rules, scan_rules,      scatter_rules,
                                sequence_rules, softmax_rules, nullptr};
}  // namespace reel
