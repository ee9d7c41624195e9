// SPDX-License-Identifier: BSD-3-Clause
// TFRecord files, and the messages tf.train.Example that their records usually are.
#pragma once  // defined in lib/data
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reel/caller.hpp>
#include <reel/export.hpp>
#include <reel/pointer.hpp>

#include <reel/data/key.hpp>
#include <reel/data/reader.hpp>

namespace reel::data {
/// The records of TFRecord files, as bytes. Both checksums of a record are compared. Throws IoError
/// for a checksum that does not fit, for a record that is cut, and for a file that cannot be read.
/// The next call goes on with the next record if the length of the wrong one is right, and with the
/// next file otherwise. Files that gzip or zlib have compressed are recognized by their first
/// bytes; a Place counts the bytes of their content, and a reader that begins at one decompresses
/// all before it.
REEL_API Owned<Reader<std::string>> open_tfrecords(std::vector<std::string> files, Place from = {},
                                                   Caller caller = Caller::here());

struct Example;
/// The records as messages tf.train.Example: what parse_example() makes of each, without a copy of
/// its bytes. Throws IoError for a record that is no such message, and as open_tfrecords() does.
REEL_API Owned<Reader<Example>> open_examples(std::vector<std::string> files, Place from = {},
                                              Caller caller = Caller::here());

/// How TFRecord files are compressed.
enum class Compression : std::uint8_t { none, gzip, zlib };
/// Options of RecordWriter.
struct RecordWriterOptions {
  Compression compression = Compression::none;
};
/// Writes a TFRecord file. An old file is replaced. A process that is killed leaves the records
/// that were written before; the last one may be cut. Of a compressed file it leaves the beginning.
class REEL_API RecordWriter {
 public:
  /// Throws IoError if the file cannot be written.
  explicit RecordWriter(const std::string& path, RecordWriterOptions options = {},
                        Caller caller = Caller::here());
  /// As close(), but an error is lost.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  /// Appends a record. Throws IoError if the disk does not take it, and Error for one of more than
  /// 1 GiB in a compressed file.
  void write(std::string_view record, Caller caller = Caller::here());
  /// Writes what is still in memory, and closes the file. Throws IoError as write() does.
  void close(Caller caller = Caller::here());

 private:
  struct Output;
  Owned<Output> output_;
};

/// One feature of an Example. At most one of the lists has elements.
struct Feature {
  std::string name;
  std::vector<std::string> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};
/// The message tf.train.Example: lists of bytes, floats or integers by their names.
///
///     data::Example example = data::parse_example(record);
///     Tensor pixels = tensor(example["pixels"].floats);
///     std::int64_t label = example["label"].integers.at(0);
struct REEL_API Example {
  std::vector<Feature> features;
  /// Throws Error if there is no such feature.
  const Feature& operator[](Key key) const;
  /// The last feature of this name; null if there is none.
  const Feature* find(std::string_view name) const;
};
/// Reads the message. Of two features of one name, the last one counts, as in Protocol Buffers.
/// Fields that the format does not have are left out. Throws IoError for bytes that are no such
/// message.
REEL_API Example parse_example(std::string_view record, Caller caller = Caller::here());
/// As above, but into an Example whose memory is used again. After an error its features are
/// unspecified.
REEL_API void parse_example(std::string_view record, Example& example,
                            Caller caller = Caller::here());
/// The message as bytes, for a RecordWriter. Throws Error for a feature with two kinds of elements.
REEL_API std::string serialize(const Example& example, Caller caller = Caller::here());
}  // namespace reel::data
