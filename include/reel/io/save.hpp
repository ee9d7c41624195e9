// SPDX-License-Identifier: BSD-3-Clause
// Saves the state of a program in one file: models, optimizers, generators and numbers.
#pragma once  // defined in lib/io
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reel/fields.hpp>
#include <reel/function.hpp>
#include <reel/io/formats.hpp>
#include <reel/io/state.hpp>

namespace reel::io {
class NewNames;

/// A path, and the line of the call.
struct PathAt {
  Path path;
  Caller caller;
  template <class P>
  requires std::is_convertible_v<const P&, Path> PathAt(const P& file, Caller at = Caller::here())
  try : path(file), caller(at) {
  } catch (const std::bad_alloc&) {
    fail_memory(at, "path");
  }
};

/// Maps the names of tensors in a file to names in the model. It is a function or a table. Each row
/// of a table maps a name to a name, or a prefix that ends with a dot to another prefix. The first
/// row that fits is used; if none fits, the name is kept. A tensor whose new name is empty is
/// skipped. A load throws IoError for a row that it uses for no name of the file.
///
///     io::load("x.safetensors", {.rename = {{"encoder.lstm.", "reader."}, {"unused", ""}}},
///     model);
class REEL_API Rename {
 public:
  using Name = std::string;
  Rename() = default;
  template <class F>
  requires std::is_invocable_r_v<std::string, F&, const std::string&> Rename(F f)
      : function_(std::move(f)) {}
  Rename(std::initializer_list<std::pair<std::string_view, std::string_view>> table);
  std::string operator()(const std::string& name) const;

 private:
  friend class NewNames;
  reel::detail::Function<Name(const Name&)> function_;
  std::vector<std::pair<std::string, std::string>> table_;
};

/// Options of load().
struct LoadOptions {
  /// Whether a different name, shape or dtype is an error. If not, the tensors that fit are loaded,
  /// and the report lists the others.
  bool strict = true;
  /// Whether floating tensors are converted to the dtype of their Variable.
  bool convert = false;
  /// The names of the file to load, as in ReadOptions; if there are none, all.
  std::vector<std::string> names = {};
  Rename rename = {};
  /// For load_torch(): the paths of Linear layers here whose input is a flattened image, and the
  /// image's shape in PyTorch, {channels, height, width}. Their rows get the order of this library,
  /// which has channels last.
  std::vector<std::pair<std::string, Shape>> flattened = {};
};

/// The differences between the file and the arguments, one line for each tensor or value. `left`
/// lists what .names and .rename do not skip and no Tensor can hold, such as texts. State
/// that load() skips, because the call has no argument of its kind, is not listed.
struct REEL_API LoadReport {
  std::vector<std::string> missing;     // the program has it, the file does not
  std::vector<std::string> unexpected;  // the file has it, the program does not
  std::vector<std::string> different;   // the shape or dtype differs
  std::vector<std::string> left;        // no Tensor can hold what the file has
  std::vector<std::string> widened;     // loaded from a dtype that reel has not, such as uint16
  /// Of load_torch(): weights of Linear layers that may follow a flattened image, and are not in
  /// .flattened. If they do, they give wrong results. complete() does not count them.
  std::vector<std::string> unordered;
  bool complete() const {
    return missing.empty() && unexpected.empty() && different.empty() && left.empty();
  }
  std::string text() const;
};

namespace detail {
REEL_API void save_state(const PathAt& path, const State& state);
REEL_API LoadReport load_state(const PathAt& path, const LoadOptions& options, const State& state);
}  // namespace detail

/// Saves its arguments in one .safetensors file. An existing file is replaced atomically.
///
///     io::save("run.safetensors", model, adam, generator, step);
///
/// - Models: their Variables, Buffers and generators, by path ("layers.0.weight"). A path contains
///   the keys of maps. A Variable that occurs twice is saved once.
/// - Optimizers: their state, by the paths of the parameters ("optimizer.m.layers.0.weight").
/// - Generators: the seed and the position in the stream. A member is named by its path, an
///   argument by its position among all generators of the call.
/// - Numbers, strings, Shapes and Tensors: by their position among these arguments; those that a
///   struct or a model lists: by path.
///
/// The probability of a Dropout is a setting: it is not saved. A listed member of a type that no
/// file can hold, such as long double, does not compile.
/// Throws Error if two saved values get the same name: pass two models as std::tie(a, b), or as
/// members of one struct. Throws IoError if the file cannot be written, or if the path ends with
/// .npy, .npz, .pt or .pth.
template <class... Parts>
void save(PathAt path, const Parts&... parts) try {
  (reel::detail::require_fields("", parts), ...);
  detail::save_state(path, detail::state_of(path.caller, parts...));
} catch (const std::bad_alloc&) {
  fail_memory(path.caller, "save");
}

/// Loads a file of save(), or the tensors of a .safetensors or .npz file, into its arguments.
/// Handles of Variables stay valid, and values stay on their devices. The names, shapes and dtypes
/// of the file and of the arguments must be the same. If they are not, one IoError lists what is
/// missing, unexpected or different, and nothing has changed. A plain Tensor takes the shape and
/// dtype of the file. load() skips three kinds of state in the file:
/// - generators, if no argument is or contains one;
/// - optimizers, schedules, weight averages and gradient sums, if no argument is or contains one;
/// - numbers, strings, Tensors and structs of these that were arguments of save(), if no argument
///   is one.
///
/// Returns a report. What is missing, unexpected, different or left is empty unless options.strict
/// is false. Throws IoError for a file of PyTorch, whose weights have other layouts: load_torch()
/// reads it. Throws Error if a number, string or Tensor of a const object would change.
template <class... Parts>
LoadReport load(PathAt path, const LoadOptions& options, Parts&&... parts) try {
  (reel::detail::require_fields("", parts), ...);
  return detail::load_state(path, options, detail::state_of(path.caller, parts...));
} catch (const std::bad_alloc&) {
  fail_memory(path.caller, "load");
}
template <class Part, class... Parts>
requires(!std::is_same_v<std::remove_cvref_t<Part>, LoadOptions>) LoadReport
    load(PathAt path, Part&& part, Parts&&... parts) {
  (reel::detail::require_fields("", part), ..., reel::detail::require_fields("", parts));
  return load(std::move(path), LoadOptions(), part, parts...);
}

/// The parameters and buffers of a model, for save_safetensors() and save_npz(). PyTorch calls this
/// a state dict.
template <class Model>
NamedTensors tensors_of(const Model& model) try {
  reel::detail::require_fields("", model);
  NamedTensors tensors;
  for (auto& [name, variable] : reel::detail::named_variables(model, true, true, "tensors_of"))
    tensors.emplace_back(name, variable.value());
  return tensors;
} catch (const std::bad_alloc&) {
  fail_memory({}, "tensors_of");
}
template <class Model>
requires(!std::is_convertible_v<const Model&, NamedTensors>) void save_safetensors(
    const Path& path, const Model& model, Caller caller = Caller::here()) {
  reel::detail::require_fields("", model);
  save_safetensors(path, tensors_of(model), {}, caller);
}
template <class Model>
void load_safetensors(const Path& path, const Model& model, Caller caller = Caller::here()) {
  reel::detail::require_fields("", model);
  load({path, caller}, LoadOptions(), model);
}
}  // namespace reel::io
