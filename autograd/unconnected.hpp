// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/tape.hpp>

#include "lib/dispatch/context.hpp"

namespace reel {
/// Throws the TapeError for a source that the target (`record`) does not depend on: names the op
/// and line where the path was cut.
[[noreturn]] void unconnected_source(Context& context, std::uint64_t tape, std::uint32_t start,
                                     std::uint32_t target, Source source, std::size_t i,
                                     Caller caller);
}  // namespace reel
