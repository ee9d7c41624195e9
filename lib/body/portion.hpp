// SPDX-License-Identifier: BSD-3-Clause
// Variables that are parts of a whole, which several ranks have together.
#pragma once
#include <cstdint>

#include <reel/variable.hpp>

namespace reel {
/// Part number `index` of `count` equal parts; 0 of 1 is a whole.
struct Portion {
  std::uint16_t index = 0, count = 1;
  bool operator==(const Portion&) const = default;
};
Portion portion_of(const Variable& variable);
void set_portion(const Variable& variable, Portion portion);
}  // namespace reel
