// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/audio.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/data/foreign.hpp"
#include "lib/tensor/raw.hpp"

namespace reel::data {
namespace {
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

RawTensor make_samples(std::size_t frames, std::size_t channels, const Encoded& encoded) {
  const RawTensor made = raw_tensor(DType::float32, Shape({frames, channels}));
  if (!made.tensor.defined()) fail_memory(encoded.caller, encoded.op);
  return made;
}

/// What the chunk "fmt " says.
struct Format {
  std::uint16_t code = 0, channels = 0, frame_bytes = 0, bits = 0;
  std::uint32_t rate = 0;
  bool is_float() const { return code == 3; }
  std::size_t sample_bytes() const { return bits / 8u; }
  bool known() const {
    const bool integers = code == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
    return (integers || (is_float() && (bits == 32 || bits == 64))) && channels > 0 &&
           frame_bytes == channels * sample_bytes();
  }
};
Format format_of(std::string_view chunk) {
  Format format;
  if (chunk.size() < 16) return format;
  format.code = number_at<std::uint16_t>(chunk, 0);
  format.channels = number_at<std::uint16_t>(chunk, 2);
  format.rate = number_at<std::uint32_t>(chunk, 4);
  format.frame_bytes = number_at<std::uint16_t>(chunk, 12);
  format.bits = number_at<std::uint16_t>(chunk, 14);
  constexpr std::uint16_t extensible = 0xfffe;  // the code is the first number of an identifier
  if (format.code == extensible && chunk.size() >= 26)
    format.code = number_at<std::uint16_t>(chunk, 24);
  return format;
}

float sample_at(const char* at, const Format& format) {
  if (format.is_float()) {
    double wide;
    float narrow;
    if (format.bits == 64) return std::memcpy(&wide, at, sizeof wide), static_cast<float>(wide);
    return std::memcpy(&narrow, at, sizeof narrow), narrow;
  }
  if (format.bits == 8) return static_cast<float>(static_cast<unsigned char>(*at) - 128) / 128;
  std::int32_t number = 0;  // the sample in its highest bits
  const std::size_t bytes = format.sample_bytes();
  std::memcpy(reinterpret_cast<char*>(&number) + sizeof number - bytes, at, bytes);
  return static_cast<float>(number) / 2147483648.f;
}

bool is_wav(std::string_view bytes) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WAVE";
}
Audio decode_wav(const Encoded& encoded) {
  constexpr std::size_t head = 8;  // of a chunk: its name and size
  if (!is_wav(encoded.bytes)) encoded.fail("a WAV file", quoted(encoded.bytes.substr(0, 12)));
  Format format;
  for (std::string_view rest = encoded.bytes.substr(12); rest.size() >= head;) {
    const std::string_view name = rest.substr(0, 4);
    const std::size_t size = number_at<std::uint32_t>(rest, 4);
    rest.remove_prefix(head);
    if (size > rest.size())
      encoded.fail("a part of " + std::to_string(size) + " bytes",
                   std::to_string(rest.size()) + " bytes");
    const std::string_view chunk = rest.substr(0, size);
    if (name == "fmt ") {
      format = format_of(chunk);
      if (!format.known())
        encoded.fail("PCM of 8, 16, 24 or 32 bits, or float32 or float64",
                     "codec " + std::to_string(format.code) + " with " +
                         std::to_string(format.bits) + " bits");
    } else if (name == "data") {
      if (!format.known()) encoded.fail("a format in front of the samples", "none");
      if (size % format.frame_bytes != 0) encoded.fail("whole frames", "a part of one");
      const RawTensor made = make_samples(size / format.frame_bytes, format.channels, encoded);
      auto* to = static_cast<float*>(made.elements);
      for (std::size_t at = 0; at < size; at += format.sample_bytes())
        *to++ = sample_at(chunk.data() + at, format);
      return {on_current_device(made.tensor, encoded.caller), format.rate};
    }
    rest.remove_prefix(std::min(size + size % 2, rest.size()));
  }
  encoded.fail("samples", "the end of the file");
}

/// Types of libsndfile, whose ABI is fixed.
struct SoundInfo {
  std::int64_t frames;
  int rate, channels, format, sections, seekable;
};
struct SoundBytes {
  std::int64_t (*size)(void* user);
  std::int64_t (*seek)(std::int64_t offset, int whence, void* user);
  std::int64_t (*read)(void* to, std::int64_t count, void* user);
  std::int64_t (*write)(const void* from, std::int64_t count, void* user);
  std::int64_t (*tell)(void* user);
};
struct Position {
  std::string_view bytes;
  std::int64_t at = 0;
  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }
};
Position& position(void* user) { return *static_cast<Position*>(user); }
constexpr SoundBytes in_memory = {
    [](void* user) { return position(user).size(); },
    [](std::int64_t offset, int whence, void* user) {
      Position& p = position(user);
      const std::int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? p.at : p.size();
      if (offset < -base || offset > p.size() - base) return std::int64_t{-1};
      return p.at = base + offset;
    },
    [](void* to, std::int64_t count, void* user) {
      Position& p = position(user);
      count = std::clamp<std::int64_t>(count, 0, p.size() - p.at);
      std::memcpy(to, p.bytes.data() + p.at, static_cast<std::size_t>(count));
      p.at += count;
      return count;
    },
    [](const void*, std::int64_t, void*) { return std::int64_t{0}; },
    [](void* user) { return position(user).at; }};

Audio decode_by_sndfile(const Encoded& encoded) {
  const Foreign library("libsndfile.so.1", "libsndfile1", encoded);
  void* (*open)(const SoundBytes*, int mode, SoundInfo*, void* user);
  std::int64_t (*read)(void* sound, float* to, std::int64_t frames);
  int (*close)(void* sound);
  int (*error)(void* sound);
  const char* (*text)(void* sound);
  library.find(open, "sf_open_virtual");
  library.find(read, "sf_readf_float");
  library.find(close, "sf_close");
  library.find(error, "sf_error");
  library.find(text, "sf_strerror");

  Position user{encoded.bytes};
  SoundInfo info{};
  constexpr int mode_read = 0x10;
  void* const sound = open(&in_memory, mode_read, &info, &user);
  if (!sound) encoded.fail("a sound that libsndfile reads", text(nullptr));
  struct Closes {
    int (*close)(void*);
    void* sound;
    ~Closes() { close(sound); }
  } closes{close, sound};
  // The number of frames in the header may be wrong, so memory is taken for what is there.
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> samples;
  constexpr std::size_t part = 1 << 14;
  while (true) {
    const std::size_t before = samples.size();
    samples.resize(before + part * channels);
    const std::int64_t got = read(sound, samples.data() + before, part);
    samples.resize(before + static_cast<std::size_t>(std::max<std::int64_t>(got, 0)) * channels);
    if (got <= 0) break;
  }
  const std::size_t frames = samples.size() / channels;
  if (error(sound) != 0) encoded.fail("a whole sound", text(sound));
  constexpr std::int64_t unknown = INT64_MAX;
  if (info.frames != unknown && static_cast<std::int64_t>(frames) < info.frames)
    encoded.fail(std::to_string(info.frames) + " frames", std::to_string(frames));
  const RawTensor made = make_samples(frames, channels, encoded);
  if (frames > 0) std::memcpy(made.elements, samples.data(), samples.size() * sizeof(float));
  return {on_current_device(made.tensor, encoded.caller), info.rate};
}

Audio read(const std::string& path, std::string_view op, Caller caller, bool all) try {
  const io::Input input(path, op, caller);
  const std::string bytes = input.read(0, input.size());
  const Encoded encoded{bytes, op, &path, caller};
  return all && !is_wav(bytes) ? decode_by_sndfile(encoded) : decode_wav(encoded);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}
}  // namespace

Audio read_wav(const std::string& path, Caller caller) {
  return read(path, "read_wav", caller, false);
}
Audio read_audio(const std::string& path, Caller caller) {
  return read(path, "read_audio", caller, true);
}
}  // namespace reel::data
