// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/json.hpp"

#include <charconv>
#include <cstdio>

#include "lib/io/file.hpp"

namespace reel::io {
namespace {
constexpr int most_depth = 127;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& text, std::uint32_t code) {
  const auto tail = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xe0 | code >> 12);
    tail(6), tail(0);
  } else {
    text += static_cast<char>(0xf0 | code >> 18);
    tail(12), tail(6), tail(0);
  }
}
}  // namespace

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted.append({'\\', c});
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      quoted += code;
    } else {
      quoted += c;
    }
  }
  return quoted += '"';
}

void JsonReader::fail(std::string_view expected) const {
  fail_(owner_, expected, "'" + escaped(rest_.substr(0, 64)) + "'");
  __builtin_unreachable();
}
void JsonReader::skip_space() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
}
bool JsonReader::take(char mark) {
  skip_space();
  if (!rest_.starts_with(mark)) return false;
  rest_.remove_prefix(1);
  return true;
}
void JsonReader::expect(char mark) {
  if (!take(mark)) fail(std::string("JSON with '") + mark + "' here");
}
bool JsonReader::next(char end) {
  if (take(',')) return true;
  expect(end);
  return false;
}
void JsonReader::expect_end() {
  skip_space();
  if (!rest_.empty()) fail("the end of the JSON");
}

std::string JsonReader::string() {
  expect('"');
  std::string text;
  while (!rest_.starts_with('"')) {
    const std::size_t plain = std::min(rest_.find_first_of("\"\\"), rest_.size());
    const std::string_view part = rest_.substr(0, plain);
    for (const char c : part)
      if (static_cast<unsigned char>(c) < 0x20) fail("JSON text without control bytes");
    if (!is_utf8(part)) fail("JSON text of UTF-8");
    text += part;
    rest_.remove_prefix(plain);
    if (rest_.empty()) fail("a '\"' at the end of a JSON text");
    if (rest_.starts_with('\\')) append_utf8(text, escaped_code());
  }
  rest_.remove_prefix(1);
  return text;
}

std::uint32_t JsonReader::hex4() {
  std::uint32_t code = 0;
  const char* const first = rest_.data();
  const bool whole = rest_.size() >= 4;
  if (!whole || std::from_chars(first, first + 4, code, 16).ptr != first + 4)
    fail("four hexadecimal digits of JSON");
  rest_.remove_prefix(4);
  return code;
}

std::uint32_t JsonReader::escaped_code() {
  constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
  const char name = rest_.size() > 1 ? rest_[1] : '\0';
  const std::size_t place = names.find(name);
  if (name != 'u' && (name == '\0' || place == names.npos)) fail("an escape of JSON");
  rest_.remove_prefix(2);
  if (name != 'u') return static_cast<unsigned char>(values[place]);
  const std::uint32_t code = hex4();
  if (code < 0xd800 || code > 0xdfff) return code;
  if (code > 0xdbff || !rest_.starts_with("\\u")) fail("two surrogates of JSON");
  rest_.remove_prefix(2);
  const std::uint32_t low = hex4();
  if (low < 0xdc00 || low > 0xdfff) fail("two surrogates of JSON");
  return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

std::int64_t JsonReader::count() {
  skip_space();
  std::int64_t number = -1;
  const bool starts = !rest_.empty() && is_digit(rest_[0]);
  const bool leading_zero = rest_.size() > 1 && rest_[0] == '0' && is_digit(rest_[1]);
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
  if (!starts || leading_zero || error != std::errc()) fail("an integer from 0 to 2^63 - 1");
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return number;
}

bool JsonReader::take_null() {
  skip_space();
  if (!rest_.starts_with("null")) return false;
  skip_word("null");
  return true;
}

std::string_view JsonReader::value() {
  skip_space();
  const std::string_view before = rest_;
  skip();
  return before.substr(0, before.size() - rest_.size());
}
void JsonReader::skip(int depth) {
  if (depth > most_depth) fail("JSON of at most 127 levels");
  skip_space();
  switch (rest_.empty() ? '\0' : rest_[0]) {
    case '{':
      return members([&](const std::string&) { skip(depth + 1); });
    case '[':
      return elements([&] { skip(depth + 1); });
    case '"':
      return static_cast<void>(string());
    case 't':
      return skip_word("true");
    case 'f':
      return skip_word("false");
    case 'n':
      return skip_word("null");
    default:
      skip_number();
  }
}
void JsonReader::skip_word(std::string_view word) {
  if (!rest_.starts_with(word)) fail("a JSON value");
  rest_.remove_prefix(word.size());
}
void JsonReader::skip_digits() {
  const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
  if (digits == 0) fail("a JSON value");
  rest_.remove_prefix(digits);
}
void JsonReader::skip_number() {
  if (rest_.starts_with('-')) rest_.remove_prefix(1);
  if (rest_.size() > 1 && rest_[0] == '0' && is_digit(rest_[1])) fail("a JSON value");
  skip_digits();
  if (rest_.starts_with('.')) {
    rest_.remove_prefix(1);
    skip_digits();
  }
  if (!rest_.starts_with('e') && !rest_.starts_with('E')) return;
  rest_.remove_prefix(1);
  if (rest_.starts_with('+') || rest_.starts_with('-')) rest_.remove_prefix(1);
  skip_digits();
}
}  // namespace reel::io
