// SPDX-License-Identifier: BSD-3-Clause
// Files as readers and writers of formats use them: system calls that are repeated until all bytes
// are done, and errors that name the file.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include <reel/io/formats.hpp>

namespace reel::io {
/// Throws IoError: the first line names the file without its folder, the next line in full.
/// `advice` follows. Both are escaped.
[[noreturn]] void fail_file(Caller caller, std::string_view op, const Path& path,
                            std::string_view expected, std::string_view got,
                            std::string_view advice = {});
/// Bytes of a file as text for an error: all but printable ASCII becomes \xNN.
std::string escaped(std::string_view bytes);
/// Whether the path leads to something.
bool exists(const Path& path);
/// Without an error where there is no file.
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
  /// False if the file ends before.
  bool read_all(void* to, std::size_t bytes) const;
  bool write_all(const void* from, std::size_t bytes) const;
  /// Returns when the bytes are on the device.
  bool sync() const;
  bool close();

 private:
  int descriptor_;
};
}  // namespace reel::io
