// SPDX-License-Identifier: BSD-3-Clause
// Files for readers and writers of formats: system calls are repeated until all bytes are read or
// written, and errors name the file.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include <reel/io/formats.hpp>

namespace reel::io {
/// Throws IoError. The first line names the file without its folder; the next line has the whole
/// path, if it differs. `advice` follows. Names are escaped.
[[noreturn]] void fail_file(Caller caller, std::string_view op, const Path& path,
                            std::string_view expected, std::string_view got,
                            std::string_view advice = {});
/// Bytes of a file as text for an error: all but printable ASCII becomes \xNN.
std::string escaped(std::string_view bytes);
/// Makes a folder, and those above it, unless they exist. The path ends with a slash. Throws
/// IoError.
void make_folders(const Path& folder, std::string_view op, Caller caller);
/// Whether something exists at the path.
bool exists(const Path& path);
/// Removes a file. Does nothing if it does not exist.
void remove_file(const Path& path);

/// An open descriptor; closed at the end. Calls that fail leave their reason in errno.
class File {
 public:
  File(const Path& path, int flags);  // with the permissions of a new file, where it makes one
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  /// False if the file has fewer bytes.
  bool read_all(void* to, std::size_t bytes) const;
  /// The number of bytes that were written: fewer where a call fails.
  std::size_t write(const void* from, std::size_t bytes) const;
  bool write_all(const void* from, std::size_t bytes) const { return write(from, bytes) == bytes; }
  /// Returns when the bytes are on the disk.
  bool sync() const;
  bool close();

 private:
  int descriptor_;
};
}  // namespace reel::io
