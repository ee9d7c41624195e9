// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace reel::debugger {
namespace {
thread_local std::vector<LogRecorder*> logs;
}
LogRecorder::LogRecorder(std::string_view path, const debug::LogOptions& options, Caller caller)
    : Recorder({Level::statistics, 1, 1, 0}),
      path_(path),
      file_(std::fopen(path_.c_str(), "w")),
      hash_(options.hash) {
  if (!file_)
    host->fail(DebugError::io, caller, "Log", "path", "a file that can be written",
               "\"" + path_ + "\": " + std::strerror(errno), {});
  fmt::print(file_, "{}\n# {}\n{}\n", log_title, host->machine(), log_columns);
  logs.push_back(this);
}
LogRecorder::~LogRecorder() {
  std::erase(logs, this);
  if (file_) std::fclose(file_);
}
void LogRecorder::mark_edited(const std::string& what) {
  for (LogRecorder* const each : logs)
    if (each->file_) fmt::print(each->file_, "# edited: {}\n", what);
}
void LogRecorder::noted(const Step& step, int number) {
  if (!file_) return;
  const Node& node = step.nodes[static_cast<std::size_t>(number)];
  if (node.inner) return;
  for (int k = 0; k < node.outputs; ++k) {
    const Output& output = step.outputs[static_cast<std::size_t>(node.first_output + k)];
    if (output.absent) continue;
    std::string shape;
    for (const std::int64_t length : output.shape)
      shape += fmt::format("{}{}", shape.empty() ? "" : ",", length);
    const Statistics& all = output.statistics;
    fmt::print(file_, "{}\t{}\t{}\t{}\t{}\t{}\t{:.9g}\t{:.9g}\t{:.9g}\t{:016x}\n", step.number,
               number + 1, name_of(node), line_of(node.caller), host->dtype(output.dtype),
               shape.empty() ? "-" : shape, all.low, all.high, all.norm,
               hash_ ? hash_of(*call->outputs[k]) : 0);
  }
  if (std::ferror(file_)) {
    std::fprintf(stderr, "reel: the log %s cannot be written: %s\n", path_.c_str(),
                 std::strerror(errno));
    std::fclose(file_);
    file_ = nullptr;
  }
}
}  // namespace reel::debugger
