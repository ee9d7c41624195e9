// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/gamma.hpp"

namespace reel::REEL_FORMULAS {
struct LogGamma {
  static constexpr const char* name = "lgamma";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::lgamma(x); }
  static constexpr auto d0(auto g) { return g.dy() * math::digamma(g.x()); }
};
struct Digamma {
  static constexpr const char* name = "digamma";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return math::digamma(x); }
  static constexpr auto d0(auto g) { return g.dy() * math::polygamma(g.x(), math::like(g.x(), 1)); }
};
/// Derivative n of digamma; (x, n) = (input 0, input 1). There is no gradient for n.
struct Polygamma {
  static constexpr const char* name = "polygamma";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto n) const { return math::polygamma(x, n); }
  static constexpr auto d0(auto g) { return g.dy() * math::polygamma(g.x(), 1 + g.y()); }
};

using SpecialFormulas = List<LogGamma, Digamma, Polygamma>;
}  // namespace reel::REEL_FORMULAS
