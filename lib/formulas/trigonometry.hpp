// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Acos {
  static constexpr const char* name = "acos";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::acos(x); }
  // dx = -dy / sqrt(1 - x^2), in factors that are accurate near 1
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return -g.dy() / math::sqrt((1 - x) * (1 + x));
  }
};
struct Asin {
  static constexpr const char* name = "asin";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::asin(x); }
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return g.dy() / math::sqrt((1 - x) * (1 + x));
  }
};
struct Atan {
  static constexpr const char* name = "atan";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::atan(x); }
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return g.dy() / (1 + x * x);
  }
};
/// The angle of the point (y, x) = (input 0, input 1).
struct Atan2 {
  static constexpr const char* name = "atan2";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto y, auto x) const { return math::atan2(y, x); }
  // d(y) = dz x / r^2 and d(x) = -dz y / r^2 with r = hypot(x, y); 0 at the origin
  static constexpr auto d0(auto g) { return part(g.dy(), g.y(), math::hypot(g.x(), g.y())); }
  static constexpr auto d1(auto g) { return part(-g.dy(), g.x(), math::hypot(g.x(), g.y())); }
  static constexpr auto part(auto dz, auto side, auto r) {
    auto origin = r == 0;
    auto divisor = math::select(origin, 1.f, r);
    return math::select(origin, 0.f, dz * (side / divisor) / divisor);
  }
};
struct Cos {
  static constexpr const char* name = "cos";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::cos(x); }
  static constexpr auto d0(auto g) { return -g.dy() * math::sin(g.x()); }
};
struct Sin {
  static constexpr const char* name = "sin";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::sin(x); }
  static constexpr auto d0(auto g) { return g.dy() * math::cos(g.x()); }
};
struct Tan {
  static constexpr const char* name = "tan";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::tan(x); }
  // dx = dy (1 + y^2)
  static constexpr auto d0(auto g) {
    auto y = g.out();
    return g.dy() * (1 + y * y);
  }
};
struct Acosh {
  static constexpr const char* name = "acosh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::acosh(x); }
  // dx = dy / sqrt(x^2 - 1), in factors that do not overflow
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return g.dy() / (math::sqrt(x - 1) * math::sqrt(x + 1));
  }
};
struct Asinh {
  static constexpr const char* name = "asinh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::asinh(x); }
  // dx = dy / sqrt(x^2 + 1), where x^2 may overflow. |x| has no derivative at 0.
  static constexpr auto d0(auto g) {
    auto x = g.x(), size = math::abs(x);
    auto far = size > 1;
    auto larger = math::select(far, size, 1.f);
    auto ratio = math::select(far, 1.f, x) / larger;
    return g.dy() / (larger * math::sqrt(1 + ratio * ratio));
  }
};
struct Atanh {
  static constexpr const char* name = "atanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::atanh(x); }
  // dx = dy / (1 - x^2)
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return g.dy() / ((1 - x) * (1 + x));
  }
};
struct Cosh {
  static constexpr const char* name = "cosh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::cosh(x); }
  static constexpr auto d0(auto g) { return g.dy() * math::sinh(g.x()); }
};
struct Sinh {
  static constexpr const char* name = "sinh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::sinh(x); }
  static constexpr auto d0(auto g) { return g.dy() * math::cosh(g.x()); }
};

using TrigonometryFormulas =
    List<Acos, Asin, Atan, Atan2, Cos, Sin, Tan, Acosh, Asinh, Atanh, Cosh, Sinh>;
}  // namespace reel::REEL_FORMULAS
