// SPDX-License-Identifier: BSD-3-Clause
// Files that libraries of the system decode. They are opened where they are needed and not linked:
// a program that reads no such files starts faster, and runs where they are not installed.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>

namespace reel::data {
/// The bytes of a file that is decoded, and how its errors name it.
struct Encoded {
  std::string_view bytes, op;
  const std::string* path;  // null where the bytes come from the program
  Caller caller;
  [[noreturn]] void fail(std::string_view expected, std::string_view got,
                         std::string_view advice = {}) const;
};

/// A library of the system. Throws IoError that names its package if it is not there.
class Foreign {
 public:
  Foreign(const char* file, std::string_view package, const Encoded& encoded);
  /// Sets `function` to the function of this name.
  template <class F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(address(name));
  }

 private:
  void* address(const char* name) const;
  void* library_;
  std::string_view package_;
  const Encoded& encoded_;
};

/// An image, row by row, with 1 to 4 bytes for each pixel.
struct Pixels {
  std::size_t height = 0, width = 0, channels = 0;
  std::vector<unsigned char> bytes = {};
  /// Takes memory. Throws IoError for more pixels than allowed, or than the file can have: each
  /// byte of it gives at most `ratio` pixels.
  void make(const Encoded& encoded, std::int64_t most, std::size_t ratio);
};
/// `channels` is what the program wants; 0: as in the file.
Pixels read_png(const Encoded& encoded, std::int64_t most_pixels);
Pixels read_jpeg(const Encoded& encoded, int channels, std::int64_t most_pixels);
}  // namespace reel::data
