// SPDX-License-Identifier: BSD-3-Clause
// A whole program's state in one file: models, optimizers, generators and numbers.
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
/// A path, and the line that names it.
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

/// What a tensor of a file is called in the model: a function of its name, or a table of names and
/// beginnings of names (which end with a dot), of which the first that fits counts. A name that no
/// row fits stays. An empty result leaves the tensor out.
///
///     io::load("model.pt", {.rename = {{"encoder.lstm.", "reader."}, {"unused", ""}}}, model);
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
  reel::detail::Function<Name(const Name&)> function_;
  std::vector<std::pair<std::string, std::string>> table_;
};

/// Options of load().
struct LoadOptions {
  /// Whether a name, shape or dtype that differs is an error. If not, what fits is loaded, and the
  /// report lists the rest.
  bool strict = true;
  /// Whether floating tensors are converted to the dtype of their Variable.
  bool convert = false;
  Rename rename = {};
};

/// What a load left out, one line each.
struct REEL_API LoadReport {
  std::vector<std::string> missing;     // the program has it, the file does not
  std::vector<std::string> unexpected;  // the file has it, the program does not
  std::vector<std::string> different;   // of another shape or dtype
  bool complete() const { return missing.empty() && unexpected.empty() && different.empty(); }
  std::string text() const;
};

namespace detail {
REEL_API void save_state(const PathAt& path, const State& state);
REEL_API LoadReport load_state(const PathAt& path, const LoadOptions& options, const State& state);
}  // namespace detail

/// Saves what it is given in one .safetensors file, which replaces an older one as a whole:
///
///     io::save("run.safetensors", model, adam, generator, step);
///
/// - Models: their Variables and Buffers, by path ("layers.0.weight"; a key of a map counts). One
///   that occurs twice is saved once. A generator inside a model belongs to it.
/// - Optimizers: their state, by the paths of the parameters ("optimizer.m.layers.0.weight").
/// - Generators: seed and position.
/// - Numbers, texts, Tensors, and structs of these without Variables, in order and by path.
///
/// Numbers and Tensors beside Variables in a struct are settings of the model: they are not saved.
/// What would have the name of something else is an Error: give two models as std::tie(a, b), or
/// as members of one struct. Throws IoError where the file cannot be written.
template <class... Parts>
void save(PathAt path, const Parts&... parts) try {
  detail::save_state(path, detail::state_of(path.caller, parts...));
} catch (const std::bad_alloc&) {
  fail_memory(path.caller, "save");
}

/// Loads what save() saved, or the tensors of a .safetensors, .npz or PyTorch file, into what it is
/// given. Handles and devices of Variables stay. Names, shapes and dtypes must be the same: one
/// IoError lists all that are missing, unexpected or different. Optimizers, generators and numbers
/// in the file are passed over where the call has none. Nothing has changed after an error.
template <class... Parts>
LoadReport load(PathAt path, const LoadOptions& options, Parts&&... parts) try {
  return detail::load_state(path, options, detail::state_of(path.caller, parts...));
} catch (const std::bad_alloc&) {
  fail_memory(path.caller, "load");
}
template <class Part, class... Parts>
requires(!std::is_same_v<std::remove_cvref_t<Part>, LoadOptions>) LoadReport
    load(PathAt path, Part&& part, Parts&&... parts) {
  return load(std::move(path), LoadOptions(), part, parts...);
}

/// The parameters and buffers of a model, for save_safetensors() and its like: what PyTorch calls a
/// state dict.
template <class Model>
NamedTensors tensors_of(const Model& model) try {
  NamedTensors tensors;
  for (auto& [name, variable] : reel::detail::named_variables(model, true, true, "tensors_of"))
    tensors.emplace_back(name, variable.value());
  return tensors;
} catch (const std::bad_alloc&) {
  fail_memory({}, "tensors_of");
}
template <class Model>
requires HasFields<Model>
void save_safetensors(const Path& path, const Model& model, Caller caller = Caller::here()) {
  save_safetensors(path, tensors_of(model), {}, caller);
}
template <class Model>
requires HasFields<Model>
void load_safetensors(const Path& path, const Model& model, Caller caller = Caller::here()) {
  load({path, caller}, LoadOptions(), model);
}
}  // namespace reel::io
