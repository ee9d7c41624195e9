// SPDX-License-Identifier: BSD-3-Clause
// The text of errors: first line at most 200 characters, the rest below it.
#include <reel/error.hpp>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "lib/body/error.hpp"
#include "lib/body/line.hpp"
#include "lib/body/text.hpp"

namespace reel {
namespace {
constexpr std::size_t first_line_limit = 200;

std::string_view last_part(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// Whether the line is in a standard header, which make_unique and emplace_back report. Errors do
/// not name it.
bool is_standard(Caller caller) {
  return caller.file &&
         std::string_view(caller.file).find("/include/c++/") != std::string_view::npos;
}

/// At most `limit` bytes of one line.
std::string shortened(std::string text, std::size_t limit) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= limit) return text;
  std::size_t end = limit - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // UTF-8
  return text.substr(0, end) + "...";
}

std::string message(Caller caller, std::string_view op, std::string_view argument,
                    std::string_view expected, std::string_view got, std::string_view advice) {
  const Caller line_of_call = error_source.line(caller);
  caller = is_standard(line_of_call) ? Caller{} : line_of_call;
  const auto [name, of] = error_source.names(op, argument);
  const auto line = [&, &name = name, &of = of](std::size_t part, std::size_t limit) {
    std::string text, end = ", got " + shortened(std::string(got), 2 * part);
    if (caller.file)
      text = shortened(std::string(last_part(caller.file)), 2 * part) + ":" +
             std::to_string(caller.line) + ": ";
    text += shortened(name, part) + ": ";
    if (!of.empty()) text += shortened(of, part) + ": ";
    const std::size_t taken = text.size() + end.size();
    return text + shortened("expected " + std::string(expected), limit - taken) + end;
  };
  constexpr std::size_t any = 1 << 30;
  std::string text = line(any, 2 * any);
  if (text.size() > first_line_limit) text = line(25, first_line_limit) + "\n  " + text;
  if (!advice.empty()) text.append("\n  ").append(advice);
  if (const std::string place = error_source.place(); !place.empty())
    text.append("\n  ").append(place);
  if (caller.file)
    text.append("\n  at ").append(caller.file).append(":").append(std::to_string(caller.line));
  return text;
}
}  // namespace

std::string line_text(Caller caller, std::string_view none) {
  return caller.file ? std::string(last_part(caller.file)) + ":" + std::to_string(caller.line)
                     : std::string(none);
}

const char* MemoryError::what() const noexcept { return *text_ ? text_ : Error::what(); }

void fail_memory(Caller caller, std::string_view op) {
  error_source.find_call(caller, op);
  const Caller line = is_standard(caller) ? Caller{} : caller;
  const std::string_view file = line.file ? last_part(line.file) : std::string_view();
  char place[80] = "";
  if (line.file)
    std::snprintf(place, sizeof place,
                  "%.*s:%u: ", static_cast<int>(std::min<std::size_t>(file.size(), 60)),
                  file.data(), line.line);
  MemoryError error("");  // an empty text takes no memory
  std::snprintf(error.text_, sizeof error.text_,
                "%s%.*s: memory: expected some for the call, got none from the system", place,
                static_cast<int>(std::min<std::size_t>(op.size(), 50)), op.data());
  error_source.tell(error, op, caller);
  throw error;
}

template <class E>
void fail(Caller caller, std::string_view op, std::string_view argument, std::string_view expected,
          std::string_view got, std::string_view advice) try {
  for (const std::string_view text : {argument, expected, got, advice})
    if (is_lost(text)) fail_memory(caller, op);
  error_source.begin();
  const E error(message(caller, op, argument, expected, got, advice));
  error_source.tell(error, op, caller);
  throw error;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
template void fail<Error>(Caller, std::string_view, std::string_view, std::string_view,
                          std::string_view, std::string_view);
template void fail<ShapeError>(Caller, std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view);
template void fail<IndexError>(Caller, std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view);
template void fail<DTypeError>(Caller, std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view);
template void fail<DeviceError>(Caller, std::string_view, std::string_view, std::string_view,
                                std::string_view, std::string_view);
template void fail<MemoryError>(Caller, std::string_view, std::string_view, std::string_view,
                                std::string_view, std::string_view);
template void fail<IoError>(Caller, std::string_view, std::string_view, std::string_view,
                            std::string_view, std::string_view);
template void fail<DistError>(Caller, std::string_view, std::string_view, std::string_view,
                              std::string_view, std::string_view);
template void fail<TapeError>(Caller, std::string_view, std::string_view, std::string_view,
                              std::string_view, std::string_view);
template void fail<TraceError>(Caller, std::string_view, std::string_view, std::string_view,
                               std::string_view, std::string_view);
}  // namespace reel
