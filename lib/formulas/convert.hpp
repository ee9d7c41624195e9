// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <type_traits>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
/// x as another type of element. A float beyond an integer type becomes the nearest integer, NaN 0.
template <class To, class From>
constexpr To converted(From x) {
  if constexpr (!std::is_arithmetic_v<From>) {
    return converted<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (!std::is_arithmetic_v<To>) {
    return To(static_cast<double>(x));
  } else if constexpr (std::is_floating_point_v<From> && !std::is_floating_point_v<To>) {
    // 2^(bits) is the smallest float above the largest integer.
    constexpr To least =
        std::is_signed_v<To> ? static_cast<To>(To(1) << (sizeof(To) * 8 - 1)) : To(0);
    constexpr To most = static_cast<To>(~least);
    constexpr From above = static_cast<From>(most / 2 + 1) * 2;
    if (x != x) return To(0);
    return x >= above ? most : x <= static_cast<From>(least) ? least : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}
}  // namespace reel::REEL_FORMULAS
