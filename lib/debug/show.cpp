// SPDX-License-Identifier: BSD-3-Clause
// Commands that show values, and compute with them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/debug/compute.hpp"
#include "lib/debug/interpreter.hpp"
#include "lib/debug/log.hpp"

namespace reel::debugger {
namespace {
/// What `highlight` asks of one element.
class ElementScope : public Scope {
 public:
  double x = 0;
  Ref result(std::int64_t, int) override { mistake("x and numbers", "a result"); }
  Ref tensor(std::string_view) override { return {}; }
  bool statistics(std::string_view, Statistics&) override { return false; }
  bool number(std::string_view name, double& value) override {
    if (name == "has_nan") return value = std::isnan(x), true;
    if (name == "has_inf") return value = std::isinf(x), true;
    if (name == "has_inf_or_nan") return value = !std::isfinite(x), true;
    return name == "x" ? (value = x, true) : false;
  }
  bool matches(std::string_view kind, std::string_view) override {
    mistake("x and numbers", std::string(kind) + "(...)");
  }
};
std::string value_text(const Value& value, int digits) {
  if (value.missing) return "nothing here";
  if (!value.is_tensor()) return number_text(value.number, digits);
  return type_text(value.tensor->dtype, value.tensor->shape) + "\n" + host->text(*value.tensor);
}
void add_lines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}
}  // namespace

void Interpreter::eval(Words& words, Answer& answer) {
  const std::string text = words.from(1);
  if (text.empty()) mistake("an expression, as in: eval norm(#12) / 2", "nothing");
  Step& step = looked();
  int at = cursor_;
  if (at >= static_cast<int>(step.nodes.size())) at = -1;
  if (at < 0) at = static_cast<int>(step.nodes.size()) - 1;
  Moment moment(recorder_, step, at);
  const Value value = Expression(text).evaluate(moment);
  if (value.missing) mistake("names that have a value here", "\"" + text + "\"", "See `help`");
  add_lines(value_text(value, std::max(static_cast<int>(digits_), 6)), answer.lines);
}

void Interpreter::print(Words& words, Answer& answer) {
  std::string text = words.from(1), condition;
  if (const std::size_t at = text.find(" highlight "); at != std::string::npos) {
    condition = text.substr(at + 11);
    text.resize(at);
  }
  Step& step = looked();
  Ref tensor;
  const std::vector<VariableInfo>& variables = recorder_.variables();
  const auto known = std::find_if(variables.begin(), variables.end(), [&](const auto& each) {
    return !text.empty() && (each.name == text || "\"" + each.name + "\"" == text);
  });
  if (known != variables.end()) {
    for (const Outside& outside : step.outsides)
      if (outside.variable == known - variables.begin() && outside.value) tensor = outside.value;
    if (!tensor)
      mistake("a Variable that the step has read, while values are kept",
              "\"" + known->name + "\"");
  } else {
    if (text.empty()) text = fmt::format("#{}", node_of("") + 1);
    if (text[0] >= '0' && text[0] <= '9') text = "#" + text;
    if (const std::string word = text.substr(0, text.find('['));
        std::any_of(step.nodes.begin(), step.nodes.end(),
                    [&](const Node& each) { return name_of(each) == word; }))
      text.replace(0, word.size(), fmt::format("#{}", parse_node(word, step) + 1));
    Moment moment(recorder_, step, node_of(""));
    const Value value = Expression(text).evaluate(moment);
    if (!value.is_tensor()) {
      answer.lines = {value_text(value, static_cast<int>(digits_))};
      return;
    }
    tensor = value.tensor;
  }
  answer.lines.push_back(type_text(tensor->dtype, tensor->shape));
  if (condition.empty()) return add_lines(host->text(*tensor), answer.lines);
  const Expression wanted(condition);
  ElementScope scope;
  std::int64_t count = 0;
  answer.columns = {"place", "element"};
  for (std::int64_t i = 0; i < tensor->elements; ++i) {
    scope.x = element(*tensor, i);
    if (!wanted.holds(scope)) continue;
    if (count++ < rows_)
      answer.rows.push_back(
          {place_text(tensor->shape, i), number_text(scope.x, static_cast<int>(digits_))});
  }
  answer.notes.push_back(fmt::format("{} of {} elements", count, tensor->elements));
}

void Interpreter::summary(Words& words, Answer& answer) {
  const int number = node_of(words.from(1));
  Step& step = looked();
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  say_node(number, answer);
  int k = 0;
  while (k + 1 < node.outputs &&
         step.outputs[static_cast<std::size_t>(node.first_output + k)].absent)
    ++k;
  const Statistics all = statistics_of_output(number, k);
  const int digits = static_cast<int>(digits_);
  const Ref value = recorder_.value(step, number, k);
  answer.columns = {"elements",  "nan", "inf", "zeros", "dead",
                    "saturated", "min", "max", "mean",  "norm"};
  answer.rows.push_back({fmt::format("{}", all.elements), fmt::format("{}", all.nans),
                         fmt::format("{}", all.infinities), number_text(all.zeros, digits),
                         number_text(dead_of(*value), digits), number_text(all.saturated, digits),
                         number_text(all.low, digits), number_text(all.high, digits),
                         number_text(all.mean, digits), number_text(all.norm, digits)});
  if (!(all.high > all.low) || std::isinf(all.high) || std::isinf(all.low)) return;
  constexpr int bins = 10;
  std::int64_t counts[bins] = {}, most = 1;
  for (std::int64_t i = 0; i < value->elements; ++i) {
    const double x = element(*value, i);
    if (!std::isfinite(x)) continue;
    const int bin = static_cast<int>((x - all.low) / (all.high - all.low) * bins);
    most = std::max(most, ++counts[std::clamp(bin, 0, bins - 1)]);
  }
  for (int bin = 0; bin < bins; ++bin)
    answer.notes.push_back(fmt::format(
        "{:>10} {:>8} {}", number_text(all.low + (all.high - all.low) * bin / bins, 3), counts[bin],
        std::string(static_cast<std::size_t>(40 * counts[bin] / most), '#')));
}

void Interpreter::show(Words& words, Answer& answer) {
  const int number = node_of(words.from(1));
  Step& step = looked();
  const Ref value = recorder_.value(step, number, 0);
  const std::size_t rank = value->shape.rank();
  const std::int64_t columns = rank ? value->shape.data()[rank - 1] : 1;
  const std::int64_t rows = columns ? value->elements / columns : 0;
  say_node(number, answer);
  if (rows == 0) {
    answer.lines.push_back("no elements");
    return;
  }
  const Statistics all = statistics_of(*value, Bounds::none);
  const std::int64_t wide = std::min(columns, width_), high = std::min<std::int64_t>(rows, 24);
  constexpr std::string_view shades = " .:-=+*#%@";
  for (std::int64_t r = 0; r < high; ++r) {
    std::string line;
    for (std::int64_t c = 0; c < wide; ++c) {
      double sum = 0;
      std::int64_t count = 0;
      bool nan = false;
      // A character is the mean of its cells, of at most 256 of them.
      const std::int64_t r0 = r * rows / high, r1 = std::max((r + 1) * rows / high, r0 + 1);
      const std::int64_t c0 = c * columns / wide, c1 = std::max((c + 1) * columns / wide, c0 + 1);
      for (std::int64_t i = r0; i < std::min(r1, r0 + 16); ++i)
        for (std::int64_t j = c0; j < std::min(c1, c0 + 16); ++j) {
          const double x = element(*value, i * columns + j);
          nan |= !std::isfinite(x);
          sum += x;
          ++count;
        }
      const double mean = sum / static_cast<double>(count), range = all.high - all.low;
      const double share = range > 0 ? (mean - all.low) / range : 0.5;
      line += nan ? '!' : shades[static_cast<std::size_t>(std::clamp(share * 9.999, 0.0, 9.0))];
    }
    answer.lines.push_back("|" + line + "|");
  }
  answer.notes.push_back(fmt::format("' ' is {}, '@' is {}, '!' is nan or inf",
                                     number_text(all.low, static_cast<int>(digits_)),
                                     number_text(all.high, static_cast<int>(digits_))));
}

/// Reads "#12[0:3] = EXPRESSION": the node and output, and its value with the change.
std::pair<int, int> Interpreter::assigned(std::string_view text, Ref& value, Body*&) {
  const std::size_t equal = text.find('=');
  if (equal == std::string_view::npos || !text.starts_with("#"))
    mistake("#N = EXPRESSION, as in: try #12 = 0", "\"" + std::string(text) + "\"");
  std::string left(text.substr(0, equal));
  left.erase(left.find_last_not_of(' ') + 1);
  std::string slices;
  if (const std::size_t bracket = left.find('['); bracket != std::string::npos) {
    slices = left.substr(bracket);
    left.resize(bracket);
  }
  int output = 0;
  if (const std::size_t dot = left.find('.'); dot != std::string::npos) {
    Words number("x " + left.substr(dot + 1));
    output = static_cast<int>(number.number(1, 0, 0));
    left.resize(dot);
  }
  Step& step = looked();
  const int node = parse_node(left, step);
  Moment moment(recorder_, step, node);
  const Value made = Expression(text.substr(equal + 1)).evaluate(moment);
  if (made.missing) mistake("names that have a value here", "\"" + std::string(text) + "\"");
  const Ref old = recorder_.value(step, node, output);
  value = Ref(host->filled(old->dtype, old->shape, old->data));
  const auto write = [&](std::int64_t i, std::int64_t k) {
    set_element(*value, i, made.is_tensor() ? element(*made.tensor, k) : made.number);
  };
  if (slices.empty()) {
    if (made.is_tensor() && made.tensor->elements != old->elements)
      mistake("a number or a tensor " + shape_text(old->shape), shape_text(made.tensor->shape));
    for (std::int64_t i = 0; i < old->elements; ++i) write(i, i);
    return {node, output};
  }
  if (slices.back() != ']') mistake("\"]\" after a slice", "\"" + slices + "\"");
  // The places of the slice: those of a tensor of positions.
  const Ref places(host->filled(DType::int64, old->shape, nullptr));
  for (std::int64_t i = 0; i < old->elements; ++i) places->as<std::int64_t>()[i] = i;
  const Ref picked =
      slice_of(*places, parse_slices(std::string_view(slices).substr(1, slices.size() - 2)));
  if (made.is_tensor() && made.tensor->elements != picked->elements)
    mistake("a number or a tensor " + shape_text(picked->shape), shape_text(made.tensor->shape));
  for (std::int64_t k = 0; k < picked->elements; ++k) write(picked->as<std::int64_t>()[k], k);
  return {node, output};
}

void Interpreter::try_value(Words& words, Answer& answer) {
  Ref value;
  Body* whole = nullptr;
  const auto [node, output] = assigned(words.from(1), value, whole);
  Step& step = looked();
  Again again(step);
  const int count = again.change(node, output, value);
  answer.lines.push_back(
      fmt::format("{} results are computed again; the program is unchanged.", count));
  answer.columns = {"N", "op", "line", "norm before", "norm now", "nan", "inf"};
  const int digits = static_cast<int>(digits_);
  for (const int i : again.changed()) {
    if (static_cast<std::int64_t>(answer.rows.size()) == rows_) {
      answer.notes.push_back("and more; config rows shows them");
      break;
    }
    const Node& its = step.nodes[static_cast<std::size_t>(i)];
    int k = i == node ? output : 0;
    while (k + 1 < its.outputs &&
           step.outputs[static_cast<std::size_t>(its.first_output + k)].absent)
      ++k;
    if (its.inner ||
        !is_floating(step.outputs[static_cast<std::size_t>(its.first_output + k)].dtype))
      continue;
    const Statistics before = statistics_of_output(i, k);
    const Statistics now = statistics_of(*again.of(i, k), Bounds::none);
    answer.rows.push_back({fmt::format("#{}", i + 1), name_of(its), line_of(its.caller),
                           number_text(before.norm, digits), number_text(now.norm, digits),
                           fmt::format("{}", now.nans), fmt::format("{}", now.infinities)});
  }
}

void Interpreter::set_value(Words& words, Answer& answer) {
  require_stopped();
  Ref value;
  Body* whole = nullptr;
  const auto [number, k] = assigned(words.from(1), value, whole);
  Step& step = recorder_.current();
  const GateCall* const call = recorder_.call;
  if (&looked() != &step || !call || number + 1 != static_cast<int>(step.nodes.size()))
    mistake("the result where the program has stopped", fmt::format("#{}", number + 1),
            "`try` computes what follows any other one");
  Body* const body = call->outputs[k];
  Node& node = step.nodes[static_cast<std::size_t>(number)];
  if (!recorder_.may_set())
    mistake("an op that runs eagerly", "a step of a replay",
            "Run the function without trace() to set a value");
  if (!body || !is_readable(*body) || body->owner || !node.updated.empty())
    mistake("a result on the CPU with memory of its own", name_of(node),
            "Set the result of an op before or after it");
  std::memcpy(body->data, value->data, static_cast<std::size_t>(body->bytes()));
  Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
  output.fingerprint = fingerprint_of(*body);
  output.statistics = statistics_of(*body, Bounds::none);
  output.odd = odd_of(*body);
  if (output.value) output.value = value;
  node.edited = recorder_.edited = true;
  LogRecorder::mark_edited(fmt::format("#{} {} at {}, step {}", number + 1, name_of(node),
                                       line_of(node.caller), step.number));
  answer.lines.push_back("The run is edited: the program goes on with this value.");
  say_node(number, answer);
}

void Interpreter::replay(Words&, Answer& answer) {
  Step& step = looked();
  std::int64_t same = 0, checked = 0, unknown = 0;
  std::vector<std::string> differ;
  for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i) {
    const Node& node = step.nodes[static_cast<std::size_t>(i)];
    if (node.inner || node.edited) continue;
    for (int k = 0; k < node.outputs; ++k) {
      const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
      if (output.absent || !output.value) continue;
      Ref computed;
      try {
        computed = Again(step).anew(i, k);
      } catch (const Mistake&) {
        ++unknown;
        continue;
      }
      ++checked;
      if (hash_of(*computed) == hash_of(*output.value))
        ++same;
      else
        differ.push_back(fmt::format("#{} {} at {}", i + 1, name_of(node), line_of(node.caller)));
    }
  }
  answer.lines.push_back(fmt::format("step {}: {} of {} results have the same bits again",
                                     step.number, same, checked));
  if (unknown)
    answer.notes.push_back(fmt::format("{} are left out: what they read is not kept", unknown));
  if (!differ.empty()) answer.notes.push_back("differ: " + joined(differ, "; ").substr(0, 1000));
}
}  // namespace reel::debugger
