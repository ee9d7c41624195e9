// SPDX-License-Identifier: BSD-3-Clause
// TFRecord files and tf.train.Example: bytes that are made here from the published formats.
// peers.py has files of TensorFlow.
#include <algorithm>
#include <bit>
#include <cstring>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "data/zipped.hpp"
#include "lib/io/wire.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using Texts = std::vector<std::string>;
/// The bits of CRC-32C one by one.
std::uint32_t slow_sum(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char c : bytes) {
    sum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) sum = sum & 1 ? 0x82f63b78 ^ (sum >> 1) : sum >> 1;
  }
  return ~sum;
}
std::string little(std::uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> 8 * i);
  return text;
}
std::string masked(std::string_view bytes) {
  const std::uint32_t sum = slow_sum(bytes);
  return little(((sum >> 15) | (sum << 17)) + 0xa282ead8u, 4);
}
std::string record(std::string_view data) {
  const std::string length = little(data.size(), 8);
  return length + masked(length) + std::string(data) + masked(data);
}
const Open<std::string> open_records = [](Texts files, data::Place from) {
  return data::open_tfrecords(std::move(files), from);
};
struct File {
  Folder folder;
  std::string path = folder.file("x.tfrecord");
  explicit File(const std::string& bytes) { write_file(path, bytes); }
  Texts read(int* errors = nullptr, Caller caller = Caller::here()) const {
    return read_all(*data::open_tfrecords({path}, {}, caller), errors);
  }
};
std::string field(int number, std::string_view bytes) {
  return static_cast<char>(number << 3 | 2) + little(bytes.size(), 1) + std::string(bytes);
}
std::string entry(std::string_view name, std::string_view value) {
  return field(1, field(1, name) + field(2, value));
}
const std::string one_point_five = little(std::bit_cast<std::uint32_t>(1.5f), 4);
}  // namespace

TEST_CASE("the checksum is CRC-32C, with and without the processor's instruction") {
  CHECK(io::crc32c("123456789") == 0xe3069283);  // of the catalogue of CRCs
  CHECK(io::crc32c_by_table("123456789") == 0xe3069283);
  std::string bytes;
  for (int i = 0; i < 400; ++i) {
    CHECK(io::crc32c(bytes) == slow_sum(bytes));
    CHECK(io::crc32c_by_table(bytes) == slow_sum(bytes));
    bytes += static_cast<char>(37 * i);
  }
}

TEST_CASE("records are read with both checksums") {
  const Texts records = {"", "a", std::string(300'000, 'b'), std::string("\0\n", 2)};
  std::string bytes;
  for (const std::string& data : records) bytes += record(data);
  CHECK(File(bytes).read() == records);
  CHECK(File("").read().empty());
  const File first(bytes), second(record("c"));
  check_places(open_records, {first.path, second.path});
  const auto reader = data::open_tfrecords({first.path});
  std::string element;
  reader->next(element), reader->next(element);
  CHECK(reader->where() == first.path + ": byte 16");
}

TEST_CASE("a wrong record is an error, and what can be found behind it is read") {
  std::string bytes = record("first") + record("second") + record("third");
  int errors = 0;
  std::string wrong = bytes;
  wrong[record("first").size() + 12] ^= 1;  // in the data of the second one
  CHECK(File(wrong).read(&errors) == Texts{"first", "third"});
  CHECK(errors == 1);
  check_refused<IoError>([&] { File(wrong).read(); },
                         "open_tfrecords: \"x.tfrecord\": expected a record with its checksum, got "
                         "another checksum at byte 21");
  wrong = bytes;
  wrong[record("first").size()] ^= 1;  // in its length
  errors = 0;
  CHECK(File(wrong).read(&errors) == Texts{"first"});
  CHECK(errors == 1);
  check_refused<IoError>([&] { File(wrong).read(); }, "a length with its checksum");
  errors = 0;
  CHECK(File(bytes.substr(0, bytes.size() - 1)).read(&errors) == Texts{"first", "second"});
  CHECK(errors == 1);
  check_refused<IoError>([&] { File(record("first") + "1234567").read(); },
                         "a record of 12 bytes, got 7 bytes at byte 21");
}

TEST_CASE("a length of 2^63 and more is refused before memory is taken") {
  for (const std::uint64_t length : {std::uint64_t{1} << 63, ~std::uint64_t{}, ~std::uint64_t{} - 3,
                                     std::uint64_t{1} << 40, std::uint64_t{1}}) {
    const std::string head = little(length, 8);
    check_refused<IoError>([&] { File(head + masked(head) + "1234").read(); },
                           "a record of " + std::to_string(length) + " bytes, got 4 bytes");
  }
}

TEST_CASE("a RecordWriter writes what the reader reads") {
  const Folder folder;
  const std::string path = folder.file("x.tfrecord");
  const Texts records = {"", "a", std::string(400'000, 'b'), "c"};
  {
    data::RecordWriter writer(path);
    for (const std::string& data : records) writer.write(data);
  }
  CHECK(read_all(*data::open_tfrecords({path})) == records);
  std::string bytes;
  for (const std::string& data : records) bytes += record(data);
  CHECK(contents(path) == bytes);
  data::RecordWriter again(path);
  again.close();
  again.close();
  CHECK(contents(path).empty());
  check_refused<Error>([&] { again.write("x"); }, "RecordWriter: write: expected an open file");
  check_refused<IoError>([&] { data::RecordWriter none(folder.file("no/x")); }, "a file to write");
  data::RecordWriter full("/dev/full");
  full.write("x");
  check_refused<IoError>([&] { full.close(); }, "a disk that takes more");
}

TEST_CASE("compressed records are read and written") {
  Texts records = {"", "a", std::string("\0\n", 2)};
  std::string noise;
  for (unsigned i = 0, x = 1; i < 300'000; ++i)
    noise += static_cast<char>((x = x * 69069 + 1) >> 24);
  records.push_back(noise);
  records.emplace_back("last");
  std::string bytes;
  for (const std::string& data : records) bytes += record(data);
  const Folder folder;
  for (const data::Compression how : {data::Compression::gzip, data::Compression::zlib}) {
    const std::string ours = folder.file("ours"), plain = folder.file("plain");
    {
      data::RecordWriter writer(ours, {.compression = how});
      for (const std::string& data : records) writer.write(data);
    }
    const std::string packed = contents(ours);
    CHECK(unzipped(packed) == bytes);
    CHECK(File(packed).read() == records);
    CHECK(File(zipped(bytes, how)).read() == records);
    write_file(plain, bytes);
    check_places(open_records, {ours, plain, ours});
    int errors = 0;
    CHECK(File(packed.substr(0, packed.size() / 2)).read(&errors) == Texts{"", "a", records[2]});
    CHECK(errors == 1);
    check_refused<IoError>([&] { File(packed.substr(0, packed.size() / 2)).read(); },
                           "a whole file of gzip or zlib");
    const std::string empty = folder.file("empty");
    data::RecordWriter(empty, {.compression = how}).close();
    CHECK(read_all(*data::open_tfrecords({empty})).empty());
    const std::string head = little(~std::uint64_t{} - 3, 8);
    check_refused<IoError>([&] { File(zipped(head + masked(head) + "1234", how)).read(); },
                           "a record of 18446744073709551612 bytes, got 4 bytes at byte 0");
  }
  const std::string half = zipped(record("a"), data::Compression::gzip);
  CHECK(File(half + half).read() == Texts{"a", "a"});  // gzip files that were joined
  // A record whose length looks like the first bytes of gzip.
  const std::string long_record(0x88b1f, 'x');
  CHECK(File(record(long_record)).read() == Texts{long_record});
  fuzz<std::string>(open_records,
                    zipped(record("first") + record("second"), data::Compression::gzip),
                    {"\x1f\x8b", std::string(8, '\0')});
}

TEST_CASE("texts are read from files of gzip too") {
  const Folder folder;
  const std::string path = folder.file("x.csv.gz");
  write_file(path, zipped("\xef\xbb\xbfname,n\na,1\nb,2\nc,x\n", data::Compression::gzip));
  CHECK(read_all(*data::open_lines({path})) == Texts{"name,n", "a,1", "b,2", "c,x"});
  double sum = 0;
  const auto add = [&] {
    for (const data::CsvRow& row : data::csv({path})) sum += row.number("n");
  };
  check_refused<IoError>(add, "a number in column 'n', got 'x' at line 4");
  CHECK(sum == 3);
}

TEST_CASE("examples are the records, parsed") {
  const Folder folder;
  const std::string path = folder.file("x");
  std::vector<data::Example> all;
  {
    data::RecordWriter writer(path);
    for (std::int64_t i = 0; i < 200; ++i) {  // features that come and go, in memory that is reused
      data::Example example;
      if (i % 3) example.features.push_back({"i", {}, {}, std::vector<std::int64_t>(i % 7, i)});
      if (i % 2) example.features.push_back({"f", {}, {0.5f * static_cast<float>(i)}, {}});
      if (i % 5) example.features.push_back({"b", {std::string(i % 40, 'b'), "c"}, {}, {}});
      writer.write(data::serialize(example));
      all.push_back(example);
    }
    writer.write("no message");
  }
  const auto same = [](const data::Example& a, const data::Example& b) {
    return std::equal(a.features.begin(), a.features.end(), b.features.begin(), b.features.end(),
                      [](const data::Feature& x, const data::Feature& y) {
                        return x.name == y.name && x.bytes == y.bytes && x.floats == y.floats &&
                               x.integers == y.integers;
                      });
  };
  std::size_t i = 0;
  check_refused<IoError>(
      [&] {
        for (const data::Example& example : data::examples({path})) {
          REQUIRE(same(example, all[i]));
          REQUIRE(data::serialize(example) == data::serialize(all[i]));
          ++i;
        }
      },
      "open_examples: \"x\": expected a message tf.train.Example, got 'no message' of 10 bytes at "
      "byte");
  CHECK(i == 200);
  std::vector<std::string> mapped;
  for (const std::string& text :
       data::examples({path}).skip_errors().map([](data::Example x) { return data::serialize(x); }))
    mapped.push_back(text);
  REQUIRE(mapped.size() == 200);
  for (std::size_t k = 0; k < 200; ++k) CHECK(mapped[k] == data::serialize(all[k]));
}

TEST_CASE("an Example has bytes, floats and integers by their names") {
  // Packed and single numbers, and fields that the format does not have.
  const std::string bytes =
      field(9, "unknown") +
      field(1,
            entry("text", field(1, field(1, "one") + field(1, ""))) +
                entry("x", field(2, field(1, one_point_five + one_point_five) + "\x0d" +
                                        one_point_five)) +
                entry("y",
                      field(3, field(1, std::string("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                                                    11)) +
                                   "\x08\x07")) +
                entry("none", ""));
  const data::Example example = data::parse_example(bytes);
  REQUIRE(example.features.size() == 4);
  CHECK(example["text"].bytes == Texts{"one", ""});
  CHECK(example["x"].floats == std::vector<float>{1.5, 1.5, 1.5});
  CHECK(example["y"].integers == std::vector<std::int64_t>{5, -1, 7});
  CHECK(example["none"].bytes.empty());
  CHECK(example.find("z") == nullptr);
  check_refused<Error>([&] { example["z"]; },
                       "Example: feature: expected one of text, x, y, none, got 'z'");
  data::Example again;
  data::parse_example(bytes, again);
  data::parse_example(field(1, entry("x", field(2, field(1, one_point_five)))), again);
  REQUIRE(again.features.size() == 1);
  CHECK(again["x"].floats == std::vector<float>{1.5});
  CHECK(data::parse_example("").features.empty());
  CHECK(data::parse_example(field(
            1, entry("x", field(1, field(1, "a"))) + entry("x", field(1, field(1, "b")))))["x"]
            .bytes == Texts{"b"});
}

TEST_CASE("an Example is written as it is read") {
  data::Example example;
  example.features = {{"text", {"a", std::string(300, 'b')}, {}, {}},
                      {"x", {}, {1, -2.5f}, {}},
                      {"y", {}, {}, {0, -1, INT64_MAX, 300}},
                      {"none", {}, {}, {}}};
  const data::Example read = data::parse_example(data::serialize(example));
  REQUIRE(read.features.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(read.features[i].name == example.features[i].name);
    CHECK(read.features[i].bytes == example.features[i].bytes);
    CHECK(read.features[i].floats == example.features[i].floats);
    CHECK(read.features[i].integers == example.features[i].integers);
  }
  example.features[1].integers = {1};
  check_refused<Error>([&] { data::serialize(example); },
                       "features with elements of one kind, got several in 'x'");
}

TEST_CASE("a feature means the same in each layout") {
  const auto varint = [](std::size_t n) {
    std::string text;
    for (; n > 127; n >>= 7) text += static_cast<char>((n & 127) | 128);
    return text + static_cast<char>(n);
  };
  const auto part = [&](int number, std::string_view bytes) {
    return static_cast<char>(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
  };
  data::Example usual, other;  // used again and again
  for (const std::size_t size : {0, 4, 120, 124, 128, 256, 16376, 16380, 16384, 40000})
    for (const int kind : {1, 2, 3})
      for (const std::size_t name : {0, 1, 127, 128}) {
        INFO(size << " bytes, kind " << kind << ", name of " << name);
        const std::string list(size, 'a'), title = part(1, std::string(name, 'n'));
        const std::string value = part(2, part(kind, part(1, list)));
        data::parse_example(part(1, part(1, title + value)), usual);
        // The value comes first, with an empty list before it.
        const std::string late = part(2, part(kind, "") + part(kind, part(1, list)));
        data::parse_example(part(1, part(1, late + title)), other);
        REQUIRE(usual.features.size() == 1);
        REQUIRE(other.features.size() == 1);
        const data::Feature &a = usual.features[0], &b = other.features[0];
        CHECK(a.name == std::string(name, 'n'));
        CHECK(b.name == a.name);
        CHECK(a.bytes.size() == (kind == 1 ? 1 : 0));
        CHECK(a.floats.size() == (kind == 2 ? size / 4 : 0));
        CHECK(a.integers.size() == (kind == 3 ? size : 0));
        CHECK(a.bytes == b.bytes);
        CHECK(a.floats == b.floats);
        CHECK(a.integers == b.integers);
      }
}

TEST_CASE("bytes that are no Example are refused") {
  check_refused<IoError>([] { data::parse_example("hello"); }, "a message tf.train.Example");
  check_refused<IoError>([] { data::parse_example("\x0a\x05"); }, "got '\\x0a\\x05' of 2 bytes");
  check_refused<IoError>(
      [] { data::parse_example(field(1, entry("x", field(2, field(1, "123"))))); },
      "tf.train.Example");
  check_refused<IoError>([] { data::parse_example(std::string(11, '\xff')); }, "tf.train.Example");
}

TEST_CASE("damaged records are read as what they say, or refused") {
  data::Example example;
  example.features = {{"text", {"a"}, {}, {}}, {"x", {}, {1}, {}}, {"y", {}, {}, {300}}};
  const std::string message = data::serialize(example);
  fuzz(open_records, record("first") + record("") + record(message),
       {little(1ull << 63, 8), record("x")});
  Random random(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = message;
    for (std::size_t n = 1 + below(random, 3); n > 0; --n)
      damage(bytes, random, {"\x0a", "\x12", "\xff\xff"});
    try {
      data::parse_example(bytes, example);
      ++read;
    } catch (const IoError&) {
      ++refused;
    }
  }
  CHECK(read > 1000);
  CHECK(refused > 1000);
}
}  // namespace reel::tests
