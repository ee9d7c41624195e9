// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Equal {
  static constexpr const char* name = "equal";
  bool operator()(auto x, auto y) const { return x == y; }
};
struct NotEqual {
  static constexpr const char* name = "not_equal";
  bool operator()(auto x, auto y) const { return x != y; }
};
struct Less {
  static constexpr const char* name = "less";
  bool operator()(auto x, auto y) const { return x < y; }
};
struct LessEqual {
  static constexpr const char* name = "less_equal";
  bool operator()(auto x, auto y) const { return x <= y; }
};
struct Greater {
  static constexpr const char* name = "greater";
  bool operator()(auto x, auto y) const { return x > y; }
};
struct GreaterEqual {
  static constexpr const char* name = "greater_equal";
  bool operator()(auto x, auto y) const { return x >= y; }
};
/// -1, 0 or 1 as an integer of 64 bits is below, at or above a number, NaN beside NaN; exact, where
/// a double would round the integer.
struct Order {
  static constexpr const char* name = "order";
  float operator()(std::int64_t x, double y) const {
    const double rounded = static_cast<double>(x);
    if (rounded < y) return -1;
    if (rounded > y) return 1;
    if (!(rounded == y)) return static_cast<float>(y);
    if (y == 0x1p63) return -1;  // no integer is so large
    const auto whole = static_cast<std::int64_t>(y);
    return static_cast<float>((x > whole) - (x < whole));
  }
  float operator()(double x, std::int64_t y) const { return -(*this)(y, x); }
};
// A number is true unless it is 0; no short cuts, so that the loops stay straight.
struct LogicalAnd {
  static constexpr const char* name = "logical_and";
  bool operator()(auto x, auto y) const { return (x != 0) & (y != 0); }
};
struct LogicalOr {
  static constexpr const char* name = "logical_or";
  bool operator()(auto x, auto y) const { return (x != 0) | (y != 0); }
};
struct LogicalXor {
  static constexpr const char* name = "logical_xor";
  bool operator()(auto x, auto y) const { return (x != 0) != (y != 0); }
};
struct LogicalNot {
  static constexpr const char* name = "logical_not";
  bool operator()(auto x) const { return x == 0; }
};

using CompareFormulas = List<Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, LogicalAnd,
                             LogicalOr, LogicalXor, LogicalNot>;
}  // namespace reel::REEL_FORMULAS
