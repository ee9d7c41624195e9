// SPDX-License-Identifier: BSD-3-Clause
// The bytes of several files, one file after the other, and readers of the elements in them.
#pragma once
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reel/caller.hpp>
#include <reel/memory.hpp>
#include <reel/pointer.hpp>

#include <reel/data/reader.hpp>

#include "lib/data/unzipped.hpp"
#include "lib/io/input.hpp"

namespace reel::data {
using Paths = std::vector<std::string>;

/// What has been read of files, and what comes next. An element lies in one file. Errors name
/// `op`, which must live as long. Texts that gzip has compressed, and records that gzip or zlib
/// have compressed, are read as what they contain. Places in such a file count bytes of its
/// content.
class Files {
 public:
  /// Errors name lines of a text, and bytes of records. The mark of the byte order at the beginning
  /// of a text is skipped.
  enum class Kind : bool { text, records };
  Files(Paths paths, Place from, Kind kind, std::string_view op, Caller caller);

  /// Whether a file has bytes left. Opens the next file where the last one has ended, and marks
  /// the beginning of an element.
  bool begin();
  /// Whether begin() has opened a file. True once for each file.
  bool opened() { return std::exchange(opened_, false); }
  /// The element begins at the next byte.
  void mark() { mark_ = place(); }
  void mark(Place place) { mark_ = place; }
  /// Goes to a place. The file is opened again.
  void go_to(Place place);
  /// Goes to the first byte of the file behind the mark of the byte order.
  void restart();
  /// Goes to a byte of the file.
  void go_to(std::int64_t offset) { seek(static_cast<std::uint64_t>(offset)); }
  /// Leaves out the rest of the file, because no element can be found there.
  void leave();

  Place place() const { return {file_, static_cast<std::int64_t>(offset_ + at_)}; }
  Place marked() const { return mark_; }
  const std::string& path() const { return paths_[static_cast<std::size_t>(mark_.file)]; }
  /// Whether the file has so many bytes that have not been read.
  bool has(std::uint64_t count);
  /// Bytes of the file that have not been read, where has() has returned false.
  std::uint64_t left() const { return unzipped_ ? size_ - at_ : input_->size() - offset_ - at_; }
  /// The next line of the file without its end, "\n" or "\r\n". False at the end of the file. The
  /// line is valid until the next call of a function that reads.
  bool line(std::string_view& line);
  /// Where the line begins that was read last.
  Place line_place() const { return line_place_; }
  /// The end of the line that was read last: "\n", "\r\n", or nothing at the end of the file.
  std::string_view line_end() const { return line_end_; }
  /// The next bytes, of which has() has returned true. Valid as a line is.
  const char* bytes(std::size_t count);
  /// All bytes that are in memory; at least one, unless the file has ended. Valid as a line is.
  std::string_view ahead();
  /// Goes on behind bytes that are in memory.
  void skip(std::size_t count) { at_ += count; }

  /// "words.csv: line 3" of the mark, or "words.tfrecord: byte 340".
  std::string where() const;
  /// Throws IoError that names the line or the byte of the mark.
  [[noreturn]] void fail(std::string_view expected, std::string_view got) const;
  Caller caller() const { return caller_; }
  std::string_view op() const { return op_; }

 private:
  bool more();
  std::size_t read_more(char* to, std::size_t most);
  void open();
  bool is_compressed() const;
  void seek(std::uint64_t offset) { offset_ = offset, at_ = size_ = 0; }
  std::string at_mark() const;

  const Paths paths_;
  const Kind kind_;
  const std::string_view op_;
  const Caller caller_;
  Owned<io::Input> input_;    // null where no file is open
  Owned<Unzipped> unzipped_;  // null where the file is not compressed
  std::int64_t file_;         // that is open, or is opened next
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;  // in the buffer: what is read, what is filled
  std::uint64_t offset_;           // of the buffer in the file
  Place mark_;
  bool opened_ = false;
  std::string_view line_end_;
  Place line_place_;
};

/// A reader of files. Of a format, `read` gives the next element of the file, or false where the
/// file ends before one.
template <class T>
class FileReader : public Reader<T> {
 public:
  FileReader(Files::Kind kind, Paths paths, Place from, std::string_view op, Caller caller)
      : files_(std::move(paths), from, kind, op, caller) {}
  bool next(T& element) final {
    const Place before = files_.place();
    try {
      while (files_.begin()) {
        if (files_.opened()) opened(files_);
        if (read(files_, element)) return true;
      }
      return false;
    } catch (const std::bad_alloc&) {
      files_.go_to(before);
      fail_memory(files_.caller(), files_.op());
    }
  }
  Place place() const final { return files_.place(); }
  std::string where() const final { return files_.where(); }

 private:
  virtual bool read(Files& files, T& element) = 0;
  /// Reads what a file has in front of its elements. The file may have been opened at any place.
  virtual void opened(Files&) {}
  Files files_;
};
/// Makes a reader R in a public function.
template <class R>
Owned<R> open_reader(Files::Kind kind, Paths& files, Place from, std::string_view op,
                     Caller caller) try {
  return make_owned<R>(kind, std::move(files), from, op, caller);
} catch (const std::bad_alloc&) {
  fail_memory(caller, op);
}

/// The line that the byte at `offset` is in, from 1; 0 if the file cannot be read up to there.
std::int64_t line_of(const std::string& path, std::int64_t offset);
/// A piece of text for an error.
std::string quoted(std::string_view text);
}  // namespace reel::data
