// SPDX-License-Identifier: BSD-3-Clause
// Where the library gives other results than LibTorch on purpose.
#pragma once
#include <map>
#include <string>

namespace reel::tests::peers {
/// By "row: part", where a part is "value", "gradient" or "second gradient", of special values
/// "special value" or "special gradient", and for float32 "float32 value" and so on: the reason.
const std::map<std::string, std::string>& deviations();
/// Ops of the table that no row calls, with the reason.
const std::map<std::string, std::string>& unmapped_ops();
}  // namespace reel::tests::peers
