// SPDX-License-Identifier: BSD-3-Clause
#include "lib/gate/recording.hpp"

#include "lib/flow/observer.hpp"

namespace reel {
Record& leave_record(Context& context, const Op& op, OptionsView options, Caller caller,
                     Body* const* inputs, const Origin* origins, int input_count,
                     Body* const* outputs, int output_count, std::uint64_t tapes, int unlisted) {
  Record& record = write_record(context, op, options, caller, inputs, origins, input_count, outputs,
                                output_count, tapes, unlisted);
  if (context.mode & observed) [[unlikely]]
    tell_recorded(context, record);
  return record;
}
}  // namespace reel
