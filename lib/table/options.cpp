// SPDX-License-Identifier: BSD-3-Clause
#include "lib/table/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>

#include <reel/error.hpp>

#include "lib/body/text.hpp"

namespace reel {
using Kind = OptionsMember::Kind;
namespace {
std::int64_t choice_of(const OptionsMember& member) {
  std::int64_t number;
  std::memcpy(&number, member.place, sizeof number);
  return number;
}
void print(std::string& out, const Axes& value) {
  if (value.is_every()) {
    out += "every";
    return;
  }
  out += "{";
  for (int i = 0; i < value.count(); ++i) out += fmt::format("{}{}", i ? ", " : "", value[i]);
  out += "}";
}
void print(std::string& out, const Attributes& value) {
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
void print(std::string& out, const OptionsMember& member) {
  switch (member.kind) {
    case Kind::boolean:
      out += member.as<bool>() ? "1" : "0";
      break;
    case Kind::choice:
      out += std::to_string(choice_of(member));
      break;
    case Kind::integer:
      out += std::to_string(member.as<std::int64_t>());
      break;
    case Kind::natural:
      out += std::to_string(member.as<std::uint64_t>());
      break;
    case Kind::real:
      out += fmt::format("{}", member.as<double>());
      break;
    case Kind::text:
      out += member.as<const char*>();
      break;
    case Kind::dtype:
      out += name_of(member.as<DType>());
      break;
    case Kind::device:
      out.append(to_text(member.as<Device>()));
      break;
    case Kind::shape:
      out += to_text(member.as<Shape>());
      break;
    case Kind::axes:
      print(out, member.as<Axes>());
      break;
    case Kind::attributes:
      print(out, member.as<Attributes>());
  }
}
bool equal(const OptionsMember& a, const OptionsMember& b) {
  switch (a.kind) {
    case Kind::boolean:
      return a.as<bool>() == b.as<bool>();
    case Kind::choice:
      return choice_of(a) == choice_of(b);
    case Kind::integer:
      return a.as<std::int64_t>() == b.as<std::int64_t>();
    case Kind::natural:
      return a.as<std::uint64_t>() == b.as<std::uint64_t>();
    case Kind::real:
      return a.as<double>() == b.as<double>();
    case Kind::text:
      return std::string_view(a.as<const char*>()) == b.as<const char*>();
    case Kind::dtype:
      return a.as<DType>() == b.as<DType>();
    case Kind::device:
      return a.as<Device>() == b.as<Device>();
    case Kind::shape:
      return a.as<Shape>() == b.as<Shape>();
    case Kind::axes:
      return a.as<Axes>() == b.as<Axes>();
    case Kind::attributes:
      return a.as<Attributes>() == b.as<Attributes>();
  }
  return false;
}
}  // namespace

void OptionsMembers::add(Kind kind, std::string_view name, void* place) {
  if (count_ == std::size(members_)) throw Error("options have at most 16 members");
  members_[count_++] = {kind, name, place};
}

std::string to_string(OptionsView options) {
  std::string text;
  for (const OptionsMember& member :
       OptionsMembers(options.type, const_cast<void*>(options.data))) {
    text.append(text.empty() ? "" : ", ").append(member.name).append("=");
    print(text, member);
  }
  return text;
}
bool equal_options(const OptionsType& type, const void* a, const void* b) {
  const OptionsMembers first(&type, const_cast<void*>(a)), second(&type, const_cast<void*>(b));
  return first.size() && std::equal(first.begin(), first.end(), second.begin(), equal);
}
std::vector<std::int64_t*> numbers_of(const OptionsType& type, void* options) {
  std::vector<std::int64_t*> numbers;
  for (const OptionsMember& member : OptionsMembers(&type, options)) {
    if (member.kind == Kind::integer) numbers.push_back(&member.as<std::int64_t>());
    if (member.kind == Kind::shape)
      for (std::int64_t& number : std::span(member.as<Shape>().data(), member.as<Shape>().rank()))
        numbers.push_back(&number);
  }
  return numbers;
}
}  // namespace reel
