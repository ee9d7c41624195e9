// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <reel/error.hpp>

#include "lib/body/text.hpp"

namespace reel::io {
namespace {
/// Calls `f` until no signal interrupts it.
template <class F>
auto uninterrupted(F f) {
  while (true) {
    const auto result = f();
    if (result >= 0 || errno != EINTR) return result;
  }
}
}  // namespace

void fail_file(Caller caller, std::string_view op, const Path& path, std::string_view expected,
               std::string_view got, std::string_view advice) {
  const std::size_t slash = path.find_last_of('/', path.size() < 2 ? 0 : path.size() - 2);
  const std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
  std::string rest;
  if (name != path) rest = "The file is " + escaped(path) + ".";
  if (!advice.empty()) rest.append(rest.empty() ? "" : "\n  ").append(advice);
  fail<IoError>(caller, op, "\"" + escaped(name) + "\"", expected, got, rest);
}

std::string escaped(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      text += c;
    else
      text.append("\\x").append({digits[byte >> 4], digits[byte & 15]});
  }
  return text;
}

void make_folders(const Path& folder, std::string_view op, Caller caller) {
  for (std::size_t at = folder.find('/', 1); at != folder.npos; at = folder.find('/', at + 1))
    if (::mkdir(folder.substr(0, at).c_str(), 0777) != 0 && errno != EEXIST && errno != EISDIR)
      fail_file(caller, op, folder, "a folder that can be made", std::strerror(errno));
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    fail_file(caller, op, folder, "a folder", "something else");
}

bool exists(const Path& path) { return ::access(path.c_str(), F_OK) == 0; }
void remove_file(const Path& path) { ::unlink(path.c_str()); }

File::File(const Path& path, int flags)
    : descriptor_(
          uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NOCTTY, 0666); })) {
}

bool File::read_all(void* to, std::size_t bytes) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = uninterrupted([&] { return ::read(descriptor_, at, bytes); });
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}
std::size_t File::write(const void* from, std::size_t bytes) const {
  std::size_t all = 0;
  while (all < bytes) {
    errno = EIO;  // the reason if the system takes no byte and gives none
    const char* const at = static_cast<const char*>(from) + all;
    const ssize_t done = uninterrupted([&] { return ::write(descriptor_, at, bytes - all); });
    if (done <= 0) break;
    all += static_cast<std::size_t>(done);
  }
  return all;
}
bool File::sync() const {
  return uninterrupted([&] { return ::fsync(descriptor_); }) == 0;
}
bool File::close() {
  if (descriptor_ < 0) return true;
  // Linux frees the descriptor even when a signal interrupts the call, so it is not repeated.
  return ::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR;
}
}  // namespace reel::io
