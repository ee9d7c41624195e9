// SPDX-License-Identifier: BSD-3-Clause
// Zip files, as NumPy and PyTorch keep tensors in them: stored or deflated members, zip64.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/io/atomic_file.hpp"
#include "lib/io/npy.hpp"

namespace reel::io {
/// The bytes of a member from front to back.
class ZipMember : public Bytes {
 public:
  /// Call it after the last byte. Throws IoError if there are more bytes, or if the checksum
  /// differs from the one in the file.
  virtual void finish() = 0;
  /// How many bytes have not been read.
  virtual std::uint64_t rest() const = 0;
};

/// The members that a zip file lists. Overlapping members, and sizes that the packed bytes cannot
/// have, are refused. Encrypted members and other compressions are refused by open().
class ZipReader {
 public:
  struct Entry {
    std::string name;
    bool deflated = false;
    std::uint32_t checksum = 0;
    std::uint64_t packed = 0, size = 0, at = 0;  // at: the first packed byte
    std::string_view unread = {};                // why open() refuses it; empty if it does not
  };
  explicit ZipReader(const Input& input);
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }
  /// Null if there is none.
  const Entry* find(std::string_view name) const;
  std::unique_ptr<ZipMember> open(const Entry& entry) const;
  std::string read(const Entry& entry) const;

 private:
  struct Directory {
    std::uint64_t at, bytes, count, end;
  };
  Directory find_directory() const;
  Directory directory64(std::uint64_t end) const;
  void read_directory(const Directory& directory);
  Entry read_entry(std::string_view& rest) const;
  void find_data(std::uint64_t directory);
  const Input& input_;
  std::vector<Entry> entries_;
  std::vector<const Entry*> by_name_;
};

/// Whether the file begins as a zip file does.
bool is_zip(const Input& input);

/// Writes a zip file of zip64.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// A member with these bytes in sequence. Its first byte is at a multiple of 64 unless it
  /// is deflated.
  void add(const std::string& name, std::string_view head, std::string_view rest, bool deflate);
  void finish();

 private:
  void write(std::string_view bytes);
  AtomicFile& file_;
  std::uint64_t at_ = 0, count_ = 0;
  std::string directory_;
};
}  // namespace reel::io
