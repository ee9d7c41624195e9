// SPDX-License-Identifier: BSD-3-Clause
#include <reel/io/state.hpp>

#include <algorithm>

#include "lib/io/file.hpp"

namespace reel::io::detail {
void State::add(std::string_view name, const Variable& variable, const char* role) {
  if (!path_of(variable).empty()) return;
  variables.push_back({name.empty() ? variable.name() : std::string(name), variable, role});
}

std::string State::path_of(const Variable& variable) const {
  for (const SavedVariable& known : variables)
    if (known.variable.same_cell(variable)) return known.name;
  return {};
}

void State::add_generator(std::string_view name, const Generator& generator) {
  const std::string number = std::to_string(generators.size());
  generators.emplace_back(name.empty() ? number : std::string(name), generator);
}

void State::take_plain(State& other, bool in_model) {
  for (SavedValue& value : other.values) {
    value.in_model |= in_model;
    values.push_back(std::move(value));
  }
  for (SavedTensor& tensor : other.tensors) {
    tensor.in_model |= in_model;
    tensors.push_back(std::move(tensor));
  }
}

void check_names(const State& state, Caller caller) {
  const auto check = [&](std::vector<std::string> names) {
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      fail<Error>(
          caller, "save", "arguments", "each name once", "\"" + escaped(*twice) + "\" twice",
          "Give several models or optimizers as std::tie(a, b), or as members of a struct.");
  };
  std::vector<std::string> variables, generators, values;
  for (const SavedVariable& known : state.variables) variables.push_back(known.name);
  for (const auto& known : state.generators) generators.push_back(known.first);
  for (const SavedValue& known : state.values) values.push_back(known.name);
  for (const SavedTensor& known : state.tensors) values.push_back(known.name);
  check(variables);
  check(generators);
  check(values);
}
}  // namespace reel::io::detail
