// SPDX-License-Identifier: BSD-3-Clause
// What save() names in a file, and which numbers and tensors of a file load() takes.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/same_tensors.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("a saved file names each thing once, by its path") {
  const Folder folder;
  const std::string path = folder.file("run");
  struct Run {
    Variable first{"first", ones({2})}, tied = first;
    Generator noise{3};
    REEL_FIELDS(first, tied, noise)
  };
  io::save(path, Run(), 7, tensor({1}), tensor({2}));
  check_same(io::load_safetensors(path),
             {{"first", ones({2})}, {"values.1", tensor({1})}, {"values.2", tensor({2})}});
  CHECK(io::load_safetensors_metadata(path) == io::Metadata{{"format", "reel"},
                                                            {"reel.values", "values.1\nvalues.2"},
                                                            {"reel.generator.noise", "3 0"},
                                                            {"reel.value.0", "int 7"}});
  struct Progress {
    int epoch = 1;
    REEL_FIELDS(epoch)
  };
  struct Order {
    Tensor order = tensor({1, 0});
    REEL_FIELDS(order)
  };
  check_refused<Error>([&] { io::save(path, Progress(), Progress()); }, "got \"epoch\" twice");
  check_refused<Error>([&] { io::save(path, Order(), Order()); }, "got \"order\" twice");
}

TEST_CASE("a number of a file is whole and of its kind, or it is different") {
  const Folder folder;
  const std::string path = folder.file("n");
  int small = 3;
  for (const char* const saved :
       {"int 5x", "int ", "int 99999999999999999999", "int 5 ", "int 0x5", "bool true"}) {
    io::save_safetensors(path, {}, {.metadata = {{"format", "reel"}, {"reel.value.0", saved}}});
    check_refused<IoError>([&] { io::load(path, small); }, "got 1 different");
    CHECK(small == 3);
  }
  std::string note = "before";
  io::save(path, 12345);
  check_refused<IoError>([&] { io::load(path, note); }, "got 1 different");
  CHECK(note == "before");
  double real = 0.5;
  io::save(path, std::string("15"));
  check_refused<IoError>([&] { io::load(path, real); }, "got 1 different");
  CHECK(real == 0.5);
  Generator noise(4);
  for (const char* const saved : {"5", "5 ", "5 7x", "x 7", "5 99999999999999999999"}) {
    io::save_safetensors(path, {}, {.metadata = {{"format", "reel"}, {"reel.generator.0", saved}}});
    check_refused<IoError>([&] { io::load(path, noise); }, "seed and position of a generator");
    CHECK(noise.seed() == 4);
  }
}

TEST_CASE("only floating tensors are converted, and what fits beside a number is advised") {
  const Folder folder;
  const std::string path = folder.file("w");
  const Variable real("w", zeros({2})), whole("w", tensor({1, 2}));
  io::save(path, whole);
  check_refused<IoError>([&] { io::load(path, {.convert = true}, real); }, "got 1 different");
  io::save(path, real);
  check_refused<IoError>([&] { io::load(path, {.convert = true}, whole); }, "got 1 different");
  io::save(path, real, 5);
  int count = 0;
  Generator noise(4);
  const std::string error = error_text([&] { io::load(path, real, count, noise); });
  INFO(error);
  CHECK(error.find("got 1 missing\n") != error.npos);
  CHECK(error.find("\n  {.strict = false} loads what fits.") != error.npos);
}
}  // namespace reel::tests
