// SPDX-License-Identifier: BSD-3-Clause
// Options of layer_norm.
#pragma once
namespace reel {
struct EpsilonOptions {
  double epsilon = 1e-5;
  void fields(auto&& field) { field("epsilon", epsilon); }
};
}  // namespace reel
