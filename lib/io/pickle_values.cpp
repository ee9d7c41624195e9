// SPDX-License-Identifier: BSD-3-Clause
// The tensors of a pickle and their names, and the pickle of a state dict.
#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

#include "lib/io/pickle.hpp"

namespace reel::io {
namespace {
constexpr std::size_t most_shown = 100;  // bytes of a text

struct StorageType {
  std::string_view name, dtype;
  std::uint8_t bytes;  // of an element
};
constexpr StorageType storage_types[] = {
    {"BoolStorage", "bool", 1},       {"ByteStorage", "uint8", 1},
    {"CharStorage", "int8", 1},       {"ShortStorage", "int16", 2},
    {"IntStorage", "int32", 4},       {"LongStorage", "int64", 8},
    {"HalfStorage", "float16", 2},    {"BFloat16Storage", "bfloat16", 2},
    {"FloatStorage", "float32", 4},   {"DoubleStorage", "float64", 8},
    {"ComplexFloatStorage", "", 8},   {"ComplexDoubleStorage", "", 16},
    {"QInt8Storage", "", 1},          {"QUInt8Storage", "", 1},
    {"QInt32Storage", "", 4},         {"QUInt4x2Storage", "", 1},
    {"QUInt2x4Storage", "", 1},       {"UntypedStorage", "", 1},
    {"storage.UntypedStorage", "", 1}};

/// Null if PyTorch has no such type.
const StorageType* storage_type(std::string_view global) {
  for (const StorageType& type : storage_types)
    if (global.starts_with("torch.") && global.substr(6) == type.name) return &type;
  return nullptr;
}
}  // namespace

/// ('storage', torch.FloatStorage, key, device, elements). A program may keep other objects apart.
void PickleReader::find_storage() {
  const Id tuple = pop();
  of_kind(tuple, Kind::tuple);
  const std::vector<Id> items = items_of(tuple, most_arguments);
  if (items.size() < 5 || text_of(items[0]) != "storage") return push_object("an object apart");
  if (!storage_type(global_name(items[1]))) fail("a storage of " + escaped(global_name(items[1])));
  text_of(items[2]);
  if (items.size() > 5 && values_[items[5]].kind != Kind::none)
    return push_object("a tensor of a part of a storage");  // PyTorch before 0.4
  const std::int64_t elements = of_kind(items[4], Kind::integer).number;
  if (elements < 0 || elements > INT64_MAX / 64) fail("a storage of no length");
  storages_.push_back({items[2], items[1], elements});
  push({.kind = Kind::storage, .number = static_cast<std::int64_t>(storages_.size() - 1)});
}

void PickleReader::call(Id function, const std::vector<Id>& arguments) {
  if (values_[function].kind == Kind::object) return stack_.push_back(function);
  const std::string name = global_name(function);
  const auto give = [&](bool (*fits)(Kind)) {
    if (arguments.empty() || !fits(values_[arguments[0]].kind)) fail("a value of another kind");
    stack_.push_back(arguments[0]);
  };
  if (name == "collections.OrderedDict") return make_dict(arguments);
  if (name == "collections.defaultdict") return push({.kind = Kind::dict});
  if (name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2")
    return make_tensor(arguments, false);
  if (name == "torch._utils._rebuild_tensor_v3") return make_tensor(arguments, true);
  if (name.starts_with("torch._utils._rebuild_parameter"))
    return give([](Kind kind) { return kind == Kind::tensor || kind == Kind::object; });
  if (name == "torch.Size") return give([](Kind kind) { return kind == Kind::tuple; });
  push_object("an object of ", function);
}

/// OrderedDict([(key, value), ...])
void PickleReader::make_dict(const std::vector<Id>& arguments) {
  Value dict{.kind = Kind::dict};
  if (arguments.size() > 1) fail("arguments of a dict");
  if (arguments.size() == 1) {
    of_kind(arguments[0], Kind::list);
    for (const Id pair : items_of(arguments[0])) {
      const Kind kind = values_[pair].kind;
      if ((kind != Kind::tuple && kind != Kind::list) || values_[pair].size != 2)
        fail("arguments of a dict");
      for (const Id item : items_of(pair)) append(dict, item);
    }
  }
  push(dict);
}

std::vector<std::int64_t> PickleReader::integers(Id id) const {
  of_kind(id, Kind::tuple);
  std::vector<std::int64_t> numbers;
  for (const Id item : items_of(id)) {
    numbers.push_back(of_kind(item, Kind::integer).number);
    if (numbers.back() < 0) fail("a negative length or step");
  }
  return numbers;
}

/// Refuses a tensor outside of its storage, and one that repeats elements of a storage so often
/// that it would take more memory than a deflated file of this size.
void PickleReader::check_extent(const TorchStorage& storage, std::int64_t offset,
                                const std::vector<std::int64_t>& shape,
                                const std::vector<std::int64_t>& strides) const {
  const std::optional<std::uint64_t> bytes = bytes_of(shape, storage.dtype->bytes);
  if (!bytes || *bytes / most_ratio > input_.size())
    fail("a tensor of more bytes than this file can have");
  if (*bytes == 0) return;
  __int128 end = offset;
  for (std::size_t i = 0; i < shape.size(); ++i)
    end += static_cast<__int128>(shape[i] - 1) * strides[i];
  if (end >= storage.elements) fail("a tensor outside of its storage");
}

TorchStorage PickleReader::storage_of(const StorageNote& note, const FileDType* dtype) const {
  const StorageType& type = *storage_type(global_name(note.type));
  if (!dtype) dtype = file_dtype(type.dtype);
  const std::int64_t bytes = note.elements * type.bytes;
  return {std::string(text_of(note.key)), dtype, bytes / (dtype ? dtype->bytes : type.bytes),
          bytes};
}
std::vector<TorchStorage> PickleReader::storages() const {
  std::vector<TorchStorage> storages;
  for (const StorageNote& note : storages_) storages.push_back(storage_of(note));
  return storages;
}
std::vector<std::string> PickleReader::texts() const {
  of_kind(stack_[0], Kind::list);
  std::vector<std::string> texts;
  for (const Id item : items_of(stack_[0])) texts.emplace_back(text_of(item));
  return texts;
}

/// (storage, offset, shape, strides, requires_grad, hooks, metadata). With a dtype, it is in front
/// of the metadata, and the storage has bytes.
void PickleReader::make_tensor(const std::vector<Id>& arguments, bool has_dtype) {
  const std::size_t metadata = has_dtype ? 7 : 6;
  if (arguments.size() < 4) fail("a tensor of less than four arguments");
  if (has_dtype && arguments.size() < metadata) fail("a tensor without a dtype");
  if (values_[arguments[0]].kind == Kind::object) return stack_.push_back(arguments[0]);
  const auto place = static_cast<std::uint32_t>(of_kind(arguments[0], Kind::storage).number);
  const Id type = has_dtype ? arguments[6] : storages_[place].type;
  const std::string type_name = global_name(type);
  const FileDType* const dtype = !has_dtype ? file_dtype(storage_type(type_name)->dtype)
                                 : type_name.starts_with("torch.")
                                     ? file_dtype(std::string_view(type_name).substr(6))
                                     : nullptr;
  const TorchStorage storage = storage_of(storages_[place], dtype);
  const std::int64_t offset = of_kind(arguments[1], Kind::integer).number;
  const std::uint32_t rank = of_kind(arguments[2], Kind::tuple).size;
  if (of_kind(arguments[3], Kind::tuple).size != rank || offset < 0)
    fail("a tensor of other strides than lengths");
  if (!dtype) return push_object("a tensor of ", type);
  if (rank > Shape::max_rank) return push_object("a tensor of more than 8 axes");
  const std::vector<std::int64_t> shape = integers(arguments[2]), strides = integers(arguments[3]);
  check_extent(storage, offset, shape, strides);
  if (arguments.size() > metadata && values_[arguments[metadata]].size > 0)
    return push_object("a tensor that is conjugated or negated when it is read");
  tensors_.push_back({dtype, place, arguments[2], arguments[3], offset});
  push({.kind = Kind::tensor, .number = static_cast<std::int64_t>(tensors_.size() - 1)});
}

/// Lists the tensors and objects inside of a value. A container that has some lists its other
/// values too; the container around it lists one that has none.
PickleReader::Inside PickleReader::visit(Id id, int depth) {
  if (depth > most_depth) fail("more than 64 levels");
  if (most_visits_-- == 0) fail("values that are there again and again");
  const Value value = values_[id];
  if (value.kind == Kind::none) return Inside::nothing;
  if (value.kind == Kind::tensor) {
    const TensorNote& x = tensors_[static_cast<std::size_t>(value.number)];
    named_.emplace_back(path_text(), TorchTensor{storage_of(storages_[x.storage], x.dtype),
                                                 x.offset, integers(x.shape), integers(x.strides)});
    return Inside::listed;
  }
  if (value.kind == Kind::object || value.kind == Kind::storage || value.kind == Kind::global) {
    leave(id);
    return Inside::listed;
  }
  if (!is_container(value.kind)) return Inside::plain;
  const std::vector<Id> items = items_of(id);
  const std::size_t stride = value.kind == Kind::dict ? 2 : 1, count = items.size() / stride;
  std::vector<Inside> found;
  Inside most = Inside::nothing;
  for (std::size_t i = 0; i < count; ++i) {
    path_.push_back({value.kind == Kind::dict ? items[2 * i] : none, static_cast<Id>(i)});
    found.push_back(visit(items[i * stride + stride - 1], depth + 1));
    path_.pop_back();
    most = std::max(most, found.back());
  }
  for (std::size_t i = 0; i < count && most == Inside::listed; ++i) {
    if (found[i] != Inside::plain) continue;
    path_.push_back({value.kind == Kind::dict ? items[2 * i] : none, static_cast<Id>(i)});
    leave(items[i * stride + stride - 1]);
    path_.pop_back();
  }
  return most;
}

/// Names are at most a few times as long as the pickle, which may refer to one text again and
/// again.
void PickleReader::charge(std::size_t bytes) {
  if (bytes > most_name_bytes_) fail("names that are there again and again");
  most_name_bytes_ -= bytes;
}
void PickleReader::leave(Id id) {
  std::string path = path_text(), reason = reason_of(id);
  charge(reason.size());
  left_.emplace_back(std::move(path), std::move(reason));
}
/// Keys and places, with dots between them. The place stands for a key that is neither a text nor
/// an integer.
std::string PickleReader::path_text() {
  std::string path;
  for (const Step& step : path_) {
    if (!path.empty()) path += '.';
    const Kind kind = step.key == none ? Kind::none : values_[step.key].kind;
    if (kind == Kind::text)
      path += text_of(step.key);
    else
      path += std::to_string(kind == Kind::integer ? values_[step.key].number : step.place);
    if (path.size() > most_name_bytes_) charge(path.size());
  }
  charge(path.size() + 64);
  return path;
}
std::string PickleReader::object_text(const ObjectNote& object) const {
  return object.reason + (object.global == none ? "" : escaped(global_name(object.global)));
}
std::string PickleReader::reason_of(Id id) const {
  const Value& value = values_[id];
  char real[32];
  switch (value.kind) {
    case Kind::boolean:
      return value.number ? "bool True" : "bool False";
    case Kind::integer:
      return "int " + std::to_string(value.number);
    case Kind::real:
      return "float " +
             std::string(
                 real,
                 std::to_chars(real, std::end(real), std::bit_cast<double>(value.number)).ptr);
    case Kind::text:
      return "text \"" + escaped(text_of(id).substr(0, most_shown)) + "\"";
    case Kind::global:
      return "the name " + escaped(global_name(id));
    case Kind::object:
      return object_text(objects_[static_cast<std::size_t>(value.number)]);
    case Kind::storage:
      return "a storage by itself";
    case Kind::dict:
      return "a dict of numbers and texts";
    default:
      return "a list of numbers and texts";
  }
}

namespace {
void append_number(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
}
void append_integer(std::string& text, std::int64_t value) {
  text += "\x8a\x08";
  append_number(text, static_cast<std::uint64_t>(value), 8);
}
void append_text(std::string& text, std::string_view value) {
  text += 'X';
  append_number(text, value.size(), 4);
  text += value;
}
}  // namespace

std::string state_dict_pickle(const NamedTensors& tensors) {
  std::string text = "\x80\x02}(";
  std::int64_t key = 0;
  for (const auto& [name, x] : tensors) {
    append_text(text, name);
    text += "ctorch._utils\n_rebuild_tensor_v2\n((";
    append_text(text, "storage");
    const auto* const type = std::find_if(
        std::begin(storage_types), std::end(storage_types),
        [dtype = x.dtype()](const StorageType& known) { return known.dtype == name_of(dtype); });
    text += "ctorch\n" + std::string(type->name) + "\n";
    append_text(text, std::to_string(key++));
    append_text(text, "cpu");
    append_integer(text, x.size());
    text += "tQK";
    text += '\0';  // the offset
    text += '(';
    for (const std::int64_t length : x.shape()) append_integer(text, length);
    text += "t(";
    for (std::size_t i = 0; i < x.rank(); ++i) {
      std::int64_t step = 1;
      for (std::size_t k = i + 1; k < x.rank(); ++k)
        step *= std::max<std::int64_t>(x.shape().data()[k], 1);
      append_integer(text, step);
    }
    text +=
        "t\x89"
        "ccollections\nOrderedDict\n)RtR";
  }
  return text + "u.";
}
}  // namespace reel::io
