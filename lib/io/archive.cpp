// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/archive.hpp"

#include <algorithm>

#include "lib/io/elements.hpp"

namespace reel::io {
std::unique_ptr<Archive> open_archive(const Path& path, std::string_view op, Caller caller) {
  return open_safetensors(path, op, caller);
}

NamedTensors read_all(const Archive& archive, Caller caller) {
  NamedTensors tensors;
  tensors.reserve(archive.entries().size());
  for (std::size_t i = 0; i < archive.entries().size(); ++i)
    tensors.emplace_back(archive.entries()[i].name, placed(archive.read(i), caller));
  return tensors;
}

const std::string* repeated(const std::vector<Archive::Entry>& entries) {
  std::vector<const std::string*> names;
  names.reserve(entries.size());
  for (const Archive::Entry& entry : entries) names.push_back(&entry.name);
  std::sort(names.begin(), names.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
  return twice == names.end() ? nullptr : *twice;
}
}  // namespace reel::io
