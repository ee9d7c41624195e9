// SPDX-License-Identifier: BSD-3-Clause
// JSON in headers of files, read strictly: no comments, no trailing commas, valid UTF-8.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/body/utf8.hpp"  // is_utf8

namespace reel::io {
/// Reads a text from left to right. If it is not JSON, `owner.fail(expected, got)` throws, such as
/// that of an Input.
class JsonReader {
 public:
  template <class Owner>
  JsonReader(std::string_view text, const Owner& owner)
      : rest_(text),
        owner_(&owner),
        fail_([](const void* of, std::string_view expected, std::string_view got) {
          static_cast<const Owner*>(of)->fail(expected, got);
        }) {}

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
  /// The text of the value that comes next, which is skipped.
  std::string_view value();
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
  const void* owner_;
  void (*fail_)(const void* owner, std::string_view expected, std::string_view got);
};

/// The text in quotes.
std::string json_string(std::string_view text);
}  // namespace reel::io
