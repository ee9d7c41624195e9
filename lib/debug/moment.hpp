// SPDX-License-Identifier: BSD-3-Clause
// What conditions and `eval` see: a result of a step, and the other results of the step.
#pragma once
#include "lib/debug/recorder.hpp"

namespace reel::debugger {
class Moment : public Scope {
 public:
  /// -1: no result.
  Moment(Recorder& recorder, Step& step, int node)
      : recorder_(recorder), step_(step), number_(node) {}

  Ref result(std::int64_t number, int output) override;
  Ref tensor(std::string_view name) override;
  bool statistics(std::string_view name, Statistics& found) override;
  bool number(std::string_view name, double& value) override;
  bool matches(std::string_view kind, std::string_view text) override;

  /// The body in the call that has just ended; null if there is none.
  const Body* live(std::string_view name) const;
  bool ask(const debug::Condition& condition);
  /// " x is between 0 and 1."; "" where that is not known.
  std::string range_of_input(int i);

 private:
  bool is_live() const;
  const Node& node() const { return step_.nodes[static_cast<std::size_t>(number_)]; }
  /// The number of an input or output that the name means; false: none.
  bool find(std::string_view name, bool& is_output, int& i) const;
  bool odd(bool nan, bool infinity) const;
  bool was_infinite(const Input& input, int i) const;
  Recorder& recorder_;
  Step& step_;
  int number_;
};
/// Whether the node is at an op, a line, or an update of a Variable.
bool is_at(const Target& target, const Recorder& recorder, const Node& node);
/// Reads "tanh", "12", "model.cpp:12" or the name of a Variable. Throws Mistake.
Target parse_target(std::string_view text, const Recorder& recorder);
/// The node that "#12" or "12" names. Throws Mistake.
int parse_node(std::string_view text, const Step& step);
}  // namespace reel::debugger
