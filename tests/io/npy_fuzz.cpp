// SPDX-License-Identifier: BSD-3-Clause
// R22: a damaged file is read as its bytes say, or refused with an IoError. Nothing else happens.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/damage.hpp"
#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Type {
  const char* name;
  std::size_t bytes;
};
constexpr Type types[] = {{"'|b1'", 1}, {"'|u1'", 1}, {"'<i4'", 4},
                          {"'<i8'", 8}, {"'<f4'", 4}, {"'<f8'", 8}};
std::vector<std::string> whole_files() {
  std::vector<std::string> files;
  for (const Type& type : types)
    for (const int version : {1, 2, 3})
      for (const char* const order : {"True", "False"}) {
        const std::string elements(6 * type.bytes, '\1');
        files.push_back(npy_bytes(version, dictionary(type.name, order, "(2, 3)"), elements));
        files.push_back(npy_bytes(version, dictionary(type.name, order, "(6,)"), elements));
        files.push_back(npy_bytes(version, dictionary(type.name, order, "(2, 0, 3)"), ""));
      }
  return files;
}

const std::vector<std::string> pieces = {"(",
                                         ")",
                                         "{",
                                         "}",
                                         "'",
                                         ",",
                                         ":",
                                         "-1",
                                         "0",
                                         "descr",
                                         "'shape'",
                                         "True",
                                         "False",
                                         "'<f8'",
                                         "'|b1'",
                                         "9223372036854775807",
                                         "4294967296",
                                         "(1,1,1,1,1,1,1,1,1)",
                                         "\n",
                                         "\x1b[2J",
                                         std::string(1, '\0'),
                                         "L",
                                         "\xff\xff",
                                         "'fortran_order': True, "};
}  // namespace

TEST_CASE("a damaged .npy file is read as what it says, or refused") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const std::vector<std::string> files = whole_files();
  Random random(20);
  const int count = std::getenv("REEL_TEST_LONG") ? 1'000'000 : 20'000;
  int refused = 0, read = 0;
  for (int i = 0; i < count; ++i) {
    std::string file = files[below(random, files.size())];
    for (std::size_t n = 1 + below(random, 4); n > 0; --n) damage(file, random, pieces);
    write_file(path, file);
    try {
      const Tensor x = io::load_npy(path);
      ++read;
      // The elements that were read are in the file; none is invented. Some are read into a wider
      // dtype, or swapped.
      const auto bytes = static_cast<std::size_t>(x.size() * size_of(x.dtype()));
      const bool as_it_is = std::any_of(std::begin(types), std::end(types), [&](const Type& type) {
        return file.find(type.name) != file.npos;
      });
      REQUIRE((as_it_is ? bytes : static_cast<std::size_t>(x.size())) + 10 <= file.size());
      REQUIRE(x.rank() <= 8);
      if (bytes && as_it_is && x.dtype() != DType::boolean) {
        io::save_npy(path, transpose(x));
        const std::string saved = contents(path);
        const bool same = saved.substr(saved.size() - bytes) == file.substr(file.size() - bytes);
        io::save_npy(path, x);
        const std::string again = contents(path);
        REQUIRE((same || again.substr(again.size() - bytes) == file.substr(file.size() - bytes)));
      }
    } catch (const IoError& error) {
      ++refused;
      const std::string text = error.what();
      REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
      REQUIRE(text.find('\x1b') == text.npos);
    }
  }
  CHECK(refused > count / 2);
  CHECK(read > count / 50);
}
}  // namespace reel::tests
