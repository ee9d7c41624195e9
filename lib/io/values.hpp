// SPDX-License-Identifier: BSD-3-Clause
// C++ numbers and texts in metadata: "int 17", "float 0.1", "bool true", "text hello".
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <reel/io/state.hpp>

namespace reel::io {
struct Stream {
  std::uint64_t seed, position;
};
std::string text_of(const Stream& stream);
std::optional<Stream> stream_of(std::string_view text);

/// A value that was read, for an object of the same kind.
struct NewValue {
  const detail::SavedValue* of;
  std::uint64_t bits = 0;
  double real = 0;
  std::string text{};
  Shape shape{};
};
std::string text_of(const detail::SavedValue& value);
/// "int", "float", "bool", "text" or "shape".
std::string kind_text(const detail::SavedValue& value);
/// None if the text is of another kind, or its number does not fit.
std::optional<NewValue> parsed(const detail::SavedValue& of, std::string_view text);
/// Stores it in its object; cannot fail.
void put(NewValue& value);

std::set<std::string> lines_of(std::string_view text);
}  // namespace reel::io
