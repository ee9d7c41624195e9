// SPDX-License-Identifier: BSD-3-Clause
#include "lib/body/text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <new>

#include "lib/body/body.hpp"
#include "lib/body/format.hpp"

namespace reel {
namespace {
constexpr char lost[] = "a text for which there is no memory";
}  // namespace

Text& Text::append(std::string_view more) noexcept {
  const bool loses = more.data() == lost || view().data() == lost;
  if (more.empty() && !loses) return *this;
  char* const longer =
      loses ? nullptr : static_cast<char*>(std::realloc(first_, size_ + more.size()));
  if (!longer) {
    std::free(first_);
    first_ = nullptr;
    size_ = sizeof lost - 1;
    return *this;
  }
  std::memcpy(longer + size_, more.data(), more.size());
  first_ = longer;
  size_ += more.size();
  return *this;
}
std::string_view Text::view() const noexcept { return {first_ || !size_ ? first_ : lost, size_}; }
Text::operator std::string() const {
  if (is_lost(view())) throw std::bad_alloc();
  return std::string(view());
}
Text formatted_text(fmt::string_view format, fmt::format_args values) noexcept try {
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, values);
  return std::string_view(text.data(), text.size());
} catch (...) {  // of an argument too, such as a Shape
  return std::string_view(lost);
}
bool is_lost(std::string_view view) { return view.data() == lost; }

Text to_text(const Shape& shape) {
  Text text = "(";
  for (std::size_t i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + to_text(shape.data()[i]);
  return std::move(text) + (shape.rank() == 1 ? ",)" : ")");
}

Text place_text(const Shape& shape, std::int64_t i) {
  Text text = shape.rank() ? "]" : "";
  for (std::size_t axis = shape.rank(); axis-- > 0; i /= shape.data()[axis])
    text = (axis ? ", " : " at [") + to_text(i % shape.data()[axis]) + text;
  return text;
}

Text to_text(Scalar number) {
  char text[32];
  // A large unsigned integer is rounded to a double: its last digits are not known.
  const double real = number.real();
  const auto end =
      !is_floating(number.dtype()) ? std::to_chars(text, text + sizeof text, number.integer())
      : real >= 0x1p63 && real <= 0x1p64
          ? std::to_chars(text, text + sizeof text, real, std::chars_format::scientific)
          : std::to_chars(text, text + sizeof text, real);
  return std::string_view(text, static_cast<std::size_t>(end.ptr - text));
}
constinit const char* device_names[device_kinds] = {"cpu", "cuda"};
Text to_text(Device device) {
  if (device == cpu()) return "cpu";
  const auto kind = static_cast<int>(device.kind);
  const char* const name = kind < device_kinds ? device_names[kind] : nullptr;
  return (name ? Text(name) : "kind " + to_text(kind)) + ":" + to_text(device.index);
}
Text one_of(std::string_view what, std::int64_t first, std::int64_t end) {
  if (first == end) return "no " + Text(what) + ", as there is none";
  return "an " + Text(what) + " in [" + to_text(first) + ", " + to_text(end) + ")";
}
}  // namespace reel
