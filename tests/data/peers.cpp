// SPDX-License-Identifier: BSD-3-Clause
// Reads files that peers.py has made by other programs, and compares them with what these programs
// read. The file "list" names them.
#include <cstdlib>
#include <sstream>

#include <reel/reel.hpp>

#include "data/read_all.hpp"

namespace reel::tests {
namespace {
struct Peers {
  std::string folder;
  std::string path(const std::string& name) const { return folder + "/" + name; }
  Tensor array(const std::string& name) const { return io::load_npy(path(name)); }
  std::vector<std::string> lines(const std::string& name) const {
    return read_all(*data::open_lines({path(name)}));
  }

  void image(const std::string& file, int channels, const std::string& wanted, int most) const {
    const Tensor read = data::read_image(path(file), {.channels = channels}).to(DType::int32);
    const Tensor pixels = array(wanted).to(DType::int32);
    REQUIRE(read.shape() == pixels.shape());
    CHECK(max(abs(read - pixels)).item<int>() <= most);
  }
  void audio(const std::string& file, int rate, const std::string& wanted) const {
    const data::Audio sound = data::read_audio(path(file));
    CHECK(sound.rate == rate);
    REQUIRE(sound.samples.shape() == array(wanted).shape());
    CHECK(allclose(sound.samples, array(wanted), {.rtol = 0, .atol = 1e-6}));
  }
  void records(const std::string& file, const std::string& wanted) const {
    const Tensor x = array(wanted + ".x.npy"), y = array(wanted + ".y.npy");
    const auto texts = lines(wanted + ".txt");
    const auto reader = data::open_tfrecords({path(file)});
    data::RecordWriter writer(path(file + ".ours"));
    data::Example example;
    std::int64_t i = 0;
    for (std::string record; reader->next(record); ++i) {
      data::parse_example(record, example);
      REQUIRE(example["x"].floats == x(i).to_vector<float>());
      REQUIRE(example["y"].integers == y(i).to_vector<std::int64_t>());
      REQUIRE(example["s"].bytes == std::vector<std::string>{texts[static_cast<std::size_t>(i)]});
      writer.write(data::serialize(example));
    }
    CHECK(i == x.shape(0));
  }
  /// Rows beside those that Python's module csv read, as lists of JSON.
  void csv(const std::string& file, const std::string& wanted) const {
    const auto rows = data::open_csv({path(file)}, {.header = false});
    const auto lists = data::open_json_lines({path(wanted)});
    data::CsvRow row;
    for (data::JsonRecord list; lists->next(list);) {
      REQUIRE(rows->next(row));
      const auto cells = list.texts("");
      REQUIRE(row.size() == cells.size());
      for (std::size_t i = 0; i < cells.size(); ++i) REQUIRE(row[i] == cells[i]);
    }
    CHECK_FALSE(rows->next(row));
  }
  void vectors(const std::string& file, const std::string& wanted) const {
    const auto [words, table] = data::read_vectors(path(file));
    CHECK(words.words() == lines(wanted + ".txt"));
    CHECK(allclose(table, array(wanted + ".npy"), {.rtol = 1e-6, .atol = 0}));
  }
  void conllu(const std::string& file, const std::string& wanted) const {
    std::vector<std::string> found;
    for (const data::Sentence& sentence : read_all(*data::open_conllu({path(file)})))
      for (const data::Token* word : sentence.words())
        found.push_back(word->form + " " + std::to_string(word->head) + " " + word->deprel);
    CHECK(found == lines(wanted));
  }
};
}  // namespace

TEST_CASE("files of other programs are read as they read them", "[.][peers]") {
  const char* const folder = std::getenv("REEL_PEERS");
  REQUIRE(folder != nullptr);
  const Peers peers{folder};
  for (const std::string& line : peers.lines("list")) {
    INFO(line);
    std::istringstream words(line);
    std::string kind, file, wanted;
    int number = 0, most = 0;
    words >> kind >> file >> wanted >> number >> most;
    if (kind == "image") peers.image(file, number, wanted, most);
    if (kind == "audio") peers.audio(file, number, wanted);
    if (kind == "records") peers.records(file, wanted);
    if (kind == "csv") peers.csv(file, wanted);
    if (kind == "vectors") peers.vectors(file, wanted);
    if (kind == "conllu") peers.conllu(file, wanted);
    if (kind == "idx")
      CHECK(all(data::read_idx(peers.path(file)) == peers.array(wanted)).item<bool>());
  }
}
}  // namespace reel::tests
