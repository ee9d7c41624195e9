// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

namespace reel {
/// The function that dense(), nn::Linear and nn::RNNCell apply to each element of the product, in
/// the same step: none, or relu(), sigmoid(), tanh().
enum class Activation : std::uint8_t { none, relu, sigmoid, tanh };
}  // namespace reel
