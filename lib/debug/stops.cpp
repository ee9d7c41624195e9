// SPDX-License-Identifier: BSD-3-Clause
// Where a program stops.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "lib/debug/moment.hpp"

namespace reel::debugger {
int Recorder::occurrence(const Step& step, int number) {
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  int count = 0;
  for (int i = 0; i <= number; ++i) {
    const Node& each = step.nodes[static_cast<std::size_t>(i)];
    count += each.op == node.op && each.part == node.part && each.caller.line == node.caller.line &&
             each.caller.file == node.caller.file;
  }
  return count;
}
void Recorder::error(const ErrorEvent& event) {
  if (!stop_at_errors || !prompt) return;
  const std::string_view text = event.error.what();
  prompt(*this, {"error: " + printable(text.substr(0, text.find('\n'))), -1});
}

bool Recorder::may_set() const { return call && !call->is_replayed(); }
bool Recorder::holds(Stop& stop, int number) try {
  if (!stop.is_on || (stop.condition.only_odd() && !is_odd_)) return false;
  Step& step = current();
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  const Target& target = stop.target;
  if (!is_at(target, *this, node)) return false;
  Moment moment(*this, step, number);
  if (stop.function.function()) {
    if (!moment.ask(stop.function)) return false;
  } else if (!stop.condition.empty() && !stop.condition.holds(moment)) {
    return false;
  }
  return !stop.except || !(std::regex_search(name_of(node), *stop.except) ||
                           std::regex_search(line_of(node.caller), *stop.except));
} catch (const Mistake& wrong) {
  stop.is_on = false;
  std::fprintf(stderr, "reel: the condition \"%s\" is left out: %s\n", printable(stop.text).c_str(),
               wrong.text.c_str());
  return false;
}
void Recorder::check_stops(int number) {
  if (only.kind != Filter::Kind::all) {
    const Step& step = current();
    const Node& node = step.nodes[static_cast<std::size_t>(number)];
    bool some = false;
    for (int k = 0; k < node.outputs; ++k) {
      const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
      some |= !output.absent && counts(node, output);
    }
    if (!some) return;
  }
  for (std::size_t i = 0; i < stops.size(); ++i) {
    if (!holds(stops[i], number)) continue;
    ++stops[i].hits;
    if (stops[i].action == Action::error) fail(stops[i], number);
    return stop_for(fmt::format("stop {}: {}", stops[i].number, stops[i].text), number);
  }
  switch (goal.kind) {
    case Goal::Kind::none:
      return;
    case Goal::Kind::nodes:
      if (--goal.count <= 0) stop_for("step", number);
      return;
    case Goal::Kind::steps:
      if (current_step_ >= goal.count) stop_for(fmt::format("step {}", current_step_), number);
      return;
    case Goal::Kind::stop:
      if (holds(goal.stop, number)) stop_for("until " + goal.stop.text, number);
  }
}
void Recorder::stop_for(const std::string& why, int number) {
  goal = {};
  if (prompt) prompt(*this, {why, number});
}
void Recorder::fail(const Stop& stop, int number) {
  Step& step = current();
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  const GateCall& ended = *call;
  Moment moment(*this, step, number);
  const bool odd = !stop.function.function() && stop.condition.only_odd();
  std::string got, advice;
  const Body* const y = moment.live("y");
  if (y && is_floating(y->dtype)) {
    const Ref copy = copy_of(*y);
    for (std::int64_t i = 0; odd && i < copy->elements && got.empty(); ++i)
      if (const double x = element(*copy, i); x - x != 0)
        got = fmt::format("{} at {}", number_text(x), place_text(copy->shape, i));
    const Statistics all = statistics_of(*copy, Bounds::none);
    if (got.empty())
      got = fmt::format("one from {} to {}, norm {}", number_text(all.low), number_text(all.high),
                        number_text(all.norm));
  }
  if (got.empty()) got = "one that does";
  advice = fmt::format("This is #{} of step {}, call {} of {} at this line.", number + 1,
                       step.number, occurrence(step, number), name_of(node));
  for (int i = 0; i < ended.input_count; ++i) advice += moment.range_of_input(i);
  if (const char* const cause =
          node.part == Part::value ? ended.op.not_finite : ended.op.slope_not_finite;
      odd && cause)
    advice += fmt::format(" {}", cause);
  const std::string expected = odd ? (stop.text == "has_nan" ? "no NaN" : "finite numbers")
                               : stop.text.empty() ? "no result that stops"
                                                   : "no result with " + printable(stop.text);
  host->fail(DebugError::general, node.caller, node.op->name,
             node.part == Part::value ? "result" : "gradient", expected, got, advice);
}
}  // namespace reel::debugger
