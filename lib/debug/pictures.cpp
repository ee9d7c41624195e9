// SPDX-License-Identifier: BSD-3-Clause
// What the library tells the debugger of graphs and tapes that are drawn.
#include <algorithm>
#include <map>

#include <reel/error.hpp>

#include "autograd/playing.hpp"
#include "autograd/tape_access.hpp"
#include "lib/body/line.hpp"
#include "lib/body/text.hpp"
#include "lib/debug/table.hpp"

namespace reel {
namespace {
/// The part of both paths that is equal.
std::string_view common_scope(std::string_view a, std::string_view b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool ends_a = i == a.size() || a[i] == '.', ends_b = i == b.size() || b[i] == '.';
    if (ends_a && ends_b) end = i;
    if (i < std::min(a.size(), b.size()) && a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

/// The records of a tape as nodes.
class TapeNodes {
 public:
  TapeNodes(Reel& reel, std::uint64_t tape, const std::vector<Variable>& variables)
      : reel_(reel), start_(reel.start_of(tape)) {
    for (const Leaf& leaf : reel.leaves())
      for (const Variable& each : variables)
        if (leaf.is_of(Access::cell(each))) names_[leaf.record] = each.name();
    number_.resize(reel.size() - start_, -1);
    for (std::uint32_t i = start_; i < reel.size(); ++i)
      if (reel[i].tapes & tape && !reel.is_leaf(i)) add(i);
  }
  std::vector<DrawnNode> nodes;

 private:
  void add(std::uint32_t i) {
    const Record& record = reel_[i];
    DrawnNode node;
    node.op = record.op->name;
    node.caller = line_text(record.caller());
    node.name = "#" + std::to_string(nodes.size() + 1);
    node.label = node.name + " " + node.op;
    node.title =
        node.label + " at " + node.caller + ": " + std::string(to_text(*record.outputs[0].shape));
    bool reads = false;
    for (int k = 0; k < record.input_count; ++k) add_input(node, record.inputs[k], reads);
    for (int k = 0; k < record.output_count(); ++k)
      if (const Body* const saved = record.outputs[k].saved) node.values.push_back(saved);
    number_[i - start_] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  }
  void add_input(DrawnNode& node, const InputSlot& input, bool& reads) {
    if (!input.tracked || input.record < start_) return;
    if (const int from = number_[input.record - start_]; from >= 0) {
      if (std::find(node.inputs.begin(), node.inputs.end(), from) == node.inputs.end())
        node.inputs.push_back(from);
      const int outputs = reel_[input.record].output_count();
      if (input.saved && outputs == 1) nodes[static_cast<std::size_t>(from)].values = {input.saved};
    } else if (const auto name = names_.find(input.record); name != names_.end()) {
      const std::size_t dot = name->second.rfind('.');
      const std::string scope = dot == std::string::npos ? "" : name->second.substr(0, dot);
      node.scope = reads ? std::string(common_scope(node.scope, scope)) : scope;
      node.note += (reads ? " " : "") + name->second;
      reads = true;
    }
  }
  Reel& reel_;
  std::uint32_t start_;
  std::map<std::uint32_t, std::string> names_;  // of leaves
  std::vector<int> number_;                     // of the nodes of records
};
}  // namespace

namespace debug {
std::string to_svg(const Graph& graph, Fold fold, Caller caller) try {
  std::vector<DrawnNode> nodes;
  std::map<std::string, int> made;
  for (const GraphNode& each : graph.nodes()) {
    DrawnNode node;
    node.label = node.op = each.op;
    node.name = each.outputs.empty() ? each.op : each.outputs[0];
    node.caller = each.caller;
    node.scope = each.scope;
    node.title = each.op + " " + each.options + " " + each.scope + " " + each.caller;
    for (const std::string& input : each.inputs) {
      const auto found = made.find(input);
      if (found != made.end())
        node.inputs.push_back(found->second);
      else if (!input.empty())
        node.note += (node.note.empty() ? "" : " ") + input;
    }
    for (const std::string& output : each.outputs) made[output] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  }
  return the_plugin(caller, "to_svg").draw(std::move(nodes), fold);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_svg");
}
std::string to_svg(const GradientTape& tape, const std::vector<Variable>& variables, Fold fold,
                   Caller caller) try {
  Context& context = own_context(TapeAccess::reel(tape), "to_svg", caller);
  if (TapeAccess::spent(tape))
    fail<TapeError>(caller, "to_svg", "tape", "a tape that has its records", "one after gradient()",
                    "Draw it before, or make it GradientTape tape({.persistent = true}).");
  TapeNodes made(*context.reel, TapeAccess::bit(tape), variables);
  return the_plugin(caller, "to_svg").draw(std::move(made.nodes), fold);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "to_svg");
}
}  // namespace debug
}  // namespace reel
