// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/images.hpp>

#include <cstring>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/data/foreign.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::data {
namespace {
/// One pixel with another number of channels.
void convert(const unsigned char* from, std::size_t channels, unsigned char* to,
             std::size_t wanted) {
  const bool gray = channels < 3;
  const unsigned red = from[0], green = from[gray ? 0 : 1], blue = from[gray ? 0 : 2];
  if (wanted < 3) {
    to[0] = static_cast<unsigned char>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
  } else {
    to[0] = static_cast<unsigned char>(red);
    to[1] = static_cast<unsigned char>(green);
    to[2] = static_cast<unsigned char>(blue);
  }
  if (wanted == 4) to[3] = channels == 2 || channels == 4 ? from[channels - 1] : 255;
}

Tensor decode(const Encoded& encoded, const ImageOptions& options) {
  const int wanted = options.channels;
  if (wanted != 0 && wanted != 1 && wanted != 3 && wanted != 4)
    fail<Error>(encoded.caller, encoded.op, "channels", "0, 1, 3 or 4", std::to_string(wanted));
  const std::string_view bytes = encoded.bytes;
  Pixels pixels;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n"))
    pixels = read_png(encoded, options.most_pixels);
  else if (bytes.starts_with("\xff\xd8\xff"))
    pixels = read_jpeg(encoded, wanted, options.most_pixels);
  else
    encoded.fail("a PNG or a JPEG", bytes.empty() ? "no bytes" : quoted(bytes.substr(0, 8)));
  const std::size_t channels = wanted == 0 ? pixels.channels : static_cast<std::size_t>(wanted);
  const std::size_t count = pixels.height * pixels.width;
  const RawTensor made = raw_tensor(DType::uint8, Shape({pixels.height, pixels.width, channels}));
  if (!made.tensor.defined()) fail_memory(encoded.caller, encoded.op);
  auto* const to = static_cast<unsigned char*>(made.elements);
  if (channels == pixels.channels)
    std::memcpy(to, pixels.bytes.data(), pixels.bytes.size());
  else
    for (std::size_t i = 0; i < count; ++i)
      convert(&pixels.bytes[i * pixels.channels], pixels.channels, to + i * channels, channels);
  return on_current_device(made.tensor, encoded.caller);
}
}  // namespace

Tensor read_image(const std::string& path, ImageOptions options, Caller caller) try {
  const io::Input input(path, "read_image", caller);
  const std::string bytes = input.read(0, input.size());
  return decode({bytes, "read_image", &path, caller}, options);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "read_image");
}
Tensor decode_image(std::string_view bytes, ImageOptions options, Caller caller) try {
  return decode({bytes, "decode_image", nullptr, caller}, options);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "decode_image");
}
}  // namespace reel::data
