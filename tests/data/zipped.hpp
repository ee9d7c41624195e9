// SPDX-License-Identifier: BSD-3-Clause
// Bytes that zlib compresses for tests.
#pragma once
#include <zlib.h>

#include <string>

#include <reel/data/records.hpp>

#include "support/catch.hpp"

namespace reel::tests {
inline std::string zipped(const std::string& bytes,
                          data::Compression how = data::Compression::gzip) {
  z_stream stream{};
  const int window = how == data::Compression::gzip ? 16 + MAX_WBITS : MAX_WBITS;
  REQUIRE(::deflateInit2(&stream, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(::deflateBound(&stream, bytes.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(::deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}
inline std::string unzipped(const std::string& packed) {
  z_stream stream{};
  REQUIRE(::inflateInit2(&stream, 32 + MAX_WBITS) == Z_OK);
  std::string bytes(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(::inflate(&stream, Z_FINISH) == Z_STREAM_END);
  bytes.resize(stream.total_out);
  ::inflateEnd(&stream);
  return bytes;
}
}  // namespace reel::tests
