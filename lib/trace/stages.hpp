// SPDX-License-Identifier: BSD-3-Clause
// Writes chains of passes as programs of stages.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "lib/graph/graph.hpp"
#include "lib/table/planned_graph.hpp"

namespace reel::tracing {
/// A pass of a chain. Its values are numbers of a plan.
struct ChainedPass {
  const Stages* stages;
  Part part;
  unsigned numbers;  // bit i: input i is a single number
  std::vector<int> inputs;
  int output;
  bool in_memory = true;  // whether the output has memory; else only passes of the chain read it
  int total = -1;         // the value to which the output is added; the sum is the output in memory
};

bool is_stage(const ChainedPass& pass);
/// Finds which passes fit one program.
class ProgramSize {
 public:
  /// Whether the pass continues the program. If not, it starts another one.
  bool add(const ChainedPass& pass);

 private:
  const StageMachine* machine_ = nullptr;
  std::size_t stages_ = 0;
  std::vector<int> values_;
};
/// `add` has the stages of the op that adds.
StageProgram write_program(std::span<const ChainedPass> chain, const Stages* add);
/// How results of this shape read a value.
Spread spread_of(int value, const graph::Layout& layout, const Shape& shape);
/// Whether the copy of a spread takes no longer than a pass over a layout of this kind.
bool pays(const Spread& spread);
/// What is wrong in a program, e.g. "multiply reads another value than %7". Empty if nothing is.
std::string fault_of(const StageProgram& program, std::span<const ChainedPass> chain);
}  // namespace reel::tracing
