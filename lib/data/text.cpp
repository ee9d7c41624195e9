// SPDX-License-Identifier: BSD-3-Clause
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

Owned<Reader<std::string>> open_lines(std::vector<std::string> files, Place from, Caller caller) {
  return open_reader<Lines>(Files::Kind::text, files, from, "open_lines", caller);
}
}  // namespace reel::data
