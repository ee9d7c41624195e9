// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const {
    return math::negative(y * log_of(x) + (1 - y) * log_of_rest(x));
  }
  // dx = dout (x - y) / (x (1 - x)), where x and 1 - x are at least 1e-12. The numerator is that of
  // the bounded one, so that -log x has the slope -1 at x = 1, and -log(1 - x) the slope 1 at 0.
  static constexpr auto d0(auto g) {
    auto x = g.x(), y = g.y();
    auto p = bounded(x), q = bounded(1 - x);
    return g.dy() * (math::select(x < 0.5f, p - y, (1 - y) - q) / (p * q));
  }
  static constexpr auto bounded(auto x) { return math::select(x < 1e-12f, 1e-12f, x); }
  static constexpr auto d1(auto g) {
    auto x = g.x();
    return g.dy() * (log_of_rest(x) - log_of(x));
  }
  /// At least -100. The logarithm of 0 is not computed.
  static constexpr auto log_of(auto x) {
    auto none = x == 0;
    return limited(none, math::log(math::select(none, 1.f, x)));
  }
  // x * -1: -x makes 0 of 0 with AVX-512, and the logarithm of 1 - 0 has the sign of -0.
  static constexpr auto log_of_rest(auto x) {
    auto none = x == 1;
    return limited(none, math::log1p(math::select(none, 0.f, x * -1)));
  }
  static constexpr auto limited(auto none, auto log) {
    return math::select(none, -100.f, math::select(log < -100, -100.f, log));
  }
};
struct BinaryCrossEntropyWithLogits {
  static constexpr const char* name = "binary_cross_entropy_with_logits";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto y) const {
    auto size = math::abs(x), share = math::select(x > 0, 1 - y, y);
    return math::select(share == 0, 0.f, size * share) + math::log1p(math::exp(-size));
  }
  // dx = dout (sigmoid x - y), without cancellation where y is 1
  static constexpr auto d0(auto g) {
    auto x = g.x(), y = g.y();
    auto positive = x > 0;
    auto small = math::sigmoid(math::select(positive, -x, x));
    return g.dy() * math::select(positive, (1 - y) - small, small - y);
  }
  static constexpr auto d1(auto g) { return -(g.dy() * g.x()); }
};
/// d^2 / 2 up to |d| = delta, beyond it delta (|d| - delta / 2).
struct Huber {
  static constexpr const char* name = "huber";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto d, auto delta) const {
    auto near = limited(d, delta);
    return near * (d - 0.5f * near);
  }
  static constexpr auto d0(auto g) { return g.dy() * limited(g.x(), g.y()); }
  static constexpr auto d1(auto g) {
    return g.dy() * (math::abs(g.x()) - math::abs(limited(g.x(), g.y())));
  }
  static constexpr auto limited(auto d, auto delta) {
    return math::minimum(math::maximum(d, -delta), delta);
  }
};

using LossFormulas = List<BinaryCrossEntropy, BinaryCrossEntropyWithLogits, Huber>;
}  // namespace reel::REEL_FORMULAS
