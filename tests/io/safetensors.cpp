// SPDX-License-Identifier: BSD-3-Clause
// Files of safetensors: the library reads what it writes, and refuses damaged files.
#include <filesystem>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/safetensors_bytes.hpp"
#include "io/same_tensors.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const std::string float_entry = R"("x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
const std::string one_float(4, '\0');

struct Written {
  Folder folder;
  std::string path = folder.file("x.safetensors");
  io::LoadedTensors read(const std::string& header, const std::string& elements) const {
    write_file(path, safetensors_bytes(header, elements));
    return io::load_safetensors(path);
  }
  void refuse(const std::string& header, const std::string& elements, const std::string& part,
              Caller caller = Caller::here()) const {
    write_file(path, safetensors_bytes(header, elements));
    check_refused<IoError>([&] { io::load_safetensors(path, {}, caller); }, part, caller);
  }
};

}  // namespace

TEST_CASE("a .safetensors file gives back every dtype, shape and layout, and its texts") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const io::NamedTensors tensors = of_every_dtype();
  const io::Metadata texts = {{"a", "b"}, {"quote \" \\ \n\x01", "\xc3\xa9\xf0\x9f\x98\x80"}};
  io::save_safetensors(path, tensors, {.metadata = texts});
  check_same(io::load_safetensors(path), tensors);
  CHECK(io::load_safetensors_metadata(path) == texts);
  io::save_safetensors(path, {});
  CHECK(io::load_safetensors(path).empty());
  CHECK(io::load_safetensors_metadata(path).empty());
}

TEST_CASE("a .safetensors file has the bytes that the format asks for, the widest dtype first") {
  const Folder folder;
  io::save_safetensors(folder.file("x"),
                       {{"b", tensor({true})}, {"a", tensor({1.0f, -2.0f})}, {"c", tensor(3)}});
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                       R"("c":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
                       R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[12,13]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string elements("\0\0\x80\x3f\0\0\0\xc0\3\0\0\0\1", 13);
  CHECK(contents(folder.file("x")) == safetensors_bytes(header, elements));
}

TEST_CASE("files that the library safetensors wrote are read") {
  const auto read = io::load_safetensors(REEL_GOLDEN "/all.safetensors");
  io::NamedTensors wanted;
  const Tensor numbers = arange(0.0f, 6.0f).reshape({2, 3});
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int32, DType::int64,
                            DType::float16, DType::bfloat16, DType::float32, DType::float64})
    wanted.emplace_back("x." + std::string(name_of(dtype)), numbers.to(dtype));
  wanted.emplace_back("scalar", tensor(2.5f));
  wanted.emplace_back("empty", zeros({0, 3}));
  check_same(read, wanted);
  CHECK(io::load_safetensors_metadata(REEL_GOLDEN "/all.safetensors") ==
        io::Metadata{{"format", "np"}});
}

TEST_CASE("every .safetensors file that is cut short, or too long, is refused") {
  const Written file;
  io::save_safetensors(file.path, {{"x", arange(0, 5)}, {"y", tensor({true, false, true})}},
                       {.metadata = {{"key", "text"}}});
  const std::string whole = contents(file.path);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_file(file.path, whole.substr(0, bytes));
    CHECK_THROWS_AS(io::load_safetensors(file.path), IoError);
  }
  write_file(file.path, whole + "x");
  check_refused<IoError>([&] { io::load_safetensors(file.path); }, "bytes, by its header");
  check_refused<IoError>([&] { io::load_safetensors(file.folder.file("missing")); }, "missing");
  check_refused<IoError>([&] { io::load_safetensors(file.folder.path); }, "regular file");
}

TEST_CASE("a header that the format does not allow is refused, with what it says") {
  const Written file;
  CHECK(file.read("{" + float_entry + "}", one_float).size() == 1);
  CHECK(file.read("{ \"x\" : {\"shape\":[ 1 ],\"data_offsets\":[0 ,4],\"dtype\":\"F32\"}}\n  ",
                  one_float)
            .size() == 1);
  CHECK(
      file.read(
              "{\"\\u0078\\ud83d\\ude00\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
              one_float)[0]
          .first == "x\xf0\x9f\x98\x80");
  const auto refuse = [&](const std::string& header, const std::string& part,
                          Caller caller = Caller::here()) {
    file.refuse(header, one_float, part, caller);
  };
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return "{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
           "}}";
  };
  refuse(entry("\"F8_E4M3\"", "[4]", "[0,4]"), "got \"x\": dtype \"F8_E4M3\"");
  refuse(entry("5", "[1]", "[0,4]"), "JSON");
  refuse(entry("\"F32\"", "[-1]", "[0,4]"), "an integer from 0");
  refuse(entry("\"F32\"", "[1.0]", "[0,4]"), "JSON with ']'");
  refuse(entry("\"F32\"", "[01]", "[0,4]"), "an integer from 0");
  refuse(entry("\"F32\"", "[1,]", "[0,4]"), "an integer from 0");
  refuse(entry("\"F32\"", "[99999999999999999999]", "[0,4]"), "an integer from 0");
  refuse(entry("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "got \"x\": 9 axes");
  refuse(entry("\"F32\"", "[2]", "[0,4]"), "8 bytes of \"x\", by its shape, got offsets 0 and 4");
  refuse(entry("\"F32\"", "[1]", "[4,0]"), "offsets 4 and 0");
  refuse(entry("\"F32\"", "[1]", "[0,4,8]"), "two \"data_offsets\"");
  refuse(entry("\"F32\"", "[1]", "[0]"), "two \"data_offsets\"");
  refuse(entry("\"F32\"", "[1]", "[4,8]"), "without gaps and overlaps, from offset 0, got 4");
  refuse("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", "two \"data_offsets\"");
  refuse("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         "each key of \"x\" once, got \"dtype\" twice");
  refuse("{\"x\":{\"more\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", "two \"data_offsets\"");
  refuse("{" + float_entry + "," + float_entry + "}", "got \"x\" twice");
  refuse("{" + float_entry + ",\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", "got \"a\" twice");
  refuse("{\"__metadata__\":{},\"__metadata__\":{}," + float_entry + "}", "twice");
  refuse("{" + float_entry + ",\"__metadata__\":{\"a\":1}}", "JSON");
  refuse("{" + float_entry + ",\"__metadata__\":[]}", "JSON");
  refuse("{" + float_entry + ",}", "JSON");
  refuse("{" + float_entry, "JSON");
  refuse("{" + float_entry + "} x", "the end of the JSON");
  refuse("{" + float_entry + "}{}", "the end of the JSON");
  refuse(" \n", "a header of JSON");
  refuse("[]", "a header of JSON");
  refuse("", "a header of JSON");
  refuse("{}", "bytes, by its header");
  refuse("{\"\xff\":{}}", "UTF-8");
  refuse("{\"\xed\xa0\x80\":{}}", "UTF-8");
  refuse("{\"\xc0\x80\":{}}", "UTF-8");
  refuse("{\"\\ud800\":{}}", "surrogates");
  for (const char* const low : {"0041", "dbff", "d800", "e000", "ffff"})
    refuse(std::string("{\"\\ud800\\u") + low + "\":{}}", "two surrogates of JSON");
  refuse("{\"\\udc00\":{}}", "two surrogates of JSON");
  refuse("{\"\\udfff\\udc00\":{}}", "two surrogates of JSON");
  refuse("{\"\\x\":{}}", "an escape");
  refuse("{\"\\u00g0\":{}}", "hexadecimal");
  refuse("{\"a\nb\":{}}", "control bytes");
  file.refuse("{" + float_entry + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
              one_float, "from offset 4, got 0");
  file.refuse("{" + float_entry + R"(,"y":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
              one_float + one_float + one_float, "from offset 4, got 8");
}

TEST_CASE("escaped characters of JSON are read up to the last one") {
  const Written file;
  const std::pair<const char*, const char*> characters[] = {{"\\ud7ff", "\xed\x9f\xbf"},
                                                            {"\\ue000", "\xee\x80\x80"},
                                                            {"\\uffff", "\xef\xbf\xbf"},
                                                            {"\\ud800\\udc00", "\xf0\x90\x80\x80"},
                                                            {"\\uDBFF\\uDFFF", "\xf4\x8f\xbf\xbf"}};
  for (const auto& [escape, utf8] : characters) {
    const std::string entry = R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
    CHECK(file.read(std::string("{\"") + escape + entry, one_float)[0].first == utf8);
  }
}

TEST_CASE("what the format's own library accepts is read") {
  const Written file;
  const auto read = [&](const std::string& header) { return file.read(header, one_float); };
  CHECK(read(" \r\n\t{" + float_entry + "}").size() == 1);
  CHECK(read("{\"__metadata__\": null," + float_entry + "}").size() == 1);
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  CHECK(read(R"({"x":{"dtype":"F32","more":)" + deep + R"(,"shape":[1],"data_offsets":[0,4]}})")
            .size() == 1);
  const io::LoadedTensors large =
      read(R"({"z":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]},)" +
           float_entry + "}");
  CHECK(large.size() == 1);
  CHECK(large.left == io::Metadata{{"z", "lengths above 2^58 bytes beside a length 0"}});
}

TEST_CASE(
    "sizes of a .safetensors file that it cannot hold are refused before memory is asked for") {
  const Written file;
  const std::int64_t asked = memory_statistics().large_blocks;
  for (const char* const length :
       {"\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\x7f", "\0\0\0\0\1\0\0\0",
        "\0\0\0\1\0\0\0\0", "\xff\0\0\0\0\0\0\0"}) {
    write_file(file.path, std::string(length, 8) + "{}");
    CHECK_THROWS_AS(io::load_safetensors(file.path), IoError);
  }
  for (const char* const shape :
       {"[1000000000000]", "[9223372036854775807]", "[4611686018427387904,4611686018427387904]",
        "[4611686018427387904,2]"})
    for (const char* const offsets : {"[0,4]", "[0,0]", "[0,4000000000000]"})
      file.refuse(std::string("{\"x\":{\"dtype\":\"F32\",\"shape\":") + shape +
                      ",\"data_offsets\":" + offsets + "}}",
                  one_float, " bytes");
  CHECK(memory_statistics().large_blocks == asked);
}

TEST_CASE("bytes of a name cannot steer the terminal that prints the error") {
  const Written file;
  write_file(file.path,
             safetensors_bytes("{\"\\u001b[2J\\u000a\xc2\x9b\":{\"dtype\":\"\\u001b\"}}", ""));
  std::string text;
  try {
    io::load_safetensors(file.path);
  } catch (const IoError& error) {
    text = error.what();
  }
  CHECK(text.find("\\x1b[2J\\x0a\\xc2\\x9b") != text.npos);
  for (const char c : text) CHECK((c == '\n' || (c >= 0x20 && c < 0x7f)));
}

TEST_CASE("tensors that are too large for one file are in several, which an index lists") {
  const Folder folder;
  const std::string path = folder.file("model.safetensors");
  const io::NamedTensors tensors = of_every_dtype();
  io::save_safetensors(path, {{"old", tensor(1)}});
  io::save_safetensors(path, tensors, {.metadata = {{"a", "b"}}, .shard_bytes = 200});
  CHECK_FALSE(std::filesystem::exists(path));
  check_same(io::load_safetensors(path), tensors);
  check_same(io::load_safetensors(path + ".index.json"), tensors);
  CHECK(io::load_safetensors_metadata(path) == io::Metadata{{"a", "b"}});
  const std::ptrdiff_t files = folder.count();
  CHECK(files > 5);
  const std::string count = std::to_string(files - 1), zeros(5 - count.size(), '0');
  CHECK(std::filesystem::exists(
      folder.file(("model-00001-of-" + zeros + count + ".safetensors").c_str())));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    if (entry.path().extension() == ".safetensors") CHECK(entry.file_size() < 200 + 1000);
  // A load returns what the last save wrote.
  io::save_safetensors(path, {{"new", tensor(1)}});
  CHECK(io::load_safetensors(path)[0].first == "new");
}

TEST_CASE("an index and its files agree, or are refused") {
  const Folder folder;
  const std::string index = folder.file("m.safetensors.index.json");
  io::save_safetensors(folder.file("a"), {{"x", tensor(1)}, {"y", tensor(2)}});
  io::save_safetensors(folder.file("b"), {{"z", tensor(3)}});
  const auto map = [](const std::string& members) {
    return "{\"metadata\":{\"total_size\":1.5e1,\"more\":[null,true,{}]},\"weight_map\":{" +
           members + "}}";
  };
  const std::string whole = map(R"("x":"a","y":"a","z":"b")");
  write_file(index, whole);
  CHECK(io::load_safetensors(index).size() == 3);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write_file(index, whole.substr(0, bytes));
    CHECK_THROWS_AS(io::load_safetensors(index), IoError);
  }
  const auto refuse = [&](const std::string& text, const std::string& part,
                          Caller caller = Caller::here()) {
    write_file(index, text);
    check_refused<IoError>([&] { io::load_safetensors(index, {}, caller); }, part, caller);
  };
  refuse(map(R"("x":"a","z":"b")"), "a list of all tensors, got none of \"y\" in \"a\"");
  refuse(map(R"("x":"a","y":"b","z":"b")"), "a list of all tensors");
  refuse(map(R"("x":"a","y":"a","z":"b","w":"b")"), "4 tensors, by the index, got 3");
  refuse(map(R"("x":"a","x":"a","y":"a")"), "\"x\" twice");
  refuse(map(R"("x":"a","y":"a","z":"c")"), "\"c\"");
  for (const char* const name : {"../b", "/b", "", ".", "..", "b/c", "\\u0000b"})
    refuse(map("\"x\":\"a\",\"y\":\"a\",\"z\":\"" + std::string(name) + "\""),
           "names of files beside the index");
  refuse("{}", "a \"weight_map\"");
  refuse("{\"weight_map\":{},\"weight_map\":{}}", "twice");
  refuse("{\"a\":" + std::string(130, '[') + std::string(130, ']') + "}", "at most 127 levels");
  refuse("{\"a\":nul}", "a JSON value");
  refuse("{\"a\":-}", "a JSON value");
  refuse("{\"a\":1.}", "a JSON value");
  refuse("{\"a\":1e}", "a JSON value");
  refuse("{\"a\":00}", "a JSON value");
}

TEST_CASE("what cannot be in a .safetensors file is refused before one is written") {
  const Folder folder;
  const std::string path = folder.file("x");
  const Tensor x = tensor(1);
  check_refused<Error>(
      [&] {
        io::save_safetensors(path, {{"a", x}, {"b", x}, {"a", x}});
      },
      "\"a\" twice");
  check_refused<Error>([&] { io::save_safetensors(path, {{"a", Tensor()}}); }, "undefined");
  check_refused<Error>([&] { io::save_safetensors(path, {{"__metadata__", x}}); }, "__metadata__");
  check_refused<Error>([&] { io::save_safetensors(path, {{"\xff", x}}); }, "UTF-8");
  check_refused<Error>(
      [&] {
        io::save_safetensors(path, {}, {.metadata = {{"a", "\xff"}}});
      },
      "UTF-8");
  check_refused<Error>(
      [&] {
        io::save_safetensors(path, {}, {.metadata = {{"a", ""}, {"a", ""}}});
      },
      "twice");
  check_refused<Error>(
      [&] {
        io::save_safetensors(path, {{"a", x}}, {.shard_bytes = 0});
      },
      "shard_bytes");
  CHECK(folder.count() == 0);
}
}  // namespace reel::tests
