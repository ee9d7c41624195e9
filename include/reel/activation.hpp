// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

namespace reel {
/// What a product's elements become in the same step (dense, nn::Linear, nn::RNNCell): themselves,
/// or relu(), sigmoid(), tanh() of themselves.
enum class Activation : std::uint8_t { none, relu, sigmoid, tanh };
}  // namespace reel
