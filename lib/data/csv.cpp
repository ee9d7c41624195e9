// SPDX-License-Identifier: BSD-3-Clause
#include <charconv>

#include <reel/data/csv.hpp>
#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/data/key.hpp"

namespace reel::data {
/// What the rows of a file share.
struct CsvRow::Table {
  std::string path;
  std::vector<std::string> columns = {};
};

struct CsvReader : FileReader<CsvRow> {
  CsvReader(Paths paths, Place from, CsvOptions options, Caller caller)
      : FileReader(Files::Kind::text, std::move(paths), from, "open_csv", caller),
        options_(std::move(options)) {}

  /// Reads the first row of a file, and goes to the place where the rows are wanted from.
  void opened(Files& files) override {
    const std::int64_t wanted = files.place().offset;
    files.restart();
    const std::int64_t first = files.place().offset;
    auto table = make_shared_of<CsvRow::Table>(CsvRow::Table{files.path()});
    CsvRow row;
    columns_ = 0;
    try {
      if (split(files, row)) columns_ = row.size();
    } catch (const IoError&) {
      files.leave();
      throw;
    }
    table->columns = options_.columns;
    if (options_.columns.empty())
      for (std::size_t i = 0; i < columns_; ++i)
        table->columns.push_back(options_.header ? std::string(row.cell(i)) : std::to_string(i));
    if (table->columns.size() != columns_) {
      files.leave();
      files.fail(std::to_string(table->columns.size()) + " cells",
                 std::to_string(columns_) + " cells");
    }
    table_ = std::move(table);
    if (wanted > first || !options_.header) files.go_to(wanted);
  }
  bool read(Files& files, CsvRow& row) override {
    if (!split(files, row)) return false;
    if (row.size() != columns_)
      files.fail(std::to_string(columns_) + " cells", std::to_string(row.size()) + " cells");
    row.table_ = table_;
    row.offset_ = files.marked().offset;
    return true;
  }
  /// Splits the next row that is not empty into its cells. False if the file ends before one.
  bool split(Files& files, CsvRow& row) const {
    std::string_view line;
    do {
      files.mark();
      if (!files.line(line)) return false;
    } while (line.empty() && columns_ != 1);
    row.text_.clear();
    row.ends_.clear();
    std::size_t at = 0;
    while (true) {
      if (at < line.size() && line[at] == '"') {
        at = quoted_cell(files, row.text_, line, at + 1);
      } else {
        const std::size_t end = std::min(line.find(options_.delimiter, at), line.size());
        row.text_.append(line, at, end - at);
        at = end;
      }
      row.ends_.push_back(row.text_.size());
      if (at == line.size()) return true;
      ++at;
    }
  }
  /// Appends the text of a cell up to its closing quote, and returns the place behind the quote.
  std::size_t quoted_cell(Files& files, std::string& text, std::string_view& line,
                          std::size_t at) const {
    const Place opened = files.line_place();
    while (true) {
      const std::size_t quote = line.find('"', at);
      text.append(line.substr(at, quote - at));
      if (quote == line.npos) {
        text += files.line_end();
        at = 0;
        if (!files.line(line)) {
          files.mark(opened);
          // The rows behind this line are not lost.
          const Place end = files.place();
          files.go_to(opened);
          if (!files.begin() || !files.line(line)) files.go_to(end);
          files.mark(opened);
          files.fail("a closing quote", "the end of the file");
        }
      } else if (quote + 1 < line.size() && line[quote + 1] == '"') {
        text += '"';
        at = quote + 2;
      } else {
        at = quote + 1;
        if (at < line.size() && line[at] != options_.delimiter)
          files.fail("a delimiter behind the closing quote", quoted(line.substr(at)));
        return at;
      }
    }
  }

 private:
  const CsvOptions options_;
  std::size_t columns_ = 0;
  Shared<const CsvRow::Table> table_;
};

Owned<Reader<CsvRow>> open_csv(std::vector<std::string> files, CsvOptions options, Place from,
                               Caller caller) try {
  if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r')
    fail<Error>(caller, "open_csv", "delimiter", "another byte than quotes and line ends",
                quoted({&options.delimiter, 1}));
  return make_owned<CsvReader>(std::move(files), from, std::move(options), caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "open_csv");
}

namespace {
std::string_view without_spaces(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}
}  // namespace

std::span<const std::string> CsvRow::columns() const {
  if (!table_) return {};
  return table_->columns;
}
std::string_view CsvRow::cell(std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}
std::size_t CsvRow::find(const Key& column) const {
  return position_of(column, "CsvRow", "column", columns(),
                     [](const std::string& name) -> std::string_view { return name; });
}
std::string_view CsvRow::operator[](Key column) const { return cell(find(column)); }

template <class T>
T CsvRow::parsed(std::size_t i, std::string_view expected, Caller caller) const try {
  std::string_view text = without_spaces(cell(i));
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (last == end && !text.empty() && error == std::errc()) return value;
  io::fail_file(caller, "CsvRow", table_->path,
                std::string(expected) + " in column '" + io::escaped(columns()[i]) + "'",
                quoted(cell(i)) + " at line " + std::to_string(line_of(table_->path, offset_)));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "CsvRow");
}
double CsvRow::number(Key column) const {
  return parsed<double>(find(column), "a number", column.caller);
}
double CsvRow::number(Key column, double missing) const {
  const std::size_t i = find(column);
  return without_spaces(cell(i)).empty() ? missing : parsed<double>(i, "a number", column.caller);
}
std::int64_t CsvRow::integer(Key column) const {
  return parsed<std::int64_t>(find(column), "an integer", column.caller);
}
std::vector<double> CsvRow::numbers(Caller caller) const try {
  std::vector<double> all;
  all.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) all.push_back(parsed<double>(i, "a number", caller));
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "CsvRow");
}
}  // namespace reel::data
