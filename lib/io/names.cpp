// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/names.hpp"

#include "lib/io/file.hpp"

namespace reel::io {
std::optional<std::string> NewNames::operator()(const std::string& name) {
  bool is_chosen = chosen_.empty();
  for (std::size_t i = 0; i < chosen_.size(); ++i)
    if (fits_row(name, chosen_[i])) is_chosen = used_[i] = true;
  if (!is_chosen) return std::nullopt;
  for (std::size_t i = 0; i < used_rows_.size(); ++i)
    if (fits_row(name, rename_->table_[i].first)) {
      used_rows_[i] = true;
      break;  // the first row that fits is used
    }
  std::string renamed = rename_ ? (*rename_)(name) : name;
  if (renamed.empty() && !name.empty()) return std::nullopt;
  return renamed;
}

void NewNames::check_used(const Path& path, std::string_view op, Caller caller) const {
  const auto refuse = [&](std::string_view expected, const std::string& row) {
    fail_file(caller, op, path, expected, "no \"" + escaped(row.substr(0, 100)) + "\"");
  };
  for (std::size_t i = 0; i < used_.size(); ++i)
    if (!used_[i]) refuse("the names of .names", chosen_[i]);
  for (std::size_t i = 0; i < used_rows_.size(); ++i)
    if (!used_rows_[i]) refuse("a name for each row of .rename", rename_->table_[i].first);
}
}  // namespace reel::io
