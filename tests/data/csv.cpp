// SPDX-License-Identifier: BSD-3-Clause
// Tables in text, made here by RFC 4180. peers.py has tables of Python's module csv.
#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::data {
/// The cells with bars between them.
std::string text_of(const CsvRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i) text += (i ? "|" : "") + std::string(row[i]);
  return text;
}
}  // namespace reel::data
namespace reel::tests {
using data::CsvRow;
namespace {
using Texts = std::vector<std::string>;
struct File {
  Folder folder;
  std::string path = folder.file("x.csv");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
  std::vector<CsvRow> rows(const data::CsvOptions& options = {}, int* errors = nullptr,
                           Caller caller = Caller::here()) const {
    return read_all(*data::open_csv({path}, options, {}, caller), errors);
  }
  Texts texts(const data::CsvOptions& options = {}, int* errors = nullptr) const {
    Texts all;
    for (const CsvRow& row : rows(options, errors)) all.push_back(text_of(row));
    return all;
  }
};
const data::CsvOptions no_header{.header = false};
}  // namespace

TEST_CASE("cells are separated by commas, and quotes protect commas, quotes and line ends") {
  CHECK(File("a,b\n1,2\n3,4").texts() == Texts{"1|2", "3|4"});
  CHECK(File("\xef\xbb\xbf"
             "a,b\r\n1,\r\n,\r\n")
            .texts() == Texts{"1|", "|"});
  CHECK(File("a,\"b\"\n\"1,\"\"2\"\"\",\"x\ny\"\n\"\",\"\"\"\"\n").texts() ==
        Texts{"1,\"2\"|x\ny", "|\""});
  CHECK(File("a,b\r\n\"1\r\n2\",3\r\n").texts() == Texts{"1\r\n2|3"});
  CHECK(File("5\" pipe, x\n").texts(no_header) == Texts{"5\" pipe| x"});
  CHECK(File("a\tb\n1,2\t\"3\t4\"\n").texts({.delimiter = '\t'}) == Texts{"1,2|3\t4"});
  CHECK(File("a,b\n\n1,2\n\n\n3,4\n\n").texts() == Texts{"1|2", "3|4"});
  CHECK(File("a\n\n1\n").texts() == Texts{"", "1"});
  CHECK(File("").texts().empty());
  CHECK(File("a,b\n").texts().empty());
  CHECK(File("1,2\n").texts(no_header) == Texts{"1|2"});
  CHECK(File("1,\"" + std::string(100'000, 'x') + "\n\"\n").texts(no_header)[0].size() == 100'003);
}

TEST_CASE("cells are found by the name or the position of their column") {
  const auto rows = File("name,age,name\nAda, 36 ,x\nBob,,y\nCy,+1e1,z\nDi,-7,w\n").rows();
  CHECK(rows[0]["name"] == "Ada");
  CHECK(rows[0][2] == "x");
  CHECK(rows[0][std::string("age")] == " 36 ");
  CHECK(rows[0].number("age") == 36);
  CHECK(rows[0].integer("age") == 36);
  CHECK(rows[1].number("age", -1) == -1);
  CHECK(rows[2].number("age", -1) == 10);
  CHECK(rows[3].integer(1) == -7);
  CHECK(std::vector<std::string>(rows[0].columns().begin(), rows[0].columns().end()) ==
        Texts{"name", "age", "name"});
  CHECK(File("1,2.5\n").rows(no_header)[0].numbers() == std::vector<double>{1, 2.5});
  CHECK(File("1,2\n").rows(no_header)[0].number("1") == 2);
  CHECK(File("x,y\n1,2\n").rows({.columns = {"p", "q"}})[0].number("q") == 2);
  CHECK(File("1,2\n").rows({.header = false, .columns = {"p", "q"}})[0].number("q") == 2);
  check_refused<Error>([&] { rows[0]["none"]; },
                       "CsvRow: column: expected one of name, age, name, got 'none'");
  check_refused<IndexError>([&] { rows[0][3]; }, "expected a position below 3, got 3");
  check_refused<IndexError>([&] { rows[0][-1]; }, "expected a position below 3");
  check_refused<Error>([&] { CsvRow()["x"]; }, "CsvRow: column");
  check_refused<Error>([&] { File("").rows({.delimiter = '"'}); }, "delimiter");
}

TEST_CASE("a cell that is no number is an error with its file, line and column") {
  const File file("name,age\nAda,36\n\"B\nob\",old\nCy,\n");
  const auto rows = file.rows();
  check_refused<IoError>([&] { rows[1].number("age"); },
                         "\"x.csv\": expected a number in column 'age', got 'old' at line 3");
  check_refused<IoError>([&] { rows[2].number("age"); }, "got '' at line 5");
  check_refused<IoError>([&] { rows[2].number(1); }, "got '' at line 5");
  check_refused<IoError>([&] { rows[1].integer("age"); }, "an integer in column 'age'");
  check_refused<IoError>([&] { rows[1].number("age", 0); }, "got 'old'");
  for (const char* const wrong : {"1 2", "0x10", "1,5", "--1", "+-1", "1.5.", "1e999"})
    CHECK_THROWS_AS(File("\"" + std::string(wrong) + "\"\n").rows(no_header)[0].number(0), IoError);
  CHECK_THROWS_AS(File("1.5\n").rows(no_header)[0].integer(0), IoError);
  CHECK_THROWS_AS(File("9223372036854775808\n").rows(no_header)[0].integer(0), IoError);
}

TEST_CASE("ragged rows and open quotes are errors, and the rows behind them are read") {
  int errors = 0;
  const File ragged("a,b\n1,2\n3\n4,5,6\n7,8\n\"9\"x,1\n\"1\",2\n");
  CHECK(ragged.texts({}, &errors) == Texts{"1|2", "7|8", "1|2"});
  CHECK(errors == 3);
  check_refused<IoError>([&] { ragged.rows(); },
                         "open_csv: \"x.csv\": expected 2 cells, got 1 cells at line 3");
  check_refused<IoError>([&] { File("a\n\"1\"x\n").rows(); },
                         "a delimiter behind the closing quote, got 'x' at line 2");
  check_refused<IoError>([&] { File("a\n1\n\"2\n3\n").rows(); },
                         "a closing quote, got the end of the file at line 3");
  const File open("a,b\n1,2\n\"3\n\",\"4\n5,6\n7,8\n");
  check_refused<IoError>([&] { open.rows(); },
                         "a closing quote, got the end of the file at line 4");
  errors = 0;
  CHECK(open.texts({}, &errors) == Texts{"1|2", "5|6", "7|8"});  // only these rows are wrong
  CHECK(errors == 1);
  check_refused<IoError>([&] { File("\"a\n").rows(); },
                         "a closing quote, got the end of the file at line 1");
  check_refused<IoError>([&] { File("a,b\n1,2\n").rows({.columns = {"x"}}); },
                         "expected 1 cells, got 2 cells at line 1");
}

TEST_CASE("rows are read from any place of several files, each with its header") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("b"), folder.file("c"), folder.file("d")};
  write_file(files[0], "x,y\n1,2\n\"3\n\",4\n");
  write_file(files[1], "y\n5\n6\n");
  write_file(files[2], "x\n");
  write_file(files[3], "\xef\xbb\xbf\"z\n\",t\r\n7,8\r\n");
  for (const bool header : {true, false})
    check_places<CsvRow>(
        [&](Texts paths, data::Place from) {
          return data::open_csv(std::move(paths), {.header = header}, from);
        },
        files);
  CHECK(read_all(*data::open_csv(files))[2]["y"] == "5");
  const auto reader = data::open_csv(files, {}, {0, 8});
  CsvRow row;
  REQUIRE(reader->next(row));
  CHECK(row["x"] == "3\n");
  CHECK(reader->where() == files[0] + ": line 3");
}

TEST_CASE("damaged tables are read as what they say, or refused") {
  for (const bool header : {true, false})
    fuzz<CsvRow>(
        [&](Texts files, data::Place from) {
          return data::open_csv(std::move(files), {.header = header}, from);
        },
        "a,\"b\"\r\n1,2\n\"3,\"\"\",\"4\n\"\n5,6", {"\"", ",", "\n", "\"\"", "\r\n"});
}
}  // namespace reel::tests
