// SPDX-License-Identifier: BSD-3-Clause
// Files of lines.
#pragma once  // defined in lib/data
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/reader.hpp>

namespace reel::data {
/// The lines of files, one file after the other, without "\n" or "\r\n" at their ends. Empty lines
/// are elements too, but not what follows the last "\n" of a file, if nothing does. The mark of the
/// byte order at the beginning of a file is left out. Throws IoError for a file that cannot be
/// read; the next call goes on with the next file.
REEL_API Owned<Reader<std::string>> open_lines(std::vector<std::string> files, Place from = {},
                                               Caller caller = Caller::here());

/// The whole text of a file, which gzip may have compressed, without the mark of the byte order.
/// Throws IoError if the file cannot be read.
REEL_API std::string read_text(const std::string& path, Caller caller = Caller::here());

/// The words of a text: what lies between spaces, tabs and line ends. The words of " the dog's\n"
/// are "the" and "dog's".
REEL_API std::vector<std::string> words_of(std::string_view text, Caller caller = Caller::here());
}  // namespace reel::data
