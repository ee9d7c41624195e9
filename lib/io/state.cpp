// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/state.hpp"

#include <algorithm>

#include "lib/io/file.hpp"

namespace reel::io::detail {
State::State() : lists(new StateLists) {}
State::State(State&& other) noexcept
    : lists(std::exchange(other.lists, nullptr)),
      plain_parts(other.plain_parts),
      takes_values(other.takes_values) {}
State::~State() { delete lists; }

std::size_t State::found() const { return lists->variables.size() + lists->generators.size(); }

void State::add(std::string_view name, const Variable& variable, const char* role) {
  if (!path_of(variable).empty()) return;
  lists->variables.push_back({name.empty() ? variable.name() : std::string(name), variable, role});
}

std::string State::path_of(const Variable& variable) const {
  for (const SavedVariable& known : lists->variables)
    if (known.variable.same_cell(variable)) return known.name;
  return {};
}

void State::add_generator(std::string_view name, const Generator& generator) {
  const std::string number = std::to_string(lists->generators.size());
  lists->generators.emplace_back(name.empty() ? number : std::string(name), generator);
}

void State::add_tensor(std::string_view name, const Tensor& tensor, bool is_const) {
  lists->tensors.push_back({std::string(name), const_cast<Tensor*>(&tensor), is_const});
}
void State::add_value(SavedValue value) { lists->values.push_back(std::move(value)); }

std::size_t State::count_values() const { return lists->values.size(); }
std::size_t State::count_tensors() const { return lists->tensors.size(); }
void State::set_in_model(std::size_t first_value, std::size_t first_tensor) {
  for (std::size_t i = first_value; i < lists->values.size(); ++i) lists->values[i].in_model = true;
  for (std::size_t i = first_tensor; i < lists->tensors.size(); ++i)
    lists->tensors[i].in_model = true;
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
  for (const SavedVariable& known : state.lists->variables) variables.push_back(known.name);
  for (const auto& known : state.lists->generators) generators.push_back(known.first);
  for (const SavedValue& known : state.lists->values) values.push_back(known.name);
  for (const SavedTensor& known : state.lists->tensors) values.push_back(known.name);
  check(variables);
  check(generators);
  check(values);
}
}  // namespace reel::io::detail
