// SPDX-License-Identifier: BSD-3-Clause
// save() and load(). Variables and Tensors are the tensors of a .safetensors file, all else is text
// in its metadata: "reel.value.0" is "int 17", "reel.generator.0" is seed and position.
// "reel.optimizer" and "reel.values" list the tensors of optimizers and those that are no
// Variables; "reel.model" lists the numbers, texts and such tensors inside models. "reel.parts" has
// lines such as "part 1 of 2: weight".
#include <reel/io/save.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "lib/body/portion.hpp"
#include "lib/body/text.hpp"
#include "lib/io/archive.hpp"
#include "lib/io/elements.hpp"
#include "lib/io/load.hpp"
#include "lib/io/names.hpp"
#include "lib/io/state.hpp"
#include "lib/io/values.hpp"

namespace reel::io {
Rename::Rename(std::initializer_list<std::pair<std::string_view, std::string_view>> table) try {
  for (const auto& [from, to] : table) table_.emplace_back(from, to);
} catch (const std::bad_alloc&) {
  fail_memory({}, "Rename");
}

std::string Rename::operator()(const std::string& name) const {
  if (function_) return function_(name);
  for (const auto& [from, to] : table_)
    if (fits_row(name, from)) return name == from ? to : to + name.substr(from.size());
  return name;
}

std::string LoadReport::text() const {
  std::string text;
  const auto add = [&](std::string_view kind, const std::vector<std::string>& lines) {
    for (const std::string& line : lines)
      text.append(text.empty() ? "" : "\n").append(kind).append(": ").append(line);
  };
  add("missing", missing);
  add("unexpected", unexpected);
  add("different", different);
  add("left", left);
  add("widened", widened);
  add("perhaps in PyTorch's order of channels, see .flattened", unordered);
  return text;
}

namespace detail {
namespace {
constexpr std::string_view value_key = "reel.value.", generator_key = "reel.generator.",
                           optimizer_key = "reel.optimizer", values_key = "reel.values",
                           model_key = "reel.model", portions_key = "reel.parts",
                           values_prefix = "values.", whole = "a whole";

/// "part 1 of 2"
std::string portion_text(const Variable& variable) {
  const Portion portion = portion_of(variable);
  return portion.count == 1
             ? std::string(whole)
             : "part " + std::to_string(portion.index + 1) + " of " + std::to_string(portion.count);
}
std::string type_text(const Shape& shape, DType dtype) {
  return to_text(shape) + " " + std::string(name_of(dtype));
}
std::string type_text(const Archive::Entry& entry) {
  const std::string text = type_text(entry.shape, entry.dtype);
  return entry.file_dtype.empty() ? text : text + " from " + std::string(entry.file_dtype);
}

/// The bytes of an integer, because a number of the file may be too large for it.
std::string size_text(const SavedValue& value) {
  using Kind = SavedValue::Kind;
  const bool is_integer = value.kind == Kind::integer || value.kind == Kind::natural;
  return is_integer ? " of " + std::to_string(value.bytes) + (value.bytes == 1 ? " byte" : " bytes")
                    : "";
}

/// Finds the things of a program in a file. It changes the program only after everything was read.
class Loader {
 public:
  Loader(const Archive& archive, const PathAt& path, const LoadOptions& options, const State& state,
         LoadScope scope)
      : path_(path), options_(options), state_(state), scope_(scope), archive_(archive) {
    name_tensors();
  }

  LoadReport load() {
    match_variables();
    match_tensors();
    list_unexpected();
    match_generators();
    match_values();
    if (options_.strict && !report_.complete()) refuse();
    store();
    return std::move(report_);
  }

 private:
  struct Found {
    std::size_t entry;
    bool used = false;
  };

  void name_tensors() {
    NewNames names(options_.names, &options_.rename);
    for (std::size_t i = 0; i < archive_.entries().size(); ++i) {
      const std::optional<std::string> name = names(archive_.entries()[i].name);
      if (name && !found_.emplace(*name, Found{i}).second)
        fail_file(path_.caller, scope_.op, path_.path, "each name once after .rename",
                  "\"" + escaped(*name) + "\" twice");
    }
    for (const auto& [old, reason] : archive_.left())
      if (const std::optional<std::string> name = names(old)) {
        splits_model_ |= is_in_model(*name);
        report_.left.push_back(escaped(*name) + ": " + reason);
      }
    names.check_used(path_.path, scope_.op, path_.caller);
    for (const auto& [key, text] : archive_.metadata()) {
      if (key == optimizer_key) optimizer_names_ = lines_of(text);
      if (key == values_key) value_names_ = lines_of(text);
      if (key == model_key) model_names_ = lines_of(text);
      if (key != portions_key) continue;
      for (const std::string& line : lines_of(text))
        if (const std::size_t colon = line.find(": "); colon != line.npos)
          portions_.emplace(line.substr(colon + 2), line.substr(0, colon));
    }
    has_numbers_ = archive_.has_format("reel");
    passes_over_values_ = !scope_.whole && !state_.takes_values;
  }

  Found* find(const std::string& name) {
    const auto found = found_.find(name);
    if (found == found_.end()) return nullptr;
    found->second.used = true;
    return &found->second;
  }

  void match_variables() {
    for (const SavedVariable& known : state_.lists->variables) {
      const Shape& shape = known.variable.shape();
      const DType dtype = known.variable.dtype();
      const std::string line = std::string(known.role) + " " + escaped(known.name) + ": ";
      const Found* const found = find(known.name);
      if (!found) {
        splits_model_ = true;
        report_.missing.push_back(line + type_text(shape, dtype));
        continue;
      }
      const Archive::Entry& entry = archive_.entries()[found->entry];
      const bool converts = options_.convert && can_convert(entry.dtype) && can_convert(dtype);
      if (!(entry.shape == shape) || (entry.dtype != dtype && !converts)) {
        splits_model_ = true;
        report_.different.push_back(line + "expected " + type_text(shape, dtype) + ", got " +
                                    type_text(entry));
        continue;
      }
      const std::string own = portion_text(known.variable), its = portion_of_entry(entry.name);
      if (has_numbers_ && own != its) {
        splits_model_ = true;
        report_.different.push_back(line + "expected " + own + ", got " + its);
        continue;
      }
      variables_.push_back(known.variable);
      entries_.push_back(found->entry);
      if (!entry.file_dtype.empty()) report_.widened.push_back(line + type_text(entry));
    }
  }
  /// Which part of a Variable the file has.
  std::string portion_of_entry(const std::string& name) const {
    const auto found = portions_.find(name);
    return found == portions_.end() ? std::string(whole) : found->second;
  }
  bool is_same(const Tensor& x, const Tensor& y) const {
    return x.defined() && x.dtype() == y.dtype() && x.shape() == y.shape() &&
           HostElements(x, path_.caller).text() == HostElements(y, path_.caller).text();
  }
  static bool can_convert(DType dtype) { return is_floating(dtype); }

  void match_tensors() {
    for (const SavedTensor& known : state_.lists->tensors) {
      if (const Found* const found = find(std::string(values_prefix) + known.name)) {
        if (!known.is_const)
          tensors_.emplace_back(known.place, found->entry);
        else if (!is_same(*known.place, archive_.read(found->entry)))
          refuse_const(known.name);
      } else if (!known.in_model || (has_numbers_ && known.place->defined()))
        report_.missing.push_back("tensor " + escaped(known.name));
    }
  }

  /// Entries of a kind that the call does not have are not reported as unexpected.
  void list_unexpected() {
    const bool has_optimizer =
        std::any_of(state_.lists->variables.begin(), state_.lists->variables.end(),
                    [](const SavedVariable& known) { return known.role[0] == 'o'; });
    for (const auto& [name, found] : found_) {
      if (found.used) continue;
      const Archive::Entry& entry = archive_.entries()[found.entry];
      if (optimizer_names_.contains(entry.name) && !has_optimizer && !scope_.whole) continue;
      if (value_names_.contains(entry.name) && passes_over(entry.name)) continue;
      splits_model_ |= is_in_model(name);
      report_.unexpected.push_back(escaped(name) + ": " + type_text(entry));
    }
  }

  /// Whether a name is inside a member of the model that has Variables.
  bool is_in_model(const std::string& name) const {
    for (const SavedVariable& known : state_.lists->variables) {
      if (known.role[0] == 'o') continue;
      const std::size_t dot = known.name.find('.');
      if (dot == known.name.npos ? name.find('.') == name.npos
                                 : name.starts_with(known.name.substr(0, dot + 1)))
        return true;
    }
    return false;
  }

  /// Whether this call skips a number, text or Tensor of the file.
  bool passes_over(const std::string& name) const {
    return passes_over_values_ && !model_names_.contains(name);
  }

  /// The texts whose keys begin with this prefix, by the rest of the key.
  std::map<std::string, std::string> texts_of(std::string_view prefix) const {
    std::map<std::string, std::string> texts;
    for (const auto& [key, text] : archive_.metadata())
      if (key.starts_with(prefix)) texts.emplace(key.substr(prefix.size()), text);
    return texts;
  }

  void match_generators() {
    auto texts = texts_of(generator_key);
    if (state_.lists->generators.empty() && !scope_.whole) return;
    for (const auto& [name, generator] : state_.lists->generators) {
      const auto text = texts.find(name);
      if (text == texts.end()) {
        report_.missing.push_back("generator " + escaped(name));
        continue;
      }
      const std::optional<Stream> stream = stream_of(text->second);
      if (!stream)
        fail_file(path_.caller, scope_.op, path_.path, "seed and position of a generator",
                  "\"" + escaped(text->second) + "\"");
      streams_.emplace_back(generator, *stream);
      texts.erase(text);
    }
    for (const auto& [name, text] : texts)
      report_.unexpected.push_back("generator " + escaped(name));
  }

  void match_values() {
    auto texts = texts_of(value_key);
    for (const SavedValue& known : state_.lists->values) {
      const auto text = texts.find(known.name);
      if (text == texts.end()) {
        if (known.in_model && !has_numbers_) continue;
        report_.missing.push_back("value " + escaped(known.name) + ": " + kind_text(known));
        continue;
      }
      std::optional<NewValue> value = parsed(known, text->second);
      if (!value)
        report_.different.push_back("value " + escaped(known.name) + ": expected " +
                                    kind_text(known) + size_text(known) + ", got " +
                                    escaped(text->second.substr(0, 100)));
      else if (!known.is_const)
        values_.push_back(std::move(*value));
      else if (text_of(known) != text->second)
        refuse_const(known.name);
      texts.erase(text);
    }
    texts.erase("checkpoint.step");  // only Checkpoints reads it
    for (const auto& [name, text] : texts)
      if (!passes_over(name))
        report_.unexpected.push_back("value " + escaped(name) + ": " +
                                     escaped(text.substr(0, 100)));
  }

  [[noreturn]] void refuse_const(const std::string& name) const {
    fail<Error>(path_.caller, scope_.op, escaped(name), "a value that may change",
                "one of a const object", "Load into an object that is not const.");
  }
  [[noreturn]] void refuse() const {
    const auto count = [](const std::vector<std::string>& lines, const char* what) {
      return lines.empty() ? std::string() : std::to_string(lines.size()) + what;
    };
    std::string counts = count(report_.missing, " missing, ") +
                         count(report_.unexpected, " unexpected, ") +
                         count(report_.different, " different, ") + count(report_.left, " left, ");
    counts.resize(counts.size() - 2);
    std::string lines = report_.text();
    for (std::size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 3)
      lines.replace(at, 1, "\n  ");
    const std::size_t fit = entries_.size() + tensors_.size() + streams_.size() + values_.size();
    if (fit > (scope_.whole ? 1 : 0)) {  // a checkpoint of the step alone cannot resume a run
      if (scope_.whole) lines += "\n  Call it with the arguments of save().";
      if (!splits_model_) lines += "\n  {.strict = false} loads what fits.";
    } else if (!report_.missing.empty() && !report_.unexpected.empty()) {
      lines +=
          "\n  Nothing fits. {.rename = {{\"old.\", \"new.\"}}} maps names of the file to names in "
          "the model.";
    }
    fail_file(path_.caller, scope_.op, path_.path, "what the program has, by name, shape and dtype",
              counts, lines);
  }

  /// Exchanges the values, after everything that can fail.
  void store() {
    std::vector<Tensor> loaded, placed_tensors;
    loaded.reserve(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Tensor read = archive_.read(entries_[i]).to(variables_[i].dtype(), path_.caller);
      loaded.push_back(read.to(variables_[i].device(), path_.caller));
    }
    for (const auto& [place, entry] : tensors_) {
      const Tensor read = archive_.read(entry);
      placed_tensors.push_back(place->defined() ? read.to(place->device(), path_.caller)
                                                : on_current_device(read, path_.caller));
    }
    reel::detail::replace_values(variables_, std::move(loaded));
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      *tensors_[i].first = std::move(placed_tensors[i]);
    for (auto& [generator, stream] : streams_) generator.restore(stream.seed, stream.position);
    for (NewValue& value : values_) put(value);
  }

  const PathAt& path_;
  const LoadOptions& options_;
  const State& state_;
  const LoadScope scope_;
  const Archive& archive_;
  std::map<std::string, Found> found_;  // by their names in the model
  std::set<std::string> optimizer_names_, value_names_, model_names_;
  std::map<std::string, std::string> portions_;  // "part 1 of 2" of a Variable
  bool has_numbers_ = false;                     // files of other programs have none
  bool passes_over_values_ = false;
  /// Whether a part of the model would keep its values, so that it would compute other numbers than
  /// the model that was saved.
  bool splits_model_ = false;
  LoadReport report_;
  std::vector<Variable> variables_;
  std::vector<std::size_t> entries_;
  std::vector<std::pair<Tensor*, std::size_t>> tensors_;
  std::vector<std::pair<Generator, Stream>> streams_;
  std::vector<NewValue> values_;
};

void add_line(std::string& lines, const std::string& line) {
  lines.append(lines.empty() ? "" : "\n").append(line);
}
}  // namespace

Contents contents_of(const State& state) {
  NamedTensors tensors;
  std::string optimizer, values, model, portions;
  for (const SavedVariable& known : state.lists->variables) {
    tensors.emplace_back(known.name, known.variable.value());
    if (known.role[0] == 'o') add_line(optimizer, known.name);
    if (portion_of(known.variable).count > 1)
      add_line(portions, portion_text(known.variable) + ": " + known.name);
  }
  for (const SavedTensor& known : state.lists->tensors) {
    if (known.in_model && !known.place->defined()) continue;  // nothing yet
    tensors.emplace_back(std::string(values_prefix) + known.name, *known.place);
    add_line(values, tensors.back().first);
    if (known.in_model) add_line(model, tensors.back().first);
  }
  for (const SavedValue& value : state.lists->values)
    if (value.in_model) add_line(model, value.name);
  Metadata metadata = {{"format", "reel"}};
  if (!optimizer.empty()) metadata.emplace_back(optimizer_key, optimizer);
  if (!values.empty()) metadata.emplace_back(values_key, values);
  if (!model.empty()) metadata.emplace_back(model_key, model);
  if (!portions.empty()) metadata.emplace_back(portions_key, portions);
  for (const auto& [name, generator] : state.lists->generators)
    metadata.emplace_back(std::string(generator_key) + name,
                          text_of(Stream{generator.seed(), generator.position()}));
  for (const SavedValue& value : state.lists->values)
    metadata.emplace_back(std::string(value_key) + value.name, text_of(value));
  return {std::move(tensors), std::move(metadata)};
}

void save_state(const PathAt& path, const State& state) {
  for (const std::string_view ending : {".npy", ".npz", ".pt", ".pth"})
    if (path.path.ends_with(ending))
      fail_file(path.caller, "save", path.path,
                "a name that does not end in that of another format", ending,
                "save() writes the format .safetensors. io::save_npy, io::save_npz and "
                "io::save_torch write the others.");
  const Contents contents = contents_of(state);
  write_safetensors(path.path, contents.tensors, contents.metadata, "save", path.caller);
}

LoadReport load_state(const PathAt& path, const LoadOptions& options, const State& state) {
  if (path.path.empty())
    fail_file(path.caller, "load", path.path, "a path", "an empty one",
              "latest() of a folder without checkpoints is empty.");
  const auto archive = open_archive(path.path, "load", path.caller);
  if (archive->has_format("pt"))
    fail_file(path.caller, "load", path.path, "weights in the layouts of reel",
              "a file of PyTorch, whose layouts differ", "Read it by io::load_torch.");
  return load_from(*archive, path, options, state);
}

LoadReport load_from(const Archive& archive, const PathAt& path, const LoadOptions& options,
                     const State& state, LoadScope scope) {
  if (!options.flattened.empty())
    fail<Error>(path.caller, scope.op, "options.flattened", "no layers: it is for load_torch()",
                "\"" + escaped(options.flattened[0].first) + "\"");
  if (state.found() == 0 && state.lists->values.empty() && state.lists->tensors.empty())
    fail<Error>(path.caller, "load", "parts", "something to load into", "parts that hold nothing",
                "A list keeps the length that it has: give it that of the file before.");
  return Loader(archive, path, options, state, scope).load();
}
}  // namespace detail
}  // namespace reel::io
