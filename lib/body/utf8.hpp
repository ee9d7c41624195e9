// SPDX-License-Identifier: BSD-3-Clause
// Texts of users for files and terminals that take only some bytes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace reel {
/// Whether the bytes are UTF-8, without surrogates and overlong forms.
bool is_utf8(std::string_view text);
/// The text with U+FFFD for each byte that is not UTF-8: some readers refuse a whole file for it.
std::string utf8(std::string_view text);
/// utf8() with a space for each control character: U+0000 to U+001F and U+007F to U+009F. U+FFFE
/// and U+FFFF, which XML does not allow, become U+FFFD.
std::string printable(std::string_view text);
/// How many characters a text of UTF-8 has.
std::size_t character_count(std::string_view text);
/// The first characters of a text of UTF-8; all, if it has no more.
std::string_view first_characters(std::string_view text, std::size_t count);
}  // namespace reel
