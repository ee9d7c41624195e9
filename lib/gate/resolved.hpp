// SPDX-License-Identifier: BSD-3-Clause
// The inputs of a call that takes the general path of the gate.
#pragma once
#include <span>

#include "lib/body/small_vector.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
/// The inputs of a call: bodies, their operands, and temporary conversions.
struct Resolved {
  SmallVector<Body*, 4> bodies;
  SmallVector<Origin, 4> origins;
  bool only_numbers = false;    // live ones: so is the result
  Device device;                // where the kernel runs
  SmallVector<Tensor, 4> made;  // numbers turned into tensors, and converted inputs

  Body* keep(Tensor x) {
    made.push_back(std::move(x));
    return Access::body(made[made.size() - 1]);
  }
};

/// Numbers become tensors, and what takes part in a promotion comes to one dtype. A tensor of rank
/// 0 on the CPU counts as a number beside tensors of another device. Throws DeviceError unless all
/// others are on one device.
void resolve(Context& context, Op& op, std::span<const Operand> operands, Caller caller,
             Resolved& inputs);
/// The tapes that follow any of them.
inline std::uint64_t tapes_of(const Resolved& inputs) {
  std::uint64_t tapes = 0;
  for (const Origin& origin : inputs.origins) tapes |= origin.tapes;
  return tapes;
}

/// An op that is a function of other ops: recorded as one if it has a gradient of its own.
void run_composite(Context& context, Op& op, Resolved& inputs, OptionsView options, Caller caller,
                   SmallVector<Tensor, 2>& outputs);
}  // namespace reel
