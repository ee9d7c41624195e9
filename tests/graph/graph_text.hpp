// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <string>

#include <reel/graph.hpp>

namespace reel::tests {
/// The text of a graph without the lines of sources, which each change of a source moves.
inline std::string text_of(const Graph& graph) {
  std::string out, line;
  for (const char c : to_string(graph)) {
    line += c;
    if (c != '\n') continue;
    const std::size_t comment = line.find("  # ");
    const std::size_t comma = line.rfind(", ");
    if (comment != line.npos) {
      const std::size_t from = comma != line.npos && comma > comment ? comma : comment;
      line.replace(from, line.size() - from, "\n");
    }
    out += line;
    line.clear();
  }
  return out;
}
}  // namespace reel::tests
