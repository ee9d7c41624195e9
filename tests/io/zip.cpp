// SPDX-License-Identifier: BSD-3-Clause
// The zip files of .npz and PyTorch: their records, members and what is refused.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/pickle_bytes.hpp"
#include "io/same_tensors.hpp"
#include "io/zip_bytes.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
std::uint32_t checksum(const std::string& bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char c : bytes) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0xedb88320 : 0);
  }
  return ~rest;
}
/// What the header of a stored member and its entry in the directory have in common.
std::string header_of(const std::string& name, const std::string& bytes) {
  return number(20, 2) + number(0, 8) + number(checksum(bytes), 4) + number(bytes.size(), 4) +
         number(bytes.size(), 4) + number(name.size(), 2) + number(0, 2);
}
std::string member_of(const std::string& name, const std::string& bytes) {
  return "PK\3\4" + header_of(name, bytes) + name + bytes;
}
std::string entry_of(const std::string& name, const std::string& bytes, std::size_t at,
                     const std::string& comment = "") {
  return "PK\1\2" + number(20, 2) + header_of(name, bytes) + number(comment.size(), 2) +
         number(0, 8) + number(at, 4) + name + comment;
}
std::string end_of(std::size_t entries, std::size_t directory, std::size_t at) {
  const std::string count = number(entries, 2);
  return "PK\5\6" + number(0, 4) + count + count + number(directory, 4) + number(at, 4) +
         number(0, 2);
}
/// A zip file as it was before zip64. Each member has a comment in the directory.
std::string old_zip(const Members& members, const std::string& comment) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    directory += entry_of(name, bytes, file.size(), comment);
    file += member_of(name, bytes);
  }
  return file + directory + end_of(members.size(), directory.size(), file.size());
}
const std::string one_byte = npy_bytes(1, dictionary("'|u1'", "False", "(1,)"), "\5");
}  // namespace

TEST_CASE("a zip file of old programs is read, with its comments") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  const std::string other = npy_bytes(1, dictionary("'|u1'", "False", "(2,)"), "\6\7");
  for (const std::string comment : {"", "a comment"}) {
    write_file(path, old_zip({{"a.npy", one_byte}, {"b.npy", other}}, comment));
    check_same(io::load_npz(path),
               {{"a", tensor({5}).to(DType::uint8)}, {"b", tensor({6, 7}).to(DType::uint8)}});
  }
}

TEST_CASE("a zip file that names a member twice is refused, wherever the two are") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  write_zip(path, {{"b.npy", one_byte}, {"a.npy", one_byte}, {"b.npy", one_byte}});
  check_refused<IoError>([&] { io::load_npz(path); }, "each name once, got \"b.npy\" twice");
  const std::string name(150, 'n');
  write_zip(path, {{name, one_byte}, {name, one_byte}});
  check_refused<IoError>([&] { io::load_npz(path); },
                         "got \"" + std::string(100, 'n') + "\" twice");
}

TEST_CASE("members of a zip file that overlap are refused, also if each is whole") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  // The elements of one array are the header and the bytes of another member.
  const std::string inner = member_of("b.npy", one_byte), length = std::to_string(inner.size() + 1),
                    outer = npy_bytes(1, dictionary("'|u1'", "False", "(" + length + ",)"),
                                      inner + "x"),
                    file = member_of("a.npy", outer), first = entry_of("a.npy", outer, 0);
  const auto write = [&](const std::string& directory, std::size_t entries) {
    write_file(path, file + directory + end_of(entries, directory.size(), file.size()));
  };
  write(first, 1);
  CHECK(io::load_npz(path)[0].second.size() == static_cast<std::int64_t>(inner.size() + 1));
  const std::string second = entry_of("b.npy", one_byte, file.size() - inner.size() - 1);
  write(second, 1);
  CHECK(io::load_npz(path)[0].second.size() == 1);
  for (const std::string& directory : {first + second, second + first}) {
    write(directory, 2);
    check_refused<IoError>([&] { io::load_npz(path); },
                           "members one after the other, got \"b.npy\" elsewhere");
  }
  // The last byte of one member is the first byte of the next one.
  const std::string p = npy_bytes(1, dictionary("'|u1'", "False", "(1,)"), "P"),
                    a = member_of("a.npy", p), joined = a + member_of("b.npy", one_byte).substr(1),
                    both = entry_of("a.npy", p, 0) + entry_of("b.npy", one_byte, a.size() - 1);
  write_file(path, joined + both + end_of(2, both.size(), joined.size()));
  check_refused<IoError>([&] { io::load_npz(path); }, "members one after the other");
  // The last byte of a member is the first byte of the directory.
  const std::string one = entry_of("a.npy", p, 0);
  write_file(path, a + one.substr(1) + end_of(1, one.size(), a.size() - 1));
  check_refused<IoError>([&] { io::load_npz(path); }, "the header of \"a.npy\"");
}

TEST_CASE("a zip64 directory that is not where the file says is refused") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  write_zip(path, {{"a.npy", one_byte}});
  const std::string whole = contents(path);
  const auto refuse = [&](std::size_t at, const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    std::string other = whole;
    write_file(path, other.replace(at, bytes.size(), bytes));
    check_refused<IoError>([&] { io::load_npz(path, {}, caller); }, part, caller);
  };
  const std::size_t locator = whole.rfind("PK\6\7"), entry = whole.find("PK\1\2");
  refuse(locator, "PK\6\5", "expected a directory of zip64, got none");
  refuse(locator + 8, std::string(8, '\x7f'), "expected a directory of zip64, got none");
  for (const std::size_t at : {locator - 55, locator - 1, locator, locator + 1})
    refuse(locator + 8, number(at, 8), "expected a directory of zip64, got none");
  // A stored member has as many bytes as the file keeps of it.
  const std::string size = std::to_string(one_byte.size());
  refuse(entry + 46 + 5 + 4, number(one_byte.size() - 1, 8), size + " packed bytes can have");
}

TEST_CASE("zip files that are written have aligned members and the records of zip64") {
  const Folder folder;
  const std::string path = folder.file("x");
  io::NamedTensors tensors;
  for (std::size_t i = 1; i <= 70; ++i)
    tensors.emplace_back(std::string(i, 'a'), full({static_cast<std::int64_t>(i)}, 1));
  const auto check_members = [&](bool deflated) {
    const io::Input input(path, "test", Caller::here());
    const io::ZipReader zip(input);
    for (const io::ZipReader::Entry& entry : zip.entries()) {
      INFO(entry.name);
      CHECK(entry.deflated == deflated);
      if (!deflated) CHECK(entry.at % 64 == 0);
    }
    const std::string whole = contents(path), count = number(zip.entries().size(), 8);
    const std::size_t directory = whole.find("PK\1\2"), record = whole.rfind("PK\6\6");
    CHECK(whole.substr(record) ==
          "PK\6\6" + number(44, 8) + number(45, 2) + number(45, 2) + number(0, 8) + count + count +
              number(record - directory, 8) + number(directory, 8) +        // the locator
              "PK\6\7" + number(0, 4) + number(record, 8) + number(1, 4) +  // the end
              "PK\5\6" + number(0, 4) + std::string(12, '\xff') + number(0, 2));
  };
  io::save_torch(path, tensors);
  check_members(false);
  for (const bool compress : {false, true}) {
    io::save_npz(path, tensors, {.compress = compress});
    check_members(compress);
  }
}

TEST_CASE("a file for PyTorch has all its members, lengths of several bytes, and eight axes") {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  const io::NamedTensors tensors = {{"long", arange(0, 70'000)},
                                    {"deep", arange(0, 6).reshape({2, 1, 1, 1, 1, 1, 1, 3})}};
  io::save_torch(path, tensors);
  check_same(io::load_torch(path), tensors);
  const io::Input input(path, "test", Caller::here());
  const io::ZipReader zip(input);
  std::vector<std::string> names;
  for (const io::ZipReader::Entry& entry : zip.entries()) names.push_back(entry.name);
  CHECK(names == std::vector<std::string>{"archive/data.pkl", "archive/byteorder", "archive/data/0",
                                          "archive/data/1", "archive/version"});
  CHECK(zip.read(*zip.find("archive/byteorder")) == "little");
  CHECK(zip.read(*zip.find("archive/version")) == "3\n");
  const std::string pickle = zip.read(*zip.find("archive/data.pkl")), eight = "\x8a\x08";
  CHECK(pickle.find("(" + eight + number(70'000, 8) + "t(" + eight + number(1, 8) + "t") !=
        pickle.npos);
  std::string strides = "t(" + eight + number(3, 8);
  for (int i = 0; i < 6; ++i) strides += eight + number(3, 8);
  CHECK(pickle.find(strides + eight + number(1, 8) + "t") != pickle.npos);
}
}  // namespace reel::tests
