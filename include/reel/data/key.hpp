// SPDX-License-Identifier: BSD-3-Clause
// A name or a position in brackets.
#pragma once
#include <string_view>
#include <type_traits>

#include <reel/caller.hpp>
#include <reel/shape.hpp>

namespace reel::data {
/// What `row["age"]` and `row[2]` take: a name or a position from 0, and the line of the brackets
/// for errors.
struct Key {
  std::string_view name;
  std::int64_t position = -1;  ///< -1 for a name
  Caller caller;
  template <class S>
  requires(std::is_convertible_v<const S&, std::string_view>)
      Key(const S& text, Caller at = Caller::here())
      : name(text), caller(at) {}
  template <WholeNumber N>
  Key(N number, Caller at = Caller::here())
      : position(detail::position_of(number) < 0 ? INT64_MAX : detail::position_of(number)),
        caller(at) {}
};
}  // namespace reel::data
