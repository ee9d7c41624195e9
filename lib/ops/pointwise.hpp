// SPDX-License-Identifier: BSD-3-Clause
// The entry of a pointwise op, derived from its formula.
#pragma once
#include "lib/formulas/functions.hpp"
#include "lib/table/op.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
/// Stands for a number in a gradient formula, and tells what it was computed from.
struct Term {
  unsigned uses = 0;      // as in Needs
  bool upstream = false;  // it is dy itself
  constexpr Term() = default;
  constexpr Term(double) {}
};
constexpr Term made_of(unsigned uses) {
  Term term;
  term.uses = uses;
  return term;
}
constexpr Term joined(const Term& x, const Term& y) { return made_of(x.uses | y.uses); }
constexpr Term operator-(const Term& x) { return made_of(x.uses); }
constexpr Term operator+(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator-(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator*(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator/(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator&(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator>(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator<(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator>=(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator<=(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator==(const Term& x, const Term& y) { return joined(x, y); }

template <>
struct formulas::math::Functions<Term> {
  static constexpr Term select(const Term& condition, const Term& x, const Term& y) {
    return made_of(condition.uses | x.uses | y.uses);
  }
  static constexpr Term log(const Term& x) { return made_of(x.uses); }
  static constexpr Term power(const Term& x, const Term& y) { return joined(x, y); }
};

/// What a gradient formula reads.
struct TermValues {
  constexpr Term dy() const {
    Term dy;
    dy.upstream = true;
    return dy;
  }
  constexpr Term x() const { return made_of(need_input(0)); }
  constexpr Term y() const { return made_of(need_input(1)); }
  constexpr Term out() const { return made_of(need_output()); }
};

template <class F>
inline constexpr bool has_two_inputs = requires(F f, int x) {
  f(x, x);
};

/// Name, inputs, dtypes, and what its gradients keep alive, as the formula says.
template <class F>
constexpr Op pointwise(Samples samples) {
  using formulas::Domain;
  Op op;
  op.name = F::name;
  op.arity = has_two_inputs<F> ? 2 : 1;
  op.shape = broadcast;
  op.domain = F::domain;
  op.promote = F::domain == Domain::floating ? Promote::floating : Promote::numeric;
  op.fusion = Fusion::pointwise;
  op.samples = samples;
  const auto add = [&op](int input, const Term& gradient) {
    op.needs.of[input] = static_cast<std::uint16_t>(gradient.uses);
    if (gradient.upstream) op.passes |= static_cast<std::uint8_t>(1 << input);
  };
  op.differentiable = requires { F::d0(TermValues()); };
  if constexpr (requires { F::d0(TermValues()); }) add(0, F::d0(TermValues()));
  if constexpr (requires { F::d1(TermValues()); }) add(1, F::d1(TermValues()));
  return op;
}
/// The same for one whose result is a truth value.
template <class F>
constexpr Op comparison(Samples samples, Promote promote) {
  Op op;
  op.name = F::name;
  op.arity = has_two_inputs<F> ? 2 : 1;
  op.shape = broadcast;
  op.promote = promote;
  op.result = ResultDType::boolean;
  op.fusion = Fusion::pointwise;
  op.differentiable = false;
  op.samples = samples;
  return op;
}
}  // namespace reel
