// SPDX-License-Identifier: BSD-3-Clause
#include "lib/io/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace reel::io {
namespace {
constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50,
                        end64_mark = 0x06064b50, locator_mark = 0x07064b50;
constexpr std::size_t local_bytes = 30, entry_bytes = 46, end_bytes = 22, end64_bytes = 56,
                      locator_bytes = 20, most_comment = 0xffff;
constexpr std::size_t chunk = 1 << 16;

/// `bytes` bytes of a number, the lowest first.
std::uint64_t number(std::string_view text, std::size_t at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}
void append(std::string& text, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
}

/// Why a member cannot be read; empty if it can.
std::string_view unread_for(std::uint64_t flags, std::uint64_t method) {
  if (flags & 1) return "an encrypted member";
  return method != 0 && method != 8 ? "neither stored nor deflated" : "";
}

/// Checks size and checksum of what is read.
class CheckedMember : public ZipMember {
 public:
  CheckedMember(const Input& input, const ZipReader::Entry& entry) : input_(input), entry_(entry) {}
  void read(void* to, std::size_t bytes) final {
    if (bytes > entry_.size - done_) input_.fail("a whole member", "the end of it");
    if (bytes == 0) return;  // without a place for them, zlib begins anew
    get(static_cast<unsigned char*>(to), bytes);
    checksum_ = static_cast<std::uint32_t>(
        crc32_z(checksum_, static_cast<const unsigned char*>(to), bytes));
    done_ += bytes;
  }
  std::uint64_t rest() const final { return entry_.size - done_; }
  void finish() override {
    if (done_ != entry_.size)
      input_.fail(std::to_string(done_) + " bytes of \"" + escaped(entry_.name) + "\"",
                  std::to_string(entry_.size));
    if (checksum_ != entry_.checksum)
      input_.fail("the checksum of \"" + escaped(entry_.name) + "\"", "another one");
  }

 protected:
  virtual void get(unsigned char* to, std::size_t bytes) = 0;
  const Input& input_;
  const ZipReader::Entry& entry_;
  std::uint64_t done_ = 0;

 private:
  std::uint32_t checksum_ = 0;
};

class StoredMember : public CheckedMember {
 public:
  using CheckedMember::CheckedMember;

 private:
  void get(unsigned char* to, std::size_t bytes) override {
    input_.read(entry_.at + done_, to, bytes);
  }
};

class DeflatedMember : public CheckedMember {
 public:
  DeflatedMember(const Input& input, const ZipReader::Entry& entry) : CheckedMember(input, entry) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  }
  ~DeflatedMember() override { inflateEnd(&stream_); }
  void finish() override {
    unsigned char more = 0;
    stream_.next_out = &more;
    stream_.avail_out = 1;
    while (!ended_ && stream_.avail_out) step();
    if (!ended_ || !stream_.avail_out || taken_ != entry_.packed || stream_.avail_in) refuse();
    CheckedMember::finish();
  }

 private:
  [[noreturn]] void refuse() const {
    input_.fail("deflated bytes of \"" + escaped(entry_.name) + "\"", "others");
  }
  void get(unsigned char* to, std::size_t bytes) override {
    while (bytes > 0) {
      const std::size_t part = std::min<std::size_t>(bytes, 1u << 30);
      stream_.next_out = to;
      stream_.avail_out = static_cast<uInt>(part);
      while (stream_.avail_out && !ended_) step();
      if (stream_.avail_out) refuse();
      to += part;
      bytes -= part;
    }
  }
  void step() {
    if (stream_.avail_in == 0) {
      const std::size_t part = std::min<std::uint64_t>(sizeof buffer_, entry_.packed - taken_);
      input_.read(entry_.at + taken_, buffer_, part);
      taken_ += part;
      stream_.next_in = buffer_;
      stream_.avail_in = static_cast<uInt>(part);
    }
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END) refuse();
    ended_ = result == Z_STREAM_END;
  }
  z_stream stream_{};
  std::uint64_t taken_ = 0;
  bool ended_ = false;
  unsigned char buffer_[chunk];
};
}  // namespace

bool is_zip(const Input& input) {
  if (input.size() < end_bytes) return false;
  const std::string start = input.read(0, 4);
  return number(start, 0, 4) == local_mark || number(start, 0, 4) == end_mark ||
         number(start, 0, 4) == end64_mark;
}

ZipReader::ZipReader(const Input& input) : input_(input) {
  if (!is_zip(input))
    input.fail("a zip file, as NumPy and PyTorch since 1.6 write", "something else");
  const Directory directory = find_directory();
  read_directory(directory);
  for (const Entry& entry : entries_) by_name_.push_back(&entry);
  std::sort(by_name_.begin(), by_name_.end(),
            [](const Entry* a, const Entry* b) { return a->name < b->name; });
  const auto twice =
      std::adjacent_find(by_name_.begin(), by_name_.end(),
                         [](const Entry* a, const Entry* b) { return a->name == b->name; });
  if (twice != by_name_.end())
    input_.fail("each name once", "\"" + escaped((*twice)->name.substr(0, 100)) + "\" twice");
  find_data(directory.at);
}

/// At the end of the file, in front of a comment whose length it has.
ZipReader::Directory ZipReader::find_directory() const {
  const std::uint64_t bytes = std::min<std::uint64_t>(input_.size(), end_bytes + most_comment);
  const std::string tail = input_.read(input_.size() - bytes, bytes);
  for (std::size_t at = bytes - end_bytes + 1; at-- > 0;) {  // is_zip() has seen so many bytes
    if (number(tail, at, 4) != end_mark || number(tail, at + 20, 2) != bytes - at - end_bytes)
      continue;
    const std::uint64_t end = input_.size() - bytes + at;
    Directory directory{number(tail, at + 16, 4), number(tail, at + 12, 4),
                        number(tail, at + 10, 2), end};
    if (number(tail, at + 4, 4) != 0 || number(tail, at + 8, 2) != directory.count)
      input_.fail("a zip file of one part", "one of several");
    // PyTorch writes a zip64 directory even if the numbers fit these fields.
    const bool large =
        directory.bytes != end - directory.at || directory.at > end || directory.count == 0xffff;
    if (large) directory = directory64(end);
    if (directory.at > directory.end || directory.bytes != directory.end - directory.at ||
        directory.count > directory.bytes / entry_bytes)
      input_.fail("the directory of a zip file at its end", "another place");
    return directory;
  }
  input_.fail("the end of a zip file", "something else");
}

ZipReader::Directory ZipReader::directory64(std::uint64_t end) const {
  if (end < locator_bytes + end64_bytes) input_.fail("a directory of zip64", "none");
  const std::string locator = input_.read(end - locator_bytes, locator_bytes);
  const std::uint64_t at = number(locator, 8, 8);
  if (number(locator, 0, 4) != locator_mark || at > end - locator_bytes ||
      end - locator_bytes - at < end64_bytes)
    input_.fail("a directory of zip64", "none");
  const std::string record = input_.read(at, end64_bytes);
  if (number(record, 0, 4) != end64_mark || number(record, 4, 8) != end - locator_bytes - at - 12)
    input_.fail("a directory of zip64", "none");
  return {number(record, 48, 8), number(record, 40, 8), number(record, 32, 8), at};
}

void ZipReader::read_directory(const Directory& directory) {
  const std::string text = input_.read(directory.at, directory.bytes);
  std::string_view rest = text;
  for (std::uint64_t i = 0; i < directory.count; ++i) entries_.push_back(read_entry(rest));
  if (!rest.empty()) input_.fail("a directory of its members", "more");
}

ZipReader::Entry ZipReader::read_entry(std::string_view& rest) const {
  if (rest.size() < entry_bytes || number(rest, 0, 4) != entry_mark)
    input_.fail("the directory of a zip file", "something else");
  const std::size_t name_bytes = number(rest, 28, 2), extra_bytes = number(rest, 30, 2),
                    bytes = entry_bytes + name_bytes + extra_bytes + number(rest, 32, 2);
  if (rest.size() < bytes) input_.fail("the directory of a zip file", "the end of it");
  Entry entry;
  entry.name = rest.substr(entry_bytes, name_bytes);
  const std::uint64_t flags = number(rest, 8, 2), method = number(rest, 10, 2);
  entry.unread = unread_for(flags, method);
  entry.deflated = method == 8;
  entry.checksum = static_cast<std::uint32_t>(number(rest, 16, 4));
  std::uint64_t* const fields[] = {&entry.size, &entry.packed, &entry.at};
  constexpr std::size_t places[] = {24, 20, 42};
  for (int i = 0; i < 3; ++i) *fields[i] = number(rest, places[i], 4);
  std::string_view extra = rest.substr(entry_bytes + name_bytes, extra_bytes);
  while (extra.size() >= 4) {  // values too large for 32 bits are in field 1
    const std::size_t length = number(extra, 2, 2);
    if (length > extra.size() - 4) input_.fail("whole extra fields", "the end of them");
    std::string_view field = extra.substr(4, length);
    for (std::uint64_t* const value : fields) {
      if (number(extra, 0, 2) != 1 || *value != 0xffffffff || field.size() < 8) continue;
      *value = number(field, 0, 8);
      field.remove_prefix(8);
    }
    extra.remove_prefix(4 + length);
  }
  const bool possible =
      !entry.unread.empty() ||
      (entry.deflated ? entry.size / most_ratio <= entry.packed : entry.size == entry.packed);
  if (!possible)
    input_.fail("a size that " + std::to_string(entry.packed) + " packed bytes can have",
                std::to_string(entry.size));
  rest.remove_prefix(bytes);
  return entry;
}

/// Members follow one another, then comes the directory.
void ZipReader::find_data(std::uint64_t directory) {
  std::vector<Entry*> order;
  for (Entry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->at < b->at; });
  std::uint64_t free = 0;
  for (Entry* const entry : order) {
    if (entry->at < free || entry->at > directory || directory - entry->at < local_bytes)
      input_.fail("members one after the other", "\"" + escaped(entry->name) + "\" elsewhere");
    const std::string local = input_.read(entry->at, local_bytes);
    const std::uint64_t head = local_bytes + number(local, 26, 2) + number(local, 28, 2);
    const std::uint64_t method = number(local, 8, 2);
    if (number(local, 0, 4) != local_mark || number(local, 26, 2) != entry->name.size() ||
        (method == 8) != entry->deflated ||
        unread_for(number(local, 6, 2), method) != entry->unread || head > directory - entry->at ||
        entry->packed > directory - entry->at - head ||
        input_.read(entry->at + local_bytes, entry->name.size()) != entry->name)
      input_.fail("the header of \"" + escaped(entry->name) + "\"", "something else");
    entry->at += head;
    free = entry->at + entry->packed;
  }
}

const ZipReader::Entry* ZipReader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [](const Entry* entry, std::string_view other) { return entry->name < other; });
  return found == by_name_.end() || (*found)->name != name ? nullptr : *found;
}

std::unique_ptr<ZipMember> ZipReader::open(const Entry& entry) const {
  if (!entry.unread.empty())
    input_.fail("\"" + escaped(entry.name.substr(0, 100)) + "\" stored or deflated", entry.unread);
  if (entry.deflated) return std::make_unique<DeflatedMember>(input_, entry);
  return std::make_unique<StoredMember>(input_, entry);
}

std::string ZipReader::read(const Entry& entry) const {
  std::string bytes(entry.size, '\0');
  const std::unique_ptr<ZipMember> member = open(entry);
  member->read(bytes.data(), bytes.size());
  member->finish();
  return bytes;
}

namespace {
std::string deflated(std::string_view head, std::string_view rest) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, deflateEnd);
  std::string packed;
  unsigned char buffer[chunk];
  const auto pack = [&](std::string_view bytes, bool last) {
    do {
      const std::string_view part = bytes.substr(0, std::size_t{1} << 30);
      bytes.remove_prefix(part.size());
      stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
      stream.avail_in = static_cast<uInt>(part.size());
      do {
        stream.next_out = buffer;
        stream.avail_out = sizeof buffer;
        deflate(&stream, last && bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
        packed.append(reinterpret_cast<const char*>(buffer), sizeof buffer - stream.avail_out);
      } while (stream.avail_out == 0);
    } while (!bytes.empty());
  };
  pack(head, false);
  pack(rest, true);
  return packed;
}
std::uint32_t checksum_of(std::string_view head, std::string_view rest) {
  uLong checksum = 0;
  for (const std::string_view part : {head, rest})
    if (!part.empty())
      checksum =
          crc32_z(checksum, reinterpret_cast<const unsigned char*>(part.data()), part.size());
  return static_cast<std::uint32_t>(checksum);
}
/// The head of zip64's extra field: its values follow.
void append_zip64(std::string& text, std::initializer_list<std::uint64_t> values) {
  append(text, 1, 2);
  append(text, 8 * values.size(), 2);
  for (const std::uint64_t value : values) append(text, value, 8);
}
}  // namespace

void ZipWriter::write(std::string_view bytes) {
  file_.write(bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view head, std::string_view rest,
                    bool deflate) {
  const std::uint64_t size = head.size() + rest.size(), begin = at_;
  const std::uint32_t checksum = checksum_of(head, rest);
  const std::string pressed = deflate ? deflated(head, rest) : std::string();
  const std::uint64_t packed = deflate ? pressed.size() : size;
  std::string shared;  // what the header of a member and its entry in the directory have in common
  append(shared, 45, 2);      // the version of zip64
  append(shared, 0x0800, 2);  // names of UTF-8
  append(shared, deflate ? 8 : 0, 2);
  append(shared, 0x00210000, 4);  // 1980-01-01
  append(shared, checksum, 4);
  append(shared, 0xffffffffffffffff, 8);  // both sizes are in the extra field
  append(shared, name.size(), 2);

  std::string local;
  append(local, local_mark, 4);
  local += shared;
  std::string extra;
  append_zip64(extra, {size, packed});
  const std::uint64_t data = begin + local_bytes + name.size() + extra.size();
  if (!deflate && data % 64) {
    const std::uint64_t padding = (64 - (data + 4) % 64) % 64;
    append(extra, 0x4246, 2);  // "FB", as PyTorch pads
    append(extra, padding, 2);
    extra.append(padding, 'Z');
  }
  append(local, extra.size(), 2);
  write(local + name + extra);
  if (deflate) {
    write(pressed);
  } else {
    write(head);
    write(rest);
  }

  append(directory_, entry_mark, 4);
  append(directory_, 45, 2);
  directory_ += shared;
  append(directory_, 28, 2);    // of extra fields
  directory_.append(10, '\0');  // no comment, one part, no attributes
  append(directory_, 0xffffffff, 4);
  directory_ += name;
  append_zip64(directory_, {size, packed, begin});
  ++count_;
}

void ZipWriter::finish() {
  const std::uint64_t directory = at_, end = directory + directory_.size();
  std::string record;
  append(record, end64_mark, 4);
  append(record, end64_bytes - 12, 8);
  append(record, 45, 2);
  append(record, 45, 2);
  append(record, 0, 8);
  append(record, count_, 8);
  append(record, count_, 8);
  append(record, directory_.size(), 8);
  append(record, directory, 8);
  append(record, locator_mark, 4);
  append(record, 0, 4);
  append(record, end, 8);
  append(record, 1, 4);
  append(record, end_mark, 4);
  append(record, 0, 4);
  append(record, 0xffffffff, 4);
  append(record, 0xffffffffffffffff, 8);
  append(record, 0, 2);
  write(directory_);
  write(record);
}
}  // namespace reel::io
