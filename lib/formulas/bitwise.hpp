// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <type_traits>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct BitwiseAnd {
  static constexpr const char* name = "bitwise_and";
  static constexpr Domain domain = Domain::bits;
  constexpr auto operator()(auto x, auto y) const { return x & y; }
};
struct BitwiseOr {
  static constexpr const char* name = "bitwise_or";
  static constexpr Domain domain = Domain::bits;
  constexpr auto operator()(auto x, auto y) const { return x | y; }
};
struct BitwiseXor {
  static constexpr const char* name = "bitwise_xor";
  static constexpr Domain domain = Domain::bits;
  constexpr auto operator()(auto x, auto y) const { return x ^ y; }
};
struct BitwiseNot {
  static constexpr const char* name = "bitwise_not";
  static constexpr Domain domain = Domain::bits;
  constexpr auto operator()(auto x) const {
    if constexpr (std::is_same_v<decltype(x), bool>)
      return !x;
    else
      return ~x;
  }
};

/// Shifts by a count. A count outside of 0 to the number of bits moves all bits out. bool counts as
/// an integer of one bit.
struct LeftShift {
  static constexpr const char* name = "left_shift";
  static constexpr Domain domain = Domain::bits;
  template <class X>
  constexpr X operator()(X x, X count) const {
    if constexpr (std::is_same_v<X, bool>) {
      return x && !count;
    } else {
      using Bits = std::make_unsigned_t<X>;
      constexpr Bits all = 8 * sizeof(X);
      const Bits n = static_cast<Bits>(count);
      return n < all ? static_cast<X>(static_cast<Bits>(x) << (n & (all - 1))) : X(0);
    }
  }
};
struct RightShift {
  static constexpr const char* name = "right_shift";
  static constexpr Domain domain = Domain::bits;
  template <class X>
  constexpr X operator()(X x, X count) const {
    if constexpr (std::is_same_v<X, bool>) {
      return x && !count;
    } else {
      using Bits = std::make_unsigned_t<X>;
      constexpr Bits all = 8 * sizeof(X);
      const Bits n = static_cast<Bits>(count);
      return n < all ? static_cast<X>(x >> (n & (all - 1))) : static_cast<X>(x < 0 ? -1 : 0);
    }
  }
};

using BitwiseFormulas = List<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, LeftShift, RightShift>;
}  // namespace reel::REEL_FORMULAS
