// SPDX-License-Identifier: BSD-3-Clause
// Options of lstm and gru.
#pragma once
namespace reel {
struct DirectionOptions {
  bool reverse = false;
  void fields(auto&& field) { field("reverse", reverse); }
};
}  // namespace reel
