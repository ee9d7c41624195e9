// SPDX-License-Identifier: BSD-3-Clause
// Options of ops along one axis.
#pragma once
#include <cstdint>

namespace reel {
struct AxisOptions {
  std::int64_t axis = 0;  // from 0
  void fields(auto&& field) { field("axis", axis); }
};
}  // namespace reel
