// SPDX-License-Identifier: BSD-3-Clause
#include "lib/body/utf8.hpp"

#include <algorithm>

namespace reel {
namespace {
/// How many bytes the character at the start has; 0 if it is none.
std::size_t utf8_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return overlong || no_character ? 0 : bytes;
}
constexpr std::string_view replacement = "\xef\xbf\xbd";  // U+FFFD

/// Calls f(character) for each, with U+FFFD for a byte that is none.
template <class F>
std::string each_character(std::string_view text, const F& f) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    result.append(f(bytes ? text.substr(0, bytes) : replacement));
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return result;
}
bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }
}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string utf8(std::string_view text) {
  return each_character(text, [](std::string_view character) { return character; });
}

std::string printable(std::string_view text) {
  return each_character(text, [](std::string_view character) -> std::string_view {
    const auto first = static_cast<unsigned char>(character[0]);
    if (first < 0x20 || first == 0x7f) return " ";
    if (first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0) return " ";
    return character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf" ? replacement : character;
  });
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string_view first_characters(std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_character(text[i]) && count-- == 0) return text.substr(0, i);
  return text;
}
}  // namespace reel
