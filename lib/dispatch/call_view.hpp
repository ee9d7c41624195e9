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
}  // namespace reel
