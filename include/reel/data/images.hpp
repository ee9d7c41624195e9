// SPDX-License-Identifier: BSD-3-Clause
// Images, and arrays of images, as tensors.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>

#include <reel/tensor.hpp>

namespace reel::data {
/// Reads an array of the format IDX, which MNIST and its like have, also where gzip has compressed
/// it (.gz). uint8, int32, float32 and float64 keep their dtype; int8 and int16 become int32.
/// Throws IoError for a file that is no IDX, or that is shorter or longer than its shape says.
///
///     Tensor pixels = data::read_idx("train-images-idx3-ubyte.gz");    // uint8 [60000, 28, 28]
REEL_API Tensor read_idx(const std::string& path, Caller caller = Caller::here());
}  // namespace reel::data
