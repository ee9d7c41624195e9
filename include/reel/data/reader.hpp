// SPDX-License-Identifier: BSD-3-Clause
// What reads a stream of elements, such as the records of files.
#pragma once
#include <cstdint>
#include <string>

namespace reel::data {
/// Where an element of a stream begins. `file` counts the files of the stream from 0. `offset` is
/// in bytes, or whatever number leads the Reader back to this element.
struct Place {
  std::int64_t file = 0, offset = 0;
};
/// One pass over the elements of a stream. A pipeline opens a new one for each epoch and for each
/// resume. It is used by one thread at a time.
template <class T>
struct Reader {
  virtual ~Reader() = default;
  /// Writes the next element to `element`; returns false at the end. After an exception the next
  /// call goes on behind the element that was wrong, or returns false where that cannot be found.
  virtual bool next(T& element) = 0;
  /// Whether next() replaces all of an element that it has given before. A pipeline then gives it
  /// such elements again, to use their memory.
  virtual bool overwrites() const { return false; }
  /// Where the next element begins.
  virtual Place place() const = 0;
  /// Where the last element was, for errors: "words.csv: line 3".
  virtual std::string where() const = 0;
};
}  // namespace reel::data
