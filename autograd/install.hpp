// SPDX-License-Identifier: BSD-3-Clause
// The gradient rules and kernels that assemble() puts into the op table.
#pragma once
#include <reel/activation.hpp>

#include "autograd/gradient_call.hpp"

namespace reel {
struct NamedRule {
  const char* op;
  GradientRule rule;
};
/// The rules of one family, ended by {nullptr, nullptr}.
using Rules = const NamedRule*;
#define REEL_POINTWISE(...)
#define REEL_FAMILY(family, rules, ...) REEL_IF_##rules(extern const NamedRule family##_rules[];)
#include "lib/table/families.def"
/// The rule of ops whose gradient a user registered.
void user_rule(GradientCall& call);
/// dx of an activation in public ops, from dy and its result; null for `none`.
using PointwiseGradient = Tensor (*)(const Tensor& dy, const Tensor& out);
PointwiseGradient gradient_of(Activation activation);  // rules/pointwise.cpp
/// The families whose rules come from formulas, and all others; both ended by null.
extern const Rules pointwise_rules[], gradient_rules[];
}  // namespace reel
