// SPDX-License-Identifier: BSD-3-Clause
// Shows memory of an unknown type as numbers.
#pragma once
#include <cstdint>
#include <string>

namespace reel::tracing {
/// "was 2 and is 3": a changed word, read as the number that it most likely is.
std::string change_text(std::uint64_t before, std::uint64_t now);
}  // namespace reel::tracing
