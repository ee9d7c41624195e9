// SPDX-License-Identifier: BSD-3-Clause
#include <reel/data/records.hpp>

#include <cstring>

#include <reel/error.hpp>

#include "lib/data/files.hpp"
#include "lib/data/key.hpp"
#include "lib/io/wire.hpp"

namespace reel::data {
namespace {
using io::record_head, io::record_tail;

[[noreturn]] void cut(Files& files, std::uint64_t length) {
  const std::uint64_t left = files.left();
  files.leave();
  files.fail("a record of " + std::to_string(length) + " bytes", std::to_string(left) + " bytes");
}
/// The data of the next record, valid until files are read again.
std::string_view read_record(Files& files) {
  if (!files.has(record_head)) cut(files, record_head);
  const char* const head = files.bytes(record_head);
  std::uint64_t length;
  std::memcpy(&length, head, sizeof length);
  if (!io::is_record_head(head)) {
    files.leave();
    files.fail("a length with its checksum", "another checksum");
  }
  if (length > UINT64_MAX - record_tail || !files.has(length + record_tail)) cut(files, length);
  const std::string_view data(files.bytes(length + record_tail), length);
  std::uint32_t sum;
  std::memcpy(&sum, data.data() + length, sizeof sum);
  if (sum != io::masked_crc32c(data)) files.fail("a record with its checksum", "another checksum");
  return data;
}

struct Records : FileReader<std::string> {
  using FileReader::FileReader;
  bool overwrites() const override { return true; }
  bool read(Files& files, std::string& element) override {
    element = read_record(files);
    return true;
  }
};

/// Bytes of Protocol Buffers, from left to right.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool more() const { return at_ != end_; }
  bool failed() const { return failed_; }
  std::uint64_t varint() {
    if (more() && static_cast<signed char>(*at_) >= 0) [[likely]]
      return static_cast<unsigned char>(*at_++);
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && more(); shift += 7) {
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    return fail();
  }
  std::string_view bytes() { return fixed(varint()); }
  std::string_view fixed(std::uint64_t count) {
    if (count > static_cast<std::uint64_t>(end_ - at_)) return fail(), std::string_view();
    at_ += count;
    return {at_ - count, count};
  }
  void skip(std::uint64_t key) {
    switch (key & 7) {
      case 0:
        return static_cast<void>(varint());
      case 1:
        return static_cast<void>(fixed(8));
      case 2:
        return static_cast<void>(bytes());
      case 5:
        return static_cast<void>(fixed(4));
      default:
        fail();
    }
  }
  /// What a part of the message has found.
  void join(const Wire& part) {
    if (part.failed_) fail();
  }

 private:
  std::uint64_t fail() {
    failed_ = true;
    at_ = end_;
    return 0;
  }
  const char *at_, *end_;
  bool failed_ = false;
};
constexpr std::uint64_t field(unsigned number, unsigned type) { return number << 3 | type; }

/// Fills a feature that may have been used before, in its memory.
class Filler {
 public:
  explicit Filler(Feature& feature) : feature_(feature) {}
  void clear() { bytes_ = floats_ = integers_ = 0; }
  void add_bytes(std::string_view bytes) {
    if (bytes_ == feature_.bytes.size())
      feature_.bytes.emplace_back(bytes);
    else
      feature_.bytes[bytes_] = bytes;
    ++bytes_;
  }
  void add_floats(std::string_view bytes) {
    const std::size_t before = floats_;
    floats_ += bytes.size() / sizeof(float);
    if (floats_ > feature_.floats.size()) feature_.floats.resize(floats_);
    if (!bytes.empty()) std::memcpy(feature_.floats.data() + before, bytes.data(), bytes.size());
  }
  void add_integer(std::uint64_t integer) {
    if (integers_ == feature_.integers.size()) feature_.integers.emplace_back();
    feature_.integers[integers_++] = static_cast<std::int64_t>(integer);
  }
  /// Drops what is left of another example.
  void finish() {
    const auto cut = [](auto& list, std::size_t count) {
      if (list.size() != count) list.resize(count);
    };
    cut(feature_.bytes, bytes_);
    cut(feature_.floats, floats_);
    cut(feature_.integers, integers_);
  }

 private:
  Feature& feature_;
  std::size_t bytes_ = 0, floats_ = 0, integers_ = 0;
};
/// Reads a list of one of the three kinds. False for bytes that are no list.
inline bool read_list(std::uint64_t kind, std::string_view bytes, Filler& filler) {
  Wire list(bytes);
  while (list.more()) {
    const std::uint64_t key = list.varint();
    if (kind == 1 && key == field(1, 2)) {
      filler.add_bytes(list.bytes());
    } else if (kind == 2 && key == field(1, 2)) {
      const std::string_view packed = list.bytes();
      if (packed.size() % sizeof(float) != 0) return false;
      filler.add_floats(packed);
    } else if (kind == 2 && key == field(1, 5)) {
      filler.add_floats(list.fixed(sizeof(float)));
    } else if (kind == 3 && key == field(1, 2)) {
      Wire packed(list.bytes());
      while (packed.more()) filler.add_integer(packed.varint());
      list.join(packed);
    } else if (kind == 3 && key == field(1, 0)) {
      filler.add_integer(list.varint());
    } else {
      list.skip(key);
    }
  }
  return !list.failed();
}
/// read_feature() for what serializers write: the name, then one list, packed or of one text. False
/// for anything else.
bool read_usual_feature(std::string_view bytes, Feature& feature) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  const auto number = [](char c) {
    return static_cast<std::size_t>(static_cast<unsigned char>(c));
  };
  /// Passes a key and a length that reaches the end.
  const auto pass = [&](std::uint64_t key) {
    if (end - at < 2 || number(*at) != key) return false;
    std::size_t length = number(at[1]);
    at += 2;
    if (length > 127) {
      if (at == end || number(*at) > 127) return false;
      length = (length & 127) | number(*at++) << 7;
    }
    return length == static_cast<std::size_t>(end - at);
  };
  if (end - at < 2 || number(*at) != field(1, 2)) return false;
  const std::size_t length = number(at[1]);
  if (length > 127 || length + 2 > bytes.size()) return false;
  const std::string_view name(at + 2, length);
  at += 2 + length;
  if (!pass(field(2, 2)) || at == end) return false;
  const std::size_t kind = number(*at);
  if (!pass(kind) || !pass(field(1, 2))) return false;
  const std::string_view list(at, static_cast<std::size_t>(end - at));
  Filler filler(feature);
  if (kind == field(1, 2)) {
    filler.add_bytes(list);
  } else if (kind == field(2, 2) && list.size() % sizeof(float) == 0) {
    filler.add_floats(list);
  } else if (kind == field(3, 2)) {
    Wire packed(list);
    while (packed.more()) filler.add_integer(packed.varint());
    if (packed.failed()) return false;
  } else {
    return false;
  }
  if (feature.name != name) feature.name = name;
  filler.finish();
  return true;
}
/// Reads an entry of the map into `feature`, which may have been used before.
bool read_feature(std::string_view bytes, Feature& feature) {
  if (read_usual_feature(bytes, feature)) return true;
  std::string_view name, value;
  Wire entry(bytes);
  while (entry.more()) {
    const std::uint64_t key = entry.varint();
    if (key == field(1, 2))
      name = entry.bytes();
    else if (key == field(2, 2))
      value = entry.bytes();
    else
      entry.skip(key);
  }
  if (feature.name != name) feature.name = name;
  Filler filler(feature);
  std::uint64_t last = 0;  // the kind: of a oneof, the last one counts
  Wire parts(value);
  while (parts.more()) {
    const std::uint64_t key = parts.varint(), kind = key >> 3;
    if ((key & 7) != 2 || kind < 1 || kind > 3) {
      parts.skip(key);
      continue;
    }
    if (last != 0 && kind != last) filler.clear();
    last = kind;
    if (!read_list(kind, parts.bytes(), filler)) return false;
  }
  filler.finish();
  return !entry.failed() && !parts.failed();
}
bool read_example(std::string_view record, Example& example) {
  std::vector<Feature>& features = example.features;
  std::size_t count = 0;
  Wire message(record);
  while (message.more()) {
    const std::uint64_t key = message.varint();
    if (key != field(1, 2)) {
      message.skip(key);
      continue;
    }
    Wire map(message.bytes());
    while (map.more()) {
      const std::uint64_t inner = map.varint();
      if (inner != field(1, 2)) {
        map.skip(inner);
        continue;
      }
      if (count == features.size()) features.emplace_back();
      if (!read_feature(map.bytes(), features[count])) return false;
      ++count;
    }
    message.join(map);
  }
  features.resize(count);
  return !message.failed();
}
struct Examples : FileReader<Example> {
  using FileReader::FileReader;
  bool overwrites() const override { return true; }
  bool read(Files& files, Example& element) override {
    const std::string_view record = read_record(files);
    if (!read_example(record, element))
      files.fail("a message tf.train.Example",
                 quoted(record) + " of " + std::to_string(record.size()) + " bytes");
    return true;
  }
};
}  // namespace

Owned<Reader<std::string>> open_tfrecords(std::vector<std::string> files, Place from,
                                          Caller caller) {
  return open_reader<Records>(Files::Kind::records, files, from, "open_tfrecords", caller);
}
Owned<Reader<Example>> open_examples(std::vector<std::string> files, Place from, Caller caller) {
  return open_reader<Examples>(Files::Kind::records, files, from, "open_examples", caller);
}

const Feature* Example::find(std::string_view name) const {
  for (std::size_t i = features.size(); i-- > 0;)
    if (features[i].name == name) return &features[i];
  return nullptr;
}
const Feature& Example::operator[](Key key) const {
  const Feature* const last = key.position < 0 ? find(key.name) : nullptr;
  return last ? *last
              : features[position_of(
                    key, "Example", "feature", features,
                    [](const Feature& feature) -> std::string_view { return feature.name; })];
}

void parse_example(std::string_view record, Example& example, Caller caller) try {
  if (!read_example(record, example))
    fail<IoError>(caller, "parse_example", "record", "a message tf.train.Example",
                  quoted(record) + " of " + std::to_string(record.size()) + " bytes");
} catch (const std::bad_alloc&) {
  fail_memory(caller, "parse_example");
}
Example parse_example(std::string_view record, Caller caller) {
  Example example;
  parse_example(record, example, caller);
  return example;
}
}  // namespace reel::data
