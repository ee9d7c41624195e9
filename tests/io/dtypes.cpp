// SPDX-License-Identifier: BSD-3-Clause
// Integers of files keep their dtype, or are read into a wider one that reel has.
#include <algorithm>
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/pickle_bytes.hpp"
#include "io/safetensors_bytes.hpp"
#include "io/same_tensors.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// A dtype of files, its lowest and highest value, and the dtype that it becomes.
struct Narrow {
  const char *npy, *safetensors, *torch, *name;
  int bytes;
  std::int64_t lowest, highest;
  DType dtype;
};
constexpr Narrow narrow[] = {{"i1", "I8", "CharStorage", "int8", 1, -128, 127, DType::int8},
                             {"i2", "I16", "ShortStorage", "int16", 2, -32768, 32767, DType::int16},
                             {"u2", "U16", "uint16", "uint16", 2, 0, 65535, DType::int32},
                             {"u4", "U32", "uint32", "uint32", 4, 0, 4294967295, DType::int64},
                             {"u8", "U64", "uint64", "uint64", 8, 0, INT64_MAX, DType::int64}};

/// The values lowest, 1, highest, highest, 2 and lowest.
std::string elements_of(const Narrow& type, bool big_endian = false) {
  std::string elements;
  for (const std::int64_t value :
       {type.lowest, std::int64_t{1}, type.highest, type.highest, std::int64_t{2}, type.lowest}) {
    std::string element = number(static_cast<std::uint64_t>(value), type.bytes);
    if (big_endian) std::reverse(element.begin(), element.end());
    elements += element;
  }
  return elements;
}
Tensor values_of(const Narrow& type) {
  const std::int64_t lowest = type.lowest, highest = type.highest;
  return tensor({{lowest, std::int64_t{1}, highest}, {highest, std::int64_t{2}, lowest}})
      .to(type.dtype);
}
/// A tensor of six elements of another dtype, which is apart from the type of its storage.
std::string with_dtype(const std::string& dtype, const std::string& bytes) {
  return "ctorch._utils\n_rebuild_tensor_v3\n(" + storage(bytes, "UntypedStorage") + zero +
         "(K\2K\3t(K\3K\1t\x89}ctorch\n" + dtype + "\ntR";
}
}  // namespace

TEST_CASE("NumPy's integers of all widths and byte orders are read, those of 2^63 on are not") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const auto read = [&](const std::string& type, const char* order, const std::string& elements,
                        const char* shape = "(2, 3)") {
    write_file(path, npy_bytes(1, dictionary("'" + type + "'", order, shape), elements));
    return io::load_npy(path);
  };
  for (const Narrow& type : narrow) {
    INFO(type.npy);
    const Tensor wanted = values_of(type);
    const std::string code = type.npy;
    for (const char* const mark : {"<", "=", "|", ""})
      CHECK(same_tensor(read(mark + code, "False", elements_of(type)), wanted));
    CHECK(same_tensor(read(">" + code, "False", elements_of(type, true)), wanted));
    CHECK(same_tensor(read("<" + code, "True", elements_of(type), "(3, 2)"), transpose(wanted)));
    CHECK(read("<" + code, "False", "", "(0, 3)").dtype() == type.dtype);
    write_file(path, npy_bytes(1, dictionary("'<" + code + "'", "False", "(3, 2)"),
                               elements_of(type) + "x"));
    CHECK_THROWS_AS(io::load_npy(path), IoError);
  }
  const std::string high = number(1, 8) + number(std::uint64_t{1} << 63, 8) + number(~0ull, 8);
  write_file(path, npy_bytes(1, dictionary("'<u8'", "False", "(3,)"), high));
  check_refused<IoError>([&] { io::load_npy(path); },
                         "uint64 of at most 2^63 - 1, got 9223372036854775808 in element 1");
}

TEST_CASE("big-endian arrays of every dtype are read") {
  const Folder folder;
  const std::string path = folder.file("x.npy");
  const Tensor numbers = arange(0.0f, 6.0f).reshape({2, 3});
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int32, DType::int64, DType::int8,
                            DType::int16, DType::float16, DType::float32, DType::float64}) {
    const Tensor wanted = numbers.to(dtype);
    io::save_npy(path, wanted);
    std::string bytes = contents(path);
    const auto width = static_cast<std::ptrdiff_t>(size_of(dtype));
    for (auto at = bytes.end() - 6 * width; at != bytes.end(); at += width)
      std::reverse(at, at + width);
    const std::size_t mark = bytes.find(width > 1 ? "'<" : "'|");
    write_file(path, bytes.replace(mark + 1, 1, ">"));
    CHECK(same_tensor(io::load_npy(path), wanted));
  }
}

TEST_CASE("only dtypes that are widened are reported, and an element that is too large is named") {
  const Folder folder;
  const std::string npz = folder.file("x.npz"), safetensors = folder.file("x.safetensors");
  const Pickled torch;
  for (const Narrow& type : narrow) {
    INFO(type.name);
    const io::NamedTensors wanted = {{"x", values_of(type)}};
    const bool widens = type.name != name_of(type.dtype);
    const io::Metadata widened = widens ? io::Metadata{{"x", type.name}} : io::Metadata();
    const std::string elements = elements_of(type), length = std::to_string(elements.size());
    const auto check = [&](const io::LoadedTensors& read) {
      check_same(read, wanted);
      CHECK(read.widened == widened);
      CHECK(read.left.empty());
    };
    write_zip(npz, {{"x.npy",
                     npy_bytes(1, dictionary(std::string("'<") + type.npy + "'", "False", "(2, 3)"),
                               elements)}});
    check(io::load_npz(npz));
    write_file(safetensors,
               safetensors_bytes(std::string("{\"x\":{\"dtype\":\"") + type.safetensors +
                                     "\",\"shape\":[2,3],\"data_offsets\":[0," + length + "]}}",
                                 elements));
    check(io::load_safetensors(safetensors));
    const std::string bytes = std::string("K") + static_cast<char>(elements.size());
    const bool typed = std::string(type.torch).ends_with("Storage");
    const std::string pickle =
        typed ? rebuilt(storage("K\6", type.torch), zero, "(K\2K\3t", "(K\3K\1t")
              : with_dtype(type.torch, bytes);
    for (const bool big_endian : {false, true}) {
      write_zip(torch.path, {{"a/data.pkl", two + "}" + text("x") + pickle + "s."},
                             {"a/byteorder", big_endian ? "big" : "little"},
                             {"a/data/0", elements_of(type, big_endian)}});
      check(io::load_torch(torch.path));
    }
    struct Model {
      Variable x;
      REEL_FIELDS(x)
    };
    const Model model{Variable("x", zeros({2, 3}, {.dtype = type.dtype}))};
    const io::LoadReport report = io::load(npz, model);
    CHECK(report.complete());
    const std::string line = "parameter x: (2, 3) " + std::string(name_of(type.dtype)) + " from ";
    using Lines = std::vector<std::string>;
    CHECK(report.widened == (widens ? Lines{line + type.name} : Lines()));
    CHECK(report.text() == (widens ? "widened: " + line + type.name : ""));
    CHECK(equal(model.x, wanted[0].second));
    const Model other{Variable("x", zeros({2, 3}))};
    check_refused<IoError>([&] { io::load(npz, other); }, "got 1 different");
  }
  const std::string large = number(7, 8) + number(~0ull, 8);
  write_file(safetensors, safetensors_bytes(
                              R"({"x":{"dtype":"U64","shape":[2],"data_offsets":[0,16]}})", large));
  check_refused<IoError>([&] { io::load_safetensors(safetensors); },
                         "got 18446744073709551615 in element 1 of \"x\"");
  write_zip(npz, {{"y.npy", npy_bytes(1, dictionary("'<u8'", "False", "(2,)"), large)}});
  check_refused<IoError>([&] { io::load_npz(npz); }, "in element 1 of \"y\"");
  torch.refuse(two + with_dtype("float8_e4m3fn", "K\4") + ".",
               "got a tensor of torch.float8_e4m3fn");
  torch.refuse(two + with_dtype("uint32", "K\x10") + ".", "outside of its storage");
}
}  // namespace reel::tests
