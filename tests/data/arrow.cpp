// SPDX-License-Identifier: BSD-3-Clause
// Tables by the Arrow C Data Interface: structs that are made here by its specification. peers.py
// has tables of pyarrow.
#include <deque>

#include <reel/reel.hpp>

#include "data/read_all.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using data::Table;
using Texts = std::vector<std::string>;

/// A producer: it keeps the memory of its structs and counts those that were released.
struct Producer {
  int schemas = 0, arrays = 0, streams = 0;  // released
  std::deque<std::vector<const void*>> buffers;
  std::deque<ArrowSchema> types;
  std::deque<ArrowArray> parts;
  std::vector<ArrowSchema*> type_list;
  std::vector<ArrowArray*> part_list;

  void add(const char* name, const char* format, std::int64_t length, std::vector<const void*> of,
           std::int64_t null_count = 0, std::int64_t offset = 0) {
    buffers.push_back(std::move(of));
    types.push_back({format, name, nullptr, 2, 0, nullptr, nullptr, release_schema, this});
    parts.push_back({length, null_count, offset, static_cast<std::int64_t>(buffers.back().size()),
                     0, buffers.back().data(), nullptr, nullptr, release_array, this});
    type_list.push_back(&types.back());
    part_list.push_back(&parts.back());
  }
  ArrowSchema schema() {
    return {"+s",
            "",
            nullptr,
            0,
            static_cast<std::int64_t>(type_list.size()),
            type_list.data(),
            nullptr,
            release_schema,
            this};
  }
  ArrowArray array(std::int64_t length, std::int64_t offset = 0) {
    static const void* none[1] = {nullptr};
    return {length,
            0,
            offset,
            1,
            static_cast<std::int64_t>(part_list.size()),
            none,
            part_list.data(),
            nullptr,
            release_array,
            this};
  }
  Table read(std::int64_t length, const data::ArrowOptions& options = {}, std::int64_t offset = 0,
             Caller caller = Caller::here()) {
    ArrowSchema of = schema();
    ArrowArray from = array(length, offset);
    return data::read_arrow(&of, &from, options, caller);
  }
  static void release_schema(ArrowSchema* schema) {
    ++static_cast<Producer*>(schema->private_data)->schemas;
    schema->release = nullptr;
  }
  static void release_array(ArrowArray* array) {
    ++static_cast<Producer*>(array->private_data)->arrays;
    array->release = nullptr;
  }
};
const std::int32_t ints[] = {1, -2, 3, 4};
const double doubles[] = {0.5, 1.5, 2.5, 3.5};
const std::int32_t offsets[] = {0, 3, 3, 5, 6};
const std::int64_t wide_offsets[] = {0, 3, 3, 5, 6};
const unsigned char bits[] = {0b1010}, third_is_null[] = {0b11011};
}  // namespace

TEST_CASE("columns of numbers, truths and texts are copied, and the structs are released") {
  Producer producer;
  producer.add("i", "i", 4, {nullptr, ints});
  producer.add("d", "g", 4, {nullptr, doubles});
  producer.add("b", "b", 4, {nullptr, bits});
  producer.add("u", "u", 4, {nullptr, offsets, "onetwo"});
  producer.add("U", "U", 4, {nullptr, wide_offsets, "onetwo"});
  const Table table = producer.read(4);
  CHECK(producer.schemas == 1);
  CHECK(producer.arrays == 1);
  CHECK(table.rows == 4);
  CHECK(table["i"].values.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -2, 3, 4});
  CHECK(table[1].values.to_vector<double>() == std::vector<double>{0.5, 1.5, 2.5, 3.5});
  CHECK(table["b"].values.to_vector<bool>() == std::vector<bool>{false, true, false, true});
  CHECK(table["u"].texts == Texts{"one", "", "tw", "o"});
  CHECK(table["U"].texts == Texts{"one", "", "tw", "o"});
  CHECK_FALSE(table["u"].values.defined());
  CHECK_FALSE(table["i"].valid.defined());
  check_refused<Error>([&] { table["x"]; },
                       "Table: column: expected one of i, d, b, u, U, got 'x'");
  Producer some;
  some.add("bad", "tdD", 4, {nullptr, ints});
  some.add("i", "i", 4, {nullptr, ints});
  CHECK(some.read(4, {.columns = {"i"}}).columns.size() == 1);
  check_refused<IoError>([&] { some.read(4); },
                         "read_arrow: column 'bad': expected bool, integers, floating numbers or "
                         "texts, got the format 'tdD'");
  check_refused<Error>([&] { some.read(4, {.columns = {"x"}}); },
                       "expected one of bad, i, got 'x'");
  CHECK(some.schemas == 3);
  CHECK(some.arrays == 3);
}

TEST_CASE("integers keep their dtype, and those that reel does not have become wider") {
  const std::int8_t i8[] = {-1};
  const std::int16_t i16[] = {-300};
  const std::uint16_t u16[] = {65535}, half[] = {0x3e00};
  const std::uint32_t u32[] = {4'000'000'000};
  const std::uint64_t u64[] = {7}, large[] = {~std::uint64_t{}};
  Producer producer;
  producer.add("c", "c", 1, {nullptr, i8});
  producer.add("s", "s", 1, {nullptr, i16});
  producer.add("S", "S", 1, {nullptr, u16});
  producer.add("I", "I", 1, {nullptr, u32});
  producer.add("L", "L", 1, {nullptr, u64});
  producer.add("e", "e", 1, {nullptr, half});
  const Table table = producer.read(1);
  CHECK(table["c"].values.item<std::int8_t>() == -1);
  CHECK(table["s"].values.item<std::int16_t>() == -300);
  CHECK(table["S"].values.item<std::int32_t>() == 65535);
  CHECK(table["I"].values.item<std::int64_t>() == 4'000'000'000);
  CHECK(table["L"].values.item<std::int64_t>() == 7);
  CHECK(table["e"].values.to(DType::float32).item<float>() == 1.5f);
  Producer above;
  above.add("L", "L", 1, {nullptr, large});
  check_refused<IoError>([&] { above.read(1); },
                         "integers of at most 2^63 - 1, got 18446744073709551615 in row 0");
}

TEST_CASE("rows begin at the offsets of the table and of the column") {
  Producer producer;
  producer.add("i", "i", 3, {nullptr, ints}, 0, 1);
  producer.add("b", "b", 3, {nullptr, bits}, 0, 1);
  producer.add("u", "u", 3, {nullptr, offsets, "onetwo"}, 0, 1);
  const Table table = producer.read(2, {}, 1);
  CHECK(table["i"].values.to_vector<std::int32_t>() == std::vector<std::int32_t>{3, 4});
  CHECK(table["b"].values.to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(table["u"].texts == Texts{"tw", "o"});
  check_refused<IoError>([&] { producer.read(3, {}, 1); }, "columns of 3 rows");
  check_refused<IoError>([&] { producer.read(-1); }, "a length that is not negative");
}

TEST_CASE("null is an error unless it is asked for") {
  Producer producer;
  producer.add("i", "i", 4, {third_is_null, ints}, -1);
  producer.add("u", "u", 4, {third_is_null, offsets, "onetwo"}, 1);
  producer.add("d", "g", 4, {nullptr, doubles});
  check_refused<IoError>(
      [&] { producer.read(4); },
      "read_arrow: column 'i': expected elements without null, got null in row 2");
  const Table table = producer.read(4, {.nulls = true});
  CHECK(table["i"].values.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -2, 0, 4});
  CHECK(table["i"].valid.to_vector<bool>() == std::vector<bool>{true, true, false, true});
  CHECK(table["u"].texts == Texts{"one", "", "", "o"});
  CHECK(table["d"].valid.to_vector<bool>() == std::vector<bool>(4, true));
  CHECK(producer.read(2).rows == 2);  // the null is behind
}

TEST_CASE("a dictionary gives the texts of its positions") {
  Producer producer;
  const std::int8_t positions[] = {1, 0, 1, 3};
  producer.add("words", "u", 4, {nullptr, offsets, "onetwo"});
  producer.add("d", "c", 4, {nullptr, positions});
  producer.types[1].dictionary = &producer.types[0];
  producer.parts[1].dictionary = &producer.parts[0];
  CHECK(producer.read(4, {.columns = {"d"}})["d"].texts == Texts{"", "one", "", "o"});
  producer.parts[0].length = 3;
  check_refused<IoError>([&] { producer.read(4, {.columns = {"d"}}); },
                         "column 'd': expected positions in a dictionary, got 3");
}

TEST_CASE("structs that contradict each other are refused") {
  Producer producer;
  producer.add("i", "i", 4, {nullptr, nullptr});
  check_refused<IoError>([&] { producer.read(4); }, "a buffer of elements, got none");
  CHECK(producer.read(0).rows == 0);
  ArrowSchema schema = producer.schema();
  ArrowArray array = producer.array(4);
  array.n_children = 0;
  check_refused<IoError>([&] { data::read_arrow(&schema, &array); },
                         "array: expected 1 columns, got 0");
  check_refused<IoError>([&] { data::read_arrow(&schema, &array); },
                         "a schema that was not released");
  const std::int32_t falling[] = {3, 0};
  Producer texts;
  texts.add("u", "u", 1, {nullptr, falling, "one"});
  check_refused<IoError>([&] { texts.read(1); }, "column 'u': expected offsets that ascend");
  Producer one;
  one.add("i", "i", 4, {nullptr, ints});
  CHECK(data::read_arrow(&one.types[0], &one.parts[0])["i"].values.shape() == Shape({4}));
}

namespace {
/// A stream of one table several times. Then it ends, or has an error.
struct Source : Producer {
  int left = 3, status = 0;
  Source() { add("i", "i", 4, {nullptr, ints}), add("u", "u", 4, {nullptr, offsets, "onetwo"}); }
  ArrowArrayStream stream() {
    ArrowArrayStream stream{};
    stream.private_data = this;
    stream.get_schema = [](ArrowArrayStream* s, ArrowSchema* out) {
      return *out = of(s).schema(), 0;
    };
    stream.get_next = [](ArrowArrayStream* s, ArrowArray* out) {
      *out = {};
      if (of(s).left-- > 0) return *out = of(s).array(4), 0;
      return of(s).status;
    };
    stream.get_last_error = [](ArrowArrayStream*) { return "the disk\nburns"; };
    stream.release = [](ArrowArrayStream* s) { ++of(s).streams, s->release = nullptr; };
    return stream;
  }
  static Source& of(ArrowArrayStream* stream) {
    return *static_cast<Source*>(stream->private_data);
  }
};
}  // namespace

TEST_CASE("a stream is read batch by batch, or as one table") {
  Source source;
  ArrowArrayStream stream = source.stream();
  {
    const auto reader = data::open_arrow(&stream, {}, {0, 1});
    CHECK(stream.release == nullptr);
    CHECK(reader->place().offset == 1);
    CHECK(read_all(*reader).size() == 2);
    CHECK(reader->place().offset == 3);
  }
  CHECK(source.streams == 1);
  CHECK(source.arrays == 3);
  source.left = 2;
  stream = source.stream();
  const Table table = data::read_arrow(&stream, {.nulls = true});
  CHECK(table.rows == 8);
  CHECK(table["i"].values.to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, -2, 3, 4, 1, -2, 3, 4});
  CHECK(table["u"].texts == Texts{"one", "", "tw", "o", "one", "", "tw", "o"});
  CHECK(table["u"].valid.shape() == Shape({8}));
  source.left = 0;
  stream = source.stream();
  CHECK(data::read_arrow(&stream).rows == 0);
  source.left = 1;
  source.status = 5;
  stream = source.stream();
  check_refused<IoError>(
      [&] { data::read_arrow(&stream); },
      "read_arrow: stream: expected a stream without errors, got the disk\\x0aburns");
  check_refused<IoError>([&] { data::read_arrow(&stream); }, "a stream that was not released");
}
}  // namespace reel::tests
