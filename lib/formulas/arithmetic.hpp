// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Add {
  static constexpr const char* name = "add";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool wraps = true;
  constexpr auto operator()(auto x, auto y) const { return x + y; }
  constexpr bool operator()(bool x, bool y) const { return x | y; }
  static constexpr auto d0(auto g) { return g.dy(); }
  static constexpr auto d1(auto g) { return g.dy(); }
};
struct Subtract {
  static constexpr const char* name = "subtract";
  static constexpr Domain domain = Domain::numbers;
  static constexpr bool wraps = true;
  constexpr auto operator()(auto x, auto y) const { return x - y; }
  static constexpr auto d0(auto g) { return g.dy(); }
  static constexpr auto d1(auto g) { return -g.dy(); }
};
struct Multiply {
  static constexpr const char* name = "multiply";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool wraps = true;
  constexpr auto operator()(auto x, auto y) const { return x * y; }
  constexpr bool operator()(bool x, bool y) const { return x & y; }
  static constexpr auto d0(auto g) { return g.dy() * g.y(); }
  static constexpr auto d1(auto g) { return g.dy() * g.x(); }
};
struct Divide {
  static constexpr const char* name = "divide";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x, auto y) const { return x / y; }
  static constexpr auto d0(auto g) { return g.dy() / g.y(); }
  // dy = -dy x / y^2, in an order that overflows only where the result does
  static constexpr auto d1(auto g) {
    auto y = g.y();
    return -(g.dy() / y) * (g.x() / y);
  }
};
struct Remainder {
  static constexpr const char* name = "remainder";
  static constexpr Domain domain = Domain::numbers;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const { return math::remainder(x, y); }
  // out = x - y floor(x / y), where floor(x / y) is -1 if out is infinite
  static constexpr auto d0(auto g) { return g.dy(); }
  static constexpr auto d1(auto g) {
    auto y = g.y(), out = g.out();
    auto whole = (out == y) & (math::abs(y) == math::like(y, __builtin_inf()));
    return g.dy() * (math::select(whole, 1.f, out - g.x()) / math::select(whole, 1.f, y));
  }
};
struct Negative {
  static constexpr const char* name = "negative";
  static constexpr Domain domain = Domain::numbers;
  static constexpr bool wraps = true;
  constexpr auto operator()(auto x) const { return math::negative(x); }
  static constexpr auto d0(auto g) { return -g.dy(); }
};
struct Maximum {
  static constexpr const char* name = "maximum";
  static constexpr Domain domain = Domain::everything;
  constexpr auto operator()(auto x, auto y) const { return math::maximum(x, y); }
  // dx = dy where x > y, half of it where x = y
  static constexpr auto d0(auto g) { return shared(g.dy(), g.x(), g.y()); }
  static constexpr auto d1(auto g) { return shared(g.dy(), g.y(), g.x()); }
  static constexpr auto shared(auto dy, auto x, auto y) {
    return math::select(x > y, dy, math::select(x == y, dy * 0.5f, 0.f));
  }
};
struct Minimum {
  static constexpr const char* name = "minimum";
  static constexpr Domain domain = Domain::everything;
  constexpr auto operator()(auto x, auto y) const { return math::minimum(x, y); }
  static constexpr auto d0(auto g) { return Maximum::shared(g.dy(), g.y(), g.x()); }
  static constexpr auto d1(auto g) { return Maximum::shared(g.dy(), g.x(), g.y()); }
};
struct Power {
  static constexpr const char* name = "power";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const { return math::power(x, y); }
  // dx = dy y x^(y - 1), 0 where y = 0. For y = 0 the product is computed unless 1 / x overflows:
  // it has the derivative 1 / x along y. What is not taken is computed too: it must not be 0 inf.
  static constexpr auto d0(auto g) {
    auto x = g.x(), y = g.y();
    auto zero = y == 0;
    auto none = zero ^ (zero & (math::abs(x) > math::like(x, 0x1p-128)));
    return math::select(none, 0.f, g.dy() * y * math::power(x, math::select(none, 1.f, y - 1)));
  }
  // dy = dy x^y log x, 0 where x = 0 and y >= 0
  static constexpr auto d1(auto g) {
    auto x = g.x();
    auto none = (x == 0) & (g.y() >= 0);
    return math::select(none, 0.f, g.dy() * g.out() * math::log(math::select(none, 1.f, x)));
  }
};

/// x, or the bound (input 1) where x is below it. Unlike Maximum, x at the bound has the gradient.
struct ClipBelow {
  static constexpr const char* name = "clip_below";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool by_number = true;
  constexpr auto operator()(auto x, auto low) const { return math::select(x < low, low, x); }
  static constexpr auto d0(auto g) { return math::select(g.x() < g.y(), 0.f, g.dy()); }
  static constexpr auto d1(auto g) { return math::select(g.x() < g.y(), g.dy(), 0.f); }
};
struct ClipAbove {
  static constexpr const char* name = "clip_above";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool by_number = true;
  constexpr auto operator()(auto x, auto high) const { return math::select(x > high, high, x); }
  static constexpr auto d0(auto g) { return math::select(g.x() > g.y(), 0.f, g.dy()); }
  static constexpr auto d1(auto g) { return math::select(g.x() > g.y(), g.dy(), 0.f); }
};

/// x + w (y - x), from the end that is nearer: exact for w = 0 and w = 1, and x if y is x.
struct Lerp {
  static constexpr const char* name = "lerp";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x, auto y, auto w) const {
    auto difference = y - x, rest = 1 - w;
    auto near = math::select(w < 0.5f, x + w * difference, y - rest * difference);
    // The difference of two large numbers overflows; the result does not. 0 * infinity is NaN.
    auto far = math::select(w == 0, x, math::select(w == 1, y, rest * x + w * y));
    return math::select(difference - difference == 0, near, far);
  }
  static constexpr auto d0(auto g) { return g.dy() * (1 - g.z()); }
  static constexpr auto d1(auto g) { return g.dy() * g.z(); }
  static constexpr auto d2(auto g) { return g.dy() * (g.y() - g.x()); }
};

using ArithmeticFormulas = List<Add, Subtract, Multiply, Divide, Remainder, Negative, Maximum,
                                Minimum, Power, ClipBelow, ClipAbove, Lerp>;
}  // namespace reel::REEL_FORMULAS
