// SPDX-License-Identifier: BSD-3-Clause
// What save() and load() find in their arguments.
#pragma once  // defined in lib/io
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/error.hpp>
#include <reel/fields.hpp>
#include <reel/nn/layers.hpp>
#include <reel/nn/sequential.hpp>
#include <reel/random.hpp>

namespace reel::io::detail {
using reel::detail::path_to;

/// A struct with fields that says which Variables it updates.
template <class T>
concept OptimizerLike = HasFields<T> && requires(const T& optimizer) {
  optimizer.variables()[optimizer.variables().size() - 1].same_cell(optimizer.variables()[0]);
};
/// A C++ value that a file can hold.
template <class T>
concept SavedNumber = std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, float> ||
    std::is_same_v<T, double> || std::is_same_v<T, std::string> || std::is_same_v<T, Shape>;

/// Numbers and texts of the program, by their addresses.
struct SavedValue {
  enum class Kind : std::uint8_t { boolean, integer, natural, real, text, shape } kind;
  std::uint8_t bytes;
  std::string name;
  void* place;
  bool in_model = false;  // and not an argument of its own
  bool is_const = false;  // a load may not write to it
};
template <class T>
SavedValue saved_value(std::string_view name, T& value) {
  using Kind = SavedValue::Kind;
  void* const place = const_cast<std::remove_const_t<T>*>(&value);
  constexpr Kind kind = std::is_same_v<std::remove_const_t<T>, std::string> ? Kind::text
                        : std::is_same_v<std::remove_const_t<T>, Shape>     ? Kind::shape
                        : std::is_same_v<std::remove_const_t<T>, bool>      ? Kind::boolean
                        : std::is_floating_point_v<T>                       ? Kind::real
                        : std::is_unsigned_v<T>                             ? Kind::natural
                                                                            : Kind::integer;
  return {kind, static_cast<std::uint8_t>(sizeof(T)), std::string(name), place};
}

struct StateLists;
struct REEL_API State {
  StateLists* lists;          // whose vectors would cost each program that includes this header
  int plain_parts = 0;        // numbers, texts and Tensors that are arguments themselves
  bool takes_values = false;  // an argument is no model: it takes numbers, texts or Tensors

  State();
  State(State&& other) noexcept;
  State& operator=(State&&) = delete;
  ~State();
  /// Adds a Variable unless it is there. The role is "parameter", "buffer" or "optimizer state",
  /// for reports.
  void add(std::string_view name, const Variable& variable, const char* role);
  /// The path of a Variable among those that were added; empty if it is none of them.
  std::string path_of(const Variable& variable) const;
  void add_generator(std::string_view name, const Generator& generator);
  void add_tensor(std::string_view name, const Tensor& tensor, bool is_const = false);
  void add_value(SavedValue value);
  /// Notes that the numbers and Tensors from these places on are inside a model.
  void set_in_model(std::size_t first_value, std::size_t first_tensor);
  std::size_t count_values() const;
  std::size_t count_tensors() const;
  /// The number of Variables and Generators.
  std::size_t found() const;
};
/// Throws Error for two things of one name.
REEL_API void check_names(const State& state, Caller caller);

/// Notes what a part holds but for optimizers.
struct Collector {
  State& state;
  bool& is_model;  // it holds a Variable, a Generator or an optimizer
  bool is_const = false;
  static constexpr bool skips_keys = true;
  Collector in_const(bool constant) const { return {state, is_model, constant}; }
  template <class Leaf>
  void operator()(std::string_view path, Leaf& leaf) const {
    using T = std::remove_const_t<Leaf>;
    reel::detail::require_fields(path, leaf);
    if constexpr (std::is_same_v<T, Variable>) {
      state.add(path, leaf, "parameter");
      is_model = true;
    } else if constexpr (std::is_same_v<T, Generator>) {
      state.add_generator(path, leaf);
      is_model = true;
    } else if constexpr (std::is_same_v<T, Tensor>) {
      state.add_tensor(path, leaf, is_const);
    } else if constexpr (SavedNumber<T>) {
      SavedValue value = saved_value(path, leaf);
      value.is_const = is_const;
      state.add_value(std::move(value));
    } else {
      static_assert(std::is_empty_v<T> || std::is_function_v<std::remove_pointer_t<T>>,
                    "save() and load() cannot keep a field of this type, such as a long double "
                    "or a std::string_view: use another type, or leave the field out of "
                    "REEL_FIELDS");
    }
  }
  void buffer(std::string_view path, const Buffer& leaf) const {
    state.add(path, leaf, "buffer");
    is_model = true;
  }
  template <class T>
  bool takes(std::string_view, T& object) const {
    if constexpr (std::is_same_v<T, reel::detail::Member>)
      if (object.template as<nn::Dropout>()) return true;
    is_model |= OptimizerLike<T>;
    return OptimizerLike<T> || std::is_same_v<T, nn::Dropout>;
  }
};

/// Notes the state of an optimizer: a list that has a Variable for each parameter by the paths of
/// these.
template <class Optimizer>
void collect_optimizer(State& state, std::string_view path, Optimizer& optimizer) {
  const auto& parameters = optimizer.variables();
  reel::detail::visit_fields(optimizer, [&](std::string_view field, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    const std::string name = path_to(path, field);
    if constexpr (std::is_same_v<Member, std::vector<Variable>>) {
      for (std::size_t i = 0; i < member.size(); ++i) {
        std::string of = i < parameters.size() ? state.path_of(parameters[i]) : std::string();
        if (of.empty()) of = std::to_string(i);
        state.add(path_to(name, of), member[i], "optimizer state");
      }
    } else {
      visit_leaves(name, member, [&](std::string_view inner, auto& leaf) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Variable>)
          state.add(inner, leaf, "optimizer state");
      });
    }
  });
}
/// Notes the optimizers in a struct, whose parameters are all known by now.
struct OptimizerCollector {
  State& state;
  void operator()(std::string_view, auto&) const {}
  template <class T>
  bool takes(std::string_view path, T& object) const {
    if constexpr (OptimizerLike<T>)
      collect_optimizer(state, path.empty() ? "optimizer" : path,
                        const_cast<std::remove_const_t<T>&>(object));
    return OptimizerLike<T>;
  }
};

template <class Part>
void collect_part(State& state, Part& part) {
  using T = std::remove_const_t<Part>;
  const std::string number = std::to_string(state.plain_parts);
  state.takes_values |= SavedNumber<T> || std::is_same_v<T, Tensor>;
  if constexpr (SavedNumber<T>) {
    SavedValue value = saved_value(number, part);
    value.is_const = std::is_const_v<Part>;
    state.add_value(std::move(value));
    ++state.plain_parts;
  } else if constexpr (std::is_same_v<T, Tensor>) {
    state.add_tensor(number, part, std::is_const_v<Part>);
    ++state.plain_parts;
  } else {
    static_assert(!PlainField<T> || HasFields<T>,
                  "save() and load() take models, optimizers, Generators, Tensors, std::string, "
                  "numbers, and structs with fields of these");
    const std::size_t values = state.count_values(), tensors = state.count_tensors();
    bool is_model = false;
    visit_leaves("", part, Collector{state, is_model});
    if (is_model) state.set_in_model(values, tensors);
    state.takes_values |= !is_model;
  }
}

template <class... Parts>
State state_of(Caller caller, Parts&... parts) {
  State state;
  (collect_part(state, parts), ...);
  const auto optimizers = [&](auto& part) {
    if constexpr (!SavedNumber<std::remove_cvref_t<decltype(part)>>)
      visit_leaves("", part, OptimizerCollector{state});
  };
  (optimizers(parts), ...);
  check_names(state, caller);
  return state;
}
}  // namespace reel::io::detail
