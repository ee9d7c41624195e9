// SPDX-License-Identifier: BSD-3-Clause
// A line of the program in words.
#pragma once
#include <string>
#include <string_view>

#include <reel/caller.hpp>

namespace reel {
/// "model.cpp:12"; `none` if there is no line.
std::string line_text(Caller caller, std::string_view none = "no line");
}  // namespace reel
