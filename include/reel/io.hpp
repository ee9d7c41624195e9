// SPDX-License-Identifier: BSD-3-Clause
// Tensors in files.
#pragma once
#include <string>

#include <reel/tensor.hpp>

namespace reel::io {
using Path = std::string;  // std::filesystem::path converts to it; <filesystem> costs 30,000 lines

/// Writes NumPy's .npy format, version 1.0: a new file beside, then renamed, so that the old one
/// stays whole until the new one is. Throws IoError.
REEL_API void save_npy(const Path& path, const Tensor& x, Caller caller = Caller::here());
/// Reads a .npy file of bool, uint8, int32, int64, float32 or float64, little-endian, in C or
/// Fortran order. Throws IoError for a file that is missing, cut short, too long or of another
/// kind.
REEL_API Tensor load_npy(const Path& path, Caller caller = Caller::here());
}  // namespace reel::io
