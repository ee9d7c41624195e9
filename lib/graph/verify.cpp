// SPDX-License-Identifier: BSD-3-Clause
// What a graph must be, whatever made or changed it.
#include <algorithm>

#include <string>

#include <reel/error.hpp>

#include "lib/graph/shapes.hpp"

namespace reel::graph {
namespace {
class Check {
 public:
  Check(const Graph& graph, std::size_t variables, ThreadMemory& memory, bool loaded)
      : graph_(graph),
        variables_(variables),
        memory_(memory),
        loaded_(loaded),
        made_(graph.values.size()) {}

  std::string fault() {
    if (graph_.segments.empty()) return "it has no steps";
    for (std::size_t i = 0; i < graph_.values.size() && fault_.empty(); ++i) check_value(i);
    if (!fault_.empty()) return fault_;
    // Blocks come behind the block that branches to them, so one pass suffices.
    before_.assign(graph_.segments.size(), -1);
    reached_.assign(graph_.segments.size(), false);
    reached_[0] = true;
    for (std::size_t block = 0; block < graph_.segments.size() && fault_.empty(); ++block) {
      if (!reached_[block])
        fault_ = "block " + std::to_string(block) + ": nothing branches to it";
      else
        check_block(static_cast<int>(block));
    }
    return fault_;
  }

 private:
  struct Made {
    int block = -1;  // -1: at the start
    bool is = false;
  };
  const Value& value(int i) const { return graph_.values[static_cast<std::size_t>(i)]; }
  bool known(int i) const { return i >= 0 && static_cast<std::size_t>(i) < graph_.values.size(); }
  void check_value(std::size_t i) {
    const Value& v = graph_.values[i];
    const std::string name = "%" + std::to_string(i);
    if (loaded_)
      if (const std::string misfit = misfit_of(v); !misfit.empty()) fault_ = name + misfit;
    if (v.kind == Value::Kind::computed || !fault_.empty()) return;
    if (v.kind == Value::Kind::view) {
      if (!known(v.number))
        fault_ = name + " is a view of a value that does not exist";
      else if (value(v.number).kind == Value::Kind::view)
        fault_ = name + " is a view of a view";
      else if (v.offset < 0)
        fault_ = name + " is a view that begins before its value";
      return;
    }
    if (v.kind == Value::Kind::variable &&
        (v.number < 0 || static_cast<std::size_t>(v.number) >= variables_))
      fault_ = name + " is a Variable that does not exist";
    made_[i].is = true;
  }
  /// Whether the value is made at the start, or in this block or one that leads to it.
  bool ready(int i, int block) const {
    while (!loaded_ && known(i) && !made_[static_cast<std::size_t>(i)].is &&
           value(i).kind == Value::Kind::view)
      i = value(i).number;
    if (!known(i)) return false;
    const Made& made = made_[static_cast<std::size_t>(i)];
    if (!made.is) return false;
    for (int at = block; at >= 0; at = before_[static_cast<std::size_t>(at)])
      if (at == made.block) return true;
    return made.block < 0;
  }
  void check_step(const Step& step, int block, std::size_t number) {
    const auto wrong = [&](const std::string& what) {
      if (fault_.empty() && !what.empty())
        fault_ = "step " + std::to_string(number) + ", " + place_of(step) + ": " + what;
    };
    for (const int input : step.inputs)
      if (input != -1 && !ready(input, block))
        wrong("%" + std::to_string(input) + " is read before it is made");
    if (step.loop)
      for (const Graph* body : step.loop->bodies())
        if (const std::string inside = fault_of(*body, 0, memory_, loaded_); !inside.empty())
          wrong(inside);
    if (!step.updated.empty() && step.updated.size() != step.outputs.size())
      wrong("it writes " + std::to_string(step.updated.size()) + " Variables and makes " +
            std::to_string(step.outputs.size()) + " values");
    for (const int variable : step.updated)
      if (variable < 0 || static_cast<std::size_t>(variable) >= variables_)
        wrong("it writes a Variable that does not exist");
    for (const int output : step.outputs) {
      if (output == -1) continue;
      if (!known(output)) return wrong("it makes a value that does not exist");
      Made& made = made_[static_cast<std::size_t>(output)];
      if (made.is) wrong("%" + std::to_string(output) + " is made again");
      if (value(output).kind == Value::Kind::view && !ready(value(output).number, block))
        wrong("%" + std::to_string(output) + " is a view of %" +
              std::to_string(value(output).number) + ", which is not made");
      made = {block, true};
    }
    if (fault_.empty()) try {
        wrong(misfit(step));
      } catch (const Error& error) {
        wrong(error.what());
      }
  }
  std::string misfit(const Step& step) const {
    std::string found;
    if (loaded_) found = misfit_of(step, graph_, memory_);
    return found.empty() && has_rule(step)
               ? Inferred(step, graph_.values, memory_).difference(graph_.values)
               : found;
  }
  bool can_be_asked(const Step& question) const {
    const Layout& asked = value(question.inputs[0]).layout;
    return asked.contiguous && (question.read != HostRead::truth || asked.elements == 1);
  }
  void check_block(int block) {
    const Segment& segment = graph_.segments[static_cast<std::size_t>(block)];
    const std::string name = "block " + std::to_string(block) + ": ";
    std::size_t number = 0;
    for (const Step& step : segment.steps) check_step(step, block, number++);
    if (!fault_.empty()) return;
    if (segment.ends == !segment.branches.empty()) {
      fault_ = name + (segment.ends ? "it ends and branches" : "it neither ends nor branches");
      return;
    }
    if (!segment.ends &&
        (segment.question.inputs.size() != 1 || !ready(segment.question.inputs[0], block)))
      fault_ = name + "it asks for a value that is not made";
    else if (loaded_ && !segment.ends && !can_be_asked(segment.question))
      fault_ = name + "it asks for a value that C++ cannot read so";
    for (const Branch& branch : segment.branches) {
      const auto next = static_cast<std::size_t>(branch.segment);
      if (branch.segment <= block || next >= graph_.segments.size() || reached_[next]) {
        fault_ = name + "it branches to block " + std::to_string(branch.segment) +
                 ", which is not one of its own behind it";
        return;
      }
      reached_[next] = true;
      before_[next] = block;
    }
    for (const int result : segment.results)
      if (result != -1 && !ready(result, block))
        fault_ = name + "its result %" + std::to_string(result) + " is not made";
    for (const auto& [variable, last] : segment.assigned)
      if (variable < 0 || static_cast<std::size_t>(variable) >= variables_ || !ready(last, block))
        fault_ = name + "it assigns what is not made";
  }

  const Graph& graph_;
  std::size_t variables_;
  ThreadMemory& memory_;
  const bool loaded_;
  std::vector<Made> made_;
  std::vector<int> before_;  // the block that branches to each block
  std::vector<bool> reached_;
  std::string fault_;
};
}  // namespace

std::string fault_of(const Graph& graph, std::size_t variables, ThreadMemory& memory, bool loaded) {
  return Check(graph, variables, memory, loaded).fault();
}
}  // namespace reel::graph
