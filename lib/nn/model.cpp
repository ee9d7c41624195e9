// SPDX-License-Identifier: BSD-3-Clause
#include <reel/nn/model.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "lib/nn/check.hpp"

namespace reel::detail {
std::string summary_table(const NamedVariables& variables) try {
  using Row = std::array<std::string, 4>;
  std::vector<Row> rows{{"name", "shape", "dtype", "count"}};
  std::int64_t total = 0;
  for (const auto& [name, variable] : variables) {
    rows.push_back({name, to_string(variable.shape()), std::string(name_of(variable.dtype())),
                    fmt::format("{}", variable.size())});
    total += variable.size();
  }
  rows.push_back({"total", "", "", fmt::format("{}", total)});
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < 4; ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const Row& row : rows) {
    fmt::format_to(std::back_inserter(table), "{:<{}}  {:<{}}  {:<{}}  {:>{}}\n", row[0], widths[0],
                   row[1], widths[1], row[2], widths[2], row[3], widths[3]);
  }
  return table;
} catch (const std::bad_alloc&) {
  fail_memory({}, "summary");
}

Variable clone_once(const Variable& variable, std::vector<Variable>& seen,
                    std::vector<Variable>& clones) try {
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i].same_cell(variable)) return clones[i];
  }
  seen.push_back(variable);
  clones.push_back(variable.clone());
  return clones.back();
} catch (const std::bad_alloc&) {
  fail_memory({}, "clone");
}
}  // namespace reel::detail
