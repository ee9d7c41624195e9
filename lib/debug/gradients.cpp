// SPDX-License-Identifier: BSD-3-Clause
// Commands about gradients: on a path, of Variables, by time step.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/debug/interpreter.hpp"

namespace reel::debugger {
namespace {
const Input& input_at(const Step& step, const Node& node, int k) {
  return step.inputs[static_cast<std::size_t>(node.first_input + k)];
}
}  // namespace

double Recorder::moved(Step& step, const Node& node, int k) {
  const int number = static_cast<int>(&node - step.nodes.data());
  const Ref before = value(step, input_at(step, node, k)), after = value(step, number, k);
  double sum = 0;
  for (std::int64_t i = 0; i < std::min(before->elements, after->elements); ++i) {
    const double difference = element(*after, i) - element(*before, i);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

bool Interpreter::gradient_at(int number, Statistics& found) {
  Step& step = looked();
  const Input& gradient = step.nodes[static_cast<std::size_t>(number)].gradient;
  if (gradient.absent()) return false;
  if (gradient.node >= 0) {
    const Node& maker = step.nodes[static_cast<std::size_t>(gradient.node)];
    const Output& output =
        step.outputs[static_cast<std::size_t>(maker.first_output + gradient.output)];
    if (output.measured) return found = output.statistics, true;
  }
  found = statistics_of(*recorder_.value(step, gradient), Bounds::none);
  return true;
}

std::vector<int> Interpreter::path_to(int loss, std::string_view source) {
  Step& step = looked();
  int wanted = -1, variable = -1;
  const auto& variables = recorder_.variables();
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (variables[i].name == source) variable = static_cast<int>(i);
  if (variable < 0) wanted = parse_node(source, step);
  std::vector<int> next(step.nodes.size(), -2);  // towards the loss
  std::vector<int> queue = {loss};
  next[static_cast<std::size_t>(loss)] = -1;
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const int i = queue[at];
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    bool arrived = i == wanted;
    for (int k = 0; k < node.inputs; ++k) {
      const Input input = maker_of(step, input_at(step, node, k));
      if (variable >= 0 && input.outside >= 0)
        arrived |= step.outsides[static_cast<std::size_t>(input.outside)].variable == variable;
      if (input.node < 0 || next[static_cast<std::size_t>(input.node)] != -2) continue;
      next[static_cast<std::size_t>(input.node)] = i;
      queue.push_back(input.node);
    }
    if (!arrived) continue;
    std::vector<int> path;
    for (int n = i; n >= 0; n = next[static_cast<std::size_t>(n)]) path.push_back(n);
    std::reverse(path.begin(), path.end());
    return path;
  }
  return {};
}

void Interpreter::path(Words& words, Answer& answer) {
  if (words.size() < 3) mistake("a loss and a source, as in: path #40 head.weight", words.from(0));
  Step& step = looked();
  const std::vector<int> found = path_to(parse_node(words[1], step), words[2]);
  if (found.empty()) {
    answer.lines = {"There is no path. `why " + words.from(1) + "` says more."};
    return;
  }
  answer.columns = {"N", "op", "line", "norm", "norm of gradient"};
  const int digits = static_cast<int>(digits_);
  for (const int i : found) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    Statistics gradient;
    const bool known = gradient_at(i, gradient);
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output)];
    answer.rows.push_back({fmt::format("#{}", i + 1), name_of(node), line_of(node.caller),
                           output.measured ? number_text(output.statistics.norm, digits) : "",
                           known ? number_text(gradient.norm, digits) : ""});
  }
}

void Interpreter::why(Words& words, Answer& answer) {
  if (words.size() < 3) mistake("a loss and a source, as in: why #40 head.weight", words.from(0));
  Step& step = looked();
  const int loss = parse_node(words[1], step);
  const std::string source = words[2];
  const std::vector<int> found = path_to(loss, source);
  const auto place = [&](int i) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    return fmt::format("#{} {} at {}", i + 1, name_of(node), line_of(node.caller));
  };
  if (found.empty()) {
    answer.lines.push_back(fmt::format("#{} does not depend on \"{}\": no result between them.",
                                       loss + 1, printable(source)));
    for (const VariableInfo& each : recorder_.variables()) {
      if (each.name != source) continue;
      bool read = false;
      for (const Outside& outside : step.outsides)
        read |= recorder_.name_of_outside(outside) == source;
      answer.lines.push_back(read ? "The step reads it, for other results."
                                  : "The step does not read it.");
      for (std::size_t i = 0; i < step.outsides.size() && !read; ++i) {
        const Outside& outside = step.outsides[i];
        if (outside.variable >= 0 || !(outside.shape == each.shape) || outside.dtype != each.dtype)
          continue;
        for (int n = 0; n < static_cast<int>(step.nodes.size()); ++n) {
          const Node& node = step.nodes[static_cast<std::size_t>(n)];
          for (int k = 0; k < node.inputs; ++k)
            if (input_at(step, node, k).outside == static_cast<int>(i)) {
              answer.lines.push_back("But " + place(n) + " reads a tensor of its type, " +
                                     type_text(outside.dtype, outside.shape) +
                                     ": a value of it that was read before the tape was made?");
              n = static_cast<int>(step.nodes.size());
              break;
            }
        }
        break;
      }
    }
    return;
  }
  for (const int i : found) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    if (!node.op->gradient.differentiable) {
      answer.lines.push_back(place(i) + " has no gradient: the path ends there.");
      return;
    }
    if (!node.recorded && !node.replayed && !node.inner && !node.backward) {
      answer.lines.push_back(place(i) +
                             " is on no tape: it ran before the tape was made, in a pause, or "
                             "from a value that the tape does not watch, as of a Variable that "
                             "was read before.");
      return;
    }
  }
  double norm = -1;
  int reached = -1;  // the last result on the path that has its gradient
  for (const int i : found) {
    Statistics all;
    if (!gradient_at(i, all)) continue;
    if (all.nans || all.infinities) {
      answer.lines.push_back("The gradient is not finite at " + place(i) + ".");
      return;
    }
    if (all.norm == 0) {
      answer.lines.push_back("The gradient is zero at the result of " + place(i) + ".");
      return;
    }
    norm = all.norm;
    reached = i;
  }
  for (const Complete& each : step.gradients) {
    if (each.variable < 0 || each.statistics.elements == 0 ||
        recorder_.variables()[static_cast<std::size_t>(each.variable)].name != source)
      continue;
    const Statistics& all = each.statistics;
    if (all.norm != 0 && !all.nans && !all.infinities) continue;
    answer.lines.push_back(
        fmt::format("The gradient of \"{}\" is {}: it becomes so at {}.", printable(source),
                    all.norm == 0 ? "zero everywhere" : "not finite", place(found.back())));
    return;
  }
  if (norm < 0)
    answer.lines.push_back("There is a path of " + fmt::format("{}", found.size()) +
                           " results, and no gradient yet: run the backward pass first.");
  else if (reached == found.back())
    answer.lines.push_back(fmt::format("The gradient is there: its norm is {} at {}.",
                                       number_text(norm), place(reached)));
  else
    answer.lines.push_back(
        fmt::format("The backward pass is not there yet: it has reached a gradient with the norm "
                    "{}, that of {}.",
                    number_text(norm), place(reached)));
}

void Interpreter::gradients(Words& words, Answer& answer) {
  Step& step = looked();
  const int digits = static_cast<int>(digits_);
  const std::string asked = words.from(1);
  if (asked.empty()) {
    answer.columns = {"Variable", "type", "min", "max", "norm", "zeros", "norm of value"};
    for (const Complete& each : step.gradients) {
      std::vector<std::string> row = {"a tensor", ""};
      std::string of_value;
      if (each.variable >= 0) {
        const VariableInfo& info = recorder_.variables()[static_cast<std::size_t>(each.variable)];
        row = {"\"" + printable(info.name) + "\"", type_text(info.dtype, info.shape)};
        for (const Outside& outside : step.outsides)
          if (outside.variable == each.variable && outside.value)
            of_value = number_text(statistics_of(*outside.value, Bounds::none).norm, digits);
      }
      Output measured;
      measured.measured = each.statistics.elements > 0;
      measured.statistics = each.statistics;
      for (const std::string& cell : row_of(measured)) row.push_back(cell);
      row.push_back(of_value);
      answer.rows.push_back(std::move(row));
    }
    if (answer.rows.empty()) answer.lines = {"The step has no complete gradients yet."};
    return;
  }
  const Target target = asked.starts_with("#") ? Target() : parse_target(asked, recorder_);
  const int only = asked.starts_with("#") ? parse_node(asked, step) : -1;
  answer.columns = {"call", "N", "op", "line", "norm", "norm of gradient"};
  int call = 0;
  for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    if (node.backward || node.outputs == 0) continue;
    bool is_wanted = only >= 0
                         ? i == only
                         : target.kind != Target::Kind::variable && is_at(target, recorder_, node);
    if (target.kind == Target::Kind::variable && node.updated.empty())
      for (int k = 0; k < node.inputs; ++k) {
        const Input& input = input_at(step, node, k);
        is_wanted |= input.outside >= 0 &&
                     recorder_.name_of_outside(
                         step.outsides[static_cast<std::size_t>(input.outside)]) == target.name;
      }
    if (!is_wanted) continue;
    Statistics gradient;
    const bool known = gradient_at(i, gradient);
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output)];
    answer.rows.push_back({fmt::format("{}", ++call), fmt::format("#{}", i + 1), name_of(node),
                           line_of(node.caller),
                           output.measured ? number_text(output.statistics.norm, digits) : "",
                           known ? number_text(gradient.norm, digits) : ""});
  }
  if (answer.rows.empty()) answer.lines = {"No result of the step matches."};
}

void Interpreter::updates(Words&, Answer& answer) {
  Step& step = looked();
  const int digits = static_cast<int>(digits_);
  answer.columns = {"Variable", "op", "line", "norm", "norm of update", "ratio"};
  for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    for (std::size_t k = 0; k < node.updated.size(); ++k) {
      const VariableInfo& info = recorder_.variables()[static_cast<std::size_t>(node.updated[k])];
      if (!is_floating(info.dtype)) continue;
      const double norm = statistics_of_output(i, static_cast<int>(k)).norm;
      const double moved = recorder_.moved(step, node, static_cast<int>(k));
      answer.rows.push_back({"\"" + printable(info.name) + "\"", name_of(node),
                             line_of(node.caller), number_text(norm, digits),
                             number_text(moved, digits),
                             norm > 0 ? number_text(moved / norm, digits) : ""});
    }
  }
  if (answer.rows.empty()) answer.lines = {"The step has written no Variable yet."};
}
}  // namespace reel::debugger
