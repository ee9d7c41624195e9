// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Relu {
  static constexpr const char* name = "relu";
  static constexpr Domain domain = Domain::floating;
  constexpr auto operator()(auto x) const { return math::maximum(x, decltype(x)(0)); }
  static constexpr auto d0(auto g) { return math::select(g.out() > 0, g.dy(), 0.f); }
};
struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::sigmoid(x); }
  // dx = dy y (1 - y)
  static constexpr auto d0(auto g) {
    auto y = g.out();
    return g.dy() * (y * (1 - y));
  }
};
struct Tanh {
  static constexpr const char* name = "tanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  static constexpr bool quick_slope = true;
  constexpr auto operator()(auto x) const { return math::tanh(x); }
  // dx = dy (1 - y^2)
  static constexpr auto d0(auto g) {
    auto y = g.out();
    return g.dy() * (1 - y * y);
  }
};

/// x where x > 0, else slope x; (x, slope) = (input 0, input 1).
struct LeakyRelu {
  static constexpr const char* name = "leaky_relu";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool by_number = true;
  constexpr auto operator()(auto x, auto slope) const {
    return math::select(x > 0, x, slope * below(x));
  }
  static constexpr auto d0(auto g) { return g.dy() * math::select(g.x() > 0, 1.f, g.y()); }
  static constexpr auto d1(auto g) { return g.dy() * below(g.x()); }
  /// 0 instead of a positive x, which may be infinite.
  static constexpr auto below(auto x) { return math::select(x > 0, 0.f, x); }
};
/// x where x > 0, else alpha (e^x - 1); (x, alpha) = (input 0, input 1).
struct Elu {
  static constexpr const char* name = "elu";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x, auto alpha) const {
    return math::select(x > 0, x, alpha * math::expm1(LeakyRelu::below(x)));
  }
  static constexpr auto d0(auto g) {
    auto x = g.x();
    auto dy = g.dy();
    return math::select(x > 0, dy, dy * g.y() * math::exp(LeakyRelu::below(x)));
  }
  static constexpr auto d1(auto g) { return g.dy() * math::expm1(LeakyRelu::below(g.x())); }
};
/// x Phi(x), where Phi is the distribution function of the normal distribution.
struct Gelu {
  static constexpr const char* name = "gelu";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return finite(x) * phi(x); }
  // dx = dy (Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi))
  static constexpr auto d0(auto g) {
    auto x = bounded(g.x());
    auto density = math::exp(-0.5f * (x * x)) * math::like(x, 0.39894228040143268);
    return g.dy() * (phi(x) + x * density);
  }
  /// erfc keeps the small values of Phi exact.
  static constexpr auto phi(auto x) {
    return 0.5f * math::erfc(x * math::like(x, -0.70710678118654752));
  }
  /// -infinity times 0 would be NaN.
  static constexpr auto finite(auto x) { return math::select(x < -1e30f, -1e30f, x); }
  static constexpr auto bounded(auto x) { return math::select(x > 1e30f, 1e30f, finite(x)); }
};
/// x (1 + tanh(v)) / 2, which is x sigmoid(2 v), with v = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  static constexpr const char* name = "gelu_tanh";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const { return Gelu::finite(x) * math::sigmoid(twice_v(x)); }
  // dx = dy s (1 + x (1 - s) 2 dv), with s = sigmoid(2 v); where s or 1 - s is 0, x does not count
  static constexpr auto d0(auto g) {
    auto x = math::select(g.x() < -20.f, -20.f, math::select(g.x() > 20.f, 20.f, g.x()));
    auto v = twice_v(x);
    auto slope = math::like(x, 1.5957691216057308) * (1 + math::like(x, 0.134145) * (x * x));
    return g.dy() * (math::sigmoid(v) * (1 + x * math::sigmoid(-v) * slope));
  }
  static constexpr auto twice_v(auto x) {
    return math::like(x, 1.5957691216057308) * (x * (1 + math::like(x, 0.044715) * (x * x)));
  }
};
/// x sigmoid(x), also called swish.
struct Silu {
  static constexpr const char* name = "silu";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  /// NaN stays as it is: a product of two NaNs may have the sign of either.
  constexpr auto operator()(auto x) const {
    return math::select(x == x, Gelu::finite(x) * math::sigmoid(x), x);
  }
  // dx = dy s (1 + x (1 - s)) with s = sigmoid(x)
  static constexpr auto d0(auto g) {
    auto x = g.x();
    auto s = math::sigmoid(x);
    return g.dy() * (s * (1 + Gelu::bounded(x) * math::sigmoid(-x)));
  }
};
/// log(1 + e^x)
struct Softplus {
  static constexpr const char* name = "softplus";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  constexpr auto operator()(auto x) const {
    return math::maximum(x, decltype(x)(0)) + math::log1p(math::exp(math::negative(math::abs(x))));
  }
  static constexpr auto d0(auto g) { return g.dy() * math::sigmoid(g.x()); }
};

using ActivationFormulas =
    List<Relu, Sigmoid, Tanh, LeakyRelu, Elu, Gelu, GeluTanh, Silu, Softplus>;
}  // namespace reel::REEL_FORMULAS
