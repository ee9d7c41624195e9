// SPDX-License-Identifier: BSD-3-Clause
// The library's side of an OpCall.
#pragma once
#include "lib/dispatch/gate.hpp"

namespace reel {
struct CallView {
  const Op& op;
  Body* const* inputs;
  int input_count;
  Body* const* outputs;
  int output_count;
  OptionsView options;
  Caller caller;
};
/// How often an op, a gradient or a kernel has been registered.
std::uint64_t registrations();
/// The rule of ops whose gradient a user registered (autograd/custom.cpp), and that gradient.
void user_rule(GradientCall& call);
Tensors call_user_gradient(const Op& op, const OpCall& call, const Tensors& upstream);
}  // namespace reel
