// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <type_traits>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct BitwiseAnd {
  static constexpr const char* name = "bitwise_and";
  static constexpr Domain domain = Domain::bits;
  auto operator()(auto x, auto y) const { return x & y; }
};
struct BitwiseOr {
  static constexpr const char* name = "bitwise_or";
  static constexpr Domain domain = Domain::bits;
  auto operator()(auto x, auto y) const { return x | y; }
};
struct BitwiseXor {
  static constexpr const char* name = "bitwise_xor";
  static constexpr Domain domain = Domain::bits;
  auto operator()(auto x, auto y) const { return x ^ y; }
};
struct BitwiseNot {
  static constexpr const char* name = "bitwise_not";
  static constexpr Domain domain = Domain::bits;
  auto operator()(auto x) const {
    if constexpr (std::is_same_v<decltype(x), bool>)
      return !x;
    else
      return ~x;
  }
};

using BitwiseFormulas = List<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot>;
}  // namespace reel::REEL_FORMULAS
