// SPDX-License-Identifier: BSD-3-Clause
// The text of errors: first line at most 200 characters, the rest below it.
#include <reel/error.hpp>

#include <string>

#include "lib/dispatch/context.hpp"
#include "lib/dispatch/gate.hpp"

namespace reel {
namespace {
constexpr std::size_t first_line_limit = 200;

std::string_view last_part(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::string message(Caller caller, std::string_view op, std::string_view argument,
                    std::string_view expected, std::string_view got, std::string_view advice) {
  const Caller site = site_of(caller);
  std::string text;
  if (site.file)
    text.append(last_part(site.file)).append(":").append(std::to_string(site.line)).append(": ");
  text.append(op).append(": ");
  if (!argument.empty()) text.append(argument).append(": ");
  text.append("expected ").append(expected).append(", got ").append(got);
  std::string rest;
  if (text.size() > first_line_limit) {
    rest = text;
    text.resize(first_line_limit - 3);
    text += "...";
    text.append("\n  ").append(rest);
  }
  if (!advice.empty()) text.append("\n  ").append(advice);
  if (site.file)
    text.append("\n  at ").append(site.file).append(":").append(std::to_string(site.line));
  return text;
}
}  // namespace

Caller site_of(Caller caller) { return Context::here().site_of(caller); }

std::string to_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text.append(i ? ", " : "").append(std::to_string(shape.data()[i]));
  return text + (shape.rank() == 1 ? ",)" : ")");
}

template <class E>
void fail(Caller caller, std::string_view op, std::string_view argument, std::string_view expected,
          std::string_view got, std::string_view advice) {
  throw E(message(caller, op, argument, expected, got, advice));
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
template void fail<TapeError>(Caller, std::string_view, std::string_view, std::string_view,
                              std::string_view, std::string_view);
}  // namespace reel
