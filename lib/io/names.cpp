// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/names.hpp"

#include "lib/io/file.hpp"

namespace reel::io {
std::optional<std::string> NewNames::operator()(const std::string& name) {
  bool is_chosen = chosen_.empty();
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const std::string& row = chosen_[i];
    if (name != row && !(row.ends_with('.') && name.starts_with(row))) continue;
    is_chosen = used_[i] = true;
  }
  if (!is_chosen) return std::nullopt;
  std::string renamed = rename_ ? (*rename_)(name) : name;
  if (renamed.empty() && !name.empty()) return std::nullopt;
  return renamed;
}

void NewNames::check_used(const Path& path, std::string_view op, Caller caller) const {
  for (std::size_t i = 0; i < chosen_.size(); ++i)
    if (!used_[i])
      fail_file(caller, op, path, "the names of .names",
                "no \"" + escaped(chosen_[i].substr(0, 100)) + "\"");
}
}  // namespace reel::io
