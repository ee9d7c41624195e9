// SPDX-License-Identifier: BSD-3-Clause
// Archives of NumPy: the library reads what it writes, and refuses damaged archives.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/same_tensors.hpp"
#include "io/zip_bytes.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const std::string one_byte = npy_bytes(1, dictionary("'|u1'", "False", "(1,)"), "\5");
}

TEST_CASE("a .npz file gives back every dtype, shape and layout, stored and deflated") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  io::NamedTensors tensors = of_every_dtype(false);
  tensors.emplace_back("large", arange(0, 200'000));
  std::size_t sizes[2] = {};
  for (const bool compress : {false, true}) {
    io::save_npz(path, tensors, {.compress = compress});
    check_same(io::load_npz(path), tensors);
    sizes[compress] = contents(path).size();
  }
  CHECK(sizes[1] < sizes[0] / 2);
  io::save_npz(path, {});
  CHECK(io::load_npz(path).empty());
  check_refused<DTypeError>(
      [&] {
        io::save_npz(path, {{"x", ones({2}).to(DType::bfloat16)}});
      },
      "a dtype that NumPy has, got bfloat16");
  check_refused<Error>([&] { io::save_npz(path, {{"x", ones({2})}, {"x", ones({2})}}); }, "twice");
  check_refused<Error>([&] { io::save_npz(path, {{"x", Tensor()}}); }, "undefined");
  CHECK(folder.count() == 1);
}

TEST_CASE("files that NumPy wrote are read, into models too") {
  io::NamedTensors wanted;
  const Tensor numbers = arange(0.0f, 6.0f).reshape({2, 3});
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int32, DType::int64,
                            DType::float16, DType::float32, DType::float64})
    wanted.emplace_back(name_of(dtype), numbers.to(dtype));
  wanted.emplace_back("scalar", tensor(2.5f));
  wanted.emplace_back("empty", zeros({0, 3}));
  wanted.emplace_back("fortran", numbers);
  check_same(io::load_npz(REEL_GOLDEN "/stored.npz"), wanted);
  check_same(io::load_npz(REEL_GOLDEN "/deflated.npz"), wanted);
  struct Model {
    Variable fortran{"fortran", zeros({2, 3})};
    REEL_FIELDS(fortran)
  };
  const Model model;
  io::load(REEL_GOLDEN "/deflated.npz", {.strict = false}, model);
  CHECK(equal(model.fortran, numbers));
}

TEST_CASE("every zip file that is cut short or has another byte is refused, or read as before") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  io::save_npz(path, {{"x", arange(0, 5)}, {"y", tensor({true, false})}});
  const std::string stored = contents(path);
  io::save_npz(path, {{"x", arange(0, 50)}, {"y", tensor({true, false})}}, {.compress = true});
  const std::string deflated = contents(path);
  for (const std::string& whole : {stored, deflated, contents(REEL_GOLDEN "/stored.npz"),
                                   contents(REEL_GOLDEN "/deflated.npz")}) {
    write_file(path, whole);
    const io::NamedTensors wanted = io::load_npz(path);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      write_file(path, whole.substr(0, bytes));
      CHECK_THROWS_AS(io::load_npz(path), IoError);
    }
    int refused = 0;
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const char bit : {'\1', '\x80'}) {
        std::string other = whole;
        other[at] = static_cast<char>(other[at] ^ bit);
        write_file(path, other);
        try {
          const io::NamedTensors read = io::load_npz(path);
          bool same = read.size() == wanted.size();
          for (std::size_t i = 0; same && i < read.size(); ++i)
            same =
                read[i].first == wanted[i].first && same_tensor(read[i].second, wanted[i].second);
          INFO(at);
          REQUIRE(same);
        } catch (const IoError&) {
          ++refused;
        }
      }
    CHECK(refused > 200);
  }
}

TEST_CASE("members that a .npz file cannot have are refused") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  const auto refuse = [&](const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_npz(path, {}, caller); }, part, caller);
  };
  write_zip(path, {{"a.npy", one_byte}, {"a.npy", one_byte}});
  check_refused<IoError>([&] { io::load_npz(path); }, "got \"a.npy\" twice");
  write_zip(path, {{"a.npy", one_byte + "x"}});
  check_refused<IoError>([&] { io::load_npz(path); }, "bytes, by its header");
  write_zip(path, {{"a.npy", "x"}});
  check_refused<IoError>([&] { io::load_npz(path); }, "the format .npy");
  refuse("", "a zip file");
  refuse("not a zip file, but text of some length", "a zip file");
  write_zip(path, {{"a.npy", one_byte}}, true);
  const std::string whole = contents(path);
  const std::size_t entry = whole.find("PK\1\2"), local = whole.find("PK\3\4");
  const auto with = [&](std::size_t at, const std::string& bytes) {
    std::string other = whole;
    return other.replace(at, bytes.size(), bytes);
  };
  const std::string huge(8, '\x7f');
  // zip64 sizes of the content and of the packed bytes
  const std::size_t extra = entry + 46 + 5 + 4;
  refuse(with(entry + 8, "\1"), "the header of");
  refuse(with(entry + 10, "\x0c"), "the header of");
  refuse(with(extra, huge), "packed bytes can have");
  refuse(with(extra + 8, huge), "the header of");
  refuse(with(extra + 16, huge), "one after the other");
  refuse(with(local, "PK\3\5"), "a zip file");
  refuse(with(entry, "PK\1\3"), "the directory");
  refuse(with(whole.size() - 20, "\1"), "");
  const std::int64_t asked = memory_statistics().large_blocks;
  // A few bytes that claim 4 GiB of zeros.
  write_zip(path, {{"a.npy", npy_bytes(1, dictionary("'|u1'", "False", "(4294967296,)"), "")}},
            true);
  CHECK_THROWS_AS(io::load_npz(path), IoError);
  CHECK(memory_statistics().large_blocks == asked);
  // Two entries with the same bytes.
  write_zip(path, {{"a.npy", one_byte}, {"b.npy", one_byte}});
  std::string overlapping = contents(path);
  const std::size_t second = overlapping.rfind("PK\1\2");
  overlapping.replace(second + 46 + 5 + 4 + 16, 8, std::string(8, '\0'));
  refuse(overlapping, "");
}
}  // namespace reel::tests
