// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Abs {
  static constexpr const char* name = "abs";
  static constexpr Domain domain = Domain::everything;
  auto operator()(auto x) const { return math::abs(x); }
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
  auto operator()(auto x) const { return math::exp(x); }
  static constexpr auto d0(auto g) { return g.dy() * g.out(); }
};
struct Log {
  static constexpr const char* name = "log";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  auto operator()(auto x) const { return math::log(x); }
  static constexpr auto d0(auto g) { return g.dy() / g.x(); }
};
struct Square {
  static constexpr const char* name = "square";
  static constexpr Domain domain = Domain::everything;
  static constexpr bool wraps = true;
  auto operator()(auto x) const { return x * x; }
  static constexpr auto d0(auto g) { return g.dy() * (2 * g.x()); }
};
struct Sqrt {
  static constexpr const char* name = "sqrt";
  static constexpr Domain domain = Domain::floating;
  auto operator()(auto x) const { return math::sqrt(x); }
  // dx = dy / (2 sqrt x)
  static constexpr auto d0(auto g) { return g.dy() * 0.5f / g.out(); }
};

using MathFormulas = List<Abs, Exp, Log, Square, Sqrt>;
}  // namespace reel::REEL_FORMULAS
