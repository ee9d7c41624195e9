// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/json.hpp>

#include <charconv>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/io/json.hpp"

namespace reel::data {
/// A value of a record, and what errors say of it.
struct JsonRecord::Value {
  const JsonRecord& record;
  std::string_view path;
  Caller caller;
  std::string_view json = {};  // nothing if there is no value

  Value(const JsonRecord& of, std::string_view at, Caller from)
      : record(of), path(at), caller(from), json(of.json_) {
    for (std::string_view rest = at; !rest.empty() && !json.empty();) {
      const std::string_view key = rest.substr(0, rest.find('.'));
      rest.remove_prefix(std::min(key.size() + 1, rest.size()));
      json = below(key);
    }
  }
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    const std::string wanted =
        std::string(expected) + (path.empty() ? "" : " at '" + io::escaped(path) + "'");
    if (!record.file_) reel::fail<IoError>(caller, "JsonRecord", "json", wanted, got);
    io::fail_file(
        caller, "JsonRecord", *record.file_, wanted,
        std::string(got) + " at line " + std::to_string(line_of(*record.file_, record.offset_)));
  }
  [[noreturn]] void fail(std::string_view expected) const {
    fail(expected, json.empty() ? "no value" : quoted(json));
  }
  /// The value with this key or position in the value.
  std::string_view below(std::string_view key) const {
    std::string_view found;
    io::JsonReader reader(json, *this);
    if (json[0] == '{') {
      reader.members([&](const std::string& name) {
        const std::string_view value = reader.value();
        if (name == key) found = value;
      });
    } else if (json[0] == '[') {
      std::size_t position = 0, i = 0;
      const char* const end = key.data() + key.size();
      const auto [last, error] = std::from_chars(key.data(), end, position);
      if (error != std::errc() || last != end) return {};
      reader.elements([&] {
        const std::string_view value = reader.value();
        if (i++ == position) found = value;
      });
    }
    return found;
  }
  template <class T>
  T parsed(std::string_view text, std::string_view expected) const {
    T number{};
    const char* const end = text.data() + text.size();
    const bool is_number = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
    if (is_number) {
      const auto [last, error] = std::from_chars(text.data(), end, number);
      if (last == end && error == std::errc()) return number;
    }
    fail(expected);
  }
  std::string text(std::string_view of) const {
    if (!of.starts_with('"')) fail("a text");
    return io::JsonReader(of, *this).string();
  }
  /// f(element) for each element of the array.
  template <class F>
  void elements(const F& f) const {
    if (!json.starts_with('[')) fail("an array");
    io::JsonReader reader(json, *this);
    reader.elements([&] { f(reader.value()); });
  }
};

namespace {
/// One value, without spaces around it.
template <class Owner>
std::string_view whole_value(std::string_view json, const Owner& owner) {
  io::JsonReader reader(json, owner);
  const std::string_view value = reader.value();
  reader.expect_end();
  return value;
}
constexpr std::string_view op = "JsonRecord";
}  // namespace

JsonRecord::JsonRecord(std::string json, Caller caller) try {
  json_ = whole_value(json, Value(*this, "", caller));
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
bool JsonRecord::has(std::string_view path, Caller caller) const try {
  return !Value(*this, path, caller).json.empty();
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
bool JsonRecord::is_null(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  if (value.json.empty()) value.fail("a value");
  return value.json == "null";
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
std::string JsonRecord::text(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  return value.text(value.json);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
double JsonRecord::number(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  return value.parsed<double>(value.json, "a number");
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
std::int64_t JsonRecord::integer(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  return value.parsed<std::int64_t>(value.json, "an integer");
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
bool JsonRecord::truth(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  if (value.json != "true" && value.json != "false") value.fail("true or false");
  return value.json == "true";
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
std::vector<double> JsonRecord::numbers(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  std::vector<double> all;
  value.elements([&](std::string_view element) {
    all.push_back(value.parsed<double>(element, "an array of numbers"));
  });
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
std::vector<std::string> JsonRecord::texts(std::string_view path, Caller caller) const try {
  const Value value(*this, path, caller);
  std::vector<std::string> all;
  value.elements([&](std::string_view element) { all.push_back(value.text(element)); });
  return all;
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

struct JsonLines : FileReader<JsonRecord> {
  using FileReader::FileReader;
  void opened(Files& files) override { file_ = make_shared_of<const std::string>(files.path()); }
  bool read(Files& files, JsonRecord& record) override {
    std::string_view line;
    do {
      files.mark();
      if (!files.line(line)) return false;
    } while (line.find_first_not_of(" \t") == line.npos);
    record.json_ = whole_value(line, files);
    record.file_ = file_;
    record.offset_ = files.marked().offset;
    return true;
  }

 private:
  Shared<const std::string> file_;
};

Owned<Reader<JsonRecord>> open_json_lines(std::vector<std::string> files, Place from,
                                          Caller caller) {
  return open_reader<JsonLines>(Files::Kind::text, files, from, "open_json_lines", caller);
}
}  // namespace reel::data
