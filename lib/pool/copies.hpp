// SPDX-License-Identifier: BSD-3-Clause
// Other copies of the library in this process.
#pragma once
#include <string>

namespace reel {
/// The file of another object of the process that contains the library, such as a plug-in that is
/// linked with the static library; empty if there is none. The program itself is "the program".
std::string other_copy();
}  // namespace reel
