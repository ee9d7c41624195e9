// SPDX-License-Identifier: BSD-3-Clause
// Corners of readers and writers: exact limits, exact texts of errors, and files that few programs
// write.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/pickle_bytes.hpp"
#include "io/safetensors_bytes.hpp"
#include "io/same_tensors.hpp"
#include "io/zip_bytes.hpp"
#include "lib/body/access.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
namespace fs = std::filesystem;

/// The lowest byte first.
std::string number(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i);
  return text;
}
std::uint32_t checksum(const std::string& bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char c : bytes) {
    rest ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0xedb88320 : 0);
  }
  return ~rest;
}
/// A zip file as it was before zip64. Each member has a comment in the directory.
std::string old_zip(const Members& members, const std::string& comment) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    const std::string shared = number(20, 2) + number(0, 8) + number(checksum(bytes), 4) +
                               number(bytes.size(), 4) + number(bytes.size(), 4) +
                               number(name.size(), 2) + number(0, 2);
    directory += "PK\1\2" + number(20, 2) + shared + number(comment.size(), 2) + number(0, 8) +
                 number(file.size(), 4) + name + comment;
    file += "PK\3\4" + shared + name + bytes;
  }
  const std::string count = number(members.size(), 2);
  return file + directory + "PK\5\6" + number(0, 4) + count + count + number(directory.size(), 4) +
         number(file.size(), 4) + number(0, 2);
}
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}
/// The working folder during its lifetime.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& path) : before_(fs::current_path()) {
    fs::current_path(path);
  }
  ~WorkingFolder() { fs::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  const fs::path before_;
};
const std::string one_byte = npy_bytes(1, dictionary("'|u1'", "False", "(1,)"), "\5");
const std::string ordered = "ccollections\nOrderedDict\n";
}  // namespace

TEST_CASE("step 0 is a checkpoint, and a file of another name is none") {
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path, {.keep = 1});
  const nn::Linear model(1, 1);
  CHECK(checkpoints.save(0, model));
  CHECK(checkpoints.latest() == folder.file("step-000000000000.safetensors"));
  write_file(folder.file("best-000000000030.safetensors"), "");
  CHECK(checkpoints.latest() == folder.file("step-000000000000.safetensors"));
  CHECK(checkpoints.save(1, model));
  CHECK(names_in(folder.path) ==
        std::vector<std::string>{"best-000000000030.safetensors", "step-000000000001.safetensors"});
  // An error of an earlier system call is none of this one.
  errno = ENOMEM;
  const std::string latest = checkpoints.latest();
  CHECK(latest == folder.file("step-000000000001.safetensors"));
}

TEST_CASE("the folder of checkpoints is made whole, or its path is in the error") {
  const Folder folder;
  {
    const WorkingFolder here(folder.path);
    const io::Checkpoints checkpoints("a/b/c");
  }
  CHECK(fs::is_directory(folder.path / "a" / "b" / "c"));
  write_file(folder.file("notes"), "");
  check_refused<IoError>([&] { io::Checkpoints(folder.file("notes") + "/"); },
                         "Checkpoints: \"notes/\": expected a folder, got something else");
  check_refused<IoError>([&] { io::Checkpoints(""); }, "a path without a byte 0, got none");
  check_refused<IoError>([&] { io::Checkpoints(std::string(1, '\0')); },
                         "a path without a byte 0, got one with it");
}

TEST_CASE("a file that ends before its size is refused") {
  // Files of the system say that they have a page, and give less.
  const std::string path = "/sys/devices/system/cpu/online";
  if (!fs::exists(path) || fs::file_size(path) <= contents(path).size())
    SKIP("the system has no such file");
  check_refused<IoError>([&] { io::load_npy(path); },
                         "expected a whole file, got the end of the file");
}

TEST_CASE("a .npy header lacks no key, and its length is that of the file") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const auto refuse = [&](const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_npy(path, caller); }, part, caller);
  };
  refuse(npy_bytes(1, "{'descr': '|u1', 'shape': (1,)}", "\5"),
         "a header of 'descr', 'fortran_order' and 'shape'");
  refuse(npy_bytes(1, "{'fortran_order': False, 'shape': (1,)}", "\5"),
         "a header of 'descr', 'fortran_order' and 'shape'");
  for (const int version : {1, 2}) {
    const std::string whole = npy_bytes(version, dictionary("'|u1'", "False", "(1,)"), "");
    refuse(whole.substr(0, whole.size() - 1), "expected a whole header, got the end of the file");
  }
  refuse(std::string("abcd\0\0\0\0xyz", 11), "expected the format .npy, got something else");
}

TEST_CASE("a .safetensors header lacks no key, and its length is that of the file") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const auto refuse = [&](const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_safetensors(path, caller); }, part, caller);
  };
  const std::string four_bytes(4, '\0'),
      wanted = "\"dtype\", \"shape\" and two \"data_offsets\" of \"x\", got others";
  refuse(safetensors_bytes(R"({"x":{"shape":[4],"data_offsets":[0,4]}})", four_bytes), wanted);
  refuse(safetensors_bytes(R"({"x":{"dtype":"F32","data_offsets":[0,4]}})", four_bytes), wanted);
  refuse(safetensors_bytes(R"({"x":{"dtype":"F32","shape":[1]}})", four_bytes), wanted);
  refuse(safetensors_bytes(R"({"x":{}})", four_bytes), wanted);
  refuse(std::string(8, '\0'), "expected a header of JSON, got something else");
  const std::string whole = safetensors_bytes("{}      ", "");
  refuse(whole.substr(0, whole.size() - 1), "expected a whole header, got the end of the file");
  write_file(path, safetensors_bytes(
                       R"({"x":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
                       four_bytes));
  CHECK(io::load_safetensors(path)[0].second.rank() == 8);
}

TEST_CASE("tensors of a .safetensors file may be named in another order than their elements") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  write_file(path, safetensors_bytes(R"({"b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},)"
                                     R"("a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
                                     number(7, 4) + number(9, 4)));
  check_same(io::load_safetensors(path), {{"a", tensor({7})}, {"b", tensor({9})}});
}

TEST_CASE("any byte but 0 of a bool in a .safetensors file is true") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors"), saved = folder.file("x.npy");
  write_file(path, safetensors_bytes(R"({"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})",
                                     std::string("\0\1\2\xff", 4)));
  io::save_npy(saved, io::load_safetensors(path)[0].second);
  const std::string bytes = contents(saved);
  CHECK(bytes.substr(bytes.size() - 4) == std::string("\0\1\1\1", 4));
}

TEST_CASE("names are UTF-8, the first and last characters of each length included") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const Tensor x = tensor(1);
  for (const char* const name :
       {"\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    io::save_safetensors(path, {{name, x}}, {.metadata = {{name, name}}});
    CHECK(io::load_safetensors(path)[0].first == name);
    CHECK(io::load_safetensors_metadata(path) == io::Metadata{{name, name}});
  }
  for (const char* const name :
       {"\x80", "\xc1\xbf", "\xc3(", "\xe2\x82(", "\xe2(\xac", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    check_refused<Error>([&] { io::save_safetensors(path, {{name, x}}); }, "names of UTF-8");
    check_refused<Error>(
        [&] {
          io::save_safetensors(path, {}, {.metadata = {{name, "a"}}});
        },
        "texts of UTF-8");
  }
  // Escapes of two, three and four bytes.
  for (const auto& [escape, name] :
       std::vector<std::pair<std::string, std::string>>{{"\\u00e9", "\xc3\xa9"},
                                                        {"\\u0800", "\xe0\xa0\x80"},
                                                        {"\\u20ac", "\xe2\x82\xac"},
                                                        {"\\uffff", "\xef\xbf\xbf"},
                                                        {"\\ud834\\udd1e", "\xf0\x9d\x84\x9e"}}) {
    write_file(path,
               safetensors_bytes(
                   "{\"" + escape + R"(":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "\1"));
    CHECK(io::load_safetensors(path)[0].first == name);
  }
}

TEST_CASE("numbers and 64 levels of JSON are passed over in an index") {
  const Folder folder;
  const std::string index = folder.file("m.safetensors.index.json");
  io::save_safetensors(folder.file("a"), {{"x", tensor(1)}});
  const auto write = [&](const std::string& value) {
    write_file(index, "{\"more\":" + value + R"(,"weight_map":{"x":"a"}})");
  };
  for (const char* const value : {"0", "0.5", "-0", "-0.25e-3", "1e+5", "2E+1", "0e0", "10"}) {
    INFO(value);
    write(value);
    CHECK(io::load_safetensors(index).size() == 1);
  }
  const auto nested = [](const std::string& begin, const std::string& end, int levels) {
    std::string text = "1";
    for (int i = 0; i < levels; ++i) text = begin + text + end;
    return text;
  };
  for (const auto& [begin, end] :
       std::vector<std::pair<std::string, std::string>>{{"[", "]"}, {"{\"a\":", "}"}}) {
    write(nested(begin, end, 64));
    CHECK(io::load_safetensors(index).size() == 1);
    write(nested(begin, end, 65));
    check_refused<IoError>([&] { io::load_safetensors(index); }, "at most 64 levels");
  }
}

TEST_CASE("an index may be empty, has the texts of its first file, and comes after the file") {
  const Folder folder;
  const std::string path = folder.file("m.safetensors"), index = path + ".index.json";
  write_file(index, R"({"weight_map":{}})");
  CHECK(io::load_safetensors(index).empty());
  CHECK(io::load_safetensors_metadata(index).empty());
  io::save_safetensors(folder.file("a"), {{"x", tensor(1)}}, {.metadata = {{"is", "first"}}});
  io::save_safetensors(folder.file("b"), {{"y", tensor(2)}}, {.metadata = {{"is", "second"}}});
  const std::string both = R"({"weight_map":{"x":"a","y":"b"}})";
  write_file(index, both);
  CHECK(io::load_safetensors_metadata(index) == io::Metadata{{"is", "first"}});
  CHECK(io::load_safetensors(path).size() == 2);
  io::save_safetensors(path, {{"single", tensor(3)}});
  write_file(index, both);
  check_same(io::load_safetensors(path), {{"single", tensor(3)}});
}

TEST_CASE("shards are numbered from 1, whatever the name that is saved") {
  for (const std::string name : {"m.safetensors", "weights_of_a_model", "w"}) {
    const Folder folder;
    const io::NamedTensors tensors = {{"a", ones({4})}, {"b", zeros({4})}, {"c", ones({3})}};
    io::save_safetensors(folder.file(name.c_str()), tensors, {.shard_bytes = 16});
    const std::string stem = name.substr(0, name.find('.'));
    CHECK(names_in(folder.path) == std::vector<std::string>{stem + "-00001-of-00003.safetensors",
                                                            stem + "-00002-of-00003.safetensors",
                                                            stem + "-00003-of-00003.safetensors",
                                                            name + ".index.json"});
    check_same(io::load_safetensors(folder.file(name.c_str())), tensors);
  }
}

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

TEST_CASE("a zip64 directory that is not where the file says is refused") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  write_zip(path, {{"a.npy", one_byte}});
  const std::string whole = contents(path);
  const auto refuse = [&](std::size_t at, const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    std::string other = whole;
    write_file(path, other.replace(at, bytes.size(), bytes));
    check_refused<IoError>([&] { io::load_npz(path, caller); }, part, caller);
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

TEST_CASE("pickles of older PyTorch and of dicts with arguments are read") {
  const Pickled file;
  for (const std::string& pair : {"(" + text("a") + four + "t", "](" + text("a") + four + "e"}) {
    const io::NamedTensors read = file.read(two + ordered + "(]" + pair + "atR.");
    REQUIRE(read.size() == 1);
    CHECK(read[0].first == "a");
    CHECK(read[0].second.size() == 4);
  }
  CHECK(file.read(two + "}}b.").empty());
  const std::string old = "ctorch._utils\n_rebuild_tensor\n(" + storage() + zero + "(K\4t";
  CHECK(file.read(two + old + "(K\1ttR.")[0].second.size() == 4);
  file.refuse(two + old + "tR.", "a tensor of less than four arguments");
}

TEST_CASE("a pickle whose values are of other kinds is refused, with what is wrong") {
  const Pickled file;
  file.refuse(two + "](Nae.", "a value of another kind");  // to a list that is below the mark
  file.refuse(two + "N}b.", "a value of another kind");
  file.refuse(two + "]}b.", "a value of another kind");
  file.refuse(two + "ctorch._utils\n_rebuild_parameter\n(]\x89)tR.", "a value of another kind");
  file.refuse(two + ordered + "(](" + text("a") + "tatR.", "arguments of a dict");
  file.refuse(two + ordered + "(](" + text("a") + "NNtatR.", "arguments of a dict");
  file.refuse(two + ordered + "(]NatR.", "arguments of a dict");
  file.refuse(two + ordered + "(]]tR.", "arguments of a dict");
  const std::string large = "\x8a\x08" + number(std::uint64_t{1} << 57, 8);
  for (const std::string& length : {std::string("J\xff\xff\xff\xff"), large})
    file.refuse(two + storage(length) + ".", "a storage of no length");
}

TEST_CASE("tensors of one storage share its memory", "[cpu]") {
  const Pickled file;
  const io::NamedTensors read = file.read(two + "}(" + text("a") + four + text("b") + four + "u.");
  REQUIRE(read.size() == 2);
  CHECK(Access::body(read[0].second)->data == Access::body(read[1].second)->data);
}

TEST_CASE("weights of a recurrent layer that do not belong together are refused") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const nn::RNNCell cell(4, 4);
  const auto write = [&](std::int64_t rows, std::int64_t biases) {
    io::save_safetensors(path, {{"weight_ih", ones({4, 4})},
                                {"weight_hh", ones({rows, 4})},
                                {"bias_ih", ones({4})},
                                {"bias_hh", ones({biases})}});
  };
  write(4, 4);
  CHECK(io::load_torch(path, cell).complete());
  CHECK(equal(cell.bias, full({4}, 2)));
  write(3, 4);
  check_refused<IoError>([&] { io::load_torch(path, cell); },
                         "weights of as many rows of weight_ih, got (4, 4) and (3, 4)");
  for (const std::int64_t biases : {1, 3}) {
    write(4, biases);
    check_refused<IoError>([&] { io::load_torch(path, cell); }, "two biases of one length");
  }
}

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
  std::string error;
  try {
    io::load(path, real, count, noise);
  } catch (const IoError& failure) {
    error = failure.what();
  }
  INFO(error);
  CHECK(error.find("got 1 missing\n") != error.npos);
  CHECK(error.find("\n  {.strict = false} loads what fits.") != error.npos);
}
}  // namespace reel::tests
