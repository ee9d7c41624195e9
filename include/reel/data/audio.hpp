// SPDX-License-Identifier: BSD-3-Clause
// Sounds as tensors.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>

#include <reel/tensor.hpp>

namespace reel::data {
/// A sound.
struct Audio {
  Tensor samples;         ///< [frames, channels], float32; integers of the file become [-1, 1)
  std::int64_t rate = 0;  ///< frames in a second
};
/// Reads a WAV file of integers (PCM) of 8, 16, 24 or 32 bits, or of float32 or float64, also with
/// the header WAVE_FORMAT_EXTENSIBLE. An integer of n bits is divided by 2^(n - 1). Throws IoError
/// for other codecs, and for a file that is cut.
///
///     auto [samples, rate] = data::read_wav("yes.wav");
REEL_API Audio read_wav(const std::string& path, Caller caller = Caller::here());
/// Reads a WAV file as read_wav() does, and FLAC, Ogg Vorbis, Opus, MP3, AIFF and others by
/// libsndfile, which is opened at the first such file. Throws IoError if libsndfile cannot read the
/// file, or is not installed.
REEL_API Audio read_audio(const std::string& path, Caller caller = Caller::here());
}  // namespace reel::data
