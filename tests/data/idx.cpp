// SPDX-License-Identifier: BSD-3-Clause
// Arrays in the format IDX. The bytes are made here by the format's description.
#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "data/zipped.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
std::string big(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16),
          static_cast<char>(number >> 8), static_cast<char>(number)};
}
std::string idx(char type, const std::vector<std::uint32_t>& lengths, const std::string& elements) {
  std::string bytes = {'\0', '\0', type, static_cast<char>(lengths.size())};
  for (const std::uint32_t length : lengths) bytes += big(length);
  return bytes + elements;
}
struct File {
  Folder folder;
  std::string path = folder.file("x-idx3-ubyte");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
  Tensor read(Caller caller = Caller::here()) const { return data::read_idx(path, caller); }
};
}  // namespace

TEST_CASE("arrays of IDX are big-endian, and gzip may compress them") {
  for (const bool zip : {false, true}) {
    const auto read = [&](const std::string& bytes) {
      return File(zip ? zipped(bytes) : bytes).read();
    };
    CHECK(read(idx(8, {2, 3}, "\1\2\3\4\5\xff")).to_vector<std::uint8_t>() ==
          std::vector<std::uint8_t>{1, 2, 3, 4, 5, 255});
    CHECK(read(idx(8, {1, 1, 2}, "ab")).shape() == Shape({1, 1, 2}));
    const auto integers = [&](const std::string& bytes) { return read(bytes).to_vector<int>(); };
    CHECK(read(idx(9, {2}, "\1\xff")).to_vector<std::int8_t>() == std::vector<std::int8_t>{1, -1});
    CHECK(read(idx(11, {2}, std::string("\1\0\xff\xff", 4))).to_vector<std::int16_t>() ==
          std::vector<std::int16_t>{256, -1});
    CHECK(integers(idx(12, {1}, big(70000))) == std::vector<int>{70000});
    CHECK(read(idx(13, {1}, big(0x3fc00000))).item<float>() == 1.5f);
    CHECK(read(idx(14, {1}, big(0xc0080000) + big(0))).item<double>() == -3);
    CHECK(read(idx(8, {0, 28, 28}, "")).shape() == Shape({0, 28, 28}));
    CHECK(read(idx(8, {}, "x")).item<std::uint8_t>() == 'x');
    const Tensor large = read(idx(8, {300, 1000}, std::string(300'000, 'z')));
    CHECK(sum(large != 'z').item<std::int64_t>() == 0);
  }
}

TEST_CASE("what is no IDX, too short or too long is refused") {
  const std::string whole = idx(8, {2, 2}, "abcd");
  check_refused<IoError>([&] { File("hello").read(); },
                         "read_idx: \"x-idx3-ubyte\": expected the format IDX");
  check_refused<IoError>([&] { File("").read(); }, "a whole file");
  check_refused<IoError>([&] { File(idx(10, {1}, "a")).read(); }, "the format IDX");
  check_refused<IoError>([&] { File(idx(8, std::vector<std::uint32_t>(9, 1), "a")).read(); },
                         "at most 8 axes");
  check_refused<IoError>([&] { File(whole + "e").read(); }, "a file as long as its shape says");
  check_refused<IoError>([&] { File(zipped(whole + "e")).read(); },
                         "a file as long as its shape says");
  check_refused<IoError>([&] { File(whole.substr(0, whole.size() - 1)).read(); }, "a whole file");
  check_refused<IoError>([&] { File(zipped(whole).substr(0, 20)).read(); }, "a whole file of gzip");
  check_refused<IoError>([&] { File(zipped(whole.substr(0, 13))).read(); }, "a whole file");
  for (const std::string& bytes :
       {idx(8, {~0u, ~0u, ~0u}, "a"), idx(14, {~0u, ~0u}, "a"), idx(8, {~0u, 0, ~0u, ~0u}, "")})
    for (const bool zip : {false, true})
      check_refused<IoError>([&] { File(zip ? zipped(bytes) : bytes).read(); },
                             "a shape of more bytes than it has");
}

TEST_CASE("a damaged IDX is read as what it says, or refused") {
  const std::string whole = idx(8, {2, 2}, "abcd");
  for (const std::string& bytes : {whole, zipped(whole)})
    fuzz_whole([](const std::string& path) { data::read_idx(path); }, bytes,
               {big(2), "\x0b", "\xff\xff\xff\xff"});
}
}  // namespace reel::tests
