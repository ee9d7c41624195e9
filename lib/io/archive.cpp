// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/archive.hpp"

#include <algorithm>

#include <reel/error.hpp>

#include "lib/io/elements.hpp"
#include "lib/io/json.hpp"
#include "lib/io/magic.hpp"
#include "lib/io/names.hpp"
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
    if (is_legacy_torch(input)) return open_torch(path, op, caller);
    if (!path.ends_with(".json"))
      of_format(input, {Format::safetensors}, "the format .safetensors, .npz or that of PyTorch");
  }
  return open_safetensors(path, op, caller);
}

namespace {
/// Names at most 20 entries that cannot be read.
[[noreturn]] void fail_left(const Metadata& left, const Path& path, std::string_view op,
                            Caller caller) {
  const auto line = [](const auto& entry) {
    const std::string name = escaped(entry.first.substr(0, 60));
    return name.empty() ? entry.second : "\"" + name + "\": " + entry.second;
  };
  std::string others;
  for (std::size_t i = 1; i < left.size() && i < 20; ++i)
    others.append(others.empty() ? "" : "\n  ").append(line(left[i]));
  if (left.size() > 20) others += "\n  and " + std::to_string(left.size() - 20) + " more";
  fail_file(caller, op, path, "tensors", line(left[0]).substr(0, 120), others);
}
}  // namespace

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

LoadedTensors read_tensors(const Archive& archive, const ReadOptions& options, const Path& path,
                           std::string_view op, Caller caller) {
  NewNames names(options.names);
  LoadedTensors tensors;
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < archive.entries().size(); ++i)
    if (names(archive.entries()[i].name)) chosen.push_back(i);
  bool refuses = options.strict || chosen.empty();
  for (const auto& entry : archive.left()) {
    if (!names(entry.first)) continue;
    refuses |=
        std::find(options.names.begin(), options.names.end(), entry.first) != options.names.end();
    tensors.left.push_back(entry);
  }
  names.check_used(path, op, caller);
  if (refuses && !tensors.left.empty()) fail_left(tensors.left, path, op, caller);
  tensors.reserve(chosen.size());
  for (const std::size_t i : chosen)
    tensors.emplace_back(archive.entries()[i].name, on_current_device(archive.read(i), caller));
  for (const std::size_t i : chosen)
    if (const Archive::Entry& entry = archive.entries()[i]; !entry.file_dtype.empty())
      tensors.widened.emplace_back(entry.name, entry.file_dtype);
  return tensors;
}

const std::string* repeated(const std::vector<Archive::Entry>& entries, const Metadata& left) {
  std::vector<const std::string*> names;
  names.reserve(entries.size() + left.size());
  for (const Archive::Entry& entry : entries) names.push_back(&entry.name);
  for (const auto& entry : left) names.push_back(&entry.first);
  std::sort(names.begin(), names.end(), [](auto* a, auto* b) { return *a < *b; });
  const auto twice =
      std::adjacent_find(names.begin(), names.end(), [](auto* a, auto* b) { return *a == *b; });
  return twice == names.end() ? nullptr : *twice;
}
}  // namespace reel::io
