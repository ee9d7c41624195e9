// SPDX-License-Identifier: BSD-3-Clause
// A file as readers of formats use it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/io/file.hpp"

namespace reel::io {
/// A regular file; what is wrong with it is said in the name of `op`, which lives as long.
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
  /// The bytes from `at` on. Throws IoError where the file ends before.
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
