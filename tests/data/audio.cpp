// SPDX-License-Identifier: BSD-3-Clause
// Sounds. WAV files are made here by the published format and by the library's own writer; the FLAC
// file was made by soundfile 0.14. peers.py has more.
#include <dlfcn.h>

#include <bit>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "lib/io/media.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
std::string little(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}
std::string chunk(const std::string& name, const std::string& data) {
  return name + little(data.size(), 4) + data + std::string(data.size() % 2, '\0');
}
std::string format(unsigned code, unsigned channels, unsigned bits, const std::string& more = {}) {
  const unsigned frame = channels * bits / 8;
  return chunk("fmt ", little(code, 2) + little(channels, 2) + little(8000, 4) +
                           little(8000 * frame, 4) + little(frame, 2) + little(bits, 2) + more);
}
std::string riff(const std::string& chunks) { return chunk("RIFF", "WAVE" + chunks); }
struct File {
  Folder folder;
  std::string path = folder.file("x.wav");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
  data::Audio read(Caller caller = Caller::here()) const { return data::read_wav(path, caller); }
};
std::vector<float> samples(const std::string& bytes) {
  return File(bytes).read().samples.to_vector<float>();
}
using Floats = std::vector<float>;
}  // namespace

TEST_CASE("samples of each width are numbers from -1 to 1") {
  CHECK(samples(riff(format(1, 1, 8) + chunk("data", std::string("\x80\xff\0", 3)))) ==
        Floats{0, 127.f / 128, -1});
  CHECK(samples(riff(format(1, 1, 16) + chunk("data", little(0x4000, 2) + little(0x8000, 2)))) ==
        Floats{0.5, -1});
  CHECK(
      samples(riff(format(1, 1, 24) + chunk("data", little(0x400000, 3) + little(0xffffff, 3)))) ==
      Floats{0.5, -1.f / 8388608});
  CHECK(samples(riff(format(1, 1, 32) + chunk("data", little(0xc0000000, 4)))) == Floats{-0.5});
  CHECK(samples(riff(format(3, 1, 32) +
                     chunk("data", little(std::bit_cast<std::uint32_t>(2.5f), 4)))) == Floats{2.5});
  CHECK(samples(riff(format(3, 1, 64) + chunk("data", little(std::bit_cast<std::uint64_t>(-0.25),
                                                             8)))) == Floats{-0.25});
}

TEST_CASE("a sound has frames, channels and a rate") {
  const std::string data =
      chunk("data", little(0x4000, 2) + little(0x8000, 2) + little(0, 2) + little(0x2000, 2));
  // Other chunks may stand before the samples and behind them.
  const data::Audio sound =
      File(riff(chunk("LIST", "odd") + format(1, 2, 16) + data + chunk("note", "x"))).read();
  CHECK(sound.rate == 8000);
  CHECK(sound.samples.shape() == Shape({2, 2}));
  CHECK(sound.samples.to_vector<float>() == Floats{0.5, -1, 0, 0.25});
  const std::string extension = little(22, 2) + little(16, 2) + little(3, 4) + little(1, 2) +
                                std::string("\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 14);
  CHECK(File(riff(format(0xfffe, 2, 16, extension) + data)).read().samples.to_vector<float>() ==
        Floats{0.5, -1, 0, 0.25});
  CHECK(File(riff(format(1, 2, 16) + chunk("data", ""))).read().samples.shape() == Shape({0, 2}));
  const Floats wave = {0, 0.5, -0.5, 1};
  const data::Audio written = File(io::wav(wave.data(), 4, 1, 16'000)).read();
  CHECK(written.rate == 16'000);
  CHECK(allclose(written.samples, tensor(wave).reshape({4, 1}), {.atol = 1e-4}));
  const File file(riff(format(1, 2, 16) + data));
  CHECK(data::read_audio(file.path).samples.shape() == Shape({2, 2}));
}

TEST_CASE("what is no WAV of a known codec, or is cut, is refused") {
  const std::string data = chunk("data", "1234");
  check_refused<IoError>([&] { File("hello").read(); },
                         "read_wav: \"x.wav\": expected a WAV file, got 'hello'");
  check_refused<IoError>([&] { File(riff(format(2, 1, 4) + data)).read(); },
                         "got codec 2 with 4 bits");
  check_refused<IoError>([&] { File(riff(format(1, 0, 16) + data)).read(); },
                         "PCM of 8, 16, 24 or 32 bits");
  check_refused<IoError>([&] { File(riff(data)).read(); }, "a format in front of the samples");
  check_refused<IoError>([&] { File(riff(format(1, 1, 24) + data)).read(); }, "whole frames");
  check_refused<IoError>([&] { File(riff(format(1, 1, 16))).read(); },
                         "expected samples, got the end of the file");
  const std::string whole = riff(format(1, 1, 16) + data);
  check_refused<IoError>([&] { File(whole.substr(0, whole.size() - 1)).read(); },
                         "a part of 4 bytes, got 3 bytes");
}

TEST_CASE("libsndfile reads other sounds") {
  if (!dlopen("libsndfile.so.1", RTLD_LAZY)) SKIP("libsndfile is not installed");
  std::string bytes;
  const std::string digits =
      "664c6143000000221000100000001100001101f402f000000003e49c98233fc46a2af018d9a74c8e"
      "f17a84000028200000007265666572656e6365206c6962464c414320312e342e3320323032333036"
      "323300000000fff8641800024f030008300c0053047508";
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  const File file(bytes);
  const data::Audio sound = data::read_audio(file.path);
  CHECK(sound.rate == 8000);
  CHECK(sound.samples.shape() == Shape({3, 2}));
  CHECK(allclose(sound.samples, tensor({{0, 0.5}, {0.25, -0.5}, {-1, 0.125}}), {.atol = 1e-4}));
  const File garbage("hello, hello");
  check_refused<IoError>([&] { data::read_audio(garbage.path); },
                         "read_audio: \"x.wav\": expected a sound that libsndfile reads");
  fuzz_whole([](const std::string& path) { data::read_audio(path); }, bytes, {"fLaC"}, 300);
}

TEST_CASE("a damaged WAV is read as what it says, or refused") {
  fuzz_whole([](const std::string& path) { data::read_wav(path); },
             riff(chunk("LIST", "odd") + format(1, 2, 16) + chunk("data", "12345678")),
             {"data", "fmt ", little(~0u, 4), little(3, 2)});
}
}  // namespace reel::tests
