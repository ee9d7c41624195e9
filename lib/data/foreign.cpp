// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/foreign.hpp"

#include <dlfcn.h>

#include <new>

#include <reel/error.hpp>

#include "lib/io/file.hpp"

namespace reel::data {
void Encoded::fail(std::string_view expected, std::string_view got, std::string_view advice) const {
  if (path) io::fail_file(caller, op, *path, expected, got, advice);
  reel::fail<IoError>(caller, op, "bytes", expected, got, advice);
}

Foreign::Foreign(const char* file, std::string_view package, const Encoded& encoded)
    : library_(::dlopen(file, RTLD_LAZY | RTLD_LOCAL)), package_(package), encoded_(encoded) {
  if (library_) return;
  const char* const reason = ::dlerror();
  if (reason && std::string_view(reason).find("memory") != std::string_view::npos)
    throw std::bad_alloc();
  encoded.fail("the library " + std::string(file), "none",
               "Install it: its package in Debian is " + std::string(package) + ".");
}
void* Foreign::address(const char* name) const {
  void* const found = ::dlsym(library_, name);
  if (!found)
    encoded_.fail("a library with " + std::string(name), "another version",
                  "Install the version of Debian's package " + std::string(package_) + ".");
  return found;
}

void Pixels::make(const Encoded& encoded, std::int64_t most, std::size_t ratio) {
  const std::size_t limit = static_cast<std::size_t>(most < 0 ? 0 : most);
  if (width == 0 || height == 0 || height > limit / width)
    encoded.fail("an image of 1 to " + std::to_string(limit) + " pixels",
                 std::to_string(width) + " x " + std::to_string(height),
                 "The option most_pixels allows more.");
  if (height * width / ratio > encoded.bytes.size())
    encoded.fail("a whole image", "more pixels than the file can have");
  bytes.resize(height * width * channels);
}
}  // namespace reel::data
