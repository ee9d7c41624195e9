// SPDX-License-Identifier: BSD-3-Clause
// Damages the bytes of files, to fuzz their readers.
#pragma once
#include <random>
#include <string>
#include <vector>

namespace reel::tests {
using Random = std::mt19937;
inline std::size_t below(Random& random, std::size_t n) { return n ? random() % n : 0; }

/// Replaces some bytes, partly by pieces that have a meaning for the reader.
inline void damage(std::string& file, Random& random, const std::vector<std::string>& pieces) {
  const std::size_t at = below(random, file.size());
  switch (random() % 6) {
    case 0:
      if (!file.empty()) file[at] = static_cast<char>(random());
      break;
    case 1:
      if (!file.empty()) file[at] = static_cast<char>(file[at] ^ 1 << random() % 8);
      break;
    case 2:
      file.erase(at, 1 + below(random, 20));
      break;
    case 3:
      file.insert(at, pieces[below(random, pieces.size())]);
      break;
    case 4: {
      const std::string& piece = pieces[below(random, pieces.size())];
      file.replace(at, piece.size(), piece);
      break;
    }
    default:
      file.insert(at, file.substr(below(random, file.size()), below(random, 30)));
  }
}
}  // namespace reel::tests
