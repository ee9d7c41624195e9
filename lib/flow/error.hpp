// SPDX-License-Identifier: BSD-3-Clause
// What a thread knows of an error. See lib/body/error.hpp.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include <reel/caller.hpp>

namespace reel {
std::pair<std::string, std::string> names_of_call(std::string_view op, std::string_view argument);
std::string place_of_call();
void find_call(Caller& caller, std::string_view& op);
}  // namespace reel
