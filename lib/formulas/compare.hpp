// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Equal {
  static constexpr const char* name = "equal";
  constexpr bool operator()(auto x, auto y) const { return x == y; }
};
struct NotEqual {
  static constexpr const char* name = "not_equal";
  constexpr bool operator()(auto x, auto y) const { return x != y; }
};
struct Less {
  static constexpr const char* name = "less";
  constexpr bool operator()(auto x, auto y) const { return x < y; }
};
struct LessEqual {
  static constexpr const char* name = "less_equal";
  constexpr bool operator()(auto x, auto y) const { return x <= y; }
};
struct Greater {
  static constexpr const char* name = "greater";
  constexpr bool operator()(auto x, auto y) const { return x > y; }
};
struct GreaterEqual {
  static constexpr const char* name = "greater_equal";
  constexpr bool operator()(auto x, auto y) const { return x >= y; }
};
/// x where a condition (input 0) holds, else y. Elements are moved, not computed with.
struct Where {
  static constexpr const char* name = "where";
  constexpr auto operator()(auto condition, auto x, auto y) const { return condition ? x : y; }
  static constexpr auto d1(auto g) { return math::select(g.x(), g.dy(), 0.f); }
  static constexpr auto d2(auto g) { return math::select(g.x(), 0.f, g.dy()); }
};
/// -1, 0 or 1 as an integer of 64 bits is below, at or above a number, NaN beside NaN; exact, where
/// a double would round the integer.
struct Order {
  static constexpr const char* name = "order";
  constexpr float operator()(std::int64_t x, double y) const {
    const double rounded = static_cast<double>(x);
    if (rounded < y) return -1;
    if (rounded > y) return 1;
    if (!(rounded == y)) return static_cast<float>(y);
    if (y == 0x1p63) return -1;  // no integer is so large
    const auto whole = static_cast<std::int64_t>(y);
    return static_cast<float>((x > whole) - (x < whole));
  }
  constexpr float operator()(double x, std::int64_t y) const { return -(*this)(y, x); }
};
// A number is true unless it is 0; no short cuts, so that the loops stay straight.
struct LogicalAnd {
  static constexpr const char* name = "logical_and";
  constexpr bool operator()(auto x, auto y) const { return (x != 0) & (y != 0); }
};
struct LogicalOr {
  static constexpr const char* name = "logical_or";
  constexpr bool operator()(auto x, auto y) const { return (x != 0) | (y != 0); }
};
struct LogicalXor {
  static constexpr const char* name = "logical_xor";
  constexpr bool operator()(auto x, auto y) const { return (x != 0) != (y != 0); }
};
struct LogicalNot {
  static constexpr const char* name = "logical_not";
  constexpr bool operator()(auto x) const { return x == 0; }
};
/// The largest finite number of float or double.
template <class X>
inline constexpr double largest = sizeof(X) == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
struct IsFinite {
  static constexpr const char* name = "isfinite";
  constexpr bool operator()(auto x) const {
    using X = decltype(x);
    if constexpr (!math::NumberFunctions<X>::fraction)
      return true;
    else
      return math::abs(x) <= static_cast<X>(largest<X>);
  }
};
struct IsInf {
  static constexpr const char* name = "isinf";
  constexpr bool operator()(auto x) const {
    using X = decltype(x);
    if constexpr (!math::NumberFunctions<X>::fraction)
      return false;
    else
      return math::abs(x) > static_cast<X>(largest<X>);
  }
};
struct IsNan {
  static constexpr const char* name = "isnan";
  constexpr bool operator()(auto x) const { return x != x; }
};

using CompareFormulas = List<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd,
                             LogicalOr, LogicalXor, LogicalNot, IsFinite, IsInf, IsNan>;
}  // namespace reel::REEL_FORMULAS
