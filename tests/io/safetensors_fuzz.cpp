// SPDX-License-Identifier: BSD-3-Clause
// R22: a damaged .safetensors file is read as its bytes say, or refused with an IoError.
#include <cstdlib>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/damage.hpp"
#include "io/folder.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
const std::vector<std::string> pieces = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         ",",
                                         ":",
                                         "-1",
                                         "0",
                                         "1e9",
                                         "\"dtype\"",
                                         "\"shape\"",
                                         "F64",
                                         "BOOL",
                                         "BF16",
                                         "9223372036854775807",
                                         "[0,0]",
                                         "\\u0000",
                                         "\\ud800",
                                         "\x1b[2J",
                                         "\xff",
                                         "\n",
                                         "__metadata__",
                                         "\"data_offsets\":[0,4]"};
}

TEST_CASE("a damaged .safetensors file is read as what it says, or refused") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  std::vector<std::string> files;
  io::save_safetensors(path, {{"x", arange(0, 6).reshape({2, 3})}, {"y", tensor(true)}});
  files.push_back(contents(path));
  io::save_safetensors(path, {{"half", ones({3}).to(DType::bfloat16)}, {"none", zeros({0, 2})}},
                       {.metadata = {{"key", "text"}}});
  files.push_back(contents(path));
  Random random(21);
  const int count = std::getenv("REEL_TEST_LONG") ? 1'000'000 : 20'000;
  int refused = 0, read = 0;
  for (int i = 0; i < count; ++i) {
    std::string file = files[below(random, files.size())];
    for (std::size_t n = 1 + below(random, 4); n > 0; --n) {
      damage(file, random, pieces);
      // Without this, the length of the header would be wrong in most files.
      if (random() % 4 && file.size() > 8) file[0] = static_cast<char>(file.rfind('}') - 7);
    }
    write_file(path, file);
    try {
      std::size_t bytes = 0;
      for (const auto& [name, x] : io::load_safetensors(path))
        bytes += static_cast<std::size_t>(x.size() * size_of(x.dtype()));
      ++read;
      REQUIRE(bytes + 10 <= file.size());
    } catch (const IoError& error) {
      ++refused;
      const std::string text = error.what();
      REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
      REQUIRE(text.find('\x1b') == text.npos);
    }
  }
  CHECK(refused > count / 2);
  CHECK(read > count / 100);
}
}  // namespace reel::tests
