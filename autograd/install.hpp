// SPDX-License-Identifier: BSD-3-Clause
// The table of derivatives: what assemble() puts into the op table.
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
extern const NamedRule pointwise_rules[], reduce_rules[], matmul_rules[], softmax_rules[],
    normalize_rules[], recurrent_rules[], reshape_rules[], gather_rules[], sequence_rules[];
/// dx of an activation by ops, from dy and its result; null for none.
using PointwiseGradient = Tensor (*)(const Tensor& dy, const Tensor& out);
PointwiseGradient gradient_of(Activation activation);  // rules/pointwise.cpp
/// All families, ended by null.
extern const Rules gradient_rules[];
}  // namespace reel
