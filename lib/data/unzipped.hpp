// SPDX-License-Identifier: BSD-3-Clause
// Bytes that gzip or zlib have compressed.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <vector>

#include "lib/io/elements.hpp"

namespace reel::data {
/// Files of gzip begin with these bytes.
constexpr unsigned char gzip_mark[] = {0x1f, 0x8b};

/// What the file has compressed, from front to back. Several gzip files that were joined are read
/// as one. Throws IoError for damaged bytes.
class Unzipped : public io::Bytes {
 public:
  explicit Unzipped(const io::Input& input);
  ~Unzipped() override { ::inflateEnd(&stream_); }
  Unzipped(const Unzipped&) = delete;
  Unzipped& operator=(const Unzipped&) = delete;
  /// Throws IoError if there are not so many bytes.
  void read(void* to, std::size_t bytes) override;
  /// The number of bytes that were there, at most `bytes`.
  std::size_t take(void* to, std::size_t bytes);
  /// Leaves out so many bytes, or all that are left.
  void skip(std::uint64_t bytes);
  /// The bytes that were taken or left out.
  std::uint64_t position() const { return position_; }

 private:
  bool fill();
  const io::Input& input_;
  z_stream stream_ = {};
  std::vector<char> packed_ = std::vector<char>(1 << 15);
  std::uint64_t at_ = 0, position_ = 0;
  bool ended_ = false;
};
}  // namespace reel::data
