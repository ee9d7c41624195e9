// SPDX-License-Identifier: BSD-3-Clause
// The wire format of Protocol Buffers, and records with checksums, which TFRecord and event files
// of TensorBoard have.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace reel::io {
static_assert(std::endian::native == std::endian::little);

/// A message of Protocol Buffers in its making. Each call appends a field of this number.
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    varint(key(field, 0));
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) {
    varint(key(field, 1));
    return raw(&value, sizeof value);
  }
  /// A text, bytes, or another message.
  Message& bytes(int field, std::string_view value) {
    varint(key(field, 2));
    varint(value.size());
    return raw(value.data(), value.size());
  }
  Message& message(int field, const Message& value) { return bytes(field, value.view()); }
  std::string_view view() const { return bytes_; }

  /// A number without a field, as in packed lists.
  void varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }

 private:
  static std::uint64_t key(int field, int type) {
    return static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type);
  }
  Message& raw(const void* from, std::size_t size) {
    bytes_.append(static_cast<const char*>(from), size);
    return *this;
  }
  std::string bytes_;
};

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);
/// The slow form, for processors without an instruction for it.
std::uint32_t crc32c_by_table(std::string_view bytes);
/// The checksum that records have, because a CRC of bytes that contain their CRC is weak.
inline std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8;
}

/// Bytes of a record around its data: length, checksum of the length; checksum of the data.
constexpr std::size_t record_head = 12, record_tail = 4;
inline std::size_t record_size(const char* record) {
  std::uint64_t length;
  std::memcpy(&length, record, sizeof length);
  return record_head + length + record_tail;
}
/// Whether these record_head bytes are a length with its checksum.
inline bool is_record_head(const char* head) {
  std::uint32_t sum;
  std::memcpy(&sum, head + sizeof(std::uint64_t), sizeof sum);
  return sum == masked_crc32c({head, sizeof(std::uint64_t)});
}
/// Writes the checksum of the data, after they changed.
inline void seal_record(char* record) {
  const std::size_t length = record_size(record) - record_head - record_tail;
  const std::uint32_t sum = masked_crc32c({record + record_head, length});
  std::memcpy(record + record_head + length, &sum, sizeof sum);
}
/// Appends a record. The checksum of its data is missing.
inline void append_record(std::string& records, std::string_view data) {
  const std::uint64_t length = data.size();
  char head[record_head];
  std::memcpy(head, &length, sizeof length);
  const std::uint32_t sum = masked_crc32c({head, sizeof length});
  std::memcpy(head + sizeof length, &sum, sizeof sum);
  // All or nothing, where memory ends.
  if (records.capacity() - records.size() < length + record_head + record_tail)
    records.reserve(2 * records.size() + length + record_head + record_tail);
  records.append(head, record_head).append(data).append(record_tail, '\0');
}
}  // namespace reel::io
