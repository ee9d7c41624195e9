// SPDX-License-Identifier: BSD-3-Clause
// The command `draw`: the graph of a step.
#include <fmt/format.h>

#include <fstream>

#include "lib/debug/drawing.hpp"
#include "lib/debug/interpreter.hpp"

namespace reel::debugger {
namespace {
constexpr std::size_t most_boxes = 300;
}  // namespace

void Interpreter::draw(Words& words, Answer& answer) {
  const bool all = words.flag("all"), fold = words.flag("fold"), scopes = words.flag("scopes"),
             forward = words.flag("forward");
  const std::string path = words.from(1);
  Step& step = looked();
  std::vector<DrawnNode> nodes;
  std::vector<int> number(step.nodes.size(), -1);
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    const Node& node = step.nodes[i];
    if (node.outputs == 0 || (forward && node.backward)) continue;
    number[i] = static_cast<int>(nodes.size());
    DrawnNode drawn;
    drawn.name = fmt::format("#{}", i + 1);
    drawn.label = fmt::format("#{} {}", i + 1, name_of(node));
    drawn.op = name_of(node);
    drawn.caller = line_of(node.caller);
    if (node.layer >= 0) drawn.scope = recorder_.layer(node.layer);
    drawn.backward = node.backward;
    Answer said;
    say_node(static_cast<int>(i), said);
    drawn.title = said.lines[0];
    for (int k = 0; k < node.outputs; ++k) {
      const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
      const int health = output.odd.any() ? 3 : output.measured ? health_of(output.statistics) : 0;
      drawn.health = std::max(drawn.health, health);
    }
    for (int k = 0; k < node.inputs; ++k) {
      const Input input =
          maker_of(step, step.inputs[static_cast<std::size_t>(node.first_input + k)]);
      if (input.node >= 0 && number[static_cast<std::size_t>(input.node)] >= 0) {
        const int from = number[static_cast<std::size_t>(input.node)];
        if (std::find(drawn.inputs.begin(), drawn.inputs.end(), from) == drawn.inputs.end())
          drawn.inputs.push_back(from);
      } else if (input.outside >= 0) {
        const std::string name =
            recorder_.name_of_outside(step.outsides[static_cast<std::size_t>(input.outside)]);
        drawn.note += (drawn.note.empty() ? "" : " ") +
                      (name.empty() ? fmt::format("@{}", input.outside + 1) : name);
        if (const std::size_t dot = name.rfind('.'); dot != std::string::npos)
          drawn.scope = name.substr(0, dot);
      }
    }
    nodes.push_back(std::move(drawn));
  }
  const std::size_t before = nodes.size();
  const bool few = !fold && (all || nodes.size() <= most_boxes);
  nodes = folded(std::move(nodes), scopes ? debug::Fold::scopes
                                   : few  ? debug::Fold::none
                                          : debug::Fold::steps);
  const std::string svg = svg_of(nodes);
  if (path.empty()) {
    answer.lines.push_back(svg);
    return;
  }
  std::ofstream file(path, std::ios::trunc);
  file << svg;
  file.close();
  if (!file) mistake("a file that can be written", "\"" + path + "\"");
  answer.lines.push_back(
      fmt::format("{}: {} results in {} boxes", printable(path), before, nodes.size()));
}
}  // namespace reel::debugger
