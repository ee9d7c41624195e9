// SPDX-License-Identifier: BSD-3-Clause
// Images. PNG files are made here by the library's own writer and by the published format; JPEG
// files were made by Pillow 13, which gave the expected pixels too. peers.py has more.
#include <zlib.h>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "lib/io/media.hpp"
#include "support/refused.hpp"

#if __has_include(<png.h>) && __has_include(<jpeglib.h>)
namespace reel::tests {
namespace {
using Bytes = std::vector<std::uint8_t>;
std::string hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}
const std::string jpeg_head =
    "ffd8ffe000104a46494600010100000100010000ffdb004300020101010101020101010202020202040302020202"
    "0504040304060506060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0a";
const std::string rgb_jpeg = hex(
    jpeg_head +
    "ffdb004301020202020202050303050a0706070a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0affc00011080003000503011100021101031101ffc40014"
    "000100000000000000000000000000000007ffc4001e100001010900000000000000000000000008020001051727"
    "42435162ffc4001501010100000000000000000000000000000508ffc40023110000040309000000000000000000"
    "0000000107410203060508162534425161d1ffda000c03010002110311003f004516c1711a5e268340acc4bd3fa6"
    "992ae50ab52b4f5d1bb97809bbb2a6a1607873199b5cb83e87ffd9");
const std::string gray_jpeg = hex(
    jpeg_head +
    "ffc0000b080003000501011100ffc40014000100000000000000000000000000000006ffc4001a10000007000000"
    "000000000000000000000002040a3884b2ffda0008010100003f004cddd8409eb60c3fffd9");
const std::string progressive_jpeg = hex(
    jpeg_head +
    "ffc2000b080003000501011100ffc40014000100000000000000000000000000000005ffda00080101000000014f"
    "ffc4001510010100000000000000000000000000000836ffda00080101000105023bc47fffc40016100003000000"
    "0000000000000000000000000282ffda0008010100063f02593fffc4001710000301000000000000000000000000"
    "00000161f0ffda0008010100013f21d919ffda00080101000000107fffc400141001000000000000000000000000"
    "00000000ffda0008010100013f102dffd9");
const std::string cmyk_jpeg = hex(
    "ffd8ffee000e41646f626500640000000000ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123"
    "251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ffc0001408"
    "00030005044311004d11005911004b1100ffc400160001010100000000000000000000000000050307ffc4001d10"
    "0001020700000000000000000000000000010305061635548191ffda000e0443004d0059004b00003f00ac9b694d"
    "08d3d08c06780a6807ffd9");

std::string big(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
          static_cast<char>(number >> 8), static_cast<char>(number)};
}
std::string chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const auto* const bytes = reinterpret_cast<const Bytef*>(body.data());
  return big(static_cast<std::uint32_t>(data.size())) + body +
         big(static_cast<std::uint32_t>(crc32(0, bytes, static_cast<uInt>(body.size()))));
}
/// A PNG of rows, each of which begins with the byte of its filter.
std::string png(std::uint32_t width, std::uint32_t height, char depth, char kind,
                const std::string& rows, const std::string& chunks = {}) {
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big(width) + big(height) + depth + kind + std::string(3, '\0')) + chunks +
         chunk("IDAT", packed) + chunk("IEND", "");
}
Bytes pixels(const std::string& bytes, data::ImageOptions options = {}) {
  return data::decode_image(bytes, options).to_vector<std::uint8_t>();
}
int distance(const Bytes& a, const Bytes& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}
const Bytes ramp = {0, 50, 100, 150, 200, 0, 50, 100, 150, 200, 0, 50, 100, 150, 200};
}  // namespace

TEST_CASE("a PNG that is written is read, with 1 to 4 channels") {
  for (std::size_t channels = 1; channels <= 4; ++channels) {
    Bytes x(3 * 5 * channels);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint8_t>(17 * i);
    const std::string bytes = io::png(x.data(), 3, 5, channels);
    const Tensor read = data::decode_image(bytes);
    CHECK(read.shape() == Shape({3, 5, channels}));
    CHECK(read.to_vector<std::uint8_t>() == x);
    const Folder folder;
    write_file(folder.file("x.png"), bytes);
    CHECK(data::read_image(folder.file("x.png")).to_vector<std::uint8_t>() == x);
  }
}

TEST_CASE("a PNG with few or many bits, or with a palette, has 8 bits") {
  CHECK(pixels(png(3, 1, 1, 0, std::string("\0\xa0", 2))) == Bytes{255, 0, 255});
  CHECK(pixels(png(2, 1, 2, 0, std::string("\0\x60", 2))) == Bytes{85, 170});
  CHECK(pixels(png(2, 1, 16, 0, std::string("\0\x12\x34\xff\xff", 5))) == Bytes{0x12, 255});
  const std::string colors = chunk("PLTE", "\x01\x02\x03\x04\x05\x06");
  CHECK(pixels(png(3, 1, 4, 3, std::string("\0\x01\x10", 3), colors)) ==
        Bytes{1, 2, 3, 4, 5, 6, 4, 5, 6});
  CHECK(pixels(png(1, 1, 8, 3, std::string("\0\x01", 2), colors + chunk("tRNS", "\x09\x08"))) ==
        Bytes{4, 5, 6, 8});
}

TEST_CASE("an image gets the channels that are asked for") {
  const Bytes rgba = {255, 0, 0, 7, 10, 20, 30, 255};
  const std::string file = io::png(rgba.data(), 1, 2, 4);
  CHECK(pixels(file, {.channels = 3}) == Bytes{255, 0, 0, 10, 20, 30});
  CHECK(pixels(file, {.channels = 1}) == Bytes{76, 18});
  CHECK(pixels(file, {.channels = 4}) == rgba);
  const Bytes gray = {9, 1, 200, 2};
  CHECK(pixels(io::png(gray.data(), 1, 4, 1), {.channels = 3}) ==
        Bytes{9, 9, 9, 1, 1, 1, 200, 200, 200, 2, 2, 2});
  CHECK(pixels(io::png(gray.data(), 1, 2, 2), {.channels = 4}) ==
        Bytes{9, 9, 9, 1, 200, 200, 200, 2});
  CHECK(pixels(io::png(gray.data(), 1, 4, 1), {.channels = 1}) == gray);
  check_refused<Error>([&] { data::decode_image(file, {.channels = 2}); },
                       "channels: expected 0, 1, 3 or 4, got 2");
}

TEST_CASE("a JPEG is gray or in color") {
  const Bytes rgb = {0, 1,   76, 51, 0,   75, 101, 0,   78, 148, 0,   78, 202, 1,   79,
                     0, 100, 76, 50, 99,  77, 100, 99,  78, 149, 98,  77, 201, 99,  77,
                     0, 200, 75, 51, 199, 75, 101, 199, 76, 150, 200, 77, 202, 200, 77};
  CHECK(data::decode_image(rgb_jpeg).shape() == Shape({3, 5, 3}));
  CHECK(distance(pixels(rgb_jpeg), rgb) <= 2);
  CHECK(data::decode_image(rgb_jpeg, {.channels = 1}).shape() == Shape({3, 5, 1}));
  for (const std::string& file : {gray_jpeg, progressive_jpeg}) {
    CHECK(data::decode_image(file).shape() == Shape({3, 5, 1}));
    CHECK(distance(pixels(file), ramp) <= 2);
    CHECK(data::decode_image(file, {.channels = 3}).shape() == Shape({3, 5, 3}));
  }
  const Bytes four = pixels(gray_jpeg, {.channels = 4});
  CHECK(four.size() == 60);
  CHECK(four[3] == 255);
}

TEST_CASE("what is no whole image is refused") {
  const std::string file = io::png(ramp.data(), 3, 5, 1);
  check_refused<IoError>([] { data::decode_image("hello"); },
                         "decode_image: bytes: expected a PNG or a JPEG, got 'hello'");
  check_refused<IoError>([] { data::decode_image(""); }, "got no bytes");
  check_refused<IoError>([&] { data::decode_image(file.substr(0, file.size() - 30)); },
                         "a whole PNG, got ");
  check_refused<IoError>([&] { data::decode_image(file.substr(0, file.size() - 1)); },
                         "a whole PNG, got the end of the file");
  check_refused<IoError>([&] { data::decode_image(rgb_jpeg.substr(0, rgb_jpeg.size() - 20)); },
                         "a whole JPEG");
  check_refused<IoError>([&] { data::decode_image(cmyk_jpeg); },
                         "a whole JPEG, gray or in color, got Unsupported color conversion");
  const Folder folder;
  write_file(folder.file("x.png"), "hello");
  check_refused<IoError>([&] { data::read_image(folder.file("x.png")); },
                         "read_image: \"x.png\": expected a PNG or a JPEG");
}

TEST_CASE("an image of too many pixels is refused before memory is taken") {
  const std::string huge = png(100'000, 100'000, 8, 2, "");
  check_refused<IoError>([&] { data::decode_image(huge); },
                         "an image of 1 to 134217728 pixels, got 100000 x 100000");
  check_refused<IoError>([&] { data::decode_image(png(10'000, 10'000, 8, 2, "")); },
                         "more pixels than the file can have");
  check_refused<IoError>([&] { data::decode_image(gray_jpeg, {.most_pixels = 14}); },
                         "an image of 1 to 14 pixels, got 5 x 3");
  CHECK(pixels(gray_jpeg, {.most_pixels = 15}).size() == 15);
  std::string wide = gray_jpeg;
  const std::size_t lengths = jpeg_head.size() / 2 + 5;
  wide.replace(lengths, 4, "\x20\xff\x20\xff");
  check_refused<IoError>([&] { data::decode_image(wide); }, "more pixels than the file can have");
}

TEST_CASE("a damaged image is read as what it says, or refused") {
  for (const std::string& file :
       {io::png(ramp.data(), 3, 5, 1),
        png(3, 1, 4, 3, std::string("\0\x01\x10", 3), chunk("PLTE", "123456")), rgb_jpeg,
        progressive_jpeg})
    fuzz_whole([](const std::string& path) { data::read_image(path); }, file,
               {"IDAT", "\xff\xd9", "\xff\xda", big(5)}, 500);
}
}  // namespace reel::tests
#endif
