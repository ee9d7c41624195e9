// SPDX-License-Identifier: BSD-3-Clause
#pragma once
#include <reel/io/save.hpp>

#include "lib/io/archive.hpp"

namespace reel::io::detail {
/// load() from a file that is open.
LoadReport load_from(const Archive& archive, const PathAt& path, const LoadOptions& options,
                     const State& state);
}  // namespace reel::io::detail
