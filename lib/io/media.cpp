// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/media.hpp"

#include <zlib.h>

#include <cmath>
#include <cstring>
#include <new>
#include <string_view>

namespace reel::io {
namespace {
/// The last `bytes` bytes of a number, the highest first.
std::string big(std::size_t number, int bytes = 4) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(number >> 8 * bytes);
  return text;
}
std::string little(std::size_t number, int bytes) {
  const std::string text = big(number, bytes);
  return {text.rbegin(), text.rend()};
}
std::string chunk(std::string_view type, std::string_view data) {
  const auto sum = [](uLong before, std::string_view part) {
    return ::crc32_z(before, reinterpret_cast<const Bytef*>(part.data()), part.size());
  };
  std::string bytes = big(data.size());
  bytes.append(type).append(data);
  return bytes += big(data.empty() ? sum(0, type) : sum(sum(0, type), data));  // null gives 0
}
}  // namespace

std::string png(const std::uint8_t* pixels, std::size_t height, std::size_t width,
                std::size_t channels) {
  constexpr std::string_view kinds("\0\4\2\6", 4);
  const std::size_t row = width * channels;
  std::string raw;
  raw.reserve(height * (row + 1));
  for (std::size_t y = 0; y < height; ++y)
    raw.append(1, '\0').append(reinterpret_cast<const char*>(pixels + y * row), row);
  uLongf size = ::compressBound(raw.size());
  std::string packed(size, '\0');
  if (::compress(reinterpret_cast<Bytef*>(packed.data()), &size,
                 reinterpret_cast<const Bytef*>(raw.data()), raw.size()) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  const std::string head =
      big(width) + big(height) + '\x08' + kinds[channels - 1] + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", head) + chunk("IDAT", packed) + chunk("IEND", {});
}

std::string wav(const float* samples, std::size_t count, std::size_t channels, std::uint32_t rate) {
  const std::size_t bytes = 2 * count, frame = 2 * channels;
  std::string file = "RIFF" + little(36 + bytes, 4) + "WAVEfmt " + little(16, 4) + little(1, 2) +
                     little(channels, 2) + little(rate, 4) + little(rate * frame, 4) +
                     little(frame, 2) + little(16, 2) + "data" + little(bytes, 4);
  file.reserve(file.size() + bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const float x = std::isnan(samples[i]) ? 0 : std::fmin(std::fmax(samples[i], -1.f), 1.f);
    const auto number = static_cast<std::int16_t>(std::lrint(x * 32767));
    file.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return file;
}
}  // namespace reel::io
