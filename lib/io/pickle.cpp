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
/// In the order of DType.
constexpr std::string_view storage_names[] = {"BoolStorage", "ByteStorage",    "IntStorage",
                                              "LongStorage", "FloatStorage",   "DoubleStorage",
                                              "HalfStorage", "BFloat16Storage"};
static_assert(std::size(storage_names) == dtype_count);
constexpr std::string_view callable[] = {"collections.OrderedDict", "torch._utils._rebuild_tensor",
                                         "torch._utils._rebuild_tensor_v2",
                                         "torch._utils._rebuild_parameter", "torch.Size"};

bool is_known(std::string_view global) {
  if (std::find(std::begin(callable), std::end(callable), global) != std::end(callable))
    return true;
  return global.starts_with("torch.") &&
         std::find(std::begin(storage_names), std::end(storage_names), global.substr(6)) !=
             std::end(storage_names);
}
}  // namespace

void PickleReader::fail(std::string_view got) const {
  input_.fail("a pickle of tensors, dicts, lists, numbers and texts", got);
}

void PickleReader::read() {
  most_visits_ = rest_.size() + 1;  // a named value takes at least one byte
  const std::string_view start = take(2);
  if (start[0] != '\x80' || start[1] < 2 || start[1] > 5) fail("another protocol than 2 to 5");
  while (true) {
    const auto op = static_cast<unsigned char>(take(1)[0]);
    if (op == '.') break;
    run(op);
  }
  if (stack_.size() != 1 || !marks_.empty() || !rest_.empty()) fail("more than one value");
  name_values("", stack_[0], 0);
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

PickleReader::Id PickleReader::add(Value value) {
  values_.push_back(std::move(value));
  return static_cast<Id>(values_.size() - 1);
}
PickleReader::Id PickleReader::pop() {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size())) fail("an empty stack");
  const Id id = stack_.back();
  stack_.pop_back();
  return id;
}
std::vector<PickleReader::Id> PickleReader::pop_to_mark() {
  if (marks_.empty()) fail("no mark");
  const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  const std::vector<Id> items(first, stack_.end());
  stack_.erase(first, stack_.end());
  marks_.pop_back();
  return items;
}
PickleReader::Value& PickleReader::top(Kind kind) {
  if (stack_.empty() || (!marks_.empty() && marks_.back() >= stack_.size()) ||
      values_[stack_.back()].kind != kind)
    fail("a value of another kind");
  return values_[stack_.back()];
}
const PickleReader::Value& PickleReader::of_kind(Id id, Kind kind) const {
  if (values_[id].kind != kind) fail("a value of another kind");
  return values_[id];
}

void PickleReader::push_text(std::uint64_t bytes) {
  const std::string_view text = take(bytes);
  if (!is_utf8(text)) fail("a text that is no UTF-8");
  push({.kind = Kind::text, .text = std::string(text)});
}
void PickleReader::push_long() {
  const auto bytes = static_cast<std::size_t>(number(1));
  if (bytes > 8) fail("an integer of more than 64 bits");
  const int unused = 64 - 8 * static_cast<int>(bytes);
  const std::uint64_t bits = number(bytes);
  push({.kind = Kind::integer,
        .integer = bytes ? static_cast<std::int64_t>(bits << unused) >> unused : 0});
}
void PickleReader::push_tuple(std::size_t count) {
  std::vector<Id> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push({.kind = Kind::tuple, .items = std::move(items)});
}
void PickleReader::push_global(std::string_view module, std::string_view name) {
  const std::string global = std::string(module) + "." + std::string(name);
  if (!is_known(global)) fail("the global " + escaped(global.substr(0, 100)));
  push({.kind = Kind::global, .text = global});
}
void PickleReader::extend(Kind kind, const std::vector<Id>& items) {
  Value& value = top(kind);
  if (kind == Kind::dict && items.size() % 2) fail("a key without a value");
  value.items.insert(value.items.end(), items.begin(), items.end());
}
void PickleReader::recall(std::uint64_t key) {
  const auto known = memo_.find(key);
  if (known == memo_.end()) fail("a value that was not noted");
  stack_.push_back(known->second);
}
/// Attributes of a dict: state dicts note versions of modules there.
void PickleReader::build() {
  of_kind(pop(), Kind::dict);
  top(Kind::dict);
}

void PickleReader::run(unsigned char op) {
  const auto note = [&](std::uint64_t key) {
    const Id id = pop();
    stack_.push_back(id);
    memo_[key] = id;
  };
  const auto last = [&](std::size_t count) {
    std::vector<Id> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  };
  switch (op) {
    case '(':
      return marks_.push_back(stack_.size());
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
      return push({.kind = Kind::boolean, .integer = op == 0x88});
    case 'K':
      return push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(number(1))});
    case 'M':
      return push({.kind = Kind::integer, .integer = static_cast<std::int64_t>(number(2))});
    case 'J':
      return push({.kind = Kind::integer,
                   .integer = static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4)))});
    case 0x8a:
      return push_long();
    case 'G':
      return push(
          {.kind = Kind::real, .real = std::bit_cast<double>(__builtin_bswap64(number(8)))});
    case 'X':
      return push_text(number(4));
    case 0x8c:
      return push_text(number(1));
    case 0x8d:
      return push_text(number(8));
    case 'c': {
      const std::string_view module = line();
      return push_global(module, line());
    }
    case 0x93: {
      const std::string name = of_kind(pop(), Kind::text).text;
      return push_global(of_kind(pop(), Kind::text).text, name);
    }
    case 't':
      return push({.kind = Kind::tuple, .items = pop_to_mark()});
    case 0x85:
    case 0x86:
    case 0x87:
      return push_tuple(op - 0x84u);
    case 'a':
      return extend(Kind::list, last(1));
    case 'e':
      return extend(Kind::list, pop_to_mark());
    case 's':
      return extend(Kind::dict, last(2));
    case 'u':
      return extend(Kind::dict, pop_to_mark());
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
    case 'R':
      return reduce();
    case 'b':
      return build();
    case 0x95:
      return static_cast<void>(number(8));  // the length of a frame
    default:
      fail("the opcode " + std::to_string(op));
  }
}

/// ('storage', torch.FloatStorage, key, device, elements)
void PickleReader::find_storage() {
  const std::vector<Id> items = of_kind(pop(), Kind::tuple).items;
  if (items.size() != 5 || of_kind(items[0], Kind::text).text != "storage") fail("no storage");
  const std::string type = of_kind(items[1], Kind::global).text;
  for (int i = 0; i < dtype_count; ++i) {
    if (type != "torch." + std::string(storage_names[i])) continue;
    const std::int64_t elements = of_kind(items[4], Kind::integer).integer;
    if (elements < 0 || elements > INT64_MAX / 64) fail("a storage of no length");
    storages_.push_back({of_kind(items[2], Kind::text).text, static_cast<DType>(i), elements});
    return push(
        {.kind = Kind::storage, .integer = static_cast<std::int64_t>(storages_.size() - 1)});
  }
  fail("a storage of " + type);
}

void PickleReader::reduce() {
  const std::vector<Id> arguments = of_kind(pop(), Kind::tuple).items;
  const std::string global = of_kind(pop(), Kind::global).text;
  if (global == "collections.OrderedDict") {
    Value dict{.kind = Kind::dict};
    if (arguments.size() > 1) fail("arguments of a dict");
    if (arguments.size() == 1)
      for (const Id pair : of_kind(arguments[0], Kind::list).items) {
        const Kind kind = values_[pair].kind;
        const bool whole =
            (kind == Kind::tuple || kind == Kind::list) && values_[pair].items.size() == 2;
        if (!whole) fail("arguments of a dict");
        dict.items.insert(dict.items.end(), values_[pair].items.begin(), values_[pair].items.end());
      }
    return push(std::move(dict));
  }
  if (global.starts_with("torch._utils._rebuild_tensor")) return reduce_tensor(arguments);
  if (global == "torch._utils._rebuild_parameter" && !arguments.empty()) {
    of_kind(arguments[0], Kind::tensor);
    return stack_.push_back(arguments[0]);
  }
  if (global == "torch.Size" && arguments.size() == 1) {
    of_kind(arguments[0], Kind::tuple);
    return stack_.push_back(arguments[0]);
  }
  fail("a call of " + global);
}

std::vector<std::int64_t> PickleReader::integers(Id id) const {
  std::vector<std::int64_t> numbers;
  for (const Id item : of_kind(id, Kind::tuple).items) {
    numbers.push_back(of_kind(item, Kind::integer).integer);
    if (numbers.back() < 0) fail("a negative length or step");
  }
  return numbers;
}

/// (storage, offset, shape, strides, ...)
void PickleReader::reduce_tensor(const std::vector<Id>& arguments) {
  if (arguments.size() < 4) fail("a tensor of less than four arguments");
  const Value& storage = of_kind(arguments[0], Kind::storage);
  TorchTensor x{storages_[static_cast<std::size_t>(storage.integer)],
                of_kind(arguments[1], Kind::integer).integer, integers(arguments[2]),
                integers(arguments[3])};
  if (x.shape.size() != x.strides.size() || x.offset < 0)
    fail("a tensor of other strides than lengths");
  if (x.shape.size() > Shape::max_rank) fail("a tensor of more than 8 axes");
  const bool empty = std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end();
  __int128 end = x.offset;
  for (std::size_t i = 0; i < x.shape.size() && !empty; ++i)
    end += static_cast<__int128>(x.shape[i] - 1) * x.strides[i];
  if (!empty && end >= x.storage.elements) fail("a tensor outside of its storage");
  tensors_.push_back(std::move(x));
  push({.kind = Kind::tensor, .integer = static_cast<std::int64_t>(tensors_.size() - 1)});
}

std::string PickleReader::key_text(Id id) const {
  if (values_[id].kind == Kind::integer) return std::to_string(values_[id].integer);
  return of_kind(id, Kind::text).text;
}

void PickleReader::name_values(const std::string& path, Id id, int depth) {
  if (depth > most_depth) fail("more than 64 levels");
  if (most_visits_-- == 0) fail("values that are there again and again");
  const Value& value = values_[id];
  const auto inside = [&](const std::string& key) { return path.empty() ? key : path + "." + key; };
  char number[32];
  switch (value.kind) {
    case Kind::tensor:
      return named_.emplace_back(path, tensors_[static_cast<std::size_t>(value.integer)]), void();
    case Kind::dict:
      for (std::size_t i = 0; i < value.items.size(); i += 2)
        name_values(inside(key_text(value.items[i])), value.items[i + 1], depth + 1);
      return;
    case Kind::list:
    case Kind::tuple:
      for (std::size_t i = 0; i < value.items.size(); ++i)
        name_values(inside(std::to_string(i)), value.items[i], depth + 1);
      return;
    case Kind::none:
      return plain_.emplace_back(path, "None"), void();
    case Kind::boolean:
      return plain_.emplace_back(path, value.integer ? "True" : "False"), void();
    case Kind::integer:
      return plain_.emplace_back(path, std::to_string(value.integer)), void();
    case Kind::real:
      return plain_.emplace_back(
                 path,
                 std::string(number, std::to_chars(number, std::end(number), value.real).ptr)),
             void();
    case Kind::text:
      return plain_.emplace_back(path, value.text), void();
    default:
      fail("a name or storage by itself");
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
    text += "ctorch\n" + std::string(storage_names[static_cast<int>(x.dtype())]) + "\n";
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
