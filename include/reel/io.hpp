// SPDX-License-Identifier: BSD-3-Clause
// Tensors in files.
#pragma once  // defined in lib/io
#include <string>

#include <reel/tensor.hpp>

namespace reel::io {
using Path = std::string;  // std::filesystem::path converts to it; <filesystem> costs 30,000 lines

/// Writes NumPy's .npy format, version 1.0. Whoever opens the path at any moment, also after the
/// process was killed or the machine stopped, finds the old file or the new one, as a whole: the
/// bytes go to a file of a unique name beside it, are synced, and then get the name. Links are
/// followed; permissions stay. A process that is killed may leave its "x.npy.*.new" behind. Throws
/// IoError, which says what failed; then no new file is left beside the old one.
REEL_API void save_npy(const Path& path, const Tensor& x, Caller caller = Caller::here());
/// Reads a .npy file of bool, uint8, int32, int64, float16, float32 or float64, little-endian, in C
/// or Fortran order, of version 1, 2 or 3. Throws IoError for a file that is missing, cut short,
/// too long or of another kind, before it takes memory for the elements.
REEL_API Tensor load_npy(const Path& path, Caller caller = Caller::here());
}  // namespace reel::io
