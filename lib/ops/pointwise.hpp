// SPDX-License-Identifier: BSD-3-Clause
// The entry of a pointwise op, derived from its formula.
#pragma once
#include "lib/formulas/functions.hpp"
#include "lib/table/op.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
/// Replaces a number in a gradient formula at compile time, and notes what it was computed from.
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
constexpr Term operator^(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator>(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator<(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator>=(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator<=(const Term& x, const Term& y) { return joined(x, y); }
constexpr Term operator==(const Term& x, const Term& y) { return joined(x, y); }

template <>
struct formulas::math::Functions<Term> {
  static constexpr Term number(double value) { return value; }
  static constexpr Term select(const Term& condition, const Term& x, const Term& y) {
    return made_of(condition.uses | x.uses | y.uses);
  }
#define REEL_OF_ONE(name) \
  static constexpr Term name(const Term& x) { return made_of(x.uses); }
  REEL_EACH_FUNCTION(REEL_OF_ONE)
  REEL_OF_ONE(abs)
  REEL_OF_ONE(digamma)
  REEL_OF_ONE(sigmoid)
#undef REEL_OF_ONE
  static constexpr Term hypot(const Term& x, const Term& y) { return joined(x, y); }
  static constexpr Term maximum(const Term& x, const Term& y) { return joined(x, y); }
  static constexpr Term minimum(const Term& x, const Term& y) { return joined(x, y); }
  static constexpr Term polygamma(const Term& x, const Term& n) { return joined(x, n); }
  static constexpr Term power(const Term& x, const Term& y) { return joined(x, y); }
};

/// The inputs and outputs that a gradient formula reads.
struct TermValues {
  constexpr Term dy() const {
    Term dy;
    dy.upstream = true;
    return dy;
  }
  constexpr Term x() const { return made_of(need_input(0)); }
  constexpr Term y() const { return made_of(need_input(1)); }
  constexpr Term z() const { return made_of(need_input(2)); }
  constexpr Term out() const { return made_of(need_output()); }
};

/// What of an entry no formula says.
struct PointwiseNotes {
  bool internal = false;
  Autocast autocast = Autocast::as_given;
  const char* not_finite = nullptr;
  const char* slope_not_finite = nullptr;
  const char* bool_advice = "Cast it first.";
  const char* argument_names = "x, y, z";
  std::string_view function = {};
};
/// What the gradient of input i reads; nothing if F has no such gradient.
template <class F, int i>
constexpr Term gradient_term() {
  if constexpr (i == 0 && requires { F::d0(TermValues()); }) return F::d0(TermValues());
  if constexpr (i == 1 && requires { F::d1(TermValues()); }) return F::d1(TermValues());
  if constexpr (i == 2 && requires { F::d2(TermValues()); }) return F::d2(TermValues());
  return {};
}
/// Name, inputs, dtypes, and what its gradients keep alive, as the formula says.
template <class F>
constexpr Op pointwise(Samples samples, PointwiseNotes notes = {}) {
  using formulas::Domain;
  constexpr Term dx = gradient_term<F, 0>(), dy = gradient_term<F, 1>(), dz = gradient_term<F, 2>();
  constexpr bool differentiable = requires { F::d0(TermValues()); };
  return {.name = F::name,
          .arity = formulas::arity_of<F>,
          .shape = broadcast,
          .promote = F::domain == Domain::floating ? Promote::floating : Promote::numeric,
          .domain = F::domain,
          .needs = {{static_cast<std::uint16_t>(dx.uses), static_cast<std::uint16_t>(dy.uses),
                     static_cast<std::uint16_t>(dz.uses)}},
          .fusion = Fusion::pointwise,
          .differentiable = differentiable,
          .passes = static_cast<std::uint8_t>(dx.upstream | dy.upstream << 1 | dz.upstream << 2),
          .internal = notes.internal,
          .autocast = notes.autocast,
          .samples = samples,
          .argument_names = notes.argument_names,
          .not_finite = notes.not_finite,
          .slope_not_finite = notes.slope_not_finite,
          .bool_advice = notes.bool_advice,
          .function = notes.function};
}
/// The entry of a pointwise op whose result is a truth value.
template <class F>
constexpr Op comparison(Samples samples, Promote promote) {
  return {.name = F::name,
          .arity = formulas::arity_of<F>,
          .shape = broadcast,
          .promote = promote,
          .result = ResultDType::boolean,
          .fusion = Fusion::pointwise,
          .differentiable = false,
          .samples = samples};
}
}  // namespace reel
