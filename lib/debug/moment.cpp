// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/moment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace reel::debugger {
bool Moment::is_live() const {
  return recorder_.call && &step_ == &recorder_.current() &&
         number_ + 1 == static_cast<int>(step_.nodes.size());
}
bool Moment::find(std::string_view name, bool& is_output, int& i) const {
  if (number_ < 0) return false;
  const bool gradient = node().part != Part::value;
  i = 0;
  is_output = name == "y" || name == "dx";
  if (is_output) {
    if (name == "dx" && !node().backward) return false;
    while (i < node().outputs &&
           step_.outputs[static_cast<std::size_t>(node().first_output + i)].absent)
      ++i;
    return i < node().outputs;
  }
  if (name == "dy") return gradient && node().inputs > 0;
  if (name.empty() || name[0] != 'x') return false;
  if (name.size() > 1) {
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), i);
    if (error != std::errc() || end != name.data() + name.size()) return false;
  }
  return i >= 0 && i < node().inputs;
}
const Body* Moment::live(std::string_view name) const {
  bool is_output = false;
  int i = 0;
  if (!is_live() || !find(name, is_output, i)) return nullptr;
  return is_output ? recorder_.call->outputs[i] : recorder_.call->inputs[i];
}

Ref Moment::result(std::int64_t number, int output) {
  if (output < 0) {
    const auto count = static_cast<std::int64_t>(step_.outsides.size());
    if (number < 1 || number > count)
      mistake(fmt::format("an input from @1 to @{}; `inputs` lists them", count),
              fmt::format("@{}", number));
    return recorder_.value(step_, Input{-1, 0, static_cast<int>(number - 1)});
  }
  return recorder_.value(step_, parse_node(std::to_string(number), step_), output);
}
Ref Moment::tensor(std::string_view name) {
  bool is_output = false;
  int i = 0;
  if (!find(name, is_output, i)) return {};
  if (const Body* const body = live(name); body && (is_output || !node().updated.size()))
    return copy_of(*body);
  if (is_output) return recorder_.value(step_, number_, i);
  return recorder_.value(step_, step_.inputs[static_cast<std::size_t>(node().first_input + i)]);
}
bool Moment::statistics(std::string_view name, Statistics& found) {
  bool is_output = false;
  int i = 0;
  if (name.starts_with("#") || !find(name, is_output, i)) return false;
  Output* output = nullptr;
  if (is_output) {
    output = &step_.outputs[static_cast<std::size_t>(node().first_output + i)];
  } else {
    const Input& input = step_.inputs[static_cast<std::size_t>(node().first_input + i)];
    if (input.absent()) return false;
    if (input.node >= 0) {
      const Node& maker = step_.nodes[static_cast<std::size_t>(input.node)];
      output = &step_.outputs[static_cast<std::size_t>(maker.first_output + input.output)];
    }
  }
  if (output && output->measured) {
    found = output->statistics;
    return true;
  }
  const Body* const body = live(name);
  if (!body) {
    const Ref kept = tensor(name);
    if (kept) found = statistics_of(*kept, Bounds::none);
    return static_cast<bool>(kept);
  }
  found = statistics_of(*body, is_output ? bounds_of(node().op->name) : Bounds::none);
  if (is_output) output->statistics = found, output->measured = true;
  return true;
}
bool Moment::was_infinite(const Input& input, int i) const {
  if (input.absent()) return false;
  if (input.node >= 0) {
    const Node& maker = step_.nodes[static_cast<std::size_t>(input.node)];
    return step_.outputs[static_cast<std::size_t>(maker.first_output + input.output)].odd.infinity;
  }
  const Ref& kept = step_.outsides[static_cast<std::size_t>(input.outside)].value;
  if (kept) return odd_of(*kept).infinity;
  return is_live() && recorder_.call->inputs[i] && odd_of(*recorder_.call->inputs[i]).infinity;
}
/// An infinity counts if no input has one: it may be a mask.
bool Moment::odd(bool nan, bool infinity) const {
  bool has_infinity = false;
  for (int i = 0; i < node().outputs; ++i) {
    const Output& output = step_.outputs[static_cast<std::size_t>(node().first_output + i)];
    if (nan && output.odd.nan) return true;
    has_infinity |= output.odd.infinity;
  }
  if (!infinity || !has_infinity) return false;
  bool given = node().inputs == 0;
  for (int i = 0; i < node().inputs; ++i)
    given |= was_infinite(step_.inputs[static_cast<std::size_t>(node().first_input + i)], i);
  for (const Input& before : node().before) given |= was_infinite(before, 0);
  return !given;
}
bool Moment::number(std::string_view name, double& value) {
  if (name == "step") return value = static_cast<double>(step_.number), true;
  if (number_ < 0) return false;
  if (name == "has_nan") return value = odd(true, false), true;
  if (name == "has_inf") return value = odd(false, true), true;
  if (name == "has_inf_or_nan") return value = odd(true, true), true;
  if (name == "number") return value = number_ + 1, true;
  if (name == "backward") return value = node().backward, true;
  if (name == "inputs") return value = node().inputs, true;
  if (name == "bytes") {
    std::int64_t bytes = 0;
    for (int i = 0; i < node().outputs; ++i) {
      const Output& output = step_.outputs[static_cast<std::size_t>(node().first_output + i)];
      if (!output.absent) bytes += elements_of(output.shape) * size_of(output.dtype);
    }
    return value = static_cast<double>(bytes), true;
  }
  return false;
}
bool Moment::matches(std::string_view kind, std::string_view text) {
  if (number_ < 0) return false;
  if (kind == "op") return name_of(node()) == text || node().op->name == text;
  if (kind == "writes")
    return is_at({Target::Kind::variable, std::string(text), {}, 0}, recorder_, node());
  if (kind == "line") {
    const Target target = parse_target(text, recorder_);
    if (target.kind != Target::Kind::line) mistake("a line, as in line(\"model.cpp:12\")", text);
    return is_at(target, recorder_, node());
  }
  mistake("op(\"...\"), line(\"...\") or writes(\"...\")", std::string(kind) + "(\"...\")");
}

bool Moment::ask(const debug::Condition& condition) {
  if (!is_live()) return false;
  const GateCall& ended = *recorder_.call;
  const std::string name = name_of(node());
  DebugEvent event{name,
                   node().caller,
                   step_.number,
                   number_ + 1,
                   node().backward,
                   ended.inputs,
                   ended.input_count,
                   ended.outputs,
                   ended.output_count,
                   live("y"),
                   {}};
  if (event.output && is_floating(event.output->dtype)) statistics("y", event.statistics);
  return host->ask(condition, event);
}
std::string Moment::range_of_input(int i) {
  const Input& input = step_.inputs[static_cast<std::size_t>(node().first_input + i)];
  if (input.absent()) return "";
  Statistics all;
  std::string name = fmt::format("Input {}", i);
  if (input.outside >= 0) {
    const Outside& outside = step_.outsides[static_cast<std::size_t>(input.outside)];
    const std::string variable = recorder_.name_of_outside(outside);
    if (!variable.empty()) name += " (\"" + printable(variable) + "\")";
    const Body* const body = outside.value ? outside.value.get() : recorder_.call->inputs[i];
    if (!body || !is_floating(body->dtype) || fingerprint_of(*body) != outside.fingerprint)
      return "";
    all = statistics_of(*body, Bounds::none);
  } else {
    const Node& maker = step_.nodes[static_cast<std::size_t>(input.node)];
    const Output& output =
        step_.outputs[static_cast<std::size_t>(maker.first_output + input.output)];
    name += fmt::format(" (#{} {})", input.node + 1, name_of(maker));
    if (!is_floating(output.dtype)) return "";
    const Body* const body = is_live() ? recorder_.call->inputs[i] : nullptr;
    if (output.measured)
      all = output.statistics;
    else if (body && fingerprint_of(*body) == output.fingerprint)
      all = statistics_of(*body, Bounds::none);
    else
      return "";
  }
  return fmt::format(" {} is between {} and {}{}.", name, number_text(all.low),
                     number_text(all.high), all.nans ? ", with nan" : "");
}

bool is_at(const Target& target, const Recorder& recorder, const Node& node) {
  switch (target.kind) {
    case Target::Kind::any:
      return true;
    case Target::Kind::op:
      return node.op->name == target.name || name_of(node) == target.name;
    case Target::Kind::line: {
      if (node.caller.line != target.line || !node.caller.file) return false;
      const std::string_view file = node.caller.file;
      return target.file.empty() || file == target.file || file.ends_with("/" + target.file);
    }
    case Target::Kind::variable:
      return std::any_of(node.updated.begin(), node.updated.end(), [&](int i) {
        return recorder.variables()[static_cast<std::size_t>(i)].name == target.name;
      });
  }
  return false;
}
Target parse_target(std::string_view text, const Recorder& recorder) {
  const std::string name(text);
  const std::size_t colon = text.rfind(':');
  const std::string_view digits = colon == std::string_view::npos ? text : text.substr(colon + 1);
  unsigned line = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), line);
  if (error == std::errc() && end == digits.data() + digits.size() && line > 0)
    return {Target::Kind::line, "",
            std::string(colon == std::string_view::npos ? "" : text.substr(0, colon)), line};
  const std::vector<std::string> ops = host->op_names();
  constexpr std::string_view gradient = "gradient of ";
  const std::string_view op = text.starts_with(gradient) ? text.substr(gradient.size()) : text;
  if (std::binary_search(ops.begin(), ops.end(), op)) return {Target::Kind::op, name, "", 0};
  std::vector<std::string> known;
  for (const VariableInfo& each : recorder.variables()) {
    if (each.name == name) return {Target::Kind::variable, name, "", 0};
    if (known.size() < 8) known.push_back("\"" + printable(each.name) + "\"");
  }
  mistake("an op such as tanh, a line such as model.cpp:12 or 12, or a Variable" +
              (known.empty() ? "" : " such as " + joined(known, ", ")),
          "\"" + name + "\"");
}
int parse_node(std::string_view text, const Step& step) {
  if (text == "loss" && step.loss >= 0) return step.loss;
  const bool is_word = !text.empty() && !text.starts_with("#") && (text[0] < '0' || text[0] > '9');
  for (std::size_t i = step.nodes.size(); i-- > 0 && is_word;)
    if (!step.nodes[i].backward && step.nodes[i].op->name == text) return static_cast<int>(i);
  std::string_view digits = text.starts_with("#") ? text.substr(1) : text;
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const int count = static_cast<int>(step.nodes.size());
  if (error != std::errc() || end != digits.data() + digits.size() || number < 1 || number > count)
    mistake(count ? fmt::format("a result from #1 to #{} of step {}, or an op that it has called",
                                count, step.number)
                  : fmt::format("a result; step {} has none yet", step.number),
            "\"" + std::string(text) + "\"");
  return number - 1;
}
}  // namespace reel::debugger
