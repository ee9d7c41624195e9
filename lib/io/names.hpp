// SPDX-License-Identifier: BSD-3-Clause
// The names of a file's entries in the program.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reel/io/save.hpp>

namespace reel::io {
/// Whether a row of the options is this name, or a prefix of it that ends with a dot.
inline bool fits_row(std::string_view name, std::string_view row) {
  return name == row || (row.ends_with('.') && name.starts_with(row));
}
/// Applies the options `names` and `rename`, which must live as long.
class NewNames {
 public:
  explicit NewNames(const std::vector<std::string>& chosen, const Rename* rename = nullptr)
      : chosen_(chosen),
        rename_(rename),
        used_(chosen.size()),
        used_rows_(rename ? rename->table_.size() : 0) {}
  /// Nothing if the entry is not chosen, or renamed to an empty name.
  std::optional<std::string> operator()(const std::string& name);
  /// Throws IoError for a row that was used for no name.
  void check_used(const Path& path, std::string_view op, Caller caller) const;

 private:
  const std::vector<std::string>& chosen_;
  const Rename* rename_;
  std::vector<bool> used_, used_rows_;  // by place among those chosen, and in the table
};
}  // namespace reel::io
