// SPDX-License-Identifier: BSD-3-Clause
// Lines of files. All files are made here.
#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "data/zipped.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Texts = std::vector<std::string>;
Texts lines_of(const std::string& bytes) {
  const Folder folder;
  write_file(folder.file("x.txt"), bytes);
  return read_all(*data::open_lines({folder.file("x.txt")}));
}
const Open<std::string> open_lines = [](Texts files, data::Place from) {
  return data::open_lines(std::move(files), from);
};
}  // namespace

TEST_CASE("lines end with a line feed, or with the file") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == Texts{""});
  CHECK(lines_of("a") == Texts{"a"});
  CHECK(lines_of("a\n") == Texts{"a"});
  CHECK(lines_of("a\r\nb\r\n") == Texts{"a", "b"});
  CHECK(lines_of("a\rb\n\nc\r") == Texts{"a\rb", "", "c"});
  CHECK(lines_of("\xef\xbb\xbf"
                 "a\n\xef\xbb\xbf"
                 "b") == Texts{"a",
                               "\xef\xbb\xbf"
                               "b"});
  CHECK(lines_of("\xef\xbb\xbf").empty());
  CHECK(lines_of(std::string("a\0b\n", 4)) == Texts{std::string("a\0b", 3)});
}

TEST_CASE("a text is read whole, and split into words") {
  const Folder folder;
  const std::string path = folder.file("x.txt");
  const std::string text = "the dog\n" + std::string(200'000, 'x') + "\r\n";
  write_file(path, "\xef\xbb\xbf" + text);
  CHECK(data::read_text(path) == text);
  write_file(path, zipped(text));
  CHECK(data::read_text(path) == text);
  write_file(path, "");
  CHECK(data::read_text(path).empty());
  check_refused<IoError>([&] { data::read_text(folder.file("none")); },
                         "read_text: \"none\": expected a file to read");
  CHECK(data::words_of("") == Texts{});
  CHECK(data::words_of(" \t\r\n") == Texts{});
  CHECK(data::words_of("a") == Texts{"a"});
  CHECK(data::words_of(" the  dog's\tname,\n\xc3\xa9\f") ==
        Texts{"the", "dog's", "name,", "\xc3\xa9"});
}

TEST_CASE("lines are longer than a buffer, and a buffer ends anywhere in them") {
  Texts lines;
  std::string bytes;
  Random random(3);
  for (int i = 0; i < 60; ++i) {
    lines.emplace_back(below(random, i == 30 ? 1'000'000 : 20'000),
                       static_cast<char>('a' + i % 26));
    bytes += lines.back() + (i % 3 ? "\n" : "\r\n");
  }
  CHECK(lines_of(bytes) == lines);
}

TEST_CASE("a reader of lines goes through its files, and begins at any place") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("b"), folder.file("c"), folder.file("d")};
  write_file(files[0], "1\n22\n");
  write_file(files[1], "");
  write_file(files[2],
             "\xef\xbb\xbf"
             "333\r\n\r\n4");
  write_file(files[3], "5\n");
  CHECK(read_all(*data::open_lines(files)) == Texts{"1", "22", "333", "", "4", "5"});
  check_places(open_lines, files);
  CHECK(read_all(*data::open_lines({})).empty());
  CHECK(read_all(*data::open_lines(files, {4, 0})).empty());
}

TEST_CASE("a reader of lines names the line where it is") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("b")};
  write_file(files[0], "1\n2\n3\n");
  write_file(files[1], "4\n");
  const auto reader = data::open_lines(files, {0, 2});
  std::string line;
  REQUIRE(reader->next(line));
  CHECK(reader->where() == files[0] + ": line 2");
  REQUIRE(reader->next(line));
  REQUIRE(reader->next(line));
  CHECK(reader->where() == files[1] + ": line 1");
}

TEST_CASE("a file that is missing is an error, and the next call goes on behind it") {
  const Folder folder;
  const Texts files = {folder.file("a"), folder.file("none"), folder.file("b")};
  write_file(files[0], "1\n");
  write_file(files[2], "2\n");
  int errors = 0;
  CHECK(read_all(*data::open_lines(files), &errors) == Texts{"1", "2"});
  CHECK(errors == 1);
  check_refused<IoError>([&] { read_all(*data::open_lines(files)); },
                         "open_lines: \"none\": expected a file to read");
  check_refused<Error>(
      [&] {
        data::open_lines(files, {4, 0});
      },
      "from: expected a place in one of 3");
  check_refused<Error>(
      [&] {
        data::open_lines(files, {0, -1});
      },
      "from: expected a place in one of 3");
  check_refused<IoError>(
      [&] {
        read_all(*data::open_lines(files, {2, 3}));
      },
      "a file of at least 3 bytes, got 2");
  check_refused<IoError>([&] { read_all(*data::open_lines({folder.path})); }, "a regular file");
}

TEST_CASE("a pattern gives sorted paths") {
  const Folder folder;
  for (const char* const name : {"b-1.txt", "b-10.txt", "a-2.txt", "c.csv"})
    write_file(folder.file(name), "");
  CHECK(data::glob(folder.file("?-*.txt")) ==
        Texts{folder.file("a-2.txt"), folder.file("b-1.txt"), folder.file("b-10.txt")});
  check_refused<IoError>([&] { data::glob(folder.file("*.none")); }, "glob: pattern: expected");
}

TEST_CASE("damaged lines are lines") { fuzz(open_lines, "one\r\ntwo\n\nthree", {"\n", "\r"}, 300); }
}  // namespace reel::tests
