// SPDX-License-Identifier: BSD-3-Clause
// Builds zip files with any members.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/io/zip.hpp"

namespace reel::tests {
using Members = std::vector<std::pair<std::string, std::string>>;
/// The lowest byte first.
inline std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}
inline void write_zip(const std::string& path, const Members& members, bool deflate = false) {
  io::AtomicFile file(path, "test", Caller::here());
  io::ZipWriter zip(file);
  for (const auto& [name, bytes] : members) zip.add(name, bytes, {}, deflate);
  zip.finish();
  file.commit();
}
}  // namespace reel::tests
