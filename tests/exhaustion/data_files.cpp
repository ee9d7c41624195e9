// SPDX-License-Identifier: BSD-3-Clause
// Programs that read the files of other programs, and readers that go on after memory has ended.
#include <string>
#include <vector>

#include "exhaustion/programs.hpp"
#include "io/folder.hpp"
#include "lib/io/media.hpp"
#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
/// What the test itself copies may find no memory either.
template <class F>
auto with_copies(const F& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail_memory(Caller::here(), "test");
  }
}

struct DataFiles : Program {
  Folder folder;
  std::vector<std::string> text = {folder.file("lines of a text with a long name")},
                           table = {folder.file("a table with a long name")},
                           trees = {folder.file("trees with a long name")},
                           sentences = {folder.file("sentences with a long name")},
                           json = {folder.file("json with a long name")},
                           records = {folder.file("records with a long name")};
  std::string idx = folder.file("idx with a long name"), image = folder.file("an image"),
              sound = folder.file("a sound"), vectors = folder.file("vectors"),
              words = folder.file("words"), unknown = "a word for others, in the heap",
              pattern = folder.file("trees*"), message;
  data::Example example{
      {{"a feature with a long name", {"a text of some length, for the heap"}, {}, {}},
       {"numbers", {}, {1, 2, 3}, {}}}};
  data::VocabularyOptions with_unknown{.unknown = unknown};
  data::VectorOptions of_vectors{.unknown = unknown};
  std::vector<data::features::Column> columns = {
      data::features::numeric("number"), data::features::hashed("name", 10),
      data::features::crossed(
          {data::features::hashed("name", 10), data::features::bucketized("number", {1, 2})}, 9)};
  data::features::Columns all{columns};

  explicit DataFiles(unsigned) {
    const std::string cell = "a cell of some length, for the heap";
    write_file(text[0], cell + "\n" + cell + "\r\n");
    write_file(table[0], "name,number\n\"" + cell + "\",1\n\"" + cell + "\n\",2\n");
    write_file(trees[0], "(a_label_of_some_length_for_the_heap (b (c d) (e f)))\n");
    write_file(sentences[0],
               "# a comment of some length\n1\t" + cell + "\ta\ta\ta\ta\t0\ta\ta\ta\n");
    write_file(json[0], "{\"a\": {\"b\": [1, 2]}, \"c\": [\"" + cell + "\"]}\n");
    write_file(idx, std::string("\0\0\x08\x01\0\0\0\x02hi", 10));
    const std::vector<std::uint8_t> pixels(12, 7);
    write_file(image, io::png(pixels.data(), 2, 2, 3));
    const std::vector<float> samples(8);
    write_file(sound, io::wav(samples.data(), 8, 1, 8000));
    write_file(vectors, "2 2\n" + cell + " 1 2\nb 3 4\n");
    message = data::serialize(example);
  }
  template <class R, class T>
  void count(Results& results, const R& reader, T element) {
    double elements = 0;
    while (reader->next(element)) ++elements;
    results.add(elements);
  }
  void run(Results& results) override {
    count(results, with_copies([&] { return data::open_lines(text); }), std::string());
    count(results, with_copies([&] { return data::open_trees(trees); }), data::Tree());
    count(results, with_copies([&] { return data::open_conllu(sentences); }), data::Sentence());
    read_records(results);
    read_json(results);
    read_table(results);
    results.add(data::read_idx(idx));
    results.add(data::read_image(image, {.channels = 1}));
    results.add(data::read_wav(sound).samples);
    results.add(data::read_vectors(vectors, of_vectors).vectors);
    results.add(static_cast<double>(data::glob(pattern).size()));
    read_words(results);
  }
  void read_records(Results& results) {
    {
      data::RecordWriter writer(records[0]);
      writer.write(message);
      writer.close();
    }
    const auto reader = with_copies([&] { return data::open_tfrecords(records); });
    std::string record;
    while (reader->next(record)) {
      const data::Example read = data::parse_example(record);
      results.add(static_cast<double>(read["numbers"].floats.size()));
    }
  }
  void read_json(Results& results) {
    const auto reader = with_copies([&] { return data::open_json_lines(json); });
    data::JsonRecord record;
    while (reader->next(record)) {
      results.add(record.number("a.b.1"));
      results.add(static_cast<double>(record.texts("c").size()));
    }
  }
  void read_table(Results& results) {
    const auto reader = with_copies([&] { return data::open_csv(table); });
    data::CsvRow row;
    while (reader->next(row)) {
      results.add(row.number("number"));
      results.add(all(row).numbers);
      try {
        row.number("name");
      } catch (const IoError& error) {
        results.add(static_cast<double>(error.what()[0]));
      }
    }
  }
  void read_words(Results& results) {
    data::WordCounts counts;
    counts.add("a word of some length, for the heap");
    counts.add("b");
    const data::Vocabulary made(counts, with_unknown);
    made.save(words);
    const data::Vocabulary read = data::read_vocabulary(words, with_unknown);
    results.add(static_cast<double>(read.size()));
    results.add(read.ids(made.words()));
    results.add(data::features::hash_buckets(made.words(), 7));
  }
};
}  // namespace

std::unique_ptr<Program> data_files_program(unsigned variant) { return make<DataFiles>(variant); }

TEST_CASE("a reader gives the same element again after memory has ended") {
  if (sanitized) SKIP("AddressSanitizer keeps its own malloc, which cannot be made to fail");
  const Folder folder;
  const std::vector<std::string> files = {folder.file("a.csv"), folder.file("b.csv")};
  std::string rows = "x,y\n";
  for (int i = 0; i < 5; ++i) rows += "\"a cell of some length, for the heap\n\",1\n";
  for (const std::string& file : files) write_file(file, rows);
  for (std::int64_t k = 0;; ++k) {
    const auto reader = data::open_csv(files);
    int read = 0, ends = 0;
    for (bool more = true; more;) {
      data::CsvRow fresh;
      bool ended = false;
      {
        const FailingAllocations scope(k, Failing::one);
        try {
          more = reader->next(fresh);
        } catch (const MemoryError&) {
          ended = true;
        }
      }
      if (ended) more = reader->next(fresh);
      ends += ended;
      read += more;
    }
    INFO("allocation " << k);
    REQUIRE(read == 10);
    if (ends == 0) break;
  }
}
}  // namespace reel::tests
