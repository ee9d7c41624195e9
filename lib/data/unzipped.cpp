// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/unzipped.hpp"

#include <algorithm>
#include <new>

namespace reel::data {
Unzipped::Unzipped(const io::Input& input) : input_(input) {
  constexpr int either = 32;  // gzip or zlib
  if (::inflateInit2(&stream_, either + MAX_WBITS) != Z_OK) throw std::bad_alloc();
}

void Unzipped::read(void* to, std::size_t bytes) {
  if (take(to, bytes) != bytes) input_.fail("a whole file", "the end of what gzip compressed");
}

std::size_t Unzipped::take(void* to, std::size_t bytes) {
  constexpr std::size_t most = 1 << 30;  // that zlib can count
  std::size_t all = 0;
  while (all < bytes && !ended_) {
    stream_.next_out = static_cast<Bytef*>(to) + all;
    const std::size_t part = std::min(bytes - all, most);
    stream_.avail_out = static_cast<uInt>(part);
    if (stream_.avail_in == 0 && !fill())
      input_.fail("a whole file of gzip or zlib", "the end of the file");
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    all += part - stream_.avail_out;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END)
      input_.fail("a whole file of gzip or zlib", "damaged bytes");
    if (result == Z_STREAM_END) {
      ended_ = stream_.avail_in == 0 && !fill();
      if (!ended_) ::inflateReset(&stream_);
    }
  }
  position_ += all;
  return all;
}

void Unzipped::skip(std::uint64_t bytes) {
  std::vector<char> none(1 << 15);
  while (bytes > 0) {
    const std::size_t part =
        take(none.data(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, none.size())));
    if (part == 0) return;
    bytes -= part;
  }
}

/// False at the end of the file.
bool Unzipped::fill() {
  const auto part =
      static_cast<std::size_t>(std::min<std::uint64_t>(packed_.size(), input_.size() - at_));
  if (part == 0) return false;
  input_.read(at_, packed_.data(), part);
  at_ += part;
  stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
  stream_.avail_in = static_cast<uInt>(part);
  return true;
}
}  // namespace reel::data
