// SPDX-License-Identifier: BSD-3-Clause
// Checks of the arguments of optimizers.
#pragma once
#include <reel/optim/optimizer.hpp>

#include <string_view>
#include <utility>
#include <vector>

#include "lib/body/room.hpp"
#include "lib/nn/check.hpp"

namespace reel::optim {
/// Throws Error unless the number is finite and 0 or more.
void check_positive(double number, std::string_view name, std::string_view argument, Caller caller);
/// Throws Error unless the number is in [0, 1).
void check_fraction(double number, std::string_view name, std::string_view argument, Caller caller);
/// All Variables in one group.
template <class Options>
std::vector<Group<Options>> one_group(std::string_view optimizer, std::vector<Variable> variables,
                                      const Options& options, Caller caller) {
  auto groups = room_for<Group<Options>>(1, caller, optimizer);
  groups.push_back({std::move(variables), options});
  return groups;
}
/// Appends options with zeros between their members. A trace that captures an optimizer follows
/// each word that looks like a pointer, and an old one there would lead to memory of others.
template <class T>
void append_options(std::vector<T>& list, const T& options) {
  list.push_back(options);
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&list.back());
#endif
}
/// Adds a line for the options of each group.
template <class T>
std::string with_options(std::string text, const std::vector<T>& list) {
  for (T options : list) {
    text += "options";
    options.fields([&](std::string_view name, const auto& number) {
      text += " " + std::string(name) + " " + std::string(to_text(static_cast<double>(number)));
    });
    text += "\n";
  }
  return text;
}
/// Throws Error if there are none or one twice, DTypeError unless all are floating.
void check_variables(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller);
/// Throws Error for an optimizer that was moved from.
void check_not_moved(std::string_view optimizer, const std::vector<Variable>& variables,
                     Caller caller);
/// Throws Error unless there is one gradient for each Variable, ShapeError or DTypeError unless it
/// fits.
void check_gradients(std::string_view optimizer, const std::vector<Variable>& variables,
                     const GradientList& gradients, Caller caller);
/// A rate or a count of steps where the Variables are.
Tensor on_device_of(const std::vector<Variable>& variables, const Tensor& number, Caller caller);
/// A Variable full of zeros for each, called "m.head.weight" for the name m.
std::vector<Variable> zeros_for(std::string_view name, const std::vector<Variable>& variables,
                                Caller caller);
}  // namespace reel::optim
