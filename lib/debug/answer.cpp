// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/debug/value.hpp"

namespace reel::debugger {
namespace {
/// Whether JSON can have it as a number.
bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value - value != 0) return false;
  const std::size_t first = text.starts_with("-");
  const bool zero = text.size() > first + 1 && text[first] == '0' && text[first + 1] != '.' &&
                    text[first + 1] != 'e';
  return text.size() > first && text[first] >= '0' && text[first] <= '9' && !zero &&
         !text.ends_with('.');
}
/// The bytes of the UTF-8 character at the beginning; 0: it is none.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))
    return 0;
  return size;
}
std::string list_of(const std::vector<std::string>& texts, bool numbers) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ",";
    list += numbers && is_number(text) ? text : json_text(text);
  }
  return list + "]";
}
}  // namespace

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t size = character(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (size == 0)
      quoted += "\\ufffd";
    else if (first == '"' || first == '\\')
      quoted.append("\\").append(text.substr(0, 1));
    else if (first < 32 || first == 127)
      quoted += fmt::format("\\u{:04x}", first);
    else
      quoted += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return quoted + "\"";
}

std::string Answer::text() const {
  if (!error.empty()) return error + "\n";
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  std::vector<std::size_t> widths(columns.size());
  std::vector<bool> right(columns.size(), true);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    widths[k] = columns[k].size();
    for (const auto& row : rows) {
      widths[k] = std::max(widths[k], row[k].size());
      const bool odd = row[k].empty() || row[k] == "nan" || row[k] == "inf" || row[k] == "-inf";
      right[k] = right[k] && (odd || row[k][0] == '#' || row[k][0] == '@' || is_number(row[k]));
    }
  }
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t k = 0; k < cells.size(); ++k)
      line += right[k] ? fmt::format("{:>{}}  ", cells[k], widths[k])
                       : fmt::format("{:<{}}  ", cells[k], widths[k]);
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  };
  if (!rows.empty()) add(columns);
  for (const auto& row : rows) add(row);
  for (const std::string& line : notes) all += line + "\n";
  return all;
}
std::string Answer::json() const {
  if (!error.empty()) return "{\"ok\":false,\"error\":" + json_text(error) + "}";
  std::string all = "{\"ok\":true,\"lines\":" + list_of(lines, false) +
                    ",\"columns\":" + list_of(columns, false) + ",\"rows\":[";
  for (const auto& row : rows) all += (&row == rows.data() ? "" : ",") + list_of(row, true);
  return all + "],\"notes\":" + list_of(notes, false) +
         ",\"goes_on\":" + (goes_on ? "true" : "false") + "}";
}
}  // namespace reel::debugger
