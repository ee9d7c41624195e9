// SPDX-License-Identifier: BSD-3-Clause
// A file that is read by its format.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/io/file.hpp"

namespace reel::io {
/// A regular file. Its errors name `op`, which must live as long.
class Input {
 public:
  Input(const Path& path, std::string_view op, Caller caller);
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  [[noreturn]] void fail(std::string_view expected, std::string_view got) const {
    fail_file(caller_, op_, path_, expected, got);
  }
  const Path& path() const { return path_; }
  std::string_view op() const { return op_; }
  Caller caller() const { return caller_; }
  std::uint64_t size() const { return size_; }
  /// The bytes that begin at `at`. Throws IoError if the file ends before the last of them.
  void read(std::uint64_t at, void* to, std::size_t bytes) const;
  std::string read(std::uint64_t at, std::size_t bytes) const;

 private:
  const Path path_;
  const std::string_view op_;
  const Caller caller_;
  const File file_;
  std::uint64_t size_ = 0;
  mutable std::uint64_t position_ = 0;
};
}  // namespace reel::io
