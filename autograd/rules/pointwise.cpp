// SPDX-License-Identifier: BSD-3-Clause
// Pointwise gradients in public ops, made of the same formulas as the fused kernels.
#include <reel/ops.hpp>

#include "autograd/install.hpp"
#include "lib/formulas/activation.hpp"
#include "lib/formulas/arithmetic.hpp"
#include "lib/formulas/compare.hpp"
#include "lib/formulas/loss.hpp"
#include "lib/formulas/math.hpp"
#include "lib/formulas/special.hpp"
#include "lib/formulas/trigonometry.hpp"
#include "lib/table/entries.hpp"
#include "lib/table/options/reshape.hpp"

namespace reel {
namespace formulas::math {
template <>
struct Functions<Tensor> {
  static double number(double value) { return value; }
  static Tensor select(const Tensor& condition, Operand x, Operand y) {
    return where(condition, x, y);
  }
#define REEL_OF_ONE(name) \
  static Tensor name(const Tensor& x) { return reel::name(x); }
  REEL_EACH_FUNCTION(REEL_OF_ONE)
  REEL_OF_ONE(abs)
  REEL_OF_ONE(digamma)
  REEL_OF_ONE(sigmoid)
#undef REEL_OF_ONE
  static Tensor hypot(const Tensor& x, const Tensor& y) { return reel::hypot(x, y); }
  static Tensor maximum(const Tensor& x, const Tensor& y) { return reel::maximum(x, y); }
  static Tensor minimum(const Tensor& x, const Tensor& y) { return reel::minimum(x, y); }
  static Tensor polygamma(const Tensor& x, Operand n) {
    return run_binary(core_ops.polygamma, x, n);
  }
  static Tensor power(const Tensor& x, const Tensor& y) { return reel::power(x, y); }
};
}  // namespace formulas::math

namespace {
struct TensorValues {
  GradientCall* call;
  Tensor dy() const { return call->dy(); }
  Tensor x() const { return call->input(0); }
  Tensor y() const { return call->input(1); }
  Tensor z() const { return call->input(2); }
  Tensor out() const { return call->output(); }
};

template <class F>
void rule(GradientCall& call) {
  const TensorValues g{&call};
  if constexpr (requires { F::d0(g); })
    if (call.wants(0)) call.give_sum(0, F::d0(g));
  if constexpr (requires { F::d1(g); })
    if (call.wants(1)) call.give_sum(1, F::d1(g));
  if constexpr (requires { F::d2(g); })
    if (call.wants(2)) call.give_sum(2, F::d2(g));
}

/// The sum is taken first: it is smaller where y was broadcast.
template <>
void rule<formulas::Subtract>(GradientCall& call) {
  const Tensor& dy = call.dy();
  call.give_sum(0, dy);
  if (!call.wants(1)) return;
  const Shape& shape = call.input_shape(1);
  call.give(1, -(dy.shape() == shape ? dy : run(core_ops.sum_to, dy, ShapeOptions{shape})));
}

/// The rules of a family, for the formulas that have a gradient.
template <class F>
constexpr GradientRule rule_or_null() {
  if constexpr (
      requires { F::d0(TensorValues()); } || requires { F::d1(TensorValues()); })
    return rule<F>;
  else
    return nullptr;
}
template <class List>
constexpr NamedRule rules_of[] = {{nullptr, nullptr}};
template <class... F>
constexpr NamedRule rules_of<formulas::List<F...>>[] = {{F::name, rule_or_null<F>()}...,
                                                        {nullptr, nullptr}};

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

const Rules pointwise_rules[] = {
#define REEL_POINTWISE(family, list, cpu) rules_of<formulas::list>,
#define REEL_FAMILY(...)
#include "lib/table/families.def"
    rules_of<formulas::List<formulas::Where>>, nullptr};
}  // namespace reel
