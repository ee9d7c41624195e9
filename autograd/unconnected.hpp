// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/tape.hpp>

#include "lib/flow/context.hpp"

namespace reel {
/// "relu (train.cpp:30)"
std::string place_of(const Op& op, Caller caller);
/// What gradient() of a tape was asked for: the record is no_record where the tape has none.
struct AskedTarget {
  std::uint64_t tape;
  std::uint32_t start, record;  // of the tape, of the target
  const Body* body;
};
/// The records from the tape's start on that depend on the source.
std::vector<bool> reached_from(Reel& reel, std::uint64_t tape, std::uint32_t start,
                               GradientSource source);
/// Finds out why a target does not depend on a source.
struct Cause {
  std::string got, advice;
};
Cause cause_of(Context& context, const AskedTarget& target, GradientSource source);
/// "source 0 \"weight\""
std::string name_of(GradientSource source, std::size_t i);
/// Throws the TapeError for a source that the target does not depend on: names the op and line
/// where the path was cut, or why the tape has no record of the target or the source.
[[noreturn]] void unconnected_source(Context& context, const AskedTarget& target,
                                     GradientSource source, std::size_t i, Caller caller);
}  // namespace reel
