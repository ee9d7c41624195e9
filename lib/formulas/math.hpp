// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Abs {
  static constexpr const char* name = "abs";
  static constexpr Domain domain = Domain::everything;
  constexpr auto operator()(auto x) const { return math::abs(x); }
  // dx = dy sign x, 0 at 0
  static constexpr auto d0(auto g) {
    auto x = g.x();
    auto dy = g.dy();
    return math::select(x > 0, dy, math::select(x < 0, -dy, 0.f));
  }
};
struct Exp {
  static constexpr const char* name = "exp";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::exp(x); }
  static constexpr auto d0(auto g) { return g.dy() * g.out(); }
};
struct Log {
  static constexpr const char* name = "log";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::log(x); }
  static constexpr auto d0(auto g) { return g.dy() / g.x(); }
};
struct Square {
  static constexpr const char* name = "square";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool wraps = true;
  constexpr auto operator()(auto x) const { return x * x; }
  static constexpr auto d0(auto g) { return g.dy() * (2 * g.x()); }
};
struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x) const { return math::sqrt(x); }
  // dx = dy / (2 sqrt x)
  static constexpr auto d0(auto g) { return g.dy() * 0.5f / g.out(); }
};

struct Exp2 {
  static constexpr const char* name = "exp2";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::exp2(x); }
  // dx = dy y log 2
  static constexpr auto d0(auto g) {
    return g.dy() * g.out() * math::like(g.out(), 0.69314718055994531);
  }
};
struct Expm1 {
  static constexpr const char* name = "expm1";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::expm1(x); }
  // dx = dy e^x; the result + 1 would be 0 where e^x is small
  static constexpr auto d0(auto g) { return g.dy() * math::exp(g.x()); }
};
struct Log1p {
  static constexpr const char* name = "log1p";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::log1p(x); }
  static constexpr auto d0(auto g) { return g.dy() / (1 + g.x()); }
};
struct Log2 {
  static constexpr const char* name = "log2";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::log2(x); }
  // dx = dy / (x log 2)
  static constexpr auto d0(auto g) {
    auto x = g.x();
    return g.dy() * math::like(x, 1.4426950408889634) / x;
  }
};
/// log(e^x + e^y). Of equal infinities it is x.
struct LogAddExp {
  static constexpr const char* name = "logaddexp";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const {
    return math::maximum(x, y) + math::log1p(math::exp(math::negative(math::abs(gap(x, y)))));
  }
  // dx = dy / (1 + e^(y - x)), half of dy where x = y
  static constexpr auto d0(auto g) { return share(g.dy(), g.x(), g.y()); }
  static constexpr auto d1(auto g) { return share(g.dy(), g.y(), g.x()); }
  static constexpr auto share(auto dz, auto x, auto y) { return dz * math::sigmoid(gap(x, y)); }
  /// x - y, and 0 of equal infinities. Equal numbers are subtracted: the gap has derivatives there.
  static constexpr auto gap(auto x, auto y) {
    auto same = (x == y) & (math::abs(x) == math::like(x, __builtin_inf()));
    return math::select(same, 0.f, x) - math::select(same, 0.f, y);
  }
};
struct Reciprocal {
  static constexpr const char* name = "reciprocal";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x) const { return 1 / x; }
  static constexpr auto d0(auto g) {
    auto y = g.out();
    return -(g.dy() * y) * y;
  }
};
struct Rsqrt {
  static constexpr const char* name = "rsqrt";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x) const { return 1 / math::sqrt(x); }
  // dx = -dy y / (2 x)
  static constexpr auto d0(auto g) { return g.dy() * -0.5f * g.out() / g.x(); }
};
struct Hypot {
  static constexpr const char* name = "hypot";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x, auto y) const { return math::hypot(x, y); }
  // dx = dz x / z, 0 at the origin
  static constexpr auto d0(auto g) { return part(g.dy(), g.x(), g.out()); }
  static constexpr auto d1(auto g) { return part(g.dy(), g.y(), g.out()); }
  static constexpr auto part(auto dz, auto side, auto z) {
    auto origin = z == 0;
    return math::select(origin, 0.f, dz * (side / math::select(origin, 1.f, z)));
  }
};
/// erf x = 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.
struct Erf {
  static constexpr const char* name = "erf";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::erf(x); }
  static constexpr auto d0(auto g) { return slope(g.dy(), g.x(), 1.1283791670955126); }
  // dx = dy scale e^(-x^2)
  static constexpr auto slope(auto dy, auto x, double scale) {
    return dy * math::like(x, scale) * math::exp(-(x * x));
  }
};
struct Erfc {
  static constexpr const char* name = "erfc";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::erfc(x); }
  static constexpr auto d0(auto g) { return Erf::slope(g.dy(), g.x(), -1.1283791670955126); }
};

// These change in steps: a tape takes their results as constants. Integers stay what they are.
struct Ceil {
  static constexpr const char* name = "ceil";
  static constexpr Domain domain = Domain::numbers;
  constexpr auto operator()(auto x) const { return math::ceil(x); }
};
struct Floor {
  static constexpr const char* name = "floor";
  static constexpr Domain domain = Domain::numbers;
  constexpr auto operator()(auto x) const { return math::floor(x); }
};
struct Round {
  static constexpr const char* name = "round";
  static constexpr Domain domain = Domain::numbers;
  constexpr auto operator()(auto x) const { return math::nearbyint(x); }
};
struct Trunc {
  static constexpr const char* name = "trunc";
  static constexpr Domain domain = Domain::numbers;
  constexpr auto operator()(auto x) const { return math::trunc(x); }
};
struct Sign {
  static constexpr const char* name = "sign";
  static constexpr Domain domain = Domain::numbers;
  constexpr auto operator()(auto x) const {
    using X = decltype(x);
    return math::select(x > X(0), X(1), math::select(x < X(0), X(-1), x));
  }
};
struct FloorDivide {
  static constexpr const char* name = "floor_divide";
  static constexpr Domain domain = Domain::numbers;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const { return math::floor_divide(x, y); }
};

using MathFormulas =
    List<Abs, Exp, Log, Square, Sqrt, Exp2, Expm1, Log1p, Log2, LogAddExp, Reciprocal, Rsqrt, Hypot,
         Erf, Erfc, Ceil, Floor, Round, Trunc, Sign, FloorDivide>;
}  // namespace reel::REEL_FORMULAS
