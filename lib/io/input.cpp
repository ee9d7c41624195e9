// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/input.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace reel::io {
Input::Input(const Path& path, std::string_view op, Caller caller)
    : path_(path),
      op_(op),
      caller_(caller),
      file_(path, O_RDONLY | O_NONBLOCK) {  // a pipe is refused, not waited for
  if (path.find('\0') != Path::npos) fail("a path without a byte 0", "one with it");
  if (!file_.is_open()) fail("a file to read", std::strerror(errno));
  struct stat status {};
  if (fstat(file_.descriptor(), &status) != 0 || !S_ISREG(status.st_mode))
    fail("a regular file", "something else");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

void Input::read(std::uint64_t at, void* to, std::size_t bytes) const {
  if (at > size_ || bytes > size_ - at) fail("a whole file", "the end of the file");
  const bool there =
      at == position_ || ::lseek(file_.descriptor(), static_cast<off_t>(at), SEEK_SET) >= 0;
  if (!there || !file_.read_all(to, bytes)) {
    position_ = UINT64_MAX;  // unknown
    fail("a whole file", "the end of the file");
  }
  position_ = at + bytes;
}

std::string Input::read(std::uint64_t at, std::size_t bytes) const {
  if (at > size_ || bytes > size_ - at) fail("a whole file", "the end of the file");
  std::string text(bytes, '\0');
  read(at, text.data(), bytes);
  return text;
}
}  // namespace reel::io
