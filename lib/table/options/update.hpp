// SPDX-License-Identifier: BSD-3-Clause
// Options of checks before an update.
#pragma once
namespace reel {
/// Whether a rate must be finite in float32, because an updated Variable is float32.
struct RateOptions {
  bool single = false;
  void fields(auto&& field) { field("single", single); }
};
}  // namespace reel
