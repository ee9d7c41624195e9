// SPDX-License-Identifier: BSD-3-Clause
// Files that have a value of JSON on each line (JSON lines).
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/reader.hpp>

namespace reel::data {
/// One value of JSON, usually an object. Each function finds a value by its path: keys of objects
/// and positions in arrays with dots between them, such as "user.name" or "items.0.price"; "" is
/// the whole value. Of members of the same name, the last one counts. A call reads the text from
/// its beginning, so read each value once. Throws IoError that names the line if there is no such
/// value, or if it has another type.
///
///     double price = record.number("items.0.price");
class REEL_API JsonRecord {
 public:
  JsonRecord() = default;
  /// Throws IoError for a text that is not one value of JSON, or that has more than 127 levels.
  explicit JsonRecord(std::string json, Caller caller = Caller::here());
  /// The value as it stands in the file.
  const std::string& json() const { return json_; }
  /// Whether there is a value at the path. null is a value.
  bool has(std::string_view path, Caller caller = Caller::here()) const;
  bool is_null(std::string_view path, Caller caller = Caller::here()) const;
  std::string text(std::string_view path, Caller caller = Caller::here()) const;
  double number(std::string_view path, Caller caller = Caller::here()) const;
  /// Throws IoError too for a number with a fraction or an exponent, or that does not fit int64.
  std::int64_t integer(std::string_view path, Caller caller = Caller::here()) const;
  bool truth(std::string_view path, Caller caller = Caller::here()) const;
  /// The numbers of an array.
  std::vector<double> numbers(std::string_view path, Caller caller = Caller::here()) const;
  /// The texts of an array.
  std::vector<std::string> texts(std::string_view path, Caller caller = Caller::here()) const;

 private:
  friend struct JsonLines;
  struct Value;
  std::string json_ = "null";
  Shared<const std::string> file_;  // null for a text of the program
  std::int64_t offset_ = 0;         // in the file
};

/// The values of files of JSON lines. Empty lines are skipped. Throws IoError for a line that is
/// not one value of JSON (strictly: UTF-8, no comments, no NaN), and goes on with the next line.
REEL_API Owned<Reader<JsonRecord>> open_json_lines(std::vector<std::string> files, Place from = {},
                                                   Caller caller = Caller::here());
}  // namespace reel::data
