// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace reel::io {
namespace {
constexpr int most_links = 40;                // of a chain, as in Linux
constexpr std::size_t most_name_bytes = 200;  // of the target's name in the name beside it
constexpr int most_names = 100;               // tried before another reason is assumed

/// With the slash at its end; empty for the working folder.
Path folder_of(const Path& path) { return path.substr(0, path.rfind('/') + 1); }

/// A different name at each call, from the process id, the time and a count. Another machine may
/// share the folder, so the file is still opened only if it does not exist.
std::string unique_suffix() {
  static constinit unsigned count = 0;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  char text[64];
  std::snprintf(text, sizeof text, ".%lx.%llx.%x.new", static_cast<long>(::getpid()),
                static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec,
                __atomic_add_fetch(&count, 1u, __ATOMIC_RELAXED));
  return text;
}
}  // namespace

AtomicFile::AtomicFile(const Path& path, std::string_view op, Caller caller)
    : path_(path), op_(op), caller_(caller), target_(path) {
  if (path.find('\0') != Path::npos)
    fail_file(caller, op, path, "a path without a byte 0", "one with it");
  follow_links();
  folder_ = folder_of(target_);
  if (folder_.empty()) folder_ = "./";
  struct stat old {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) fail("a path to write to");
  if (exists && !S_ISREG(old.st_mode))
    fail_file(caller, op, path, "a regular file or a new one", "something else");
  // A rename would replace a file that its owner has protected from writing.
  if (exists && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
    fail("a file that can be written");
  open_beside();
  if (exists) keep_permissions(old.st_uid, old.st_gid, old.st_mode & 0777u);
}

void AtomicFile::follow_links() {
  for (int i = 0; i <= most_links; ++i) {
    char to[PATH_MAX];
    const ssize_t length = ::readlink(target_.c_str(), to, sizeof to);
    if (length < 0 && (errno == EINVAL || errno == ENOENT)) return;  // no link, or nothing yet
    if (length < 0) fail("a path to write to");
    const Path link(to, static_cast<std::size_t>(length));
    target_ = link.starts_with('/') ? link : folder_of(target_) + link;
  }
  errno = ELOOP;
  fail("a path to write to");
}

AtomicFile::Temporary::~Temporary() {
  if (!path.empty()) ::unlink(path.c_str());
}

void AtomicFile::fail(std::string_view expected) const {
  fail_file(caller_, op_, path_, expected, std::strerror(errno));
}

void AtomicFile::open_beside() {
  const Path name = target_.substr(folder_of(target_).size(), most_name_bytes);
  for (int i = 0; i < most_names; ++i) {
    Path beside = folder_ + name + unique_suffix();
    file_.emplace(beside, O_WRONLY | O_CREAT | O_EXCL);
    if (file_->is_open()) return beside_.path.swap(beside);
    if (errno != EEXIST) break;
  }
  fail("a folder that can be written to");
}

void AtomicFile::keep_permissions(uid_t owner, gid_t group, mode_t mode) {
  struct stat made {};
  if (::fstat(file_->descriptor(), &made) != 0) fail("a file that can be written");
  const bool same = made.st_uid == owner && made.st_gid == group;
  // If the group cannot be kept, its permissions would go to another group.
  if (!same && ::fchown(file_->descriptor(), owner, group) != 0)
    mode = (mode & ~070u) | (mode & 07u) << 3;
  if (::fchmod(file_->descriptor(), mode) != 0) fail("a file that can be written");
}

void AtomicFile::write(const void* from, std::size_t bytes) {
  if (!file_->write_all(from, bytes)) fail("a file that can be written");
}

void AtomicFile::commit() {
  const File folder(folder_, O_RDONLY | O_DIRECTORY);
  if (!folder.is_open()) fail("a folder that can be opened");
  if (!file_->sync() || !file_->close()) fail("a file that can be written");
  if (::rename(beside_.path.c_str(), target_.c_str()) != 0) fail("a file that can be replaced");
  beside_.path.clear();
  // The new file is in place; without this a stop of the machine may bring the old one back.
  // Some file systems cannot sync a folder and say EINVAL.
  if (!folder.sync() && errno != EINVAL) fail("a folder that can be synced");
}
}  // namespace reel::io
