// SPDX-License-Identifier: BSD-3-Clause
// fmt::print("{}", tensor). What follows the colon is the format of each number: "{:.2f}". A wrong
// format throws Error without a line, because fmt passes none; to_string() names the line.
#pragma once  // defined in lib/tensor
#include <fmt/core.h>

#include <string>
#include <string_view>

#include <reel/variable.hpp>

namespace reel {
/// Text such as "(2, 3)", "float32", "cuda:0". `format` aligns it as any text, for example ">8".
REEL_API std::string to_string(const Shape& x, std::string_view format = {},
                               Caller caller = Caller::here());
REEL_API std::string to_string(DType x, std::string_view format = {},
                               Caller caller = Caller::here());
REEL_API std::string to_string(Device x, std::string_view format = {},
                               Caller caller = Caller::here());
/// What fmt calls for a reel type.
template <class T>
struct Formatter {
  std::string_view spec;
  constexpr auto parse(fmt::format_parse_context& context) {
    auto first = context.begin(), last = first;
    while (last != context.end() && *last != '}') ++last;
    spec = std::string_view(first, static_cast<std::size_t>(last - first));
    return last;
  }
  template <class Context>
  auto format(const T& value, Context& context) const {
    auto out = context.out();
    for (char c : to_string(value, spec, Caller{})) *out++ = c;
    return out;
  }
};
}  // namespace reel
template <>
struct fmt::formatter<reel::Tensor> : reel::Formatter<reel::Tensor> {};
template <>
struct fmt::formatter<reel::Variable> : reel::Formatter<reel::Variable> {};
template <>
struct fmt::formatter<reel::Buffer> : reel::Formatter<reel::Variable> {};
template <>
struct fmt::formatter<reel::Shape> : reel::Formatter<reel::Shape> {};
template <>
struct fmt::formatter<reel::DType> : reel::Formatter<reel::DType> {};
template <>
struct fmt::formatter<reel::Device> : reel::Formatter<reel::Device> {};
