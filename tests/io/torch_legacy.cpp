// SPDX-License-Identifier: BSD-3-Clause
// Files that torch.save() wrote before PyTorch 1.6, built byte by byte as torch/serialization.py
// describes them, and one that PyTorch wrote.
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/pickle_bytes.hpp"
#include "io/same_tensors.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const std::string magic = two + "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
                  version = two + "M\xe9\x03.",
                  machine = two + "}" + text("little_endian") + "\x88s.";
/// A storage of an old file: its tuple has six values.
std::string old_storage(const std::string& key, const std::string& elements = "K\4",
                        const std::string& view = "N") {
  return "(" + text("storage") + "ctorch\nFloatStorage\n" + text(key) + text("cpu") + elements +
         view + "tQ";
}
std::string vector_of(const std::string& key, const std::string& view = "N") {
  return rebuilt(old_storage(key, "K\4", view), zero, "(K\4t", "(K\1t");
}
std::string keys(const std::string& texts) { return two + "](" + texts + "e."; }
const std::string ones_of_it = number(4, 8) +
                               std::string("\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f\0\0\x80\x3f", 16),
                  zeros_of_it = number(4, 8) + std::string(16, '\0');
struct Legacy {
  Folder folder;
  std::string path = folder.file("x.pth");
  io::LoadedTensors read(const std::string& rest) const {
    write_file(path, magic + version + machine + rest);
    return io::load_torch(path);
  }
  void refuse(const std::string& rest, const std::string& part,
              Caller caller = Caller::here()) const {
    write_file(path, magic + version + machine + rest);
    check_refused<IoError>([&] { io::load_torch(path, {}, caller); }, part, caller);
  }
};
}  // namespace

TEST_CASE("a file of PyTorch in the format before 1.6 has the tensors of one in the new format") {
  const io::LoadedTensors read = io::load_torch(REEL_GOLDEN "/legacy.pt"),
                          wanted = io::load_torch(REEL_GOLDEN "/narrow.pt");
  CHECK(read.size() == 8);
  check_same(read, wanted);
  CHECK(read.left == wanted.left);
  CHECK(read.left == io::Metadata{{"complex", "a tensor of torch.ComplexFloatStorage"},
                                  {"device", "an object of torch.device"},
                                  {"epoch", "int 5"}});
  CHECK(read.widened == wanted.widened);
  CHECK(read.widened.size() == 3);
  CHECK(same_tensor(read[0].second, tensor<std::int8_t>({-128, 127})));
  CHECK(same_tensor(read[1].second, tensor<std::int16_t>({-32768, 32767})));
  CHECK(equal(read[3].second, tensor({std::int64_t{0}, std::int64_t{4294967295}})));
}

TEST_CASE("old files have their storages behind a list of keys, and texts of Python 2") {
  const Legacy file;
  const std::string old_text = std::string("U\1") + "b", long_text = "T" + number(1, 4) + "c";
  const io::LoadedTensors read =
      file.read(two + "}(" + text("a") + vector_of("1") + old_text + vector_of("2") + long_text +
                vector_of("1") + "u." + keys(text("1") + text("2")) + ones_of_it + zeros_of_it);
  check_same(read, {{"a", ones({4})}, {"b", zeros({4})}, {"c", ones({4})}});
  struct Model {
    Variable a{"a", zeros({4})};
    REEL_FIELDS(a)
  };
  const Model model;
  file.read(two + "}" + text("a") + vector_of("1") + "s." + keys(text("1")) + ones_of_it);
  CHECK(io::load_torch(file.path, model).complete());
  CHECK(equal(model.a, ones({4})));
  check_refused<IoError>([&] { io::load(file.path, model); }, "layouts of reel");
  check_refused<IoError>([&] { io::load_safetensors(file.path); }, "got a PyTorch file");
}

TEST_CASE("an old file may have any protocol of pickles") {
  const Legacy file;
  const std::string rest = version + machine + two + vector_of("1") + "." + keys(text("1")) +
                           ones_of_it,
                    of_number = magic.substr(2);
  const std::string frame = "\x95" + number(of_number.size(), 8);
  for (const std::string& first :
       {std::string("\x80\x03"), "\x80\x04" + frame, "\x80\x05" + frame}) {
    write_file(file.path, first + of_number + rest);
    CHECK(equal(io::load_torch(file.path)[0].second, ones({4})));
  }
  write_file(file.path, "\x80\x04N" + of_number + rest);
  check_refused<IoError>([&] { io::load_torch(file.path); }, "got a pickle of Python");
}

TEST_CASE("an old file whose pickles and storages do not agree is refused") {
  const Legacy file;
  const std::string one = two + vector_of("1") + ".";
  CHECK(file.read(one + keys(text("1")) + ones_of_it).size() == 1);
  file.refuse(one + keys("") + ones_of_it, "bytes, by its pickles");
  file.refuse(one + keys(""), "the storages of the tensors, got another list");
  file.refuse(one + keys(text("2")) + ones_of_it, "the storages of the tensors");
  file.refuse(one + keys(text("1") + text("1")) + ones_of_it + ones_of_it, "the storages of the");
  file.refuse(one + keys(text("1")) + number(5, 8) + std::string(20, '\0'),
              "4 elements of storage 1, got 5");
  file.refuse(
      one + keys(text("1")) + number((std::uint64_t{1} << 62) + 4, 8) + std::string(16, '\0'),
      "4 elements of storage 1");
  file.refuse(one + keys(text("1")) + ones_of_it + "x", "bytes, by its pickles");
  file.refuse(one + two + "N.", "a value of another kind");
  file.refuse(two + "](" + vector_of("1") +
                  rebuilt(old_storage("1", "K\3"), zero, "(K\1t", "(K\1t") + "e." +
                  keys(text("1")) + ones_of_it,
              "the storages of the tensors");
  const io::LoadedTensors read =
      file.read(two + "](" + vector_of("1") + vector_of("1", "(" + text("2") + zero + "K\4t") +
                "e." + keys(text("1")) + ones_of_it);
  CHECK(read.left == io::Metadata{{"1", "a tensor of a part of a storage"}});
}

TEST_CASE("every old file that is cut short or has another byte is refused, or read as it says") {
  const Legacy file;
  const std::string whole = contents(REEL_GOLDEN "/legacy.pt");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_file(file.path, whole.substr(0, bytes));
    CHECK_THROWS_AS(io::load_torch(file.path), IoError);
  }
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char bit : {'\1', '\x80'}) {
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ bit);
      write_file(file.path, other);
      try {
        for (const auto& [name, x] : io::load_torch(file.path)) CHECK(x.size() <= 20);
      } catch (const IoError&) {
      }
    }
}
}  // namespace reel::tests
