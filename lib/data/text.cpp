// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <reel/data/text.hpp>

#include "lib/data/files.hpp"

namespace reel::data {
namespace {
struct Lines : FileReader<std::string> {
  using FileReader::FileReader;
  bool read(Files& files, std::string& element) override {
    std::string_view line;
    if (!files.line(line)) return false;
    element = line;
    return true;
  }
};
}  // namespace

std::string read_text(const std::string& path, Caller caller) try {
  Files files({path}, {}, Files::Kind::text, "read_text", caller);
  std::string text;
  if (files.begin())
    for (std::string_view ahead = files.ahead(); !ahead.empty(); ahead = files.ahead()) {
      text += ahead;
      files.skip(ahead.size());
    }
  return text;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_text");
}

std::vector<std::string> words_of(std::string_view text, Caller caller) try {
  constexpr std::string_view spaces = " \t\n\r\v\f";
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(spaces); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(spaces, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = std::min(text.find_first_not_of(spaces, end), text.size());
  }
  return words;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "words_of");
}

Owned<Reader<std::string>> open_lines(std::vector<std::string> files, Place from, Caller caller) {
  return open_reader<Lines>(Files::Kind::text, files, from, "open_lines", caller);
}
}  // namespace reel::data
