// SPDX-License-Identifier: BSD-3-Clause
// Names and headers of .safetensors files, their indices and shards.
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/safetensors_bytes.hpp"
#include "io/same_tensors.hpp"
#include "support/refused.hpp"

namespace reel::tests {
TEST_CASE("a .safetensors header lacks no key, and its length is that of the file") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const auto refuse = [&](const std::string& bytes, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(path, bytes);
    check_refused<IoError>([&] { io::load_safetensors(path, {}, caller); }, part, caller);
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
                                     std::string("\7\0\0\0\11\0\0\0", 8)));
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

TEST_CASE("numbers and 127 levels of JSON are passed over in an index") {
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
    write(nested(begin, end, 127));
    CHECK(io::load_safetensors(index).size() == 1);
    write(nested(begin, end, 128));
    check_refused<IoError>([&] { io::load_safetensors(index); }, "at most 127 levels");
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
}  // namespace reel::tests
