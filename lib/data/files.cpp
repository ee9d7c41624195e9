// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/files.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <reel/data/files.hpp>

#include <reel/error.hpp>

namespace reel::data {
namespace {
constexpr std::size_t first_bytes = 1 << 16;  // of a buffer
constexpr std::string_view order_mark = "\xef\xbb\xbf";

}  // namespace

std::int64_t line_of(const std::string& path, std::int64_t offset) {
  const io::File file(path, 0);
  if (!file.is_open()) return 0;
  std::vector<char> bytes(first_bytes);
  std::int64_t line = 1;
  for (auto left = static_cast<std::size_t>(offset); left > 0;) {
    const std::size_t part = std::min(left, bytes.size());
    if (!file.read_all(bytes.data(), part)) return 0;
    line += std::count(bytes.data(), bytes.data() + part, '\n');
    left -= part;
  }
  return line;
}

std::string quoted(std::string_view text) {
  return "'" + io::escaped(text.substr(0, 40)) + (text.size() > 40 ? "...'" : "'");
}

Files::Files(Paths paths, Place from, Kind kind, std::string_view op, Caller caller)
    : paths_(std::move(paths)),
      kind_(kind),
      op_(op),
      caller_(caller),
      file_(from.file),
      offset_(static_cast<std::uint64_t>(from.offset)),
      mark_(from) {
  const auto count = static_cast<std::int64_t>(paths_.size());
  if (from.file < 0 || from.file > count || from.offset < 0)
    reel::fail<Error>(
        caller, op, "from", "a place in one of " + std::to_string(count) + " files",
        "file " + std::to_string(from.file) + ", offset " + std::to_string(from.offset));
}

bool Files::begin() {
  while (!input_ || left() == 0) {
    if (input_) {
      input_.reset();
      ++file_;
      seek(0);
    }
    if (file_ == static_cast<std::int64_t>(paths_.size())) return false;
    mark();
    try {
      input_ = make_owned<io::Input>(path(), op_, caller_);
      if (offset_ > input_->size())
        input_->fail("a file of at least " + std::to_string(offset_) + " bytes",
                     std::to_string(input_->size()));
    } catch (const IoError&) {
      input_.reset();
      ++file_;
      seek(0);
      throw;
    }
    opened_ = true;
    if (offset_ == 0) restart();
  }
  mark();
  return true;
}

void Files::restart() {
  seek(0);
  if (kind_ == Kind::text && left() >= order_mark.size() &&
      std::string_view(bytes(order_mark.size()), order_mark.size()) != order_mark)
    seek(0);
}

void Files::go_to(Place place) {
  input_.reset();
  file_ = place.file;
  go_to(place.offset);
}

bool Files::more() {
  if (offset_ + size_ == input_->size()) return false;
  if (at_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + at_, size_ - at_);
    offset_ += at_;
    size_ -= at_;
    at_ = 0;
  }
  if (size_ == buffer_.size()) buffer_.resize(std::max(2 * size_, first_bytes));
  const auto part = static_cast<std::size_t>(
      std::min<std::uint64_t>(buffer_.size() - size_, input_->size() - offset_ - size_));
  try {
    input_->read(offset_ + size_, buffer_.data() + size_, part);
  } catch (const IoError&) {
    leave();
    throw;
  }
  size_ += part;
  return true;
}

bool Files::line(std::string_view& line) {
  std::size_t seen = 0;
  while (true) {
    const char* const from = buffer_.data() + at_;
    const std::size_t filled = size_ - at_;
    const void* const end = filled > seen ? std::memchr(from + seen, '\n', filled - seen) : nullptr;
    if (end) {
      line = {from, static_cast<std::size_t>(static_cast<const char*>(end) - from)};
      at_ += line.size() + 1;
      line_end_ = "\n";
      break;
    }
    seen = filled;
    if (!more()) {
      line = {buffer_.data() + at_, seen};
      at_ = size_;
      line_end_ = "";
      if (seen == 0) return false;
      break;
    }
  }
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
    line_end_ = line_end_.empty() ? "\r" : "\r\n";
  }
  return true;
}

const char* Files::bytes(std::size_t count) {
  while (size_ - at_ < count) more();
  at_ += count;
  return buffer_.data() + at_ - count;
}

std::string_view Files::ahead() {
  if (at_ == size_) more();
  return {buffer_.data() + at_, size_ - at_};
}

std::string Files::at_mark() const {
  if (kind_ == Kind::binary) return "byte " + std::to_string(mark_.offset);
  return "line " + std::to_string(line_of(path(), mark_.offset));
}
std::string Files::where() const {
  if (mark_.file == static_cast<std::int64_t>(paths_.size())) return "the end of the files";
  return path() + ": " + at_mark();
}
void Files::fail(std::string_view expected, std::string_view got) const {
  io::fail_file(caller_, op_, path(), expected, std::string(got) + " at " + at_mark());
}

std::vector<std::string> glob(const std::string& pattern, Caller caller) try {
  struct Found : glob_t {
    Found() : glob_t() {}
    ~Found() { ::globfree(this); }
  } found;
  const auto ends = [](const char*, int error) { return static_cast<int>(error == ENOMEM); };
  const int status = ::glob(pattern.c_str(), GLOB_NOSORT, ends, &found);
  if (status == GLOB_NOSPACE || status == GLOB_ABORTED) throw std::bad_alloc();
  if (status != 0)
    fail<IoError>(caller, "glob", "pattern", "a pattern that files fit",
                  "\"" + io::escaped(pattern) + "\"");
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  std::sort(paths.begin(), paths.end());
  return paths;
} catch (const std::bad_alloc&) {
  fail_memory(caller, "glob");
}
}  // namespace reel::data
