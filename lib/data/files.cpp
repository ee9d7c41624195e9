// SPDX-License-Identifier: BSD-3-Clause
#include "lib/data/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <reel/data/files.hpp>

#include <reel/error.hpp>

#include "lib/io/wire.hpp"

namespace reel::data {
namespace {
constexpr std::size_t first_bytes = 1 << 16;  // of a buffer
constexpr std::string_view order_mark = "\xef\xbb\xbf";
}  // namespace

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
  while (!input_ || !has(1)) {
    if (input_) leave();
    if (file_ == static_cast<std::int64_t>(paths_.size())) return false;
    mark();
    try {
      open();
    } catch (const IoError&) {
      leave();
      throw;
    }
    opened_ = true;
    if (offset_ == 0) restart();
  }
  mark();
  return true;
}

void Files::open() {
  input_ = make_owned<io::Input>(path(), op_, caller_);
  if (is_compressed()) {
    unzipped_ = make_owned<Unzipped>(*input_);
    unzipped_->skip(offset_);
  }
  const std::uint64_t end = unzipped_ ? unzipped_->position() : input_->size();
  if (offset_ > end)
    input_->fail("a file of at least " + std::to_string(offset_) + " bytes", std::to_string(end));
}

/// Records begin with a length and its checksum, which no other bytes fit by chance.
bool Files::is_compressed() const {
  unsigned char start[io::record_head] = {};
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(sizeof start, input_->size()));
  input_->read(0, start, count);
  const bool is_gzip = start[0] == gzip_mark[0] && start[1] == gzip_mark[1];
  if (kind_ == Kind::text) return is_gzip;
  const bool is_zlib = (start[0] & 15) == 8 && (start[0] << 8 | start[1]) % 31 == 0;
  return (is_gzip || is_zlib) && count > 2 &&
         !io::is_record_head(reinterpret_cast<const char*>(start));
}

void Files::leave() {
  unzipped_.reset();
  input_.reset();
  ++file_;
  seek(0);
}

void Files::restart() {
  seek(0);
  if (kind_ == Kind::text && has(order_mark.size()) &&
      std::string_view(bytes(order_mark.size()), order_mark.size()) != order_mark)
    seek(0);
}

void Files::go_to(Place place) {
  unzipped_.reset();
  input_.reset();
  file_ = place.file;
  go_to(place.offset);
}

bool Files::more() {
  if (!unzipped_ && offset_ + size_ == input_->size()) return false;
  if (at_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + at_, size_ - at_);
    offset_ += at_;
    size_ -= at_;
    at_ = 0;
  }
  if (size_ == buffer_.size()) buffer_.resize(std::max(2 * size_, first_bytes));
  std::size_t part;
  try {
    part = read_more(buffer_.data() + size_, buffer_.size() - size_);
  } catch (const IoError&) {
    leave();
    throw;
  }
  size_ += part;
  return part > 0;
}
std::size_t Files::read_more(char* to, std::size_t most) {
  const std::uint64_t from = offset_ + size_;
  if (!unzipped_) {
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(most, input_->size() - from));
    input_->read(from, to, part);
    return part;
  }
  if (from < unzipped_->position()) unzipped_ = make_owned<Unzipped>(*input_);
  unzipped_->skip(from - unzipped_->position());
  return unzipped_->take(to, most);
}

bool Files::has(std::uint64_t count) {
  if (!unzipped_) return left() >= count;
  while (size_ - at_ < count)
    if (!more()) return false;
  return true;
}

bool Files::line(std::string_view& line) {
  std::size_t seen = 0;
  line_place_ = place();
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
  if (kind_ == Kind::records) return "byte " + std::to_string(mark_.offset);
  return "line " + std::to_string(line_of(path(), mark_.offset));
}
std::string Files::where() const {
  if (mark_.file == static_cast<std::int64_t>(paths_.size())) return "the end of the files";
  return path() + ": " + at_mark();
}
void Files::fail(std::string_view expected, std::string_view got) const {
  io::fail_file(caller_, op_, path(), expected, std::string(got) + " at " + at_mark());
}
}  // namespace reel::data
