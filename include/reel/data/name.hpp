// SPDX-License-Identifier: BSD-3-Clause
// A name in brackets.
#pragma once
#include <string_view>
#include <type_traits>

#include <reel/caller.hpp>

namespace reel::data {
/// What `row["age"]` takes: a name, and the line of the brackets for errors.
struct Name {
  std::string_view text;
  Caller caller;
  template <class S>
  requires(std::is_convertible_v<const S&, std::string_view>)
      Name(const S& name, Caller at = Caller::here())
      : text(name), caller(at) {}
};
}  // namespace reel::data
