// SPDX-License-Identifier: BSD-3-Clause
// The library's side of an OpCall.
#pragma once
#include "lib/gate/gate.hpp"

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
/// How often an op, a gradient or a kernel has been registered, or Variables have moved to another
/// device: traces from before are not replayed.
std::uint64_t registrations();
void count_registration();
/// Calls the gradient that a user registered.
Tensors call_user_gradient(const CallView& call, const Tensors& upstream);
/// Whether calls on this device run a user's function or kernel. A kernel for an op of the library
/// is for the CPU.
bool runs_user_code(const Op& op, Device device);
/// Whether register_kernel() gave the op what it runs.
bool has_user_kernel(const Op& op);
}  // namespace reel
