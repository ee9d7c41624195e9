// SPDX-License-Identifier: BSD-3-Clause
// Files of lines.
#pragma once  // defined in lib/data
#include <string>
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
}  // namespace reel::data
