// SPDX-License-Identifier: BSD-3-Clause
// Functions of any model: a struct that lists its members, or a vector, tuple or array of such.
#pragma once  // defined in lib/nn
#include <string>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/random.hpp>

namespace reel {
namespace detail {
REEL_API std::string summary_table(const NamedVariables& variables);
REEL_API void assign_variables(const NamedVariables& to, const NamedVariables& from, Caller caller);
/// The Variables that clone() has cloned, in the order of their clones.
struct Clones {
  std::vector<Variable> originals, copies;
  std::vector<std::vector<Variable>*> bound;  // lists in optimizers and the like
  /// The clone of this Variable. The first call makes it.
  REEL_API Variable copy_of(const Variable& variable);
  /// Replaces the Variables in the lists by their clones. Others stay.
  REEL_API void rebind() const;
};

template <class Value>
void clone_leaves(Value& value, Clones& clones) {
  if constexpr (requires { value.bound_variables(); })
    clones.bound.push_back(&value.bound_variables());
  if constexpr (std::is_base_of_v<Variable, Value>) {
    static_cast<Variable&>(value) = clones.copy_of(value);
  } else if constexpr (std::is_same_v<Value, Generator>) {
    value = value.clone();
  } else if constexpr (requires { value.clone_members(clones); }) {
    value.clone_members(clones);
  } else if constexpr (HasFields<Value>) {
    visit_fields(value, [&](std::string_view, auto& member) { clone_leaves(member, clones); });
  } else if constexpr (ListLike<Value>) {
    for (auto& element : value) clone_leaves(element, clones);
  } else if constexpr (TupleLike<Value>) {
    for_each_element(value, [&](auto& element) { clone_leaves(element, clones); });
  } else if constexpr (PointerLike<Value>) {
    if (!value) return;
    if constexpr (requires { typename Value::element_type; }) {  // shared: copy what it points to
      static_assert(!std::is_polymorphic_v<typename Value::element_type>,
                    "clone() would cut a derived part down to its base");
      value.reset(new typename Value::element_type(*value));
    }
    clone_leaves(*value, clones);
  } else {
    require_fields("", value);
  }
}
}  // namespace detail

/// A table of the parameters: name, shape, dtype, count, and the sum of the counts.
template <class Model>
std::string summary(const Model& model) {
  detail::require_fields("", model);
  return detail::summary_table(named_parameters(model));
}

/// Moves the model's Variables and Buffers to the device. Names and handles stay valid; each value
/// is copied. An optimizer can be moved in the same way. Throws DeviceError if the device is
/// missing.
///
///     to(model, cuda(0));
template <class Model>
void to(const Model& model, Device device, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::move_variables(detail::all_variables(model, "to"), device, caller);
}

/// A copy of the model with new Variables, Buffers and Generators. If two members of the model are
/// the same Variable, they are the same in the copy too. An optimizer in the copy trains the copy's
/// Variables; those that are no members of the model, it shares with the model's.
template <class Model>
Model clone(const Model& model) try {
  detail::require_fields("", model);
  Model copy = model;
  detail::Clones clones;
  detail::clone_leaves(copy, clones);
  clones.rebind();
  return copy;
} catch (const std::bad_alloc&) {
  fail_memory({}, "clone");
}

/// Copies the values of `other`, a model of the same structure, to `model`: parameters and Buffers,
/// by their paths. Values stay on the devices of `model`. Use it for the best weights so far, or
/// for a target network. If a path, shape or dtype differs, it throws an Error that lists all
/// differences, and nothing has changed.
///
///     assign(best, model);
template <class Model, class Other>
void assign(const Model& model, const Other& other, Caller caller = Caller::here()) {
  detail::require_fields("", model);
  detail::require_fields("", other);
  detail::assign_variables(detail::named_variables(model, true, true, "assign"),
                           detail::named_variables(other, true, true, "assign"), caller);
}
}  // namespace reel
