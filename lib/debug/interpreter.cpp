// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace reel::debugger {
Words::Words(std::string_view text) : text_(text) {
  char quote = 0;
  int inside = 0;  // of brackets: #3[0:2, :] is one word
  for (std::size_t i = 0; i < text_.size(); ++i) {
    const char c = text_[i];
    const bool space = std::isspace(static_cast<unsigned char>(c)) && !quote && inside == 0;
    if (space) continue;
    const bool starts =
        i == 0 || (std::isspace(static_cast<unsigned char>(text_[i - 1])) && !quote && inside == 0);
    if (starts) {
      words_.emplace_back();
      places_.push_back(i);
    }
    words_.back() += c;
    if (quote ? c == quote : c == '"') quote = quote ? '\0' : c;
    if (!quote && c == '[') ++inside;
    if (!quote && c == ']' && inside > 0) --inside;
  }
}
std::string Words::from(std::size_t i) const {
  std::string rest;
  for (; i < words_.size(); ++i) rest += (rest.empty() ? "" : " ") + words_[i];
  return rest;
}
std::string Words::option(std::string_view name) {
  for (std::size_t i = 1; i < words_.size(); ++i)
    if (words_[i].starts_with(name) && words_[i].substr(name.size(), 1) == "=") {
      const std::string value = words_[i].substr(name.size() + 1);
      words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
      return value;
    }
  return "";
}
bool Words::flag(std::string_view name) {
  const auto found = std::find(words_.begin(), words_.end(), name);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}
std::int64_t Words::number(std::size_t i, std::int64_t otherwise, std::int64_t least) const {
  if (i >= words_.size()) return otherwise;
  std::int64_t value = 0;
  const std::string& word = words_[i];
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least)
    mistake(fmt::format("a whole number from {} on", least), "\"" + word + "\"");
  return value;
}
std::regex parse_regex(std::string_view text) {
  if (text.size() > 1000)
    mistake("a regular expression of at most 1000 characters", "a longer one");
  try {
    return std::regex(text.begin(), text.end());
  } catch (const std::regex_error& error) {
    mistake("a regular expression (ECMAScript)", "\"" + std::string(text) + "\"", error.what());
  }
}

const std::vector<Interpreter::Command>& Interpreter::commands() {
  using I = Interpreter;
  static const std::vector<Command> all = {
      {"info", "", "where the program is, and why it has stopped", &I::info},
      {"tensors", "[CONDITION] [op=REGEX] [name=REGEX] [dtype=REGEX] [sort=time|size|op|max] [-r]",
       "results of the step", &I::tensors},
      {"inputs", "", "tensors that no op of the step has made: data, weights, constants",
       &I::inputs},
      {"variables", "", "Variables: type, reads, writes", &I::variables},
      {"op", "[N]", "a result: its op, options, inputs, outputs, layer, line", &I::op},
      {"from", "N [DEPTH]", "what a result was computed from", &I::from},
      {"to", "N [DEPTH]", "what was computed from a result", &I::to},
      {"print", "#N[0:3, :] [highlight CONDITION]", "elements; in the condition, x is an element",
       &I::print},
      {"summary", "[N]", "statistics and a histogram of a result", &I::summary},
      {"show", "[N]", "a picture of a matrix in characters", &I::show},
      {"eval", "EXPRESSION", "computes, as in: eval norm(#12) / 2", &I::eval},
      {"try", "#N = EXPRESSION", "computes what follows with another value, beside the program",
       &I::try_value},
      {"set", "#N = EXPRESSION", "goes on with another value of the result where it has stopped",
       &I::set_value},
      {"replay", "", "computes the step again, and compares each bit", &I::replay},
      {"draw", "[FILE.svg] [all|fold|scopes] [forward]",
       "the graph of the step; more than 300 are folded", &I::draw},
      {"source", "[FILE:LINE] [LINES]", "a source file with results beside its lines", &I::source},
      {"sources", "", "source files, and how many results each has", &I::sources},
      {"profile", "[op|line] [FILE.json]", "where the time and memory of `run profile` went",
       &I::profile},
      {"memory", "", "bytes of results by line", &I::memory},
      {"history", "[VARIABLE]", "steps that are kept, or a Variable over these steps", &I::history},
      {"look", "[STEP]",
       "at a step that is kept; -1: the one before the newest; without a number, at the newest",
       &I::look},
      {"path", "LOSS VARIABLE|N", "from a loss to a source, with the size of the gradient",
       &I::path},
      {"why", "LOSS VARIABLE|N", "why a gradient is missing, zero or not finite", &I::why},
      {"gradients", "[VARIABLE|N]", "gradients of Variables; of one, by uses", &I::gradients},
      {"updates", "", "Variables that the step has written: how far they moved", &I::updates},
      {"step", "[N]", "goes on for N results", &I::step},
      {"back", "[N]", "looks at the result N before", &I::back},
      {"cont", "", "goes on until something stops", &I::go_on},
      {"run", "[N] | off | profile [N] | until CONDITION | to OP|LINE",
       "goes on for N steps, or until", &I::run_on},
      {"break", "[OP|LINE|VARIABLE|error] [if CONDITION]", "stops there; without any, lists stops",
       &I::add_break},
      {"delete", "N", "removes a stop", &I::remove},
      {"except", "[REGEX]", "stops leave out ops and lines that match", &I::except},
      {"only", "[op|name|dtype REGEX]", "keeps values of results that match, and stops there only",
       &I::only},
      {"eager", "[off]", "traced functions run eagerly from their next call on", &I::eager},
      {"config", "[NAME VALUE]", "digits, rows, width, bytes, keep_steps", &I::config},
      {"help", "[COMMAND]", "this list", &I::help},
  };
  return all;
}

const Interpreter::Command& Interpreter::command(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> of_tfdbg[] = {
      {"feeds", "inputs"},         {"invoke_stepper", "step"},  {"list_inputs", "from"},
      {"list_outputs", "to"},      {"list_profile", "profile"}, {"list_source", "sources"},
      {"list_tensors", "tensors"}, {"node_info", "op"},         {"print_feed", "inputs"},
      {"print_source", "source"},  {"print_tensor", "print"},   {"run_info", "info"}};
  std::string_view wanted = name;
  for (const auto& [its, ours] : of_tfdbg)
    if (its == name) wanted = ours;
  const Command* like = nullptr;
  std::vector<std::string> names;
  for (const Command& each : commands()) {
    if (each.name == wanted) return each;
    if (!each.name.starts_with(wanted)) continue;
    like = &each;
    names.emplace_back(each.name);
  }
  if (names.size() == 1) return *like;
  mistake(names.empty() ? "a command; `help` lists them" : "one of " + joined(names, ", "),
          "\"" + std::string(name) + "\"");
}

Answer Interpreter::run(std::string_view text) {
  Answer answer;
  try {
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
      text.remove_suffix(1);
    if (text.size() > 10000) mistake("a command of at most 10000 characters", "a longer one");
    if (text.starts_with("/")) {
      search(text.substr(1), answer);
      return answer;
    }
    Words words(text);
    if (words.empty()) return answer;
    (this->*command(words[0]).handler)(words, answer);
    last_answer_ = answer.text();
  } catch (const Mistake& wrong) {
    answer = {};
    answer.error = wrong.text;
  } catch (const std::exception& error) {
    answer = {};
    answer.error = printable(error.what());
  }
  return answer;
}

void Interpreter::stopped(const Reason& reason) {
  reason_ = reason.text;
  step_ = -1;
  cursor_ = reason.node;
  is_stopped_ = true;
}
Step& Interpreter::looked() {
  if (step_ < 0) return recorder_.current();
  for (auto& step : recorder_.steps())
    if (step->number == step_) return *step;
  const std::int64_t gone = step_;
  step_ = -1;
  mistake("a step that is kept; `history` lists them", fmt::format("step {}", gone));
}
int Interpreter::node_of(std::string_view text) {
  Step& step = looked();
  if (!text.empty()) return parse_node(text, step);
  if (cursor_ >= 0 && cursor_ < static_cast<int>(step.nodes.size())) return cursor_;
  if (step.nodes.empty()) parse_node("1", step);
  return static_cast<int>(step.nodes.size()) - 1;
}
void Interpreter::require_stopped() {
  if (!is_stopped_)
    mistake("a program that has stopped at a prompt", "one that runs",
            "Stop it with REEL_DEBUG=cli, debug::cli(), or a Watch with {.prompt = true}");
}

void Interpreter::help(Words& words, Answer& answer) {
  answer.columns = {"command", "arguments", ""};
  const auto add = [&](const Command& each) {
    answer.rows.push_back(
        {std::string(each.name), std::string(each.arguments), std::string(each.help)});
  };
  if (words.size() > 1) return add(command(words[1]));
  for (const Command& each : commands()) add(each);
  answer.notes = {
      "N is the number of a result, as `tensors` lists them; #12.1 is its second output.",
      "A CONDITION may use y, x, x1, dy, dx; norm, min, max, mean, zeros, dead, saturated, "
      "has_nan, "
      "has_inf, elements, step, backward; op(\"tanh\"), line(\"model.cpp:12\"), writes(\"w\"); "
      "ops by name; and, or, not.",
      "/REGEX searches the last answer. The beginning of a name is enough: `t` is none, `ten` is. "
      "Names of tfdbg, such as list_tensors, are names too."};
}
void Interpreter::search(std::string_view pattern, Answer& answer) {
  const std::regex wanted = parse_regex(pattern);
  std::string_view rest = last_answer_;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string line(rest.substr(0, end));
    if (std::regex_search(line.substr(0, 1000), wanted)) answer.lines.push_back(line);
    rest.remove_prefix(end + 1);
  }
  if (answer.lines.empty()) answer.lines = {"No line of the last answer matches."};
}
void Interpreter::config(Words& words, Answer& answer) {
  struct Setting {
    std::string_view name;
    std::int64_t* value;
    std::int64_t least, most;
  };
  std::int64_t keep_steps = recorder_.settings.keep_steps;
  const Setting settings[] = {{"digits", &digits_, 1, 17},
                              {"rows", &rows_, 1, 100000},
                              {"width", &width_, 8, 1000},
                              {"bytes", &recorder_.settings.bytes, 0, INT64_MAX},
                              {"keep_steps", &keep_steps, 1, 1000000}};
  if (words.size() > 1) {
    const Setting* found = nullptr;
    for (const Setting& each : settings)
      if (each.name == words[1]) found = &each;
    if (!found) mistake("digits, rows, width, bytes or keep_steps", "\"" + words[1] + "\"");
    if (words.size() != 3)
      mistake("a name and a value, as in: config digits 6", "\"" + words.from(1) + "\"");
    const std::int64_t value = words.number(2, 0, found->least);
    if (value > found->most)
      mistake(fmt::format("a number from {} to {}", found->least, found->most), words[2]);
    *found->value = value;
    recorder_.settings.keep_steps = static_cast<int>(keep_steps);
  }
  answer.columns = {"name", "value"};
  for (const Setting& each : settings)
    answer.rows.push_back({std::string(each.name), fmt::format("{}", *each.value)});
}

void Interpreter::go(Goal goal, Answer& answer) {
  require_stopped();
  recorder_.goal = std::move(goal);
  answer.goes_on = true;
}
void Interpreter::go_on(Words&, Answer& answer) { go({}, answer); }
void Interpreter::step(Words& words, Answer& answer) {
  const std::int64_t count = words.number(1, 1);
  Step& step = looked();
  const int last = static_cast<int>(step.nodes.size()) - 1;
  const bool newest = &step == &recorder_.current();
  if (cursor_ >= 0 && cursor_ < last) {
    cursor_ = static_cast<int>(std::min<std::int64_t>(cursor_ + count, last));
    return say_node(cursor_, answer);
  }
  if (!newest)
    mistake("a result after the last one of the step", "none", "`look` goes to the newest");
  go({Goal::Kind::nodes, count, {}}, answer);
}
void Interpreter::back(Words& words, Answer& answer) {
  const std::int64_t count = words.number(1, 1);
  const int at = node_of("");
  if (at == 0) mistake("a result before #1", "none", "`history` lists earlier steps");
  cursor_ = static_cast<int>(std::max<std::int64_t>(at - count, 0));
  say_node(cursor_, answer);
}
void Interpreter::run_on(Words& words, Answer& answer) {
  if (words.size() > 1 && words[1] == "off") {
    require_stopped();
    recorder_.stops.clear();
    recorder_.stop_at_errors = false;
    return go({}, answer);
  }
  if (words.size() > 2 && words[1] == "until") {
    Goal goal{Goal::Kind::stop, 0, {}};
    goal.stop.text = words.from(2);
    goal.stop.condition = Expression(goal.stop.text);
    return go(std::move(goal), answer);
  }
  if (words.size() > 2 && words[1] == "to") {
    Goal goal{Goal::Kind::stop, 0, {}};
    goal.stop.text = words.from(2);
    goal.stop.target = parse_target(goal.stop.text, recorder_);
    return go(std::move(goal), answer);
  }
  if (words.size() > 1 && (words[1] == "until" || words[1] == "to"))
    mistake("run until CONDITION, or run to OP|LINE", "\"" + words.from(0) + "\"");
  const bool profiles = words.size() > 1 && words[1] == "profile";
  const std::int64_t steps = words.number(profiles ? 2 : 1, 1);
  go({Goal::Kind::steps, recorder_.current().number + steps, {}}, answer);
  if (profiles) recorder_.begin_profile();
}

Stop Interpreter::parsed_stop(std::string_view text) {
  Stop stop;
  stop.text = std::string(text);
  const std::size_t condition = text.find(" if ");
  if (condition != std::string_view::npos) {
    stop.condition = Expression(text.substr(condition + 4));
    text = text.substr(0, condition);
  } else if (text.starts_with("if ")) {
    stop.condition = Expression(text.substr(3));
    return stop;
  }
  stop.target = parse_target(text, recorder_);
  return stop;
}
void Interpreter::add_break(Words& words, Answer& answer) {
  if (words.size() > 1 && words.from(1) == "error") {
    recorder_.stop_at_errors = true;
    answer.lines = {"Stops where the library is about to throw an error."};
    return;
  }
  if (words.size() > 1) {
    Stop stop = parsed_stop(words.from(1));
    stop.number = next_stop_++;
    answer.lines = {fmt::format("stop {}: {}", stop.number, printable(stop.text))};
    recorder_.stops.push_back(std::move(stop));
    return;
  }
  answer.columns = {"stop", "at", "hits"};
  for (const Stop& each : recorder_.stops)
    answer.rows.push_back({fmt::format("{}", each.number),
                           each.text.empty() ? "a function" : printable(each.text),
                           fmt::format("{}", each.hits)});
  if (recorder_.stop_at_errors) answer.notes.push_back("and at errors");
  if (answer.rows.empty() && answer.notes.empty()) answer.lines = {"There are no stops."};
}
void Interpreter::remove(Words& words, Answer& answer) {
  if (words.size() > 1 && words[1] == "error") {
    recorder_.stop_at_errors = false;
    answer.lines = {"Errors do not stop."};
    return;
  }
  const std::int64_t number = words.number(1, 0);
  auto& stops = recorder_.stops;
  const auto found = std::find_if(stops.begin(), stops.end(),
                                  [&](const Stop& each) { return each.number == number; });
  if (found == stops.end())
    mistake("the number of a stop; `break` lists them",
            words.size() > 1 ? "\"" + words[1] + "\"" : std::string("none"));
  stops.erase(found);
  answer.lines = {fmt::format("Removed stop {}.", number)};
}
void Interpreter::except(Words& words, Answer& answer) {
  const std::string text = words.from(1);
  std::optional<std::regex> wanted;
  if (!text.empty()) wanted = parse_regex(text);
  for (Stop& each : recorder_.stops) each.except = wanted;
  answer.lines = {text.empty() ? "Stops leave out nothing."
                               : "Stops leave out ops and lines that match " + printable(text)};
}
void Interpreter::only(Words& words, Answer& answer) {
  Filter filter;
  const std::string kind = words.size() > 1 ? words[1] : "";
  if (kind.empty()) {
    recorder_.only = {};
    answer.lines = {"All results count."};
    return;
  }
  if (words.size() < 3 || (kind != "op" && kind != "name" && kind != "dtype"))
    mistake("only op|name|dtype REGEX", "\"" + words.from(0) + "\"");
  filter.kind = kind == "op"     ? Filter::Kind::op
                : kind == "name" ? Filter::Kind::name
                                 : Filter::Kind::dtype;
  filter.wanted = parse_regex(words.from(2));
  recorder_.only = std::move(filter);
  answer.lines = {"From now on, values are kept of results whose " + kind + " matches " +
                  printable(words.from(2)) + ", and the program stops there only."};
}
void Interpreter::eager(Words& words, Answer& answer) {
  if (words.size() > 1 && words[1] != "off") mistake("eager, or eager off", words.from(0));
  recorder_.refuses_replays = words.size() == 1;
  answer.lines = {recorder_.refuses_replays
                      ? "Traced functions run eagerly from their next call on."
                      : "Traced functions are replayed again from their next call on."};
}
void Interpreter::look(Words& words, Answer& answer) {
  const std::int64_t before = step_;
  const int cursor = cursor_;
  step_ = words.number(1, -1, INT64_MIN);
  if (words.size() > 1 && step_ < 0)
    step_ = std::max<std::int64_t>(recorder_.current().number + step_, 0);
  cursor_ = -1;
  try {
    const Step& step = looked();
    answer.lines = {fmt::format("step {}: {} results", step.number, step.nodes.size())};
  } catch (const Mistake&) {
    step_ = before;
    cursor_ = cursor;
    throw;
  }
}
void Watcher::add_stop(const debug::Condition& condition, std::string_view except, Action action) {
  if (condition.text().empty() && !condition.function()) return;
  Stop stop;
  stop.number = interpreter.next_stop_++;
  stop.text = condition.text();
  stop.function = condition;
  stop.action = action;
  if (!stop.text.empty()) stop.condition = Expression(stop.text);
  if (!except.empty()) stop.except = parse_regex(except);
  stops.push_back(std::move(stop));
}
}  // namespace reel::debugger
