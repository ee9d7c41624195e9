// SPDX-License-Identifier: BSD-3-Clause
// Values made of tensors: structs with fields(), pairs, tuples, vectors, arrays, optionals, pointers.
#pragma once
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/variable.hpp>

namespace reel {
/// What fields(field) calls: field("name", member).
struct FieldProbe { void operator()(std::string_view name, auto& member) const; };

template <class T> concept HasFields = requires(T& value, const FieldProbe& probe) { value.fields(probe); };
template <class T> concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T> concept ListLike = requires(T& list) { list.begin(); list.end(); typename T::value_type; } && !std::is_convertible_v<T, std::string_view>;
template <class T> concept PointerLike = requires(T& p) { *p; static_cast<bool>(p); p.operator->(); };

/// Calls visit(name, leaf) for each Tensor, Variable and plain value inside `value`, in order.
template <class T, class Visit> void visit_leaves(std::string_view name, T& value, const Visit& visit) {
  if constexpr (std::is_const_v<T>) visit_leaves(name, const_cast<std::remove_const_t<T>&>(value), visit);  // fields() is not const
  else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Variable>) visit(name, value);
  else if constexpr (HasFields<T>) value.fields([&](std::string_view inner, auto& member) {
    std::string path(name);
    if (!path.empty()) path += '.';
    path += inner;
    visit_leaves(path, member, visit);
  });
  else if constexpr (ListLike<T>) { for (auto& element : value) visit_leaves(name, element, visit); }
  else if constexpr (TupleLike<T>) std::apply([&](auto&... element) { (visit_leaves(name, element, visit), ...); }, value);
  else if constexpr (PointerLike<T>) { if (value) visit_leaves(name, *value, visit); }
  else visit(name, value);
}

template <class Model> std::vector<Variable> parameters(Model& model) {
  std::vector<Variable> found;
  visit_leaves("", model, [&](std::string_view, auto& leaf) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Variable>) found.push_back(leaf);
  });
  return found;
}
template <class Model> std::int64_t count_parameters(Model& model) {
  std::int64_t count = 0;
  for (const Variable& v : parameters(model)) count += v.shape().elements();
  return count;
}
}  // namespace reel
