// SPDX-License-Identifier: BSD-3-Clause
// Images, and arrays of images, as tensors.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>

#include <reel/tensor.hpp>

namespace reel::data {
/// Reads an array of the format IDX, which MNIST and its like have, also where gzip has compressed
/// it (.gz), in the dtype of the file: uint8, int8, int16, int32, float32 or float64. Throws
/// IoError for a file that is no IDX, or that is shorter or longer than its shape says.
///
///     Tensor pixels = data::read_idx("train-images-idx3-ubyte.gz");
REEL_API Tensor read_idx(const std::string& path, Caller caller = Caller::here());

/// Options of read_image() and decode_image().
struct ImageOptions {
  /// The channels of the result: 1 is gray, 3 RGB, 4 RGB and opacity; 0: those of the file, where 2
  /// are gray and opacity. Gray is (19595 R + 38470 G + 7471 B) / 65536 of a PNG, and the luma of a
  /// JPEG. Opacity is left out without regard to a background, and is 255 where the file has none.
  int channels = 0;
  /// An image with more pixels is refused before memory is taken for it.
  std::int64_t most_pixels = 1 << 27;
};
/// Reads an image: uint8 [height, width, channels]. PNG is read by libpng, and JPEG by
/// libjpeg-turbo. They are opened at the first image; an error names the package that is missing.
/// Palettes become colors, and 16 bits become 8. Gamma, color profiles and the orientation in EXIF
/// are ignored. Throws IoError for a damaged or cut image, for other formats, and for colors of
/// print (CMYK).
///
///     Tensor x = data::read_image("cat.jpg", {.channels = 3}).to(DType::float32) / 255;
REEL_API Tensor read_image(const std::string& path, ImageOptions options = {},
                           Caller caller = Caller::here());
/// As read_image(), from the bytes of a file, such as a feature of a tf.train.Example.
REEL_API Tensor decode_image(std::string_view bytes, ImageOptions options = {},
                             Caller caller = Caller::here());
}  // namespace reel::data
