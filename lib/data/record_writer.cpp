// SPDX-License-Identifier: BSD-3-Clause
// What writes files of records.
#include <fcntl.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include <reel/data/records.hpp>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/io/wire.hpp"

namespace reel::data {
std::string serialize(const Example& example, Caller caller) try {
  io::Message map;
  for (const Feature& feature : example.features) {
    const int kinds = !feature.bytes.empty() + !feature.floats.empty() + !feature.integers.empty();
    if (kinds > 1)
      fail<Error>(caller, "serialize", "example", "features with elements of one kind",
                  "several in " + quoted(feature.name));
    io::Message list, value;
    for (const std::string& bytes : feature.bytes) list.bytes(1, bytes);
    if (!feature.floats.empty())
      list.bytes(1, {reinterpret_cast<const char*>(feature.floats.data()),
                     feature.floats.size() * sizeof(float)});
    if (!feature.integers.empty()) {
      io::Message packed;
      for (const std::int64_t integer : feature.integers)
        packed.varint(static_cast<std::uint64_t>(integer));
      list.message(1, packed);
    }
    if (kinds == 1)
      value.message(!feature.bytes.empty() ? 1 : !feature.floats.empty() ? 2 : 3, list);
    map.message(1, io::Message().bytes(1, feature.name).message(2, value));
  }
  return std::string(io::Message().message(1, map).view());
} catch (const std::bad_alloc&) {
  fail_memory(caller, "serialize");
}

struct RecordWriter::Output {
  Output(const std::string& file_path, Compression how)
      : path(file_path), file(path, O_WRONLY | O_CREAT | O_TRUNC), compression(how) {
    constexpr int memory_level = 8, of_gzip = 16;  // zlib's default; a gzip header
    if (compression == Compression::none) return;
    const int window = MAX_WBITS + (compression == Compression::gzip ? of_gzip : 0);
    if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, memory_level,
                       Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~Output() {
    if (compression != Compression::none) ::deflateEnd(&stream);
  }
  const std::string path;
  io::File file;
  const Compression compression;
  std::string waiting = {};
  z_stream stream = {};
  /// Writes all that waits. The bytes are lost if the disk does not take them.
  void flush(bool last, Caller caller) {
    const bool written = compression == Compression::none
                             ? file.write_all(waiting.data(), waiting.size())
                             : write_packed(last);
    waiting.clear();
    if (!written)
      io::fail_file(caller, "RecordWriter", path, "a disk that takes more", std::strerror(errno));
  }
  bool write_packed(bool last) {
    std::vector<char> packed(1 << 16);
    stream.next_in = reinterpret_cast<Bytef*>(waiting.data());
    stream.avail_in = static_cast<uInt>(waiting.size());
    bool written = true;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      ::deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      written = written && file.write_all(packed.data(), packed.size() - stream.avail_out);
    } while (stream.avail_out == 0);
    return written;
  }
};
RecordWriter::RecordWriter(const std::string& path, RecordWriterOptions options, Caller caller) try
    : output_(new Output(path, options.compression)) {
  if (!output_->file.is_open())
    io::fail_file(caller, "RecordWriter", path, "a file to write", std::strerror(errno));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "RecordWriter");
}
RecordWriter::~RecordWriter() {
  try {
    close();
  } catch (const Error&) {
  }
}
void RecordWriter::write(std::string_view record, Caller caller) try {
  constexpr std::size_t most_waiting = 1 << 18;
  constexpr std::size_t most_packed = 1 << 30;  // zlib counts 32 bits
  if (!output_->file.is_open())
    fail<Error>(caller, "RecordWriter", "write", "an open file", "a closed one");
  const std::size_t before = output_->waiting.size();
  if (output_->compression != Compression::none && record.size() > most_packed)
    fail<Error>(caller, "RecordWriter", "write", "a compressed record of at most 1 GiB",
                std::to_string(record.size()) + " bytes");
  io::append_record(output_->waiting, record);
  io::seal_record(output_->waiting.data() + before);
  if (output_->waiting.size() >= most_waiting) output_->flush(false, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, "RecordWriter");
}
void RecordWriter::close(Caller caller) try {
  if (!output_->file.is_open()) return;
  output_->flush(true, caller);
  if (!output_->file.close())
    io::fail_file(caller, "RecordWriter", output_->path, "a disk that takes more",
                  std::strerror(errno));
} catch (const std::bad_alloc&) {
  fail_memory(caller, "RecordWriter");
}
}  // namespace reel::data
