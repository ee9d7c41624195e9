// SPDX-License-Identifier: BSD-3-Clause
// Commands that list results and say where they come from.
#include <fmt/format.h>

#include <algorithm>

#include "lib/debug/interpreter.hpp"

namespace reel::debugger {
Statistics Interpreter::statistics_of_output(int node, int k) {
  Step& step = looked();
  const Node& its = step.nodes[static_cast<std::size_t>(node)];
  Output& output = step.outputs[static_cast<std::size_t>(its.first_output + k)];
  if (!output.measured) {
    const Bounds bounds = its.part == Part::value ? bounds_of(its.op->name) : Bounds::none;
    output.statistics = statistics_of(*recorder_.value(step, node, k), bounds);
    output.measured = true;
  }
  return output.statistics;
}
/// min, max, norm, zeros.
std::vector<std::string> Interpreter::row_of(const Output& output) const {
  if (output.absent || !output.measured) return {"", "", "", ""};
  const Statistics& all = output.statistics;
  const int digits = static_cast<int>(digits_);
  return {number_text(all.low, digits), number_text(all.high, digits),
          number_text(all.norm, digits), number_text(all.zeros, digits)};
}
std::string Interpreter::text_of(const Input& input) {
  Step& step = looked();
  if (input.absent()) return "none";
  if (input.node >= 0) {
    const Node& node = step.nodes[static_cast<std::size_t>(input.node)];
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + input.output)];
    return fmt::format("#{}{} {} {}", input.node + 1,
                       input.output ? fmt::format(".{}", input.output) : "", name_of(node),
                       type_text(output.dtype, output.shape));
  }
  const Outside& outside = step.outsides[static_cast<std::size_t>(input.outside)];
  if (!outside.source.absent()) return "view of " + text_of(outside.source);
  const std::string name = recorder_.name_of_outside(outside);
  return fmt::format("@{} {} {}", input.outside + 1,
                     name.empty() ? "outside" : "\"" + printable(name) + "\"",
                     type_text(outside.dtype, outside.shape));
}
void Interpreter::say_node(int number, Answer& answer) {
  Step& step = looked();
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  std::string line = fmt::format("#{} {} at {}", number + 1, name_of(node), line_of(node.caller));
  for (int k = 0; k < node.outputs; ++k) {
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
    if (output.absent) continue;
    line += ": " + type_text(output.dtype, output.shape);
    if (output.measured)
      line += fmt::format(" from {} to {}",
                          number_text(output.statistics.low, static_cast<int>(digits_)),
                          number_text(output.statistics.high, static_cast<int>(digits_)));
    break;
  }
  answer.lines.push_back(line);
}

void Interpreter::info(Words&, Answer& answer) {
  Step& step = looked();
  std::int64_t backward = 0, recorded = 0;
  for (const Node& node : step.nodes) backward += node.backward, recorded += node.recorded;
  answer.lines.push_back(is_stopped_ ? "stopped: " + printable(reason_) : "running");
  answer.lines.push_back(fmt::format("step {}: {} results, {} of them backward, {} on a tape",
                                     step.number, step.nodes.size(), backward, recorded));
  answer.lines.push_back(fmt::format("{} steps are kept, with {} of values{}",
                                     recorder_.steps().size(), bytes_text(step.bytes),
                                     step.complete ? "" : "; some did not fit into config bytes"));
  if (recorder_.edited) answer.lines.push_back("edited: `set` has changed values of this run");
  if (cursor_ >= 0 && cursor_ < static_cast<int>(step.nodes.size())) say_node(cursor_, answer);
}

void Interpreter::inputs(Words&, Answer& answer) {
  Step& step = looked();
  answer.columns = {"N", "name", "type", "min", "max", "norm", "zeros", "hash", "read by"};
  for (std::size_t i = 0; i < step.outsides.size(); ++i) {
    const Outside& outside = step.outsides[i];
    if (!outside.source.absent()) continue;
    const std::string name = recorder_.name_of_outside(outside);
    std::string reader;
    for (std::size_t n = 0; n < step.nodes.size() && reader.empty(); ++n)
      for (int k = 0; k < step.nodes[n].inputs && reader.empty(); ++k)
        if (step.inputs[static_cast<std::size_t>(step.nodes[n].first_input + k)].outside ==
            static_cast<int>(i))
          reader = fmt::format("#{} {} {}", n + 1, name_of(step.nodes[n]),
                               line_of(step.nodes[n].caller));
    std::vector<std::string> row = {fmt::format("@{}", i + 1),
                                    name.empty() ? "outside" : "\"" + printable(name) + "\"",
                                    type_text(outside.dtype, outside.shape)};
    Output measured;
    std::string hash;
    if (outside.value) {
      measured.statistics = statistics_of(*outside.value, Bounds::none);
      measured.measured = true;
      hash = fmt::format("{:016x}", hash_of(*outside.value));
    }
    for (const std::string& cell : row_of(measured)) row.push_back(cell);
    row.push_back(hash);
    row.push_back(reader);
    answer.rows.push_back(std::move(row));
  }
  if (answer.rows.empty()) answer.lines = {"The step has read nothing yet."};
}

void Interpreter::tensors(Words& words, Answer& answer) {
  Step& step = looked();
  const std::string op = words.option("op"), name = words.option("name"),
                    dtype = words.option("dtype"), sort = words.option("sort");
  const bool reverse = words.flag("-r");
  std::optional<std::regex> wanted_op, wanted_name, wanted_dtype;
  if (!op.empty()) wanted_op = parse_regex(op);
  if (!name.empty()) wanted_name = parse_regex(name);
  if (!dtype.empty()) wanted_dtype = parse_regex(dtype);
  const std::string text = words.from(1);
  Expression condition;
  if (!text.empty()) condition = Expression(text);
  std::vector<std::pair<double, int>> found;
  for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    if (node.outputs == 0) continue;
    if (wanted_op && !std::regex_search(name_of(node), *wanted_op)) continue;
    const std::string place =
        line_of(node.caller) + (node.layer < 0 ? "" : " " + recorder_.layer(node.layer));
    if (wanted_name && !std::regex_search(place, *wanted_name)) continue;
    int k = 0;
    while (k + 1 < node.outputs &&
           step.outputs[static_cast<std::size_t>(node.first_output + k)].absent)
      ++k;
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
    if (wanted_dtype && !std::regex_search(std::string(host->dtype(output.dtype)), *wanted_dtype))
      continue;
    if (!condition.empty()) {
      Moment moment(recorder_, step, i);
      if (output.absent || !condition.holds(moment)) continue;
    }
    double key = i;
    if (sort == "time") key = -static_cast<double>(node.nanoseconds);
    if (sort == "size")
      key = -static_cast<double>(elements_of(output.shape) * size_of(output.dtype));
    if (sort == "max") key = output.measured ? -output.statistics.high : 0;
    found.emplace_back(key, i);
  }
  if (sort == "op")
    std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
      return name_of(step.nodes[static_cast<std::size_t>(a.second)]) <
             name_of(step.nodes[static_cast<std::size_t>(b.second)]);
    });
  else if (sort.empty() || sort == "time" || sort == "size" || sort == "max")
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  else
    mistake("sort=time, sort=size, sort=op or sort=max", "\"sort=" + sort + "\"");
  if (reverse) std::reverse(found.begin(), found.end());
  answer.columns = {"N", "op", "line", "type", "min", "max", "norm", "zeros"};
  if (sort == "time") answer.columns.push_back("us");
  for (const auto& [key, i] : found) {
    if (static_cast<std::int64_t>(answer.rows.size()) == rows_) break;
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    int k = 0;
    while (k + 1 < node.outputs &&
           step.outputs[static_cast<std::size_t>(node.first_output + k)].absent)
      ++k;
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
    std::vector<std::string> row = {
        fmt::format("#{}", i + 1), name_of(node), line_of(node.caller),
        output.absent ? "in a block" : type_text(output.dtype, output.shape)};
    for (const std::string& cell : row_of(output)) row.push_back(cell);
    if (sort == "time")
      row.push_back(fmt::format("{:.1f}", static_cast<double>(node.nanoseconds) / 1e3));
    answer.rows.push_back(std::move(row));
  }
  if (found.size() > answer.rows.size())
    answer.notes.push_back(fmt::format("and {} more; config rows {}",
                                       found.size() - answer.rows.size(), found.size()));
  if (found.empty())
    answer.lines.push_back(
        fmt::format("None of {} results of step {}.", step.nodes.size(), step.number));
}

void Interpreter::op(Words& words, Answer& answer) {
  const int number = node_of(words.from(1));
  Step& step = looked();
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  answer.lines.push_back(fmt::format("#{} {} at {}, call {} at this line in step {}", number + 1,
                                     name_of(node), line_of(node.caller),
                                     Recorder::occurrence(step, number), step.number));
  if (node.layer >= 0) answer.lines.push_back("layer: " + printable(recorder_.layer(node.layer)));
  const std::string options = node.options.view().type ? host->options(node.options.view()) : "";
  if (!options.empty()) answer.lines.push_back("options: " + printable(options));
  std::vector<std::string> marks;
  if (node.backward) marks.push_back("backward");
  if (node.recorded) marks.push_back("on a tape");
  if (node.edited) marks.push_back("edited");
  if (!marks.empty()) answer.lines.push_back(joined(marks, ", "));
  answer.columns = {"", "what", "min", "max", "norm", "zeros"};
  for (int k = 0; k < node.inputs; ++k) {
    const Input& input = step.inputs[static_cast<std::size_t>(node.first_input + k)];
    Output shown;
    if (input.node >= 0) {
      const Node& maker = step.nodes[static_cast<std::size_t>(input.node)];
      const Output& made =
          step.outputs[static_cast<std::size_t>(maker.first_output + input.output)];
      shown.measured = made.measured;
      shown.statistics = made.statistics;
    } else if (input.outside >= 0) {
      const Ref& value = step.outsides[static_cast<std::size_t>(input.outside)].value;
      if (value) shown.measured = true, shown.statistics = statistics_of(*value, Bounds::none);
    }
    std::vector<std::string> row = {fmt::format("input {}", k), text_of(input)};
    for (const std::string& cell : row_of(shown)) row.push_back(cell);
    answer.rows.push_back(std::move(row));
  }
  for (int k = 0; k < node.outputs; ++k) {
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
    std::vector<std::string> row = {fmt::format("output {}", k),
                                    output.absent ? "none, or a value in a block of a replay"
                                                  : type_text(output.dtype, output.shape)};
    if (static_cast<std::size_t>(k) < node.updated.size())
      row[1] +=
          " \"" +
          printable(
              recorder_
                  .variables()[static_cast<std::size_t>(node.updated[static_cast<std::size_t>(k)])]
                  .name) +
          "\"";
    for (const std::string& cell : row_of(output)) row.push_back(cell);
    answer.rows.push_back(std::move(row));
  }
}

void Interpreter::tree(int root, int depth, bool down, Answer& answer) {
  Step& step = looked();
  std::vector<std::vector<int>> users(step.nodes.size());
  if (!down)
    for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i)
      for (int k = 0; k < step.nodes[static_cast<std::size_t>(i)].inputs; ++k) {
        const Input input =
            maker_of(step, step.inputs[static_cast<std::size_t>(
                               step.nodes[static_cast<std::size_t>(i)].first_input + k)]);
        if (input.node >= 0 && (users[static_cast<std::size_t>(input.node)].empty() ||
                                users[static_cast<std::size_t>(input.node)].back() != i))
          users[static_cast<std::size_t>(input.node)].push_back(i);
      }
  struct Open {
    int node, depth;
    Input input;
  };
  std::vector<bool> seen(step.nodes.size());
  std::vector<Open> open = {{root, 0, {root, 0, -1}}};
  while (!open.empty() && static_cast<std::int64_t>(answer.lines.size()) < rows_) {
    const Open at = open.back();
    open.pop_back();
    std::string line(static_cast<std::size_t>(2 * at.depth), ' ');
    line += text_of(at.input);
    if (at.node < 0) {
      answer.lines.push_back(line);
      continue;
    }
    const Node& node = step.nodes[static_cast<std::size_t>(at.node)];
    line += " at " + line_of(node.caller);
    if (seen[static_cast<std::size_t>(at.node)]) {
      answer.lines.push_back(line + ", see above");
      continue;
    }
    seen[static_cast<std::size_t>(at.node)] = true;
    answer.lines.push_back(line);
    if (at.depth >= depth) continue;
    if (down)
      for (int k = node.inputs; k-- > 0;) {
        const Input& input = step.inputs[static_cast<std::size_t>(node.first_input + k)];
        if (!input.absent()) open.push_back({maker_of(step, input).node, at.depth + 1, input});
      }
    else
      for (std::size_t k = users[static_cast<std::size_t>(at.node)].size(); k-- > 0;) {
        const int user = users[static_cast<std::size_t>(at.node)][k];
        open.push_back({user, at.depth + 1, {user, 0, -1}});
      }
  }
  if (!open.empty()) answer.notes.push_back("and more; config rows shows them");
}
void Interpreter::from(Words& words, Answer& answer) {
  tree(node_of(words.size() > 1 ? words[1] : ""), static_cast<int>(words.number(2, 1)), true,
       answer);
}
void Interpreter::to(Words& words, Answer& answer) {
  const int node = node_of(words.size() > 1 ? words[1] : "");
  tree(node, static_cast<int>(words.number(2, 1)), false, answer);
  if (answer.lines.size() == 1) answer.lines.push_back("  nothing yet");
}
void Interpreter::variables(Words&, Answer& answer) {
  answer.columns = {"name", "type", "reads", "writes", "kind"};
  for (const VariableInfo& each : recorder_.variables())
    answer.rows.push_back({"\"" + printable(each.name) + "\"", type_text(each.dtype, each.shape),
                           fmt::format("{}", each.reads), fmt::format("{}", each.writes),
                           each.is_buffer ? "buffer" : "trained"});
  if (answer.rows.empty()) answer.lines = {"No Variable has been read yet."};
}
}  // namespace reel::debugger
