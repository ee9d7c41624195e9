// SPDX-License-Identifier: BSD-3-Clause
// Options of dense.
#pragma once
#include <reel/activation.hpp>

namespace reel {
struct ActivationOptions {
  Activation activation = Activation::none;
  void fields(auto&& field) { field("activation", activation); }
};
}  // namespace reel
