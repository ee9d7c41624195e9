// SPDX-License-Identifier: BSD-3-Clause
// Options of layer_norm and limit_norm.
#pragma once
namespace reel {
struct EpsilonOptions {
  double epsilon = 1e-5;
  void fields(auto&& field) { field("epsilon", epsilon); }
};
struct LimitNormOptions {
  double norm = 1;
  void fields(auto&& field) { field("norm", norm); }
};
}  // namespace reel
