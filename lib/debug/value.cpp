// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/value.hpp"

#include <fmt/format.h>

#include <cmath>

namespace reel::debugger {
const DebugHost* host = nullptr;

bool is_readable(const Body& body) { return on_cpu(body) && body.contiguous; }
double element(const Body& body, std::int64_t i) {
  return with_element(body.dtype, [&]<class T>(Type<T>) {
    if constexpr (std::is_same_v<T, bool>)
      return body.data[i] != std::byte{0} ? 1.0 : 0.0;
    else
      return static_cast<double>(body.as<T>()[i]);
  });
}
void set_element(Body& body, std::int64_t i, double value) {
  with_element(body.dtype, [&]<class T>(Type<T>) { body.as<T>()[i] = static_cast<T>(value); });
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t length : shape) product *= length;
  return product;
}
std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text += fmt::format("{}{}", i ? ", " : "", shape.data()[i]);
  return text + (shape.rank() == 1 ? ",)" : ")");
}
std::string type_text(DType dtype, const Shape& shape) {
  return std::string(host->dtype(dtype)) + " " + shape_text(shape);
}
std::string number_text(double x, int digits) {
  if (std::isnan(x)) return "nan";
  return fmt::format("{:.{}g}", x, digits);
}
std::string line_of(Caller caller) {
  if (!caller.file) return "no line";
  const std::string_view file = caller.file;
  return fmt::format("{}:{}", printable(file.substr(file.rfind('/') + 1)), caller.line);
}
std::string bytes_text(std::int64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (bytes < 1000) return fmt::format("{} B", bytes);
  if (bytes < 1'000'000) return fmt::format("{:.1f} kB", count / 1e3);
  if (bytes < 1'000'000'000) return fmt::format("{:.1f} MB", count / 1e6);
  return fmt::format("{:.2f} GB", count / 1e9);
}
std::string printable(std::string_view text) {
  std::string safe;
  for (const char each : text)
    if (static_cast<unsigned char>(each) < 32 || each == 127)
      safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
    else
      safe += each;
  return safe;
}
std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}
std::string place_text(const Shape& shape, std::int64_t i) {
  if (shape.rank() == 0) return "[]";
  std::string text;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    const std::int64_t length = shape.data()[axis];
    text = fmt::format("{}{}{}", i % length, text.empty() ? "" : ", ", text);
    i /= length;
  }
  return "[" + text + "]";
}
void mistake(std::string_view expected, std::string_view got, std::string_view advice) {
  throw Mistake{fmt::format("expected {}, got {}{}{}", expected, printable(got),
                            advice.empty() ? "" : ". ", advice)};
}
}  // namespace reel::debugger
