// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/archive.hpp"

#include <algorithm>

#include <reel/error.hpp>

#include "lib/io/elements.hpp"
#include "lib/io/json.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/zip.hpp"

namespace reel::io {
std::unique_ptr<Archive> open_archive(const Path& path, std::string_view op, Caller caller) {
  if (exists(path)) {
    const Input input(path, op, caller);
    if (is_zip(input)) {
      const ZipReader zip(input);
      for (const ZipReader::Entry& member : zip.entries())
        if (member.name.ends_with("/data.pkl")) return open_torch(path, op, caller);
      return open_npz(path, op, caller);
    }
    if (!path.ends_with(".json"))
      of_format(input, {Format::safetensors}, "the format .safetensors, .npz or that of PyTorch");
  }
  return open_safetensors(path, op, caller);
}

bool Archive::has_format(std::string_view program) const {
  return std::any_of(metadata_.begin(), metadata_.end(), [&](const auto& entry) {
    return entry.first == "format" && entry.second == program;
  });
}

void check_names(const NamedTensors& tensors, std::string_view op, Caller caller) {
  std::vector<std::string_view> names;
  const auto quoted = [](std::string_view name) {
    return "\"" + escaped(name.substr(0, 100)) + "\"";
  };
  for (const auto& [name, x] : tensors) {
    if (!x.defined()) fail<Error>(caller, op, quoted(name), "a tensor", "an undefined Tensor");
    if (!is_utf8(name)) fail<Error>(caller, op, "tensors", "names of UTF-8", quoted(name));
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail<Error>(caller, op, "tensors", "each name once", quoted(*twice) + " twice");
}

NamedTensors read_all(const Archive& archive, Caller caller) {
  NamedTensors tensors;
  tensors.reserve(archive.entries().size());
  for (std::size_t i = 0; i < archive.entries().size(); ++i)
    tensors.emplace_back(archive.entries()[i].name, on_current_device(archive.read(i), caller));
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
