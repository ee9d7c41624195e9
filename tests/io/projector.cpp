// SPDX-License-Identifier: BSD-3-Clause
// Files of TensorBoard's projector. summary_writer.py asks TensorBoard's own server for them.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("an embedding has a table, labels and one entry", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  const Tensor table = tensor({{1.0, -0.5}, {3.0, 1e-9}});
  board.embedding("a \"word\"/\n", table, {.labels = {"tab\there", "\xc3\xa9"}});
  board.embedding("a \"word\"/\n", table + 1, {.labels = {"tab\there", ""}});
  const std::string config = contents(folder.file("projector_config.pbtxt"));
  CHECK(config.find("tensor_name: \"a \\042word\\042/\\012\"") != config.npos);
  CHECK(config.find("embeddings", 1) == config.npos);
  int tables = 0;
  for (const std::string& name : names_in(folder.path)) {
    if (name.ends_with(".labels.tsv"))
      CHECK(contents(folder.file(name.c_str())) == "tab here\n \n");
    else if (name.ends_with(".tsv") && ++tables)
      CHECK(contents(folder.file(name.c_str())) == "2\t0.5\n4\t1\n");
  }
  CHECK(tables == 1);
  check_refused<ShapeError>([&] { board.embedding("x", table, {.labels = {"a"}}); },
                            "SummaryWriter: labels: expected 2, got 1");
  check_refused<ShapeError>([&] { board.embedding("x", table(0)); },
                            "SummaryWriter: table: expected [rows, width], got (2,)");
}

TEST_CASE("an embedding has columns of texts and images of its rows", "[board]") {
  Folder folder;
  SummaryWriter board(folder.path);
  const Tensor table = eye(3), sprites = arange(0, 36).reshape({3, 2, 6}).to(DType::uint8);
  const std::vector<ProjectorColumn> metadata = {{"kind", {"x\ty", "", "z"}},
                                                 {"n", {"1", "2", "3"}}};
  const auto ending = [&](std::string_view end) {
    for (const std::string& name : names_in(folder.path))
      if (name.ends_with(end)) return folder.file(name.c_str());
    return std::string();
  };
  const auto config = [&] { return contents(folder.file("projector_config.pbtxt")); };
  board.embedding("b", table);
  const std::string of_b = config();
  board.embedding("a", table, {.metadata = metadata});
  board.embedding("c", table);
  const std::string without = config();
  board.embedding("a", table,
                  {.labels = {"p", "q", "r"}, .metadata = metadata, .sprites = sprites});
  CHECK(board.lost() == 0);
  CHECK(contents(ending(".labels.tsv")) != "");
  int found = 0;
  for (const std::string& name : names_in(folder.path))
    if (name.starts_with("a-") && name.ends_with(".labels.tsv") && ++found)
      CHECK(contents(folder.file(name.c_str())) == "label\tkind\tn\np\tx y\t1\nq\t \t2\nr\tz\t3\n");
  CHECK(found == 1);
  // The entry of a name is replaced; the others stay.
  const std::string all = config();
  CHECK(all.starts_with(of_b));
  CHECK(without.ends_with(all.substr(all.size() - of_b.size() + 2)));
  CHECK(all.find("single_image_dim: 6\n    single_image_dim: 2\n") != all.npos);
  CHECK(all.find("tensor_name: \"a\"") == all.rfind("tensor_name: \"a\""));
  const Tensor sheet = data::read_image(ending(".png"), {.channels = 1});
  CHECK(sheet.shape() == Shape{4, 12, 1});
  const Tensor corners = concat(
      {concat({sprites(0), sprites(1)}, 1), concat({sprites(2), zeros_like(sprites(2))}, 1)}, 0);
  CHECK(sheet.to_vector<std::uint8_t>() == corners.to_vector<std::uint8_t>());
  check_refused<ShapeError>(
      [&] {
        board.embedding("x", table, {.metadata = {{"k", {"a"}}}});
      },
      "SummaryWriter: metadata \"k\": expected 3, got 1");
  check_refused<ShapeError>(
      [&] {
        board.embedding("x", table, {.sprites = ones({2, 4, 4})});
      },
      "SummaryWriter: sprites: expected [3, height, width] or [3, height, "
      "width, 1 to 4 channels], got (2, 4, 4)");
  check_refused<ShapeError>(
      [&] {
        board.embedding("x", table, {.sprites = ones({3, 5000, 4})});
      },
      "SummaryWriter: sprites: expected at most 4096 pixels a side");
  check_refused<DTypeError>(
      [&] {
        board.embedding("x", table, {.sprites = ones({3, 4, 4}).to(DType::int64)});
      },
      "SummaryWriter: sprites: expected uint8 or floating numbers, got int64");
}
}  // namespace reel::tests
