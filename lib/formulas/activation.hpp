// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS {
struct Relu {
  static constexpr const char* name = "relu";
  static constexpr Domain domain = Domain::floating;
  auto operator()(auto x) const { return math::maximum(x, decltype(x)(0)); }
  static constexpr auto d0(auto g) { return math::select(g.out() > 0, g.dy(), 0.f); }
};
struct Sigmoid {
  static constexpr const char* name = "sigmoid";
  static constexpr Domain domain = Domain::floating;
  static constexpr bool slow = true;
  auto operator()(auto x) const { return math::sigmoid(x); }
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
  auto operator()(auto x) const { return math::tanh(x); }
  // dx = dy (1 - y^2)
  static constexpr auto d0(auto g) {
    auto y = g.out();
    return g.dy() * (1 - y * y);
  }
};

using ActivationFormulas = List<Relu, Sigmoid, Tanh>;
}  // namespace reel::REEL_FORMULAS
