// SPDX-License-Identifier: BSD-3-Clause
// State dicts of PyTorch: the library reads what it writes, and calls nothing that a pickle names.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "io/pickle_bytes.hpp"
#include "io/same_tensors.hpp"
#include "lib/body/access.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
/// The model that tests/io/golden/make_torch.py builds from PyTorch's layers.
struct Tagger {
  nn::Embedding embed{11, 4};
  nn::LSTM lstm{4, 5, {.layers = 2, .bidirectional = true}};
  nn::GRU gru{10, 3, {.layers = 2, .bidirectional = true}};
  nn::LayerNorm norm{6};
  nn::LSTMCell lstm_cell{6, 4};
  nn::GRUCell gru_cell{4, 4};
  nn::RNNCell rnn_cell{4, 4};
  nn::Linear head{4, 7};
  Tensor operator()(const Tensor& words) const {
    const Tensor x = norm(gru(lstm(embed(words)).outputs).outputs)[-1];
    const Tensor h = lstm_cell(x, lstm_cell.initial_state(x.shape(0))).h;
    return head(rnn_cell(gru_cell(h, gru_cell.initial_state(x.shape(0))),
                         rnn_cell.initial_state(x.shape(0))));
  }
  void fields(auto&& field) {
    field("embed", embed);
    field("lstm", lstm);
    field("gru", gru);
    field("norm", norm);
    field("cells.lstm", lstm_cell);
    field("cells.gru", gru_cell);
    field("cells.rnn", rnn_cell);
    field("head", head);
  }
};
const std::string ordered = "ccollections\nOrderedDict\n";
}  // namespace

TEST_CASE("a file that PyTorch wrote is read: dtypes, views, shared storages, nested") {
  const auto read = io::load_torch(REEL_GOLDEN "/mixed.pt");
  const Tensor numbers = arange(0.0f, 6.0f).reshape({2, 3}), shared = arange(0.0f, 10.0f);
  io::NamedTensors wanted;
  for (const DType dtype : {DType::boolean, DType::uint8, DType::int32, DType::int64,
                            DType::float16, DType::bfloat16, DType::float32, DType::float64})
    wanted.emplace_back("model.x." + std::string(name_of(dtype)), numbers.to(dtype));
  for (auto& named : io::NamedTensors{{"views.0", transpose(numbers)},
                                      {"views.1", tensor({2.0f, 4.0f, 6.0f})},
                                      {"views.2", shared},
                                      {"views.3", tensor(2.5f)},
                                      {"views.4", zeros({0, 3})},
                                      {"parameter", ones({2})},
                                      {"expanded", full({2, 3}, 7.0f)},
                                      {"tied", shared},
                                      {"3.step", tensor(std::int64_t{4})}})
    wanted.push_back(named);
  check_same(read, wanted);
}

TEST_CASE("an LSTM tagger of PyTorch has the same outputs here") {
  const auto tagged = io::load_torch(REEL_GOLDEN "/tagged.pt");
  const Tensor words = tagged[0].second, scores = tagged[1].second;
  REQUIRE(tagged[1].first == "scores");
  const Tagger tagger;
  CHECK(io::load_torch(REEL_GOLDEN "/tagger.pt", tagger).complete());
  CHECK(allclose(tagger(words), scores, {.rtol = 0, .atol = 1e-5}));
  // The tagger through safetensors, with other names, and without the layouts of the layers.
  const Folder folder;
  const std::string path = folder.file("t.safetensors");
  io::NamedTensors renamed = io::load_torch(REEL_GOLDEN "/tagger.pt");
  for (auto& [name, x] : renamed) name = "net." + name;
  io::save_safetensors(path, renamed);
  const Tagger other;
  CHECK(io::load_torch(path, {.rename = {{"net.", ""}}}, other).complete());
  CHECK(equal(other(words), tagger(words)));
  check_refused<IoError>([&] { io::load_torch(path, other); }, "missing");
  check_refused<IoError>(
      [&] {
        io::load_torch(path, {.rename = {{"net.lstm.", ""}}}, other);
      },
      "unexpected");
  struct Narrow {
    nn::LSTM lstm{4, 5};
    REEL_FIELDS(lstm)
  };
  const Narrow narrow;
  CHECK(io::load_torch(REEL_GOLDEN "/tagger.pt", {.strict = false}, narrow).missing.empty());
}

TEST_CASE("a file of PyTorch and a file of save() are not taken for each other") {
  // A square weight fits in both layouts, so only the file can tell.
  const Folder folder;
  const nn::Linear layer(2, 2), other(2, 2);
  const Tensor before = other.weight;
  const std::string torch = folder.file("x.pt"), ours = folder.file("x.safetensors"),
                    hub = folder.file("hub.safetensors");
  const io::SafetensorsOptions by_torch = {.metadata = {{"format", "pt"}}};
  io::save_torch(torch, io::tensors_of(layer));
  io::save_safetensors(hub, io::tensors_of(layer), by_torch);
  io::save(ours, layer);
  for (const std::string& path : {torch, hub})
    check_refused<IoError>([&] { io::load(path, other); }, "layouts of reel");
  check_refused<IoError>([&] { io::load_safetensors(hub, other); }, "layouts of reel");
  check_refused<IoError>([&] { io::load_torch(ours, other); }, "layouts of PyTorch");
  CHECK(equal(other.weight, before));
  for (const std::string& path : {torch, hub}) {
    io::load_torch(path, other);
    CHECK(equal(other.weight, transpose(layer.weight)));
  }
}

TEST_CASE("what is saved for PyTorch is read again") {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  const io::NamedTensors tensors = of_every_dtype();
  io::save_torch(path, tensors);
  check_same(io::load_torch(path), tensors);
  io::save_torch(path, {});
  CHECK(io::load_torch(path).empty());
  const nn::Linear layer(2, 3);
  io::save_torch(path, io::tensors_of(layer));
  check_same(io::load_torch(path), io::tensors_of(layer));
  check_refused<Error>(
      [&] {
        io::save_torch(path, {{"x", ones({2})}, {"x", ones({2})}});
      },
      "twice");
}

TEST_CASE(
    "every PyTorch file that is cut short or has another byte is refused, or read as before") {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  io::save_torch(path, {{"x", arange(0, 3)}});
  for (const std::string& whole : {contents(path), contents(REEL_GOLDEN "/mixed.pt")}) {
    write_file(path, whole);
    const io::NamedTensors wanted = io::load_torch(path);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      write_file(path, whole.substr(0, bytes));
      CHECK_THROWS_AS(io::load_torch(path), IoError);
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string other = whole;
      other[at] = static_cast<char>(other[at] ^ 1);
      write_file(path, other);
      try {
        const io::NamedTensors read = io::load_torch(path);
        bool same = read.size() == wanted.size();
        for (std::size_t i = 0; same && i < read.size(); ++i)
          same = read[i].first == wanted[i].first && same_tensor(read[i].second, wanted[i].second);
        INFO(at);
        REQUIRE(same);
      } catch (const IoError&) {
      }
    }
  }
}

TEST_CASE("nothing of a pickle is executed: what a function would make is left, with its name") {
  const Pickled file;
  CHECK(file.read(two + four + ".")[0].second.size() == 4);
  for (const char* const global :
       {"os\nsystem", "builtins\neval", "posix\nsystem", "torch.nn\nLinear",
        "collections\nordereddict", "numpy\nndarray"}) {
    std::string name = global;
    name.replace(name.find('\n'), 1, ".");
    const std::string made = "c" + std::string(global) + "\n(" + text("echo") + "t";
    for (const std::string call : {"R", "\x81", "}\x92", "R}b", "R]a", "R(}}u", "R)R"}) {
      file.refuse(two + made + call + ".", "got an object of " + name);
      const io::LoadedTensors read = file.read(two + "](" + made + call + four + "e.");
      REQUIRE(read.size() == 1);
      CHECK(read[0].first == "1");
      CHECK(read.left == io::Metadata{{"0", "an object of " + name}});
    }
    file.refuse(two + "c" + global + "\n.", "got the name " + name);
  }
  file.refuse(two + text("os") + text("system") + "\x93.", "got the name os.system");
  file.refuse(two + "ctorch\nFloatStorage\n)R.", "got an object of torch.FloatStorage");
  file.refuse(two + "ccopyreg\n\x1b[31m\n.", "got the name copyreg.\\x1b[31m");
  for (const char op : std::string("iPoSIFLVd\x82"))
    file.refuse(two + op + "..................", "got the opcode");
}

TEST_CASE("a pickle that is no state dict is refused") {
  const Pickled file;
  const auto tensor = [&](const std::string& offset, const std::string& shape,
                          const std::string& strides) {
    return two + rebuilt(storage(), offset, shape, strides) + ".";
  };
  CHECK(file.read(tensor("K\1", "(K\3t", "(K\1t"))[0].second.size() == 3);
  CHECK(file.read(tensor(zero, "(K\2K\2t", "(K\1K\2t"))[0].second.shape() == Shape({2, 2}));
  CHECK(file.read(tensor("K\5", "(" + zero + "t", "(K\1t"))[0].second.size() == 0);
  const std::string large = std::string("\x8a\x08") + std::string(7, '\xff') + "\x3f";
  file.refuse(tensor("K\1", "(K\4t", "(K\1t"), "outside of its storage");
  file.refuse(tensor(zero, "(K\3t", "(K\2t"), "outside of its storage");
  file.refuse(tensor(zero, "(" + large + large + "t", "(" + large + large + "t"),
              "a tensor of more bytes than this file can have");
  file.refuse(tensor("K\4", "(t", "(t"), "outside of its storage");
  file.refuse(tensor("J\xff\xff\xff\xff", "(K\1t", "(K\1t"), "");
  file.refuse(tensor(zero, "(J\xff\xff\xff\xfft", "(K\1t"), "negative");
  file.refuse(tensor(zero, "(K\1t", "(J\xff\xff\xff\xfft"), "negative");
  file.refuse(tensor(zero, "(K\1K\1t", "(K\1t"), "other strides");
  file.refuse(tensor(zero, "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t"),
              "a tensor of more than 8 axes");
  file.refuse(two + rebuilt(storage("K\5"), zero, "(K\4t", "(K\1t") + ".", "bytes of storage 0");
  file.refuse(two + rebuilt(storage("K\4", "DoubleStorage"), zero, "(t", "(t") + ".",
              "32 bytes of storage 0, got 16");
  file.refuse(two + storage() + ".", "got a storage by itself");
  file.refuse(two + "NN.", "more than one value");
  file.refuse(two + "N.N", "one pickle, got more behind it");
  file.refuse(two + "(N.", "more than one value");
  file.refuse(two + ".", "more than one value");
  file.refuse("N.", "protocol");
  file.refuse("\x80\x01N.", "protocol");
  // Elements that are there again and again, in a file of some 500 bytes.
  const auto repeated = [&](std::int64_t length) {
    const std::string integer = "\x8a\x08" + number(static_cast<std::uint64_t>(length), 8);
    return tensor(zero, "(K\2" + integer + "t", "(" + zero + zero + "t");
  };
  CHECK(equal(file.read(repeated(3000))[0].second, zeros({2, 3000})));
  file.refuse(repeated(std::int64_t{1} << 53), "a tensor of more bytes than this file can have");
  file.refuse(repeated(500'000), "a tensor of more bytes than this file can have");
  file.refuse(two + "}(" + text("a") + four + text("a") + four + "u.", "\"a\" twice");
  file.refuse(two + "}(" + text("a") + "u.", "a key without a value");
  file.refuse(two + "](N0.", "more than one value");
  file.refuse(two + "h\7.", "not noted");
  file.refuse(two + "t.", "no mark");
  file.refuse(two + "\x85.", "an empty stack");
  file.refuse(two + "N(\x85.", "an empty stack");
  file.refuse(two + std::string("\x8a\x09") + "123456789.", "an integer of more than 64 bits");
  file.refuse(two +
                  "X\xff\xff\xff\xff"
                  "a.",
              "the end of it");
  file.refuse(two + text("\xff") + ".", "UTF-8");
  // A list that contains itself, and nested lists whose size doubles with each level.
  file.refuse(two + "]q\1h\1a.", "again and again");
  std::string doubling = two + "]q" + std::string(1, '\0');
  for (char i = 1; i < 50; ++i)
    doubling +=
        std::string("](h") + static_cast<char>(i - 1) + "h" + static_cast<char>(i - 1) + "eq" + i;
  file.refuse(doubling + ".", "");
  // What a few bytes name again and again would be more than the file.
  const auto many = [&](const std::string& once, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += once;
    return all;
  };
  const std::string long_key = "X" + number(100'000, 4) + std::string(100'000, 'k') + "q\1";
  const std::string again = "got names that are there again and again";
  file.refuse(two + "}(" + long_key + four + "q\2" + many("h\1h\2", 1000) + "u.", again);
  file.refuse(two + "}(" + long_key + four + many("h\1K\5", 1000) + "u.", again);
  file.refuse(two + "(" + four + "q\2" + many("h\2", 100'000) + "t.", again);
  file.refuse(two + "(" + ordered + "q\1](" + many("NN\x86", 1000) + "e\x85q\2" +
                  many("h\1h\2R", 100) + "t.",
              "got values that are there again and again");
  file.refuse(two + "Nr\xff\xff\xff\x7f.", "a note of too large a number");
  write_zip(file.path, {{"a/data.pkl", two + four + "."}});
  check_refused<IoError>([&] { io::load_torch(file.path); }, "a member data/0, got none");
  write_zip(file.path, {{"a/data.pkl", two + four + "."},
                        {"a/byteorder", "middle"},
                        {"a/data/0", std::string(16, '\0')}});
  check_refused<IoError>([&] { io::load_torch(file.path); }, "byte order");
  write_zip(file.path, {{"a/data.pkl", two + "](" + std::string(1 << 20, 'N') + "e."}}, true);
  check_refused<IoError>([&] { io::load_torch(file.path); }, "at most 64 times its packed bytes");
  write_zip(file.path, {{"a/b", ""}});
  check_refused<IoError>([&] { io::load_torch(file.path); }, "a member data.pkl");
  write_file(file.path, "\x80\x02\x8a\x0a");
  check_refused<IoError>([&] { io::load_torch(file.path); },
                         "a file that torch.save() wrote, got a pickle of Python");
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
}  // namespace reel::tests
