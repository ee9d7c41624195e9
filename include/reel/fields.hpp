// SPDX-License-Identifier: BSD-3-Clause
// Values made of tensors: structs that list their members, pairs, tuples, vectors, arrays,
// optionals, pointers.
#pragma once  // defined in lib/flow, lib/tensor
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/memory.hpp>
#include <reel/variable.hpp>

namespace reel {
class Generator;

namespace detail {
template <std::size_t, class T>
struct PackElement {
  T value;
};
template <std::size_t K, class T>
auto& value_of(PackElement<K, T>& element) {
  return element.value;
}
template <std::size_t K, class T>
const auto& value_of(const PackElement<K, T>& element) {
  return element.value;
}
template <class Indices, class... T>
struct PackOf;
template <std::size_t... K, class... T>
struct PackOf<std::index_sequence<K...>, T...> : PackElement<K, T>... {
  explicit PackOf(T... each) : PackElement<K, T>{static_cast<T&&>(each)}... {}
  template <std::size_t At>
  auto& get() {
    return value_of<At>(*this);
  }
  template <std::size_t At>
  const auto& get() const {
    return value_of<At>(*this);
  }
  void for_each(const auto& f) { (f(static_cast<PackElement<K, T>&>(*this).value), ...); }
  void for_each(const auto& f) const {
    (f(static_cast<const PackElement<K, T>&>(*this).value), ...);
  }
};
/// A list of values or references that supports structured bindings. It replaces std::tuple, whose
/// header has 1,700 lines.
template <class... T>
using Pack = PackOf<std::index_sequence_for<T...>, T...>;

/// Calls f(element) for each element of a std::tuple or std::pair. The caller includes its header.
template <class T>
void for_each_element(T& value, const auto& f) {
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    using std::get;
    (f(get<K>(value)), ...);
  }
  (std::make_index_sequence<std::tuple_size<T>::value>());
}
}  // namespace detail
}  // namespace reel

/// @cond Doxygen does not know std.
template <class Indices, class... T>
struct std::tuple_size<reel::detail::PackOf<Indices, T...>>
    : std::integral_constant<std::size_t, sizeof...(T)> {};
template <std::size_t K, class Indices, class... T>
struct std::tuple_element<K, reel::detail::PackOf<Indices, T...>> {
  using type = std::remove_reference_t<
      decltype(std::declval<reel::detail::PackOf<Indices, T...>&>().template get<K>())>;
};
/// @endcond

namespace reel {
/// Stands for the argument of `fields(field)`, which calls field("name", member).
struct FieldProbe {
  void operator()(std::string_view name, auto& member) const;
};

/// The members of a struct and their names, such as "weight, bias". REEL_FIELDS creates it.
template <class... Members>
struct FieldList {
  std::string_view names;
  detail::Pack<Members&...> members;
  FieldList(std::string_view list, Members&... each) : names(list), members(each...) {}
  void visit(const auto& field) const {
    [[maybe_unused]] std::string_view rest = names;
    [[maybe_unused]] const auto next = [&rest] {
      const std::size_t comma = rest.find(',');
      std::string_view name = rest.substr(0, comma);
      rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
      while (name.starts_with(' ')) name.remove_prefix(1);
      while (name.ends_with(' ')) name.remove_suffix(1);
      return name;
    };
    members.for_each([&](auto& member) { field(next(), member); });
  }
};

/// Lists the members of a struct. Write it once, in the public part. Local structs can have it too:
///
///     struct Model {
///       nn::Linear hidden{784, 512}, head{512, 10};
///       REEL_FIELDS(hidden, head)
///     };
#define REEL_FIELDS(...) \
  auto reel_fields() { return ::reel::FieldList(#__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); }

template <class T>
concept HasFieldList = requires(T& value) {
  value.reel_fields();
};
template <class T>
concept HasFields = HasFieldList<T> || requires(T& value, const FieldProbe& probe) {
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
concept MapLike = ListLike<T> && requires {
  typename T::key_type;
  typename T::mapped_type;
};
template <class T>
concept PointerLike = requires(T& pointer) {
  *pointer;
  static_cast<bool>(pointer);
  pointer.operator->();
};

/// A value without Variables: a number, a string, a Shape, a function or a struct without members.
template <class T>
concept PlainField = std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, Shape> ||
    std::is_convertible_v<const T&, std::string_view> || std::is_empty_v<T> ||
    (std::is_pointer_v<T>&& std::is_function_v<std::remove_pointer_t<T>>);

namespace detail {
/// Calls field("name", member) for each member that a struct lists.
template <class T, class Field>
void visit_fields(T& value, const Field& field) {
  if constexpr (HasFieldList<T>)
    value.reel_fields().visit(field);
  else
    value.fields(field);
}

/// Why a member of a model is refused. `hidden` means a list that cannot be called.
enum class FieldFault {
  none,
  pointer,
  array,
  variant,
  function,
  lambda,
  hidden,
  abstract,
  unlisted
};
struct ListNames {
  int reel_fields, fields;
};
template <class T>
struct WithListNames : T, ListNames {};
template <class T>
constexpr FieldFault fault_of() {
  using enum FieldFault;
  if constexpr (std::is_void_v<T> || std::is_same_v<T, Tensor> || std::is_base_of_v<Variable, T> ||
                std::is_same_v<T, Generator> || PlainField<T>)
    return none;
  else if constexpr (std::is_pointer_v<T>)
    return pointer;
  else if constexpr (std::is_array_v<T>)
    return array;
  else if constexpr (requires(T & value) { value.valueless_by_exception(); })
    return variant;
  else if constexpr (requires { typename T::result_type; } && std::is_constructible_v<bool, T&>)
    return function;
  else if constexpr (std::string_view(__PRETTY_FUNCTION__).find("lambda") != std::string_view::npos)
    return lambda;
  else if constexpr (std::is_abstract_v<T>)
    return abstract;
  // A name that T has too is ambiguous in WithListNames<T>.
  else if constexpr (std::is_class_v<T> && !std::is_final_v<T> &&
                     !(
                         requires { &WithListNames<T>::reel_fields; } &&
                         requires { &WithListNames<T>::fields; }))
    return hidden;
  else
    return std::is_polymorphic_v<T> ? abstract : unlisted;
}

template <class T>
struct TypeOf {
  using type = T;
};
template <class T>
constexpr TypeOf<T> operator|(TypeOf<T> first, auto) {
  return first;
}
template <class T>
constexpr TypeOf<T> operator|(TypeOf<void>, TypeOf<T> second) {
  return second;
}
constexpr TypeOf<void> operator|(TypeOf<void>, TypeOf<void>) { return {}; }
/// The first type inside T that is refused, or void. Types in `Outer` are around T.
template <class... Outer, class T>
constexpr auto faulty(TypeOf<T>) {
  using Bare = std::remove_cvref_t<T>;
  const auto inside = []<class... Each>(TypeOf<Each>... each) {
    return (TypeOf<void>() | ... | faulty<Outer..., Bare>(each));
  };
  if constexpr ((std::is_same_v<Bare, Outer> || ...)) {
    return TypeOf<void>();
  } else if constexpr (HasFieldList<Bare>) {
    return [&]<class... M>(TypeOf<FieldList<M...>>) {
      return inside(TypeOf<M>()...);
    }(TypeOf<decltype(std::declval<Bare&>().reel_fields())>());
  } else if constexpr (std::is_base_of_v<Variable, Bare> || HasFields<Bare>) {
    return TypeOf<void>();
  } else if constexpr (ListLike<Bare>) {
    return inside(TypeOf<typename Bare::value_type>());
  } else if constexpr (TupleLike<Bare>) {
    return [&]<std::size_t... K>(std::index_sequence<K...>) {
      return inside(TypeOf<std::tuple_element_t<K, Bare>>()...);
    }
    (std::make_index_sequence<std::tuple_size<Bare>::value>());
  } else if constexpr (PointerLike<Bare>) {
    return inside(TypeOf<decltype(*std::declval<Bare&>())>());
  } else {
    return TypeOf<std::conditional_t<fault_of<Bare>() == FieldFault::none, void, Bare>>();
  }
}
template <class T>
using Faulty = typename decltype(faulty(TypeOf<T>()))::type;
template <class T, FieldFault fault>
concept Has = fault_of<Faulty<T>>()
== fault;

/// Refuses a model of other parts than Tensors, Variables, Buffers, Generators, plain values and
/// structs that list their members. g++ names the line that uses a function without a trace of
/// instantiations around it, which a static_assert would have.
struct RequireFields {
  template <Has<FieldFault::none> T>
  void operator()(std::string_view, T& value) const {
    using Bare = std::remove_const_t<T>;
    if constexpr (HasFields<Bare> && !HasFieldList<Bare>)
      if (false) const_cast<Bare&>(value).fields(*this);
  }
/// A member that a model must not have, and what the compiler says then.
#define REEL_REFUSED(fault, ...)                                 \
  template <Has<FieldFault::fault> T, class Refused = Faulty<T>> \
  __attribute__((unavailable(__VA_ARGS__))) void operator()(std::string_view, T&) const;
  REEL_REFUSED(pointer,
               "a raw pointer in a model does not say who owns its object: hold the object itself, "
               "or a std::unique_ptr or std::shared_ptr to it")
  REEL_REFUSED(array, "a C array has no list of members: write std::array<Layer, 3> in its place")
  REEL_REFUSED(variant,
               "a std::variant has no list of members: hold a std::optional for each alternative")
  REEL_REFUSED(
      function,
      "a std::function hides the Variables of the function in it: hold the layer itself or "
      "an nn::Sequential, or leave the std::function out of the list")
  REEL_REFUSED(lambda,
               "a lambda hides the Variables that it captures: write a struct with operator() and "
               "REEL_FIELDS")
  REEL_REFUSED(hidden,
               "a struct in this model lists its members in its private part, or its fields() does "
               "not take every `field`: write REEL_FIELDS(weight, bias) after `public:`")
  REEL_REFUSED(abstract,
               "a pointer to a base class hides the members of the derived class: hold the layer "
               "itself or an nn::Sequential, or list members in the base class")
  REEL_REFUSED(unlisted,
               "a struct in this model does not list its members, so its Variables would be "
               "forgotten: add REEL_FIELDS(weight, bias) or fields(field) to it")
#undef REEL_REFUSED
};
inline constexpr RequireFields require_fields;

/// "outer.inner". Throws Error if `outer` is so long that a pointer in the model may lead back to
/// the model.
REEL_API std::string path_to(std::string_view outer, std::string_view inner);
/// The name of a map's element in paths. It is empty if the key is neither a string nor an integer.
template <class Key>
std::string key_text(const Key& key) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
    const std::string_view text = key;
    return {text.begin(), text.end()};
  } else if constexpr (std::is_integral_v<Key>) {
    return std::to_string(key);
  } else {
    return {};
  }
}
}  // namespace detail

/// Calls visit(path, leaf) for each Tensor, Variable and plain value inside `value`, in order. A
/// path is, for example, "cells.0.weight" in a list of structs and "heads.noun.bias" in a map. The
/// keys of a map are leaves too, unless the visitor has a member skips_keys. If it has a member
/// skips_positions, elements of a list have the path of the list, which is faster. A visitor may
/// have more functions:
/// - holds(path, count) is called after the elements of a list, an optional or a pointer, with
/// their
///   number;
/// - in_const(bool) returns the visitor for a const object, or for what a smart pointer points to;
/// - behind(object) is called with the object that a smart pointer points to;
/// - buffer(path, leaf) is called for Buffers; without it, visit(path, leaf) is;
/// - takes(path, object) is called before the members of a struct; if it returns true, the members
///   are skipped.
template <class T, class Visit>
void visit_leaves(std::string_view path, T& value, const Visit& visit) {
  [[maybe_unused]] std::size_t i = 0;
  [[maybe_unused]] auto visit_next = [&](auto& element) {
    if constexpr (requires { Visit::skips_positions; })
      visit_leaves(path, element, visit);
    else
      visit_leaves(detail::path_to(path, std::to_string(i)), element, visit);
    ++i;
  };
  [[maybe_unused]] auto holds = [&](std::size_t count) {
    if constexpr (requires { visit.holds(path, count); }) visit.holds(path, count);
  };
  if constexpr (std::is_const_v<T>) {  // fields() is not const
    auto& object = const_cast<std::remove_const_t<T>&>(value);
    if constexpr (requires { visit.in_const(true); })
      visit_leaves(path, object, visit.in_const(true));
    else
      visit_leaves(path, object, visit);
  } else if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Variable>) {
    visit(path, value);
  } else if constexpr (std::is_same_v<T, Buffer>) {
    if constexpr (requires { visit.buffer(path, value); })
      visit.buffer(path, value);
    else
      visit(path, static_cast<Variable&>(value));
  } else if constexpr (HasFields<T>) {
    if constexpr (requires { visit.takes(path, value); })
      if (visit.takes(path, value)) return;
    detail::visit_fields(value, [&](std::string_view name, auto& member) {
      visit_leaves(detail::path_to(path, name), member, visit);
    });
  } else if constexpr (MapLike<T>) {
    for (auto& element : value) {
      std::string key = detail::key_text(element.first);
      if (key.empty()) key = std::to_string(i);
      const std::string inner = detail::path_to(path, key);
      if constexpr (!requires { Visit::skips_keys; }) visit_leaves(inner, element.first, visit);
      visit_leaves(inner, element.second, visit);
      ++i;
    }
    holds(i);
  } else if constexpr (ListLike<T>) {
    for (auto& element : value) visit_next(element);
    holds(i);
  } else if constexpr (TupleLike<T>) {
    detail::for_each_element(value, visit_next);
  } else if constexpr (PointerLike<T>) {
    if (value) {
      if constexpr (requires {
                      value.get();
                      visit.behind(*value);
                    })
        visit.behind(*value);
      if constexpr (requires {
                      value.get();
                      visit.in_const(false);
                    })
        visit_leaves(path, *value, visit.in_const(false));
      else
        visit_leaves(path, *value, visit);
    }
    holds(static_cast<bool>(value));
  } else {
    visit(path, value);
  }
}

namespace detail {
using NamedVariables = std::vector<std::pair<std::string, Variable>>;
/// Collects Variables with their paths. A Variable that occurs twice is listed once.
struct VariableNotes {
  NamedVariables& found;
  bool parameters, buffers;
  template <class Leaf>
  void operator()(std::string_view path, Leaf& leaf) const {
    require_fields(path, leaf);
    if constexpr (std::is_same_v<Leaf, Variable>) note(path, leaf);
  }
  REEL_API void note(std::string_view path, const Variable& leaf) const;
};
template <class Model>
NamedVariables named_variables(const Model& model, bool parameters, bool buffers,
                               std::string_view op) try {
  NamedVariables found;
  visit_leaves("", model, VariableNotes{found, parameters, buffers});
  return found;
} catch (const std::bad_alloc&) {
  fail_memory({}, op);
}
/// The Variables without their names.
REEL_API std::vector<Variable> variables_of(const NamedVariables& named, std::string_view op);
/// Parameters and buffers.
template <class Model>
std::vector<Variable> all_variables(const Model& model, std::string_view op) {
  return variables_of(named_variables(model, true, true, op), op);
}
}  // namespace detail

/// The parameters and their paths, such as "cell.weight". A parameter that occurs twice is listed
/// once. After this call Variable::name() returns the path, for the model's Buffers too.
template <class Model>
std::vector<std::pair<std::string, Variable>> named_parameters(const Model& model) {
  detail::require_fields("", model);
  return detail::named_variables(model, true, false, "named_parameters");
}
/// The Buffers of the model and their paths.
template <class Model>
std::vector<std::pair<std::string, Variable>> named_buffers(const Model& model) {
  detail::require_fields("", model);
  return detail::named_variables(model, false, true, "named_buffers");
}
/// The Variables in a model, in the order of its fields, without its Buffers. A Variable that
/// occurs twice is listed once. A struct without REEL_FIELDS does not compile. If a list misses a
/// Variable, nn::check() finds it.
template <class Model>
std::vector<Variable> parameters(const Model& model) {
  detail::require_fields("", model);
  return detail::variables_of(named_parameters(model), "parameters");
}
/// The Buffers in a model, in the order of its fields.
template <class Model>
std::vector<Variable> buffers(const Model& model) {
  detail::require_fields("", model);
  return detail::variables_of(named_buffers(model), "buffers");
}
/// The total number of elements of the parameters.
template <class Model>
std::int64_t count_parameters(const Model& model) {
  detail::require_fields("", model);
  std::int64_t count = 0;
  for (const Variable& variable : parameters(model)) count += variable.size();
  return count;
}
}  // namespace reel
