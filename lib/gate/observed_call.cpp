// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/observed_call.hpp"

namespace reel {
void ObservedCall::tell_begin_and_reads() const {
  for (int i = 0; i < call_.input_count; ++i)
    if (operands_[i]->kind() == Operand::Kind::variable)
      tell_read(context_, operands_[i]->variable());
  reel::tell_begin(context_, call_);
}
}  // namespace reel
