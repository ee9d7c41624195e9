// SPDX-License-Identifier: BSD-3-Clause
// Images and sounds as files of their formats, in memory.
#pragma once
#include <cstdint>
#include <string>

namespace reel::io {
/// PNG of 8 bits. 1 channel is gray, 2 gray and opacity, 3 RGB, 4 RGB and opacity.
std::string png(const std::uint8_t* pixels, std::size_t height, std::size_t width,
                std::size_t channels);
/// WAV of 16 bits, from samples in [-1, 1]. Others are clamped; NaN is 0.
std::string wav(const float* samples, std::size_t count, std::size_t channels, std::uint32_t rate);
}  // namespace reel::io
