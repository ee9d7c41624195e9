// SPDX-License-Identifier: BSD-3-Clause
// A file that replaces another one as a whole. A reader of the path finds the old file or the new
// one at any moment, also after the process was killed or the machine stopped.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string_view>

#include "lib/io/file.hpp"

namespace reel::io {
/// Writes go to a file of a unique name in the folder of `path`; commit() gives it the name `path`.
/// Without commit() the destructor removes it. A link is followed: what it points at is replaced.
/// The new file keeps the permissions of the old one, and the owner where the system allows it.
/// Throws IoError in the name of `op`.
///
///     AtomicFile file(path, "save_npy", caller);
///     file.write(bytes, count);
///     file.commit();
class AtomicFile {
 public:
  AtomicFile(const Path& path, std::string_view op, Caller caller);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* from, std::size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(std::string_view expected) const;  // with the reason in errno
  void follow_links();
  void open_beside();
  void keep_permissions(uid_t owner, gid_t group, mode_t mode);

  const Path path_;  // as the user wrote it
  const std::string_view op_;
  const Caller caller_;
  Path target_, folder_;  // without links at the end
  /// Removes the file at its end, unless the path is empty by then.
  struct Temporary {
    Path path;
    ~Temporary();
  } beside_;
  std::optional<File> file_;
};
}  // namespace reel::io
