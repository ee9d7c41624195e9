// SPDX-License-Identifier: BSD-3-Clause
// The data of samples/tree_lstm: rules, trees and the published format.
#include "samples/listops.hpp"

#include <cstdlib>
#include <filesystem>

#include "support/catch.hpp"

namespace listops {

TEST_CASE("ListOps operators follow the published rules", "[samples]") {
  REQUIRE(apply(minimum, {4, 2, 9}) == 2);
  REQUIRE(apply(maximum, {4, 2, 9}) == 9);
  REQUIRE(apply(median, {9, 1, 4}) == 4);
  REQUIRE(apply(median, {4, 1}) == 2);
  REQUIRE(apply(sum, {4, 2, 9}) == 5);
}

TEST_CASE("A published line is read with its own tree, or refused", "[samples]") {
  const Expression e = read_line("0\t( ( ( ( ( [SM 6 ) 5 ) 9 ) 0 ) ] )");
  REQUIRE(e.words == Words{sum, 6, 5, 9, 0, close});
  REQUIRE(e.tree->right->word == close);
  REQUIRE(read_line("3\t( ( ( [MAX 3 ) ( ( ( [MIN 2 ) 1 ) ] ) ) ] )").value == 3);
  REQUIRE(read_line("7\t7").value == 7);
  for (const char* bad : {"0 ( [SM 6 )", "2\t( ( ( [SM 6 ) 5 ) ] )", "1\t( [SM ( 6 ( 5 ] ) ) )",
                          "0\t( [SM ] )", "0\t( [SM 6 )", "0\t]", "0\t( 0 0 )", "0\tzero"}) {
    INFO(bad);
    REQUIRE_THROWS_AS(read_line(bad), std::out_of_range);
  }
}

TEST_CASE("Drawn expressions are distinct, apart, and as long as the published ones", "[samples]") {
  const Split split = draw_split(18000, 3, "");
  REQUIRE(split.train.size() == 18000);
  REQUIRE(split.test.size() == 2000);
  std::set<Words> seen;
  std::vector<std::size_t> lengths;
  for (const auto* part : {&split.train, &split.test}) {
    for (const Expression& e : *part) {
      REQUIRE(seen.insert(e.words).second);
      lengths.push_back(e.words.size());
    }
  }
  std::sort(lengths.begin(), lengths.end());
  double total = 0;
  for (std::size_t length : lengths) total += static_cast<double>(length);
  REQUIRE(lengths[10000] >= 12);
  REQUIRE(lengths[10000] <= 18);
  REQUIRE(total / 20000 == Approx(42).margin(6));
  const Expression& e = split.train[0];
  REQUIRE(read_line(std::to_string(e.value) + "\t" + text(*e.tree)).words == e.words);
}

TEST_CASE("The published excerpt is read: values and trees are ours", "[samples]") {
  const char* folder = std::getenv("REEL_SHARED");  // set by meson.build
  const std::string path =
      std::string(folder ? folder : "../shared") + "/data/listops/excerpt_d20s.tsv";
  if (!std::filesystem::exists(path)) SKIP("no " + path);
  REQUIRE(read(path).size() == 500);
}
}  // namespace listops
