// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

namespace reel {
/// The class that means "no label".
struct BlankOptions {
  std::int64_t blank = 0;
  void fields(auto&& field) { field("blank", blank); }
};
}  // namespace reel
