// SPDX-License-Identifier: BSD-3-Clause
// Tables in text: comma-separated values (RFC 4180), or values that another byte separates.
#pragma once  // defined in lib/data
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/key.hpp>
#include <reel/data/reader.hpp>

namespace reel::data {
/// Options of open_csv().
struct CsvOptions {
  /// The byte between two cells; a tabulator for TSV.
  char delimiter = ',';
  /// Whether the first row of each file has the names of the columns.
  bool header = true;
  /// The names of the columns. They replace those of a header. If there is no header and this list
  /// is empty, the names are "0", "1", ...
  std::vector<std::string> columns = {};
};

/// One row of a table. A copy costs as much as the text; what [] returns is valid while the row
/// lives and is not assigned to.
class REEL_API CsvRow {
 public:
  /// The text of a cell, without quotes, by the name of its column or by its position from 0. Of
  /// columns of the same name, the first one counts. Throws Error or IndexError if there is no such
  /// column.
  ///
  ///     std::string_view city = row["city"];
  std::string_view operator[](Key column) const REEL_LIFETIMEBOUND;
  /// A cell as a number: decimal, with or without an exponent, or "inf" or "nan". Spaces around it
  /// and a sign are allowed. Throws IoError that names the file and the line for another text.
  double number(Key column) const;
  /// As above; an empty cell is `missing`.
  double number(Key column, double missing) const;
  /// A cell as an integer. Throws IoError for another text, and for an integer that does not fit
  /// int64.
  std::int64_t integer(Key column) const;
  /// All cells as numbers, from left to right.
  std::vector<double> numbers(Caller caller = Caller::here()) const;
  /// The number of cells.
  std::size_t size() const { return ends_.size(); }
  /// The names of the columns.
  std::span<const std::string> columns() const REEL_LIFETIMEBOUND;

 private:
  friend struct CsvReader;
  struct Table;
  std::string_view cell(std::size_t i) const;
  std::size_t find(const Key& column) const;
  template <class T>
  T parsed(std::size_t i, std::string_view expected, Caller caller) const;
  std::string text_;               // of all cells
  std::vector<std::size_t> ends_;  // of each cell in the text
  Shared<const Table> table_;
  std::int64_t offset_ = 0;  // of the row in the file
};

/// The rows of files of comma-separated values. A cell in quotes may contain the delimiter, line
/// ends, and a quote as two quotes. A quote inside of a cell without quotes is a byte like others.
/// Lines end with "\n" or "\r\n". Empty lines are skipped, unless the table has one column. Throws
/// IoError for a row that has more or fewer cells than the first row of the file, for text behind a
/// closing quote, and for a quote that is not closed. The next call goes on with the next row, and
/// after a quote that is not closed with the next file.
///
///     auto rows = data::open_csv({"adult.csv"}, {.delimiter = ';'});
///     for (data::CsvRow row; rows->next(row);) total += row.number("age");
REEL_API Owned<Reader<CsvRow>> open_csv(std::vector<std::string> files, CsvOptions options = {},
                                        Place from = {}, Caller caller = Caller::here());
}  // namespace reel::data
