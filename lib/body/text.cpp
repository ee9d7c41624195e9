// SPDX-License-Identifier: BSD-3-Clause
#include "lib/body/text.hpp"

#include <charconv>

namespace reel {
std::string to_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text.append(i ? ", " : "").append(std::to_string(shape.data()[i]));
  return text + (shape.rank() == 1 ? ",)" : ")");
}

std::string place_text(const Shape& shape, std::int64_t i) {
  std::string text(shape.rank() ? "]" : "");
  for (std::size_t axis = shape.rank(); axis-- > 0; i /= shape.data()[axis])
    text.insert(0, (axis ? ", " : " at [") + std::to_string(i % shape.data()[axis]));
  return text;
}

std::string to_text(Scalar number) {
  char text[32];
  // A large unsigned integer is rounded to a double: its last digits are not known.
  const double real = number.real();
  const auto end =
      !is_floating(number.dtype()) ? std::to_chars(text, text + sizeof text, number.integer())
      : real >= 0x1p63 && real <= 0x1p64
          ? std::to_chars(text, text + sizeof text, real, std::chars_format::scientific)
          : std::to_chars(text, text + sizeof text, real);
  return std::string(text, end.ptr);
}
std::string to_text(Device device) {
  const bool gpu = device.kind == Device::Kind::cuda;
  if (device == cpu()) return "cpu";
  return (gpu ? "cuda:" : "cpu:") + std::to_string(device.index);
}
std::string one_of(std::string_view what, std::int64_t first, std::int64_t end) {
  if (first == end) return "no " + std::string(what) + ", as there is none";
  return "an " + std::string(what) + " in [" + std::to_string(first) + ", " + std::to_string(end) +
         ")";
}
}  // namespace reel
