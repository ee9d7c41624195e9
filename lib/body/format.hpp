// SPDX-License-Identifier: BSD-3-Clause
// Formatted texts of errors.
#pragma once
#include <fmt/core.h>

#include "lib/body/text.hpp"

namespace reel {
Text formatted_text(fmt::string_view format, fmt::format_args values) noexcept;
/// As fmt::format().
template <class... V>
Text error_text(fmt::format_string<const V&...> format, const V&... values) noexcept {
  return formatted_text(format, fmt::make_format_args(values...));
}
}  // namespace reel
