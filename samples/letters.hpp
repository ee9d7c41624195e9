// SPDX-License-Identifier: BSD-3-Clause
// A text letter by letter: the King James Bible of Debian's package bible-kjv, or any file.
#pragma once
#include <cstdio>
#include <reel/reel.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace letters {
/// The King James Bible without the names of the verses.
inline std::string bible() {
  FILE* pipe = popen("bible -f ge1:1-re22:21 2>/dev/null", "r");
  std::string text, line;
  for (int c; pipe && (c = std::fgetc(pipe)) != EOF;) {
    line += static_cast<char>(c);
    if (c != '\n') continue;
    text += line.substr(line.find(' ') + 1);
    line.clear();
  }
  if (pipe) pclose(pipe);
  if (text.empty()) throw std::runtime_error("no text: install bible-kjv, or give --text FILE");
  return text;
}

inline std::string read(const std::string& path) {
  std::string text = reel::data::read_text(path);
  if (text.empty()) throw std::runtime_error(path + " is empty");
  return text;
}

/// The text as numbers: the place of each byte in an alphabet of those that occur.
struct Text {
  std::string alphabet;
  reel::Tensor train, test;  // int32; the last twentieth is for the test
  /// Of a file, or of the Bible if the path is empty.
  explicit Text(const std::string& path) {
    const std::string text = path.empty() ? bible() : read(path);
    const std::set<char> letters(text.begin(), text.end());
    alphabet.assign(letters.begin(), letters.end());
    std::vector<std::int32_t> places;
    for (char c : text) places.push_back(static_cast<std::int32_t>(alphabet.find(c)));
    const auto cut = std::ssize(places) - std::ssize(places) / 20;
    train = reel::tensor(places)(reel::range(0, cut));
    test = reel::tensor(places)(reel::range(cut, {}));
  }
};

/// The text in `batch` rows, to be read side by side.
inline reel::Tensor rows(const reel::Tensor& letters, std::int64_t batch) {
  const std::int64_t length = letters.size() / batch;
  return letters(reel::range(0, batch * length)).reshape({batch, length});
}
}  // namespace letters
