// SPDX-License-Identifier: BSD-3-Clause
// Files of NumPy: what is written is read again, what is damaged is refused.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
namespace fs = std::filesystem;

/// A folder that goes with its scope.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "reel-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return path / name; }
};
std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}
}  // namespace

TEST_CASE("a .npy file gives back every dtype, shape and layout") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const Tensor numbers = arange(0.0f, 24.0f).reshape({2, 3, 4});
  for (const DType dtype :
       {DType::boolean, DType::uint8, DType::int32, DType::int64, DType::float32, DType::float64})
    for (const Tensor& x : {numbers, transpose(numbers), numbers(1, all, range({}, {}, -1)),
                            numbers(0, 0, 0), numbers(range(0, 0))}) {
      const Tensor y = x.to(dtype);
      io::save_npy(path, y);
      const Tensor read = io::load_npy(path);
      CHECK(read.dtype() == dtype);
      CHECK(equal(read, y));
    }
}

TEST_CASE("a .npy file has the bytes that NumPy writes") {
  const Folder folder;
  io::save_npy(folder.file("x.npy"), tensor({1.0f, -2.0f}));
  std::string wanted = "\x93NUMPY";
  wanted += {'\x01', '\0', '\x76', '\0'};
  wanted += "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  wanted.append(127 - wanted.size(), ' ') += "\n";
  wanted += {'\0', '\0', '\x80', '\x3f', '\0', '\0', '\0', '\xc0'};
  CHECK(contents(folder.file("x.npy")) == wanted);
}

TEST_CASE("every .npy file that is cut short, or too long, is refused") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  io::save_npy(path, arange(0, 5));
  const std::string whole = contents(path);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write(path, whole.substr(0, bytes));
    CHECK_THROWS_AS(io::load_npy(path), IoError);
  }
  write(path, whole + "x");
  check_refused<IoError>([&] { io::load_npy(path); }, "bytes");
  check_refused<IoError>([&] { io::load_npy(folder.file("missing.npy")); }, "missing.npy");
}

TEST_CASE("saving follows links, keeps permissions, and replaces nothing but files") {
  const Folder folder;
  const std::string target = folder.file("target.npy"), link = folder.file("link.npy"),
                    pipe = folder.file("pipe");
  io::save_npy(target, tensor(1));
  REQUIRE(chmod(target.c_str(), 0600) == 0);
  fs::create_symlink(target, link);
  io::save_npy(link, tensor(2));
  CHECK(fs::is_symlink(link));
  CHECK(io::load_npy(target).item<std::int32_t>() == 2);
  struct stat status {};
  REQUIRE(stat(target.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  check_refused<IoError>([&] { io::save_npy(pipe, tensor(1)); }, "regular file");
  CHECK(fs::is_fifo(pipe));
  check_refused<IoError>([&] { io::save_npy(folder.file("no/x.npy"), tensor(1)); }, "save_npy");
  check_refused<Error>([&] { io::save_npy(target, Tensor()); }, "undefined");
  CHECK(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()) == 3);
}
}  // namespace reel::tests
