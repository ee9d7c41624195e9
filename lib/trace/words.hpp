// SPDX-License-Identifier: BSD-3-Clause
// Memory of an unknown type in words.
#pragma once
#include <cstdint>
#include <string>

namespace reel::tracing {
/// "was 2 and is 3": a word that changed, read as the number that it most likely is.
std::string change_text(std::uint64_t before, std::uint64_t now);
}  // namespace reel::tracing
