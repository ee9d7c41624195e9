// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/pickle.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

#include "lib/io/json.hpp"

namespace reel::io {
namespace {
constexpr int most_depth = 64;
constexpr std::size_t most_shown = 100;     // bytes of a name or text
constexpr std::uint32_t none = UINT32_MAX;  // of values

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

PickleReader::PickleReader(std::string_view text, const Input& input)
    : text_(text),
      rest_(text),
      input_(input),
      most_visits_(text.size() + 1),  // a named value takes at least one byte
      most_name_bytes_(8 * text.size() + (1 << 16)) {}

void PickleReader::fail(std::string_view got) const {
  input_.fail("a pickle of tensors, dicts, lists, numbers and texts", got);
}

std::size_t PickleReader::read() {
  const std::string_view start = take(2);
  if (start[0] != '\x80' || start[1] < 2 || start[1] > 5) fail("another protocol than 2 to 5");
  while (true) {
    const auto op = static_cast<unsigned char>(take(1)[0]);
    if (op == '.') break;
    run(op);
  }
  if (stack_.size() != 1 || !marks_.empty()) fail("more than one value");
  if (visit(stack_[0], 0) == Inside::plain && left_.empty()) leave(stack_[0]);
  return text_.size() - rest_.size();
}

std::string_view PickleReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) fail("the end of it");
  const std::string_view text = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return text;
}
std::uint64_t PickleReader::number(std::size_t bytes) {
  const std::string_view text = take(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[i]);
  return value;
}
std::string_view PickleReader::line() {
  const std::size_t end = rest_.find('\n');
  if (end == rest_.npos) fail("the end of it");
  return take(end + 1).substr(0, end);
}

void PickleReader::push(Value value) {
  stack_.push_back(static_cast<Id>(values_.size()));
  values_.push_back(value);
}
PickleReader::Id PickleReader::pop() {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) fail("an empty stack");
  const Id id = stack_.back();
  stack_.pop_back();
  return id;
}
std::vector<PickleReader::Id> PickleReader::pop(std::size_t count) {
  std::vector<Id> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  return items;
}
/// How many values are above the last mark, which is removed.
std::size_t PickleReader::pop_mark() {
  if (marks_.empty()) fail("no mark");
  const std::size_t count = stack_.size() - marks_.back();
  marks_.pop_back();
  return count;
}
PickleReader::Value& PickleReader::top(bool (*fits)(Kind)) {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size()) ||
      !fits(values_[stack_.back()].kind))
    fail("a value of another kind");
  return values_[stack_.back()];
}
const PickleReader::Value& PickleReader::of_kind(Id id, Kind kind) const {
  if (values_[id].kind != kind) fail("a value of another kind");
  return values_[id];
}
std::string_view PickleReader::text_of(Id id) const {
  const Value& text = of_kind(id, Kind::text);
  return text_.substr(static_cast<std::size_t>(text.number), text.size);
}
const std::string& PickleReader::global_name(Id id) const {
  return globals_[static_cast<std::size_t>(of_kind(id, Kind::global).number)];
}

void PickleReader::append(Value& container, Id item) {
  const auto cell = static_cast<std::uint32_t>(cells_.size());
  cells_.push_back({item, 0});
  // The lower half of the number is the first cell, the upper half the last one.
  const auto bits = static_cast<std::uint64_t>(container.number);
  if (container.size > 0) cells_[bits >> 32].next = cell;
  const std::uint64_t first = container.size > 0 ? bits & 0xffffffff : cell;
  container.number = static_cast<std::int64_t>(std::uint64_t{cell} << 32 | first);
  ++container.size;
  const int depth = std::max<int>(container.depth, values_[item].depth + 1);
  if (depth > most_depth) fail("more than 64 levels");
  container.depth = static_cast<std::uint8_t>(depth);
}
std::vector<PickleReader::Id> PickleReader::items_of(Id id) const {
  std::vector<Id> items;
  auto cell = static_cast<std::uint32_t>(values_[id].number & 0xffffffff);
  for (std::uint32_t i = 0; i < values_[id].size; ++i, cell = cells_[cell].next)
    items.push_back(cells_[cell].item);
  return items;
}

void PickleReader::push_text(std::uint64_t bytes) {
  const std::string_view text = take(bytes);
  if (!is_utf8(text)) return push_object("a text that is no UTF-8");
  push({.kind = Kind::text,
        .size = static_cast<std::uint32_t>(bytes),
        .number = text.data() - text_.data()});
}
void PickleReader::push_long(std::uint64_t bytes) {
  if (bytes > 8) {
    take(bytes);
    return push_object("an integer of more than 64 bits");
  }
  const int unused = 64 - 8 * static_cast<int>(bytes);
  const std::uint64_t bits = number(bytes);
  push_integer(bytes ? static_cast<std::int64_t>(bits << unused) >> unused : 0);
}
void PickleReader::push_tuple(std::size_t count) {
  Value tuple{.kind = Kind::tuple};
  for (const Id item : pop(count)) append(tuple, item);
  push(tuple);
}
void PickleReader::push_global(std::string_view module, std::string_view name) {
  std::string global(module.substr(0, most_shown));
  global.append(".").append(name.substr(0, most_shown));
  globals_.push_back(std::move(global));
  push({.kind = Kind::global, .number = static_cast<std::int64_t>(globals_.size() - 1)});
}
void PickleReader::push_object(std::string reason) {
  globals_.push_back(std::move(reason));
  push({.kind = Kind::object, .number = static_cast<std::int64_t>(globals_.size() - 1)});
}
/// Adds the last values to the container below them. Items of an object are forgotten.
void PickleReader::extend(Kind kind, std::size_t count) {
  const std::vector<Id> items = pop(count);
  Value& value =
      top([](Kind k) { return k == Kind::list || k == Kind::dict || k == Kind::object; });
  if (value.kind == Kind::object) return;
  if (value.kind != kind) fail("a value of another kind");
  if (kind == Kind::dict && count % 2) fail("a key without a value");
  for (const Id item : items) append(value, item);
}
/// Pickle numbers its notes one after the other.
void PickleReader::note(std::uint64_t key) {
  const Id id = pop();
  stack_.push_back(id);
  if (key >= text_.size()) fail("a note of too large a number");
  if (key >= memo_.size()) memo_.resize(key + 1, none);
  memo_[key] = id;
}
void PickleReader::recall(std::uint64_t key) {
  if (key >= memo_.size() || memo_[key] == none) fail("a value that was not noted");
  stack_.push_back(memo_[key]);
}
/// Attributes: a state dict notes versions of modules there, a tensor names of its own.
void PickleReader::build() {
  pop();
  top([](Kind k) { return k == Kind::dict || k == Kind::object || k == Kind::tensor; });
}

void PickleReader::run(unsigned char op) {
  switch (op) {
    case '(':
      return marks_.push_back(static_cast<std::uint32_t>(stack_.size()));
    case '0':
      return static_cast<void>(pop());
    case '1':
      return static_cast<void>(pop(pop_mark()));
    case '2': {
      const Id id = pop();
      stack_.push_back(id);
      return stack_.push_back(id);
    }
    case '}':
      return push({.kind = Kind::dict});
    case ']':
      return push({.kind = Kind::list});
    case ')':
      return push({.kind = Kind::tuple});
    case 'N':
      return push({.kind = Kind::none});
    case 0x88:
    case 0x89:
      return push({.kind = Kind::boolean, .number = op == 0x88});
    case 'K':
      return push_integer(static_cast<std::int64_t>(number(1)));
    case 'M':
      return push_integer(static_cast<std::int64_t>(number(2)));
    case 'J':
      return push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))));
    case 0x8a:
      return push_long(number(1));
    case 0x8b:
      return push_long(number(4));
    case 'G':
      return push(
          {.kind = Kind::real, .number = static_cast<std::int64_t>(__builtin_bswap64(number(8)))});
    case 'X':
    case 'T':
      return push_text(number(4));
    case 0x8c:
    case 'U':
      return push_text(number(1));
    case 0x8d:
      return push_text(number(8));
    case 'B':
    case 'C':
    case 0x8e:
    case 0x96:
      take(number(op == 'C' ? 1 : op == 'B' ? 4 : 8));
      return push_object("bytes");
    case 'c': {
      const std::string_view module = line();
      return push_global(module, line());
    }
    case 0x93: {
      const std::string_view name = text_of(pop());
      return push_global(text_of(pop()), name);
    }
    case 't':
      return push_tuple(pop_mark());
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(op - 0x84u);
    case 0x8f:
      return push_object("a set");
    case 0x91:
      pop(pop_mark());
      return push_object("a set");
    case 'a':
      return extend(Kind::list, 1);
    case 'e':
    case 0x90:
      return extend(Kind::list, pop_mark());
    case 's':
      return extend(Kind::dict, 2);
    case 'u':
      return extend(Kind::dict, pop_mark());
    case 'q':
      return note(number(1));
    case 'r':
      return note(number(4));
    case 0x94:
      return note(memo_.size());
    case 'h':
      return recall(number(1));
    case 'j':
      return recall(number(4));
    case 'Q':
      return find_storage();
    case 0x92:
      pop();  // named arguments
      [[fallthrough]];
    case 'R':
    case 0x81: {
      const Id arguments = pop();
      of_kind(arguments, Kind::tuple);
      const Id function = pop();
      return call(function, items_of(arguments));
    }
    case 'b':
      return build();
    case 0x95:
      return static_cast<void>(number(8));  // the length of a frame
    default:
      fail("the opcode " + std::to_string(op));
  }
}

/// ('storage', torch.FloatStorage, key, device, elements). A program may keep other objects apart.
void PickleReader::find_storage() {
  const Id tuple = pop();
  of_kind(tuple, Kind::tuple);
  const std::vector<Id> items = items_of(tuple);
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
  const std::string& name = global_name(function);
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
  push_object("an object of " + name);
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
  const std::string& type = global_name(has_dtype ? arguments[6] : storages_[place].type);
  const FileDType* const dtype =
      has_dtype && type.starts_with("torch.")
          ? file_dtype(std::string_view(type).substr(6))
          : file_dtype(storage_type(global_name(storages_[place].type))->dtype);
  const TorchStorage storage = storage_of(storages_[place], dtype);
  const std::int64_t offset = of_kind(arguments[1], Kind::integer).number;
  const std::vector<std::int64_t> shape = integers(arguments[2]), strides = integers(arguments[3]);
  if (shape.size() != strides.size() || offset < 0) fail("a tensor of other strides than lengths");
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  __int128 end = offset;
  for (std::size_t i = 0; i < shape.size() && !empty; ++i)
    if (__builtin_add_overflow(end, static_cast<__int128>(shape[i] - 1) * strides[i], &end))
      fail("a tensor outside of its storage");
  if (!dtype) return push_object("a tensor of " + type);
  if (!empty && end >= storage.elements) fail("a tensor outside of its storage");
  if (shape.size() > Shape::max_rank)
    return push_object("a tensor of " + std::to_string(shape.size()) + " axes");
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
  for (std::size_t i = 0; i < count && (most == Inside::listed || depth == 0); ++i) {
    if (found[i] != Inside::plain) continue;
    path_.push_back({value.kind == Kind::dict ? items[2 * i] : none, static_cast<Id>(i)});
    leave(items[i * stride + stride - 1]);
    path_.pop_back();
  }
  return most;
}

void PickleReader::leave(Id id) {
  std::string path = path_text();
  left_.emplace_back(std::move(path), reason_of(id));
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
    if (path.size() + 64 > most_name_bytes_) fail("names that are there again and again");
  }
  most_name_bytes_ -= std::min<std::uint64_t>(path.size() + 64, most_name_bytes_);
  return path;
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
      return escaped(globals_[static_cast<std::size_t>(value.number)]);
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
    const auto* const type =
        std::find_if(std::begin(storage_types), std::end(storage_types),
                     [&](const StorageType& known) { return known.dtype == name_of(x.dtype()); });
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
