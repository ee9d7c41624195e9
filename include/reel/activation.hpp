// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <cstdint>

namespace reel {
/// The function that dense(), nn::Linear and nn::RNNCell apply to each element of the product, in
/// the same step: none, or relu(), sigmoid(), tanh(). It has 8 bytes, so that nn::Linear and
/// nn::RNNCell have no padding: a trace would take an old pointer in padding for a pointer of the
/// layer.
enum class Activation : std::int64_t { none, relu, sigmoid, tanh };
}  // namespace reel
