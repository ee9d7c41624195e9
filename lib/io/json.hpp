// SPDX-License-Identifier: BSD-3-Clause
// JSON in headers of files, read strictly: no comments, no trailing commas, valid UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/body/utf8.hpp"  // is_utf8
#include "lib/io/input.hpp"

namespace reel::io {
/// Reads a text from left to right. Throws IoError, which names the file, if it is not JSON.
class JsonReader {
 public:
  JsonReader(std::string_view text, const Input& input) : rest_(text), input_(input) {}

  /// Calls f(key) for each member of the object that comes next; f reads the value.
  template <class F>
  void members(const F& f) {
    expect('{');
    for (bool more = !take('}'); more; more = next('}')) {
      const std::string key = string();
      expect(':');
      f(key);
    }
  }
  /// Calls f() for each element of the array that comes next; f reads the value.
  template <class F>
  void elements(const F& f) {
    expect('[');
    for (bool more = !take(']'); more; more = next(']')) f();
  }
  std::string string();
  /// An integer from 0 to 2^63 - 1.
  std::int64_t count();
  /// Whether null comes next. Skips it if so.
  bool take_null();
  /// Skips one value of any type.
  void skip() { skip(0); }
  void expect_end();

 private:
  bool take(char mark);
  void expect(char mark);
  /// Skips a comma and returns true, or skips `end` and returns false. Refuses anything else.
  bool next(char end);
  void skip(int depth);
  void skip_word(std::string_view word);
  void skip_number();
  void skip_digits();
  void skip_space();
  std::uint32_t hex4();
  std::uint32_t escaped_code();
  [[noreturn]] void fail(std::string_view expected) const;
  std::string_view rest_;
  const Input& input_;
};

/// The text in quotes.
std::string json_string(std::string_view text);
}  // namespace reel::io
