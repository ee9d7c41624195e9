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

namespace {
/// The place of a Variable in a list; the length of the list if it is not there.
std::size_t place_of(const Variable& variable, const std::vector<Variable>& list) {
  std::size_t i = 0;
  while (i < list.size() && !list[i].same_cell(variable)) ++i;
  return i;
}
}  // namespace

Variable Clones::copy_of(const Variable& variable) try {
  const std::size_t i = place_of(variable, originals);
  if (i < originals.size()) return copies[i];
  originals.push_back(variable);
  copies.push_back(variable.clone());
  return copies.back();
} catch (const std::bad_alloc&) {
  fail_memory({}, "clone");
}
void Clones::rebind() const {
  for (std::vector<Variable>* const list : bound)
    for (Variable& variable : *list)
      if (const std::size_t i = place_of(variable, originals); i < originals.size())
        variable = copies[i];
}

namespace {
/// The reason why the value of one cannot be assigned to the other; empty if it can.
std::string difference(const Variable& to, const Variable& from) {
  const auto type = [](const Variable& x) {
    return fmt::format("{} {}", to_string(x.shape()), name_of(x.dtype()));
  };
  if (to.shape() == from.shape() && to.dtype() == from.dtype()) return {};
  return fmt::format(" expected {}, got {}", type(to), type(from));
}
const Variable* find(const NamedVariables& variables, const std::string& path) {
  const auto found = std::find_if(variables.begin(), variables.end(),
                                  [&](const auto& named) { return named.first == path; });
  return found == variables.end() ? nullptr : &found->second;
}
}  // namespace

void assign_variables(const NamedVariables& to, const NamedVariables& from, Caller caller) try {
  const CallerScope here(caller, "assign");
  std::vector<Tensor> values;
  std::string list;
  std::size_t problems = 0;
  const auto problem = [&](std::string_view what, const std::string& path, const std::string& how) {
    list += fmt::format("{}{}: {}{}", list.empty() ? "" : "\n  ", what, path, how);
    ++problems;
  };
  for (const auto& [path, variable] : to) {
    const Variable* const value = find(from, path);
    if (!value) {
      problem("missing", path, "");
      continue;
    }
    const std::string how = difference(variable, *value);
    if (!how.empty()) problem("different", path, ":" + how);
    values.push_back(value->value());
  }
  for (const auto& [path, variable] : from)
    if (!find(to, path)) problem("unexpected", path, "");
  if (problems)
    fail<Error>(caller, "assign", "other", "the paths, shapes and dtypes of the model",
                fmt::format("{} that differ", problems), list);
  for (std::size_t i = 0; i < to.size(); ++i)
    Variable(to[i].second).assign({values[i].to(to[i].second.device(), caller), caller});
} catch (const std::bad_alloc&) {
  fail_memory(caller, "assign");
}
}  // namespace reel::detail
