// SPDX-License-Identifier: BSD-3-Clause
// How an op runs for many calls at once: inputs that differ have the calls as first axis.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include <reel/op.hpp>
#include <reel/variable.hpp>

#include "lib/body/small_vector.hpp"
#include "lib/table/op.hpp"

namespace reel::batch {
/// An input of so many calls: one for all of them, or a row of a tensor for each.
struct Input {
  Tensor tensor = {};
  std::optional<Variable> variable = {};
  std::optional<Scalar> scalar = {};
  bool batched = false;  // only a tensor

  Operand operand(Caller caller) const;
  /// Of one call.
  Shape shape() const;
  int rank() const;
};

struct Calls {
  Op& op;
  OptionsView options;
  std::vector<Input> inputs;
  std::int64_t count;
  Caller caller;
};

/// The outputs of the calls, with the calls as first axis. Some input is batched. An op without a
/// rule runs call by call; returns false then.
bool run_together(const Calls& calls, SmallVector<Tensor, 2>& outputs);
}  // namespace reel::batch
