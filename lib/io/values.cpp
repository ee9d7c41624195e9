// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/values.hpp"

#include <charconv>
#include <cstring>
#include <vector>

namespace reel::io {
namespace {
using detail::SavedValue;
using Kind = SavedValue::Kind;

template <class T>
T number_at(const SavedValue& value) {
  T number{};
  std::memcpy(&number, value.place, sizeof number);
  return number;
}
template <class T>
bool parse(std::string_view text, T& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

/// The bytes at the place, as an integer of 64 bits.
std::uint64_t bits_of(const SavedValue& value) {
  switch (value.bytes) {
    case 1:
      return number_at<std::uint8_t>(value);
    case 2:
      return number_at<std::uint16_t>(value);
    case 4:
      return number_at<std::uint32_t>(value);
    default:
      return number_at<std::uint64_t>(value);
  }
}
std::int64_t signed_bits_of(const SavedValue& value) {
  const int unused = 64 - 8 * value.bytes;
  return static_cast<std::int64_t>(bits_of(value) << unused) >> unused;
}
std::string real_text(double real) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, real).ptr);
}

/// The lengths, which have spaces between them.
std::optional<Shape> shape_of(std::string_view text) {
  std::vector<std::int64_t> lengths;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (!parse(text.substr(0, end), lengths.emplace_back()) || lengths.back() < 0)
      return std::nullopt;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lengths.size() > Shape::max_rank ? std::nullopt : std::optional(Shape(lengths));
}

/// Whether the text is an integer that the place can hold.
bool parse_integer(const SavedValue& of, std::string_view text, std::uint64_t& bits) {
  const int unused = 64 - 8 * of.bytes;
  if (of.kind == Kind::natural) return parse(text, bits) && bits << unused >> unused == bits;
  std::int64_t number = 0;
  if (!parse(text, number)) return false;
  bits = static_cast<std::uint64_t>(number);
  return static_cast<std::int64_t>(bits << unused) >> unused == number;
}
}  // namespace

std::string text_of(const Stream& stream) {
  return std::to_string(stream.seed) + " " + std::to_string(stream.position);
}
std::optional<Stream> stream_of(std::string_view text) {
  const std::size_t space = text.find(' ');
  Stream stream{};
  if (space == text.npos || !parse(text.substr(0, space), stream.seed) ||
      !parse(text.substr(space + 1), stream.position))
    return std::nullopt;
  return stream;
}

std::string kind_text(const SavedValue& value) {
  switch (value.kind) {
    case Kind::boolean:
      return "bool";
    case Kind::real:
      return "float";
    case Kind::text:
      return "text";
    case Kind::shape:
      return "shape";
    default:
      return "int";
  }
}

std::string text_of(const SavedValue& value) {
  std::string text = kind_text(value) + " ";
  switch (value.kind) {
    case Kind::boolean:
      return text + (bits_of(value) ? "true" : "false");
    case Kind::integer:
      return text + std::to_string(signed_bits_of(value));
    case Kind::natural:
      return text + std::to_string(bits_of(value));
    case Kind::real:
      return text + real_text(value.bytes == 4 ? static_cast<double>(number_at<float>(value))
                                               : number_at<double>(value));
    case Kind::text:
      return text + *static_cast<const std::string*>(value.place);
    case Kind::shape:
      for (const std::int64_t length : *static_cast<const Shape*>(value.place))
        text += std::to_string(length) + " ";
  }
  return text;
}

std::optional<NewValue> parsed(const SavedValue& of, std::string_view text) {
  const std::string kind = kind_text(of) + " ";
  if (!text.starts_with(kind)) return std::nullopt;
  text.remove_prefix(kind.size());
  NewValue value{&of};
  bool good = true;
  switch (of.kind) {
    case Kind::boolean:
      value.bits = text == "true";
      good = value.bits || text == "false";
      break;
    case Kind::integer:
    case Kind::natural:
      good = parse_integer(of, text, value.bits);
      break;
    case Kind::real:
      good = parse(text, value.real);
      break;
    case Kind::shape:
      good = shape_of(text).has_value();
      if (good) value.shape = *shape_of(text);
      break;
    case Kind::text:
      value.text = text;
  }
  return good ? std::optional(std::move(value)) : std::nullopt;
}

void put(NewValue& value) {
  const SavedValue& of = *value.of;
  const auto narrow = static_cast<float>(value.real);
  switch (of.kind) {
    case Kind::text:
      return static_cast<std::string*>(of.place)->swap(value.text);
    case Kind::shape:
      *static_cast<Shape*>(of.place) = value.shape;
      return;
    case Kind::real:
      if (of.bytes == 4)
        std::memcpy(of.place, &narrow, sizeof narrow);
      else
        std::memcpy(of.place, &value.real, sizeof value.real);
      return;
    default:
      std::memcpy(of.place, &value.bits, of.bytes);  // little-endian
  }
}

std::set<std::string> lines_of(std::string_view text) {
  std::set<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}
}  // namespace reel::io
