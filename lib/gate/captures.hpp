// SPDX-License-Identifier: BSD-3-Clause
// What a function with a gradient of its own reads beside its inputs.
#pragma once
#include <optional>
#include <vector>

#include "lib/flow/observer.hpp"
#include "lib/gate/recording.hpp"

namespace reel {
/// While tapes record, notes the values that a function reads and that are not among its inputs:
/// those of Variables, and those with records from before the function began. They follow the
/// inputs in the function's record, without a shape, so that a gradient that reaches one of them is
/// an error and not lost.
class Captures : public Observer {
 public:
  explicit Captures(Context& context);
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;
  /// The function has ended.
  void stop() { scope_.reset(); }
  /// Adds what the function has read to the inputs of its record, and returns the number of what it
  /// has added.
  int add_to(Body* const* results, std::size_t result_count, SmallVector<Body*, 4>& inputs,
             SmallVector<Origin, 4>& origins, Caller caller);

 private:
  void op_begins(const GateCall& call) override;
  void op_ends(const GateCall& call) override;
  void variable_read(const Variable& variable) override;
  void read(Body* body);
  Context& context_;
  std::uint32_t first_;  // the number of the first record inside the function
  std::vector<Variable> variables_;
  std::vector<Tensor> values_, constants_;
  std::optional<ObserverScope> scope_;
};
}  // namespace reel
