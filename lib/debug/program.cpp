// SPDX-License-Identifier: BSD-3-Clause
// Commands about lines of the program, time, memory, and steps.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "lib/debug/interpreter.hpp"

namespace reel::debugger {
namespace {
std::string_view last_part(std::string_view path) { return path.substr(path.rfind('/') + 1); }
}  // namespace

void Interpreter::source(Words& words, Answer& answer) {
  Step& step = looked();
  std::string file;
  unsigned line = 0;
  if (words.size() > 1) {
    const Target target = parse_target(words[1], recorder_);
    if (target.kind != Target::Kind::line)
      mistake("a line, as in: source model.cpp:12", "\"" + words[1] + "\"");
    file = target.file;
    line = target.line;
  }
  std::string path;
  const int at = words.size() > 1 ? -1 : node_of("");
  if (at >= 0) {
    const Caller caller = step.nodes[static_cast<std::size_t>(at)].caller;
    if (!caller.file) mistake("a result with a line", "one that the library made");
    path = caller.file;
    line = caller.line;
  }
  for (const Node& node : step.nodes)
    if (path.empty() && node.caller.file &&
        (file.empty() ? node.caller.line == line
                      : node.caller.file == file || last_part(node.caller.file) == file ||
                            std::string_view(node.caller.file).ends_with("/" + file)))
      path = node.caller.file;
  if (path.empty())
    mistake("a file of the step; `sources` lists them",
            "\"" + (file.empty() ? words[1] : file) + "\"");
  std::ifstream in(path);
  if (!in)
    mistake("a file that can be read", printable(path),
            "Run the program in the folder where it was compiled");
  const std::int64_t around = words.number(2, 5, 0);
  std::map<unsigned, int> last;  // of each line: its last result
  for (int i = 0; i < static_cast<int>(step.nodes.size()); ++i)
    if (const Caller caller = step.nodes[static_cast<std::size_t>(i)].caller;
        caller.file && path == caller.file)
      last[caller.line] = i;
  std::string text;
  for (unsigned n = 1; std::getline(in, text) && n <= line + static_cast<std::uint64_t>(around);
       ++n) {
    if (n + around < line) continue;
    std::string shown = fmt::format("{}{:>5}  {}", n == line ? ">" : " ", n,
                                    printable(std::string_view(text).substr(0, 160)));
    if (const auto found = last.find(n); found != last.end()) {
      Answer said;
      say_node(found->second, said);
      const std::string& about = said.lines[0];
      const std::size_t place = about.find(" at ");
      const std::size_t values = about.find(": ", place);
      shown += "   // " + about.substr(0, place) +
               (values == std::string::npos ? "" : about.substr(values));
    }
    answer.lines.push_back(shown);
  }
  if (answer.lines.empty())
    mistake(fmt::format("a line of {}", printable(path)), fmt::format("{}", line));
}
void Interpreter::sources(Words&, Answer& answer) {
  std::map<std::string, std::pair<int, std::int64_t>> files;
  for (const Node& node : looked().nodes) {
    auto& [count, time] = files[node.caller.file ? printable(node.caller.file) : "no line"];
    ++count;
    time += node.nanoseconds;
  }
  answer.columns = {"file", "results", "us"};
  for (const auto& [file, sums] : files)
    answer.rows.push_back({file, fmt::format("{}", sums.first),
                           fmt::format("{:.1f}", static_cast<double>(sums.second) / 1e3)});
}
void Interpreter::profile(Words& words, Answer& answer) {
  const MeasuredRun* const measured = recorder_.profile();
  if (!measured)
    mistake("a profile that has been measured", "none",
            "`run profile N` measures the next N steps");
  const bool by_line = words.flag("line");
  if (!by_line) words.flag("op");
  if (const std::string path = words.from(1); !path.empty()) {
    if (!path.ends_with(".json")) mistake("op, line, or a FILE.json", "\"" + path + "\"");
    try {
      measured->write(path);
    } catch (const std::exception&) {
      mistake("a file that can be written", path);
    }
    answer.lines = {"The timeline is in " + printable(path) + "."};
    return;
  }
  answer.lines = {measured->title()};
  answer.rows = measured->rows(by_line);
  answer.columns = answer.rows[0];
  answer.rows.erase(answer.rows.begin());
  const auto most = static_cast<std::size_t>(rows_);
  if (answer.rows.size() > most) {
    answer.notes.push_back(
        fmt::format("and {} more; config rows {}", answer.rows.size() - most, answer.rows.size()));
    answer.rows.resize(most);
  }
  const MeasuredRun::Rows memory = measured->memory();
  for (std::size_t i = 0; i < std::min(memory.size(), most); ++i)
    answer.notes.push_back(fmt::format("at the peak of memory: {} of {}, {}", memory[i][0],
                                       memory[i][1], memory[i][2]));
}
void Interpreter::memory(Words&, Answer& answer) {
  Step& step = looked();
  std::map<std::string, std::pair<int, std::int64_t>> sums;
  for (const Node& node : step.nodes) {
    if (node.inner || !node.updated.empty()) continue;
    for (int k = 0; k < node.outputs; ++k) {
      const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
      if (output.absent || !output.own_memory || (node.accumulates >> k & 1)) continue;
      auto& [count, bytes] = sums[line_of(node.caller) + " " + name_of(node)];
      ++count;
      bytes += elements_of(output.shape) * size_of(output.dtype);
    }
  }
  std::vector<std::pair<std::string, std::pair<int, std::int64_t>>> sorted(sums.begin(),
                                                                           sums.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  const MemoryStatistics now = host->memory();
  answer.lines.push_back(fmt::format(
      "{} tensors are alive, {}; with copies of the debugger, at most {} for results",
      now.live_tensors, bytes_text(now.live_bytes), bytes_text(recorder_.settings.bytes)));
  answer.columns = {"line", "op", "results", "bytes"};
  for (const auto& [name, sum] : sorted) {
    if (static_cast<std::int64_t>(answer.rows.size()) == rows_) break;
    const std::size_t space = name.find(' ', name.starts_with("no line") ? 3 : 0);
    answer.rows.push_back({name.substr(0, space), name.substr(space + 1),
                           fmt::format("{}", sum.first), fmt::format("{}", sum.second)});
  }
}
void Interpreter::history(Words& words, Answer& answer) {
  const std::string name = words.from(1);
  if (name.empty()) {
    answer.columns = {"step", "results", "values", "complete"};
    for (const auto& step : recorder_.steps())
      answer.rows.push_back({fmt::format("{}", step->number), fmt::format("{}", step->nodes.size()),
                             bytes_text(step->bytes), step->complete ? "yes" : "no"});
    answer.notes.push_back(fmt::format("config keep_steps {}", recorder_.settings.keep_steps));
    return;
  }
  const Target target = parse_target(name, recorder_);
  if (target.kind != Target::Kind::variable)
    mistake("the name of a Variable; `variables` lists them", "\"" + name + "\"");
  const auto& variables = recorder_.variables();
  const int number =
      static_cast<int>(std::find_if(variables.begin(), variables.end(),
                                    [&](const auto& each) { return each.name == target.name; }) -
                       variables.begin());
  answer.columns = {"step", "norm", "norm of gradient", "norm of update"};
  const int digits = static_cast<int>(digits_);
  for (const auto& step : recorder_.steps()) {
    std::vector<std::string> row = {fmt::format("{}", step->number), "", "", ""};
    for (const Outside& outside : step->outsides)
      if (outside.variable == number && outside.value && row[1].empty())
        row[1] = number_text(statistics_of(*outside.value, Bounds::none).norm, digits);
    for (const Complete& each : step->gradients)
      if (each.variable == number) row[2] = number_text(each.statistics.norm, digits);
    for (const Node& node : step->nodes)
      for (std::size_t k = 0; k < node.updated.size(); ++k)
        if (node.updated[k] == number &&
            node.updated.size() <= static_cast<std::size_t>(node.inputs))
          row[3] = number_text(recorder_.moved(*step, node, static_cast<int>(k)), digits);
    answer.rows.push_back(std::move(row));
  }
}
}  // namespace reel::debugger
