// SPDX-License-Identifier: BSD-3-Clause
// Files by a pattern of their paths.
#pragma once  // defined in lib/data
#include <string>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>

namespace reel::data {
/// The paths that fit a pattern of the shell, sorted by their bytes: `*` and `?` stand for any
/// bytes and any byte but a slash, `[ab]` for one of several. Throws IoError if no path fits.
///
///     std::vector<std::string> files = data::glob("records/train-*.tfrecord");
REEL_API std::vector<std::string> glob(const std::string& pattern, Caller caller = Caller::here());
}  // namespace reel::data
