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

template <class F>
constexpr NamedRule named{F::name, rule<F>};

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

const NamedRule pointwise_rules[] = {
    named<formulas::Abs>,     named<formulas::Add>,       named<formulas::Divide>,
    named<formulas::Exp>,     named<formulas::Log>,       named<formulas::Maximum>,
    named<formulas::Minimum>, named<formulas::Multiply>,  named<formulas::Negative>,
    named<formulas::Power>,   named<formulas::Relu>,      named<formulas::Sigmoid>,
    named<formulas::Sqrt>,    named<formulas::Square>,    named<formulas::Subtract>,
    named<formulas::Tanh>,    named<formulas::Remainder>, {"where", where_rule},
    {nullptr, nullptr}};
}  // namespace reel
