// SPDX-License-Identifier: BSD-3-Clause
// Compares a replay with the run that checks it.
#include <cstdio>

#include "lib/pool/process.hpp"
#include "lib/trace/check.hpp"
#include "lib/trace/progress.hpp"

namespace reel::detail {
std::unique_ptr<tracing::CapturedWords> captured_words(const TraceProgress& call,
                                                       const tracing::CapturedWatch& known) {
  const TraceBook& book = *call.book;
  return std::make_unique<tracing::CapturedWords>(
      book.function, call.state, known.ignored(),
      tracing::CapturedWords::Compares{book.reads.empty(), !known.tolerates_fields()});
}

tracing::Difference compare(const TraceProgress& call, const tracing::Capture& path) {
  if (tracing::Difference difference = call.entry->difference(path)) return difference;
  if (call.differs) return {"plain value in its result", "the captured value", "another value"};
  if (call.results.size() != call.expected.size())
    return {"number of tensors in its result", std::to_string(call.expected.size()),
            std::to_string(call.results.size())};
  std::vector<tracing::Compared> pairs;
  for (std::size_t i = 0; i < call.results.size(); ++i)
    pairs.push_back({"result " + std::to_string(i), call.expected[i], call.results[i]});
  for (const auto& [variable, value] : call.assigned)
    pairs.push_back({"Variable \"" + variable.name() + "\"", value, Access::cell(variable).value});
  if (tracing::Difference difference = tracing::compare(pairs)) return difference;
  const std::uint64_t position = position_of(current_generator());
  if (position == call.position) return {};
  return {"position of the generator of random numbers", std::to_string(call.position),
          std::to_string(position)};
}

void capture_by_itself(TraceProgress& call, const tracing::Difference& difference) {
  call.entry->forget({});
  bool last = false;
  {
    const Locked held(Lock::traces);
    last = ++call.book->differences == TraceBook::most_differences;
  }
  std::fprintf(stderr,
               "reel: %s:%u: what a traced function does depends on lengths of its arguments (%s: "
               "expected %s, got %s): call number %llu is right, and its lengths are captured by "
               "themselves%s\n",
               call.caller.file ? call.caller.file : "?", call.caller.line, difference.what.c_str(),
               difference.before.c_str(), difference.now.c_str(),
               static_cast<unsigned long long>(call.number),
               last ? ", and so are all further ones" : "");
}

void watch_captured(TraceProgress& call) {
  call.scheduled = call.book->options.verify > 0;
  if (!call.scheduled) {
    call.ending->until_check = 0;
    call.changes.clear();
    return;
  }
  auto words = captured_words(call, call.ending->captured);
  const Locked held(Lock::traces);
  call.ending->captured.set(std::move(words));
}

}  // namespace reel::detail
