// SPDX-License-Identifier: BSD-3-Clause
// Lines of JSON, made here by RFC 8259.
#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::data {
std::string text_of(const JsonRecord& record) { return record.json(); }
}  // namespace reel::data
namespace reel::tests {
namespace {
using data::JsonRecord;
using Texts = std::vector<std::string>;
const Open<JsonRecord> open_json = [](Texts files, data::Place from) {
  return data::open_json_lines(std::move(files), from);
};
const JsonRecord record(
    R"( {"a": {"b": [1, {"c": "x\u00e9\n"}, -2.5e1]}, "n": null, "t": true, "a.b": 0,
                           "big": 9223372036854775807, "texts": ["p", "q"], "twice": 1, "twice": 2} )");
}  // namespace

TEST_CASE("values of JSON are found by their path") {
  CHECK(record.number("a.b.0") == 1);
  CHECK(record.integer("a.b.0") == 1);
  CHECK(record.number("a.b.2") == -25);
  CHECK(record.text("a.b.1.c") == "x\xc3\xa9\n");
  CHECK(record.truth("t"));
  CHECK(record.is_null("n"));
  CHECK_FALSE(record.is_null("t"));
  CHECK(record.has("n"));
  CHECK_FALSE(record.has("a.b.3"));
  CHECK_FALSE(record.has("a.b.x"));
  CHECK_FALSE(record.has("none.b"));
  CHECK_FALSE(record.has("t.x"));
  CHECK(record.has(""));
  CHECK(record.integer("big") == INT64_MAX);
  CHECK(record.integer("twice") == 2);
  CHECK(record.texts("texts") == Texts{"p", "q"});
  CHECK(JsonRecord("[1, 2.5]").numbers("") == std::vector<double>{1, 2.5});
  CHECK(JsonRecord("7").number("") == 7);
  CHECK(JsonRecord().is_null(""));
}

TEST_CASE("a value of another type, or none, is an error") {
  check_refused<IoError>([] { record.number("t"); },
                         "JsonRecord: json: expected a number at 't', got 'true'");
  check_refused<IoError>([] { record.text("none"); }, "expected a text at 'none', got no value");
  check_refused<IoError>([] { record.integer("a.b.2"); }, "an integer at 'a.b.2', got '-2.5e1'");
  check_refused<IoError>([] { record.truth("n"); }, "true or false");
  check_refused<IoError>([] { record.numbers("texts"); }, "an array of numbers at 'texts'");
  check_refused<IoError>([] { record.texts("t"); }, "an array at 't'");
  check_refused<IoError>([] { record.is_null("x"); }, "a value at 'x', got no value");
  for (const char* const wrong :
       {"", "{", "nan", "[1,]", "{\"a\" 1}", "1 2", "'a'", "\"\xff\"", "01"})
    CHECK_THROWS_AS(JsonRecord(wrong), IoError);
  CHECK_THROWS_AS(JsonRecord(std::string(1000, '[') + std::string(1000, ']')), IoError);
}

TEST_CASE("each line of a file has a value, and wrong lines are errors") {
  const Folder folder;
  const Texts files = {folder.file("a.jsonl"), folder.file("b.jsonl")};
  write_file(files[0], "{\"x\": 1}\r\n\n  \n{\"x\": 2}");
  write_file(files[1], "\xef\xbb\xbf 3 \n");
  const auto all = read_all(*data::open_json_lines(files));
  REQUIRE(all.size() == 3);
  CHECK(all[1].number("x") == 2);
  CHECK(all[2].json() == "3");
  check_places(open_json, files);
  check_refused<IoError>([&] { all[1].text("x"); },
                         "\"a.jsonl\": expected a text at 'x', got '2' at line 4");
  write_file(files[0], "1\n{\"x\" 1}\n2\n");
  int errors = 0;
  CHECK(read_all(*data::open_json_lines(files), &errors).size() == 3);
  CHECK(errors == 1);
  check_refused<IoError>(
      [&] { read_all(*data::open_json_lines(files)); },
      "open_json_lines: \"a.jsonl\": expected JSON with ':' here, got '1}' at line 2");
}

TEST_CASE("damaged JSON is read as what it says, or refused") {
  fuzz(open_json, "{\"a\": [1, -2.5e3, \"x\\u00e9\"]}\n[true, null]\n",
       {"\"", "{", "}", "[", "]", ",", "\\u", "\n"});
}
}  // namespace reel::tests
