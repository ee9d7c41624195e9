// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/options.hpp"

#include <fmt/core.h>

#include "lib/body/text.hpp"

namespace reel {
void print_option(std::string& out, std::int64_t value) { out += std::to_string(value); }
void print_option(std::string& out, std::uint64_t value) { out += std::to_string(value); }
void print_option(std::string& out, double value) { out += fmt::format("{}", value); }
void print_option(std::string& out, const char* value) { out += value; }
void print_option(std::string& out, Device value) { out.append(to_text(value)); }
void print_option(std::string& out, const Shape& value) { out += to_text(value); }
void print_option(std::string& out, const Axes& value) {
  if (value.is_every()) {
    out += "every";
    return;
  }
  out += "{";
  for (int i = 0; i < value.count(); ++i) out += fmt::format("{}{}", i ? ", " : "", value[i]);
  out += "}";
}
void print_option(std::string& out, const Attributes& value) {
  out += "{";
  for (const auto& [name, attribute] : value) {
    if (out.back() != '{') out += ", ";
    out += name + ": ";
    switch (attribute.kind()) {
      case Attribute::Kind::integer:
        out += std::to_string(attribute.integer());
        break;
      case Attribute::Kind::real:
        out += fmt::format("{}", attribute.real());
        break;
      case Attribute::Kind::text:
        out += '"' + attribute.text() + '"';
        break;
      case Attribute::Kind::integers:
        out += to_text(Shape(attribute.integers()));
        break;
    }
  }
  out += "}";
}
void add_numbers(std::vector<std::int64_t*>& out, std::int64_t* first, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out.push_back(first + i);
}

std::string to_string(OptionsView options) {
  std::string text;
  if (options.type && options.data) options.type->print(text, options.data);
  return text;
}
}  // namespace reel
