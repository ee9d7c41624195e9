// SPDX-License-Identifier: BSD-3-Clause
// Values made of tensors: structs with fields(), pairs, tuples, vectors, arrays, optionals,
// pointers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/variable.hpp>

namespace reel {
/// What fields(field) calls: field("name", member).
struct FieldProbe {
  void operator()(std::string_view name, auto& member) const;
};

template <class T>
concept HasFields = requires(T& value, const FieldProbe& probe) {
  value.fields(probe);
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept ListLike = requires(T& list) {
  list.begin();
  list.end();
  typename T::value_type;
}
&&!std::is_convertible_v<T, std::string_view>;
template <class T>
concept PointerLike = requires(T& pointer) {
  *pointer;
  static_cast<bool>(pointer);
  pointer.operator->();
};

namespace detail {
inline std::string path_to(std::string_view outer, std::string_view inner) {
  std::string path(outer);
  if (!path.empty()) path += '.';
  return path += inner;
}
}  // namespace detail

/// Calls visit(path, leaf) for each Tensor, Variable and plain value inside `value`, in order;
/// "cells.0.weight" is the path to a member of a list of structs. A visitor that has
/// holds(path, count) hears how much a list, an optional or a pointer holds, behind what that is.
template <class T, class Visit>
void visit_leaves(std::string_view path, T& value, const Visit& visit) {
  [[maybe_unused]] std::size_t i = 0;
  [[maybe_unused]] auto visit_next = [&](auto& element) {
    visit_leaves(detail::path_to(path, std::to_string(i++)), element, visit);
  };
  [[maybe_unused]] auto holds = [&](std::size_t count) {
    if constexpr (requires { visit.holds(path, count); }) visit.holds(path, count);
  };
  if constexpr (std::is_const_v<T>) {  // fields() is not const
    visit_leaves(path, const_cast<std::remove_const_t<T>&>(value), visit);
  } else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Variable>) {
    visit(path, value);
  } else if constexpr (HasFields<T>) {
    value.fields([&](std::string_view name, auto& member) {
      visit_leaves(detail::path_to(path, name), member, visit);
    });
  } else if constexpr (ListLike<T>) {
    for (auto& element : value) visit_next(element);
    holds(i);
  } else if constexpr (TupleLike<T>) {
    std::apply([&](auto&... element) { (visit_next(element), ...); }, value);
  } else if constexpr (PointerLike<T>) {
    if (value) visit_leaves(path, *value, visit);
    holds(static_cast<bool>(value));
  } else {
    visit(path, value);
  }
}

/// The Variables in a model, in the order of its fields; one that occurs twice, once.
template <class Model>
std::vector<Variable> parameters(const Model& model) {
  std::vector<Variable> found;
  visit_leaves("", model, [&](std::string_view, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Variable>) {
      for (const Variable& other : found) {
        if (other.same_cell(leaf)) return;
      }
      found.push_back(leaf);
    }
  });
  return found;
}
/// How many numbers they hold.
template <class Model>
std::int64_t count_parameters(const Model& model) {
  std::int64_t count = 0;
  for (const Variable& variable : parameters(model)) count += variable.size();
  return count;
}
}  // namespace reel
