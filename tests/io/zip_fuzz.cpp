// SPDX-License-Identifier: BSD-3-Clause
// R22: damaged .npz and PyTorch files are read as their bytes say, or refused with an IoError.
#include <cstdlib>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/damage.hpp"
#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/zip_bytes.hpp"
#include "lib/io/pickle.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
int rounds() { return std::getenv("REEL_TEST_LONG") ? 500'000 : 10'000; }

struct Counts {
  int refused = 0, read = 0;
};
/// Loads a file, and adds up the bytes that were read.
template <class Load>
void try_to(const Load& load, const std::string& path, std::size_t most_bytes, Counts& counts) {
  try {
    for (const auto& [name, x] : load(path)) {
      REQUIRE(x.rank() <= 8);
      if (x.size() < 10'000) x.to(DType::float32).template to_vector<float>();
      REQUIRE(memory_statistics().live_bytes < static_cast<std::int64_t>(most_bytes));
    }
    ++counts.read;
  } catch (const IoError& error) {
    ++counts.refused;
    const std::string text = error.what();
    REQUIRE(text.substr(0, text.find('\n')).size() <= 200);
    REQUIRE(text.find('\x1b') == text.npos);
  }
}
const std::vector<std::string> zip_pieces = {"PK\1\2",
                                             "PK\3\4",
                                             "PK\5\6",
                                             "PK\6\6",
                                             "PK\6\7",
                                             std::string(4, '\xff'),
                                             std::string(8, '\xff'),
                                             std::string(4, '\0'),
                                             "\1",
                                             "\x08",
                                             "a.npy",
                                             "data.pkl"};
const std::vector<std::string> pickle_pieces = {"(",
                                                ")",
                                                "}",
                                                "]",
                                                "t",
                                                "R",
                                                "Q",
                                                "e",
                                                "u",
                                                "s",
                                                "a",
                                                "N",
                                                "K\1",
                                                "h\0",
                                                "q\1",
                                                "\x85",
                                                "\x86",
                                                "\x87",
                                                "\x88",
                                                "b",
                                                ".",
                                                "\x93",
                                                "J\xff\xff\xff\xff",
                                                "M\xff\xff",
                                                "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
                                                "ccollections\nOrderedDict\n",
                                                "ctorch._utils\n_rebuild_tensor_v2\n",
                                                "ctorch\nDoubleStorage\n",
                                                "\x8c\1\x1b",
                                                "cos\nsystem\n"};
}  // namespace

TEST_CASE("a damaged .npz file is read as what it says, or refused") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  std::vector<std::string> files;
  for (const bool deflate : {false, true}) {
    io::save_npz(path, {{"x", arange(0, 6).reshape({2, 3})}, {"y", tensor(true)}},
                 {.compress = deflate});
    files.push_back(contents(path));
  }
  files.push_back(contents(REEL_GOLDEN "/stored.npz"));
  files.push_back(contents(REEL_GOLDEN "/deflated.npz"));
  Random random(22);
  Counts counts;
  for (int i = 0; i < rounds(); ++i) {
    std::string file = files[below(random, files.size())];
    for (std::size_t n = 1 + below(random, 2); n > 0; --n) damage(file, random, zip_pieces);
    write_file(path, file);
    try_to([](const std::string& at) { return io::load_npz(at); }, path, 1 << 20, counts);
  }
  CHECK(counts.refused > rounds() / 2);
}

TEST_CASE("a damaged pickle is read as what it says, or refused") {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  std::vector<std::string> pickles = {
      io::state_dict_pickle({{"x", arange(0.0f, 6.0f).reshape({2, 3})}, {"y", tensor(true)}})};
  {
    const io::Input input(REEL_GOLDEN "/mixed.pt", "test", Caller::here());
    const io::ZipReader zip(input);
    pickles.push_back(zip.read(*zip.find("mixed/data.pkl")));
  }
  Random random(23);
  Counts counts;
  Members members = {{"a/data.pkl", ""}};
  for (int i = 0; i < 14; ++i)
    members.emplace_back("a/data/" + std::to_string(i), std::string(i % 3 == 0 ? 24 : i, '\1'));
  for (int i = 0; i < rounds(); ++i) {
    members[0].second = pickles[below(random, pickles.size())];
    for (std::size_t n = 1 + below(random, 3); n > 0; --n)
      damage(members[0].second, random, pickle_pieces);
    write_zip(path, members);
    try_to([](const std::string& at) { return io::load_torch(at); }, path, 1 << 20, counts);
  }
  CHECK(counts.refused > rounds() / 2);
}
}  // namespace reel::tests
