// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/pickle.hpp"

#include <algorithm>

#include "lib/io/json.hpp"

namespace reel::io {
namespace {
constexpr std::size_t most_shown = 100;  // bytes of a name
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
std::string PickleReader::global_name(Id id) const {
  const GlobalNote& global = globals_[static_cast<std::size_t>(of_kind(id, Kind::global).number)];
  std::string name(
      text_.substr(global.module, std::min<std::size_t>(global.module_size, most_shown)));
  return name.append(".").append(
      text_.substr(global.name, std::min<std::size_t>(global.name_size, most_shown)));
}

void PickleReader::append(Value& container, Id item) {
  if (cells_.size() > 2 * text_.size() + 64) fail("values that are there again and again");
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
std::vector<PickleReader::Id> PickleReader::items_of(Id id, std::uint32_t most) const {
  std::vector<Id> items;
  const std::uint32_t size = std::min(values_[id].size, most);
  auto cell = static_cast<std::uint32_t>(values_[id].number & 0xffffffff);
  for (std::uint32_t i = 0; i < size; ++i, cell = cells_[cell].next)
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
  const auto place = [&](std::string_view part) {
    return static_cast<std::uint32_t>(part.data() - text_.data());
  };
  const auto size = [](std::string_view part) { return static_cast<std::uint32_t>(part.size()); };
  globals_.push_back({place(module), size(module), place(name), size(name)});
  push({.kind = Kind::global, .number = static_cast<std::int64_t>(globals_.size() - 1)});
}
void PickleReader::push_object(const char* reason, Id global) {
  objects_.push_back({reason, global});
  push({.kind = Kind::object, .number = static_cast<std::int64_t>(objects_.size() - 1)});
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
      return call(function, items_of(arguments, most_arguments));
    }
    case 'b':
      return build();
    case 0x95:
      return static_cast<void>(number(8));  // the length of a frame
    default:
      fail("the opcode " + std::to_string(op));
  }
}
}  // namespace reel::io
