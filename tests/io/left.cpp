// SPDX-License-Identifier: BSD-3-Clause
// What no Tensor can hold is left with its reason, and does not hide the rest of a file.
#include <string>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/npy_bytes.hpp"
#include "io/pickle_bytes.hpp"
#include "io/safetensors_bytes.hpp"
#include "io/same_tensors.hpp"
#include "io/zip_bytes.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
std::string array_of(const char* type, const char* shape, const std::string& elements) {
  return npy_bytes(1, dictionary(type, "False", shape), elements);
}
const std::string byte = array_of("'|u1'", "(1,)", "\5");
const io::NamedTensors five = {{"x", tensor({5}).to(DType::uint8)}};
template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return {};
}
}  // namespace

TEST_CASE("members of a .npz file that are no arrays of our dtypes are left, with the reason") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  write_zip(path, {{"text.npy", array_of("'|S3'", "()", "csr")},
                   {"x.npy", byte},
                   {"words.npy", array_of("'<U2'", "(1,)", std::string(8, 'a'))},
                   {"object.npy", array_of("'|O'", "()", "\x80\x04N.")},
                   {"record.npy", array_of("[('a', '<f4'), ('b', '|S1', (2, 3))]", "(0,)", "")},
                   {"complex.npy", array_of("'<c8'", "(0,)", "")},
                   {"deep.npy", array_of("'|u1'", "(1,1,1,1,1,1,1,1,1)", "\1")},
                   {"notes.txt", "x"},
                   {"folder/", ""}});
  const io::LoadedTensors read = io::load_npz(path);
  check_same(read, five);
  CHECK(read.left == io::Metadata{{"text", "dtype '|S3'"},
                                  {"words", "dtype '<U2'"},
                                  {"object", "dtype '|O'"},
                                  {"record", "dtype '[('a', '<f4'), ('b', '|S1', (2, 3))]'"},
                                  {"complex", "dtype '<c8'"},
                                  {"deep", "9 axes"},
                                  {"notes.txt", "no .npy file"}});
  check_refused<IoError>([&] { io::load_npz(path, {.strict = true}); },
                         "expected tensors, got \"text\": dtype '|S3'");
  const io::LoadedTensors chosen = io::load_npz(path, {.names = {"x"}, .strict = true});
  check_same(chosen, five);
  CHECK(chosen.left.empty());
  check_refused<IoError>(
      [&] {
        io::load_npz(path, {.names = {"x", "deep"}});
      },
      "got \"deep\": 9 axes");
  check_refused<IoError>(
      [&] {
        io::load_npz(path, {.names = {"x", "y"}});
      },
      "the names of .names, got no \"y\"");
  // Without a single tensor, the error has every reason.
  write_zip(path, {{"a.npy", array_of("'|S1'", "()", "a")}, {"notes.txt", "x"}});
  const std::string error = error_of([&] { io::load_npz(path); });
  CHECK(error.find("got \"a\": dtype '|S1'\n") != error.npos);
  CHECK(error.find("\n  \"notes.txt\": no .npy file") != error.npos);
}

TEST_CASE("a member of a zip file in another compression is left") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  write_zip(path, {{"x.npy", byte}, {"y.npy", byte}});
  const std::string whole = contents(path);
  const std::size_t local = whole.rfind("PK\3\4"), entry = whole.rfind("PK\1\2");
  const auto check = [&](const std::string& flags_and_method, const std::string& reason) {
    std::string file = whole;
    write_file(path, file.replace(entry + 8, 4, flags_and_method));
    check_refused<IoError>([&] { io::load_npz(path); }, "the header of \"y.npy\"");
    write_file(path, file.replace(local + 6, 4, flags_and_method));
    const io::LoadedTensors read = io::load_npz(path);
    check_same(read, five);
    CHECK(read.left == io::Metadata{{"y.npy", reason}});
  };
  check(number(0, 2) + number(14, 2), "neither stored nor deflated");  // LZMA
  check(number(1, 2) + number(0, 2), "an encrypted member");
}

TEST_CASE("values of a PyTorch file that are no tensors are left, with what they are") {
  // torch.save({"w": ..., "device": torch.device("cpu"), "size": torch.Size((2, 3)), ...})
  const Pickled file;
  const std::string device = "ctorch\ndevice\n" + text("cpu") + "\x85R",
                    size = "ctorch\nSize\nK\2K\3\x86\x85R",
                    set = "c__builtin__\nset\n](K\1K\2e\x85R";
  const io::LoadedTensors read = file.read(
      two + "}(" + text("w") + four + text("device") + device + text("size") + size + text("done") +
      set + text("epoch") + "K\5" + text("rate") + std::string("G\x3f\xd0\0\0\0\0\0\0", 9) +
      text("name") + text("\xc3\xa9") + text("flag") + "\x88" + text("none") + "N" + text("empty") +
      "}" + text("config") + "}(" + text("a") + "K\1" + text("b") + "](K\1K\2e" + "u" +
      text("bytes") + "C\1x" + text("dtype") + "ctorch\nfloat32\n" + text("more") + "\x8f(K\1\x90" +
      text("frozen") + "(K\1\x91" + text("state") + "}(" + text("m") + four + text("step") + "K\7" +
      "u" + "u.");
  REQUIRE(read.size() == 2);
  CHECK((read[0].first == "w" && read[1].first == "state.m"));
  const io::Metadata wanted = {{"device", "an object of torch.device"},
                               {"done", "an object of __builtin__.set"},
                               {"bytes", "bytes"},
                               {"dtype", "the name torch.float32"},
                               {"more", "a set"},
                               {"frozen", "a set"},
                               {"state.step", "int 7"},
                               {"size", "a list of numbers and texts"},
                               {"epoch", "int 5"},
                               {"rate", "float 0.25"},
                               {"name", "text \"\\xc3\\xa9\""},
                               {"flag", "bool True"},
                               {"config", "a dict of numbers and texts"}};
  CHECK(read.left == wanted);
  CHECK(file.read(two + "}(" + text("w") + four + "K\3" + four + "N" + four + "u.")[2].first ==
        "2");
  // A prefix chooses a dict inside.
  const io::LoadedTensors state = io::load_torch(file.path, {.names = {"w", "3"}, .strict = true});
  CHECK(state.size() == 2);
}

TEST_CASE("tensors of PyTorch that no Tensor can hold are left, with the reason") {
  const Pickled file;
  const std::string complex =
      rebuilt(storage("K\2", "ComplexFloatStorage"), zero, "(K\2t", "(K\1t");
  const std::string sparse = "ctorch._utils\n_rebuild_sparse_tensor\n(" + four + "tR";
  const std::string negated = "ctorch._utils\n_rebuild_tensor_v2\n(" + storage() + zero +
                              "(K\4t(K\1t\x89}}(" + text("neg") + "\x88utR";
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(" + complex + "\x89}tR";
  const std::string axes = "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t";
  const std::string apart = "(" + text("module") + "N" + "tQ";
  const io::LoadedTensors read =
      file.read(two + "](" + four + complex + sparse + negated + parameter +
                rebuilt(storage(), zero, axes, axes) + apart + storage() + "e.");
  REQUIRE(read.size() == 1);
  const std::string kind = "a tensor of torch.ComplexFloatStorage";
  CHECK(read.left == io::Metadata{{"1", kind},
                                  {"2", "an object of torch._utils._rebuild_sparse_tensor"},
                                  {"3", "a tensor that is conjugated or negated when it is read"},
                                  {"4", kind},
                                  {"5", "a tensor of more than 8 axes"},
                                  {"6", "an object apart"},
                                  {"7", "a storage by itself"}});
}

TEST_CASE("tensors of a .safetensors file in another dtype are left, also in shards") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const std::string entries =
      R"("x":{"dtype":"U8","shape":[1],"data_offsets":[4,5],"more":[{}]},)"
      R"("eight":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
      R"("deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[3,4]})";
  write_file(path, safetensors_bytes("{" + entries + "}", "abc\1\5"));
  const io::Metadata left = {{"eight", "dtype \"F8_E4M3\""}, {"deep", "9 axes"}};
  check_same(io::load_safetensors(path), five);
  CHECK(io::load_safetensors(path).left == left);
  const std::string index = folder.file("m.safetensors.index.json"), name = "\"x.safetensors\"";
  write_file(index,
             "{\"weight_map\":{\"x\":" + name + ",\"eight\":" + name + ",\"deep\":" + name + "}}");
  check_same(io::load_safetensors(index), five);
  CHECK(io::load_safetensors(index).left == left);
  write_file(index, "{\"weight_map\":{\"x\":" + name + ",\"eight\":" + name + "}}");
  check_refused<IoError>([&] { io::load_safetensors(index); }, "none of \"deep\"");
  // What is left takes part in the checks of the file.
  write_file(path, safetensors_bytes("{" + entries + "," + entries.substr(0, 60) + "}", "abc\1\5"));
  CHECK_THROWS_AS(io::load_safetensors(path), IoError);
  write_file(path, safetensors_bytes("{" + entries + "}", "abc\1\5\6"));
  check_refused<IoError>([&] { io::load_safetensors(path); }, "bytes, by its header");
}

TEST_CASE("a load into a model reports what the file has and no Tensor can hold") {
  const Folder folder;
  const std::string path = folder.file("x.npz");
  struct Model {
    Variable x{"x", zeros({1}, {.dtype = DType::uint8})};
    REEL_FIELDS(x)
  };
  const Model model;
  write_zip(path, {{"x.npy", byte}, {"format.npy", array_of("'|S3'", "()", "csr")}});
  const std::string error = error_of([&] { io::load(path, model); });
  CHECK(error.find("got 1 left\n") != error.npos);
  CHECK(error.find("\n  left: format: dtype '|S3'") != error.npos);
  CHECK(equal(model.x, zeros({1})));
  const io::LoadReport report = io::load(path, {.strict = false}, model);
  CHECK(equal(model.x, full({1}, 5)));
  CHECK_FALSE(report.complete());
  CHECK(report.left == std::vector<std::string>{"format: dtype '|S3'"});
  CHECK(io::load(path, {.names = {"x"}}, model).complete());
  CHECK(io::load(path, {.rename = {{"format", ""}}}, model).complete());
  CHECK(io::load_torch(path, {.names = {"x"}}, model).complete());
  CHECK_FALSE(io::load_torch(path, {.strict = false}, model).complete());
  check_refused<IoError>([&] { io::load(path, {.names = {"y."}}, model); }, "no \"y.\"");
  // A whole dict is chosen by its prefix; the epoch beside it is not read.
  const Pickled torch;
  torch.write(two + "}(" + text("model") + "}" + text("x") + four + "s" + text("epoch") + "K\5u.");
  struct Four {
    Variable x{"x", ones({4})};
    REEL_FIELDS(x)
  };
  const Four four_of;
  CHECK(error_of([&] {
          io::load_torch(torch.path, {.rename = {{"model.", ""}}}, four_of);
        }).find("left: epoch: int 5") != std::string::npos);
  CHECK(io::load_torch(torch.path, {.names = {"model."}, .rename = {{"model.", ""}}}, four_of)
            .complete());
  CHECK(equal(four_of.x, zeros({4})));
}
}  // namespace reel::tests
