// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/tape.hpp>

#include "lib/flow/context.hpp"

namespace reel {
/// What gradient() of a tape was asked for: the record is no_record where the tape has none.
struct AskedTarget {
  std::uint64_t tape;
  std::uint32_t start, record;  // of the tape, of the target
  const Body* body;
};
/// Throws the TapeError for a source that the target does not depend on: names the op and line
/// where the path was cut, or why the tape knows nothing of the target or the source.
[[noreturn]] void unconnected_source(Context& context, const AskedTarget& target,
                                     GradientSource source, std::size_t i, Caller caller);
}  // namespace reel
