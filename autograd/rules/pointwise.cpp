// SPDX-License-Identifier: BSD-3-Clause
// Pointwise gradients in public ops, from the formulas that the fused kernels are made of.
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/formulas/activation.hpp"
#include "lib/formulas/arithmetic.hpp"
#include "lib/formulas/math.hpp"

namespace reel {
namespace formulas::math {
template <>
struct Functions<Tensor> {
  static Tensor select(const Tensor& condition, Operand x, Operand y) {
    return where(condition, x, y);
  }
  static Tensor log(const Tensor& x) { return reel::log(x); }
  static Tensor power(const Tensor& x, const Tensor& y) { return reel::power(x, y); }
};
}  // namespace formulas::math

namespace {
struct TensorValues {
  GradientCall* call;
  Tensor dy() const { return call->dy(); }
  Tensor x() const { return call->input(0); }
  Tensor y() const { return call->input(1); }
  Tensor out() const { return call->output(); }
};

template <class F>
void rule(GradientCall& call) {
  const TensorValues g{&call};
  if (call.wants(0)) call.give_sum(0, F::d0(g));
  if constexpr (requires { F::d1(g); })
    if (call.wants(1)) call.give_sum(1, F::d1(g));
}

// z = x where c, else y
void where_rule(GradientCall& call) {
  const Tensor &dz = call.dy(), &c = call.input(0);
  if (call.wants(1)) call.give_sum(1, where(c, dz, 0));
  if (call.wants(2)) call.give_sum(2, where(c, 0, dz));
}

/// The rules of a family, where a formula has a gradient.
template <class F>
constexpr GradientRule rule_or_null() {
  if constexpr (requires(TensorValues g) { F::d0(g); })
    return rule<F>;
  else
    return nullptr;
}
template <class List>
constexpr NamedRule rules_of[] = {{nullptr, nullptr}};
template <class... F>
constexpr NamedRule rules_of<formulas::List<F...>>[] = {{F::name, rule_or_null<F>()}...,
                                                        {nullptr, nullptr}};
constexpr NamedRule where_rules[] = {{"where", where_rule}, {nullptr, nullptr}};

template <class F>
Tensor gradient_before(const Tensor& dy, const Tensor& out) {
  struct Values {
    const Tensor &given, &result;
    Tensor dy() const { return given; }
    Tensor out() const { return result; }
  };
  return F::d0(Values{dy, out});
}
}  // namespace

PointwiseGradient gradient_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return gradient_before<formulas::Relu>;
    case Activation::sigmoid:
      return gradient_before<formulas::Sigmoid>;
    case Activation::tanh:
      return gradient_before<formulas::Tanh>;
  }
  return nullptr;
}

const Rules pointwise_rules[] = {rules_of<formulas::ArithmeticFormulas>,
                                 rules_of<formulas::MathFormulas>,
                                 rules_of<formulas::ActivationFormulas>, where_rules, nullptr};
}  // namespace reel
