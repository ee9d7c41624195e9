// SPDX-License-Identifier: BSD-3-Clause
// Programs that save, load and print.
#include <cstring>
#include <string>

#include "exhaustion/programs.hpp"
#include "io/folder.hpp"

namespace reel::tests {
namespace {
struct Files : Program {
  Folder folder;
  std::string path = folder.file("a file with a name of some length"),
              broken = folder.file("broken.npy"), events = folder.file("a folder for events"),
              tag = "a tag of some length, for the heap";
  Tensor x;
  io::NamedTensors tensors;
  io::SafetensorsOptions options{.metadata = {{"a key of some length, for the heap", "a text"}}};
  nn::Linear layer{2, 1}, other{2, 1}, wide{2, 2};
  optim::Adam adam{parameters(layer)}, second{parameters(other)};
  std::string text = "a text of some length, for the heap", read_text;
  ProjectorOptions shown;
  Graph graph = [&] {
    auto f = trace([&](Tensor v) { return sum(other(v), 0) * transpose(ones({1, 3})); });
    f(ones({3, 2}));
    return f.graph(ones({3, 2}));
  }();
  explicit Files(unsigned variant) {
    const GeneratorScope scope(Generator(variant + 11));
    x = random::uniform({2 + 3 * (variant % 5), 7});
    tensors = {{"x", x}, {"y", transpose(x)}};
    const std::vector<std::string> texts(static_cast<std::size_t>(x.shape(0)), text);
    shown = {texts, {{text, texts}}, ones({x.shape(0), 2, 3})};
    write_file(broken, "\x93NUMPY\1\0\5\0{'a':");
  }
  void run(Results& results) override {
    io::save_npy(path, transpose(x));
    results.add(io::load_npy(path));
    io::save_safetensors(path, tensors, options);
    for (const auto& [name, read] : io::load_safetensors(path)) results.add(read);
    save_and_load(results);
    io::save_graph(path, graph);
    results.add(static_cast<double>(io::load_graph(path).text().size()));
    write_events(results);
    const Profile profile = reel::profile([&] { exp(x); });  // may miss calls, for want of memory
    profile.to_text();
    profile.write_chrome_trace(path);
    for (const bool compress : {false, true}) {
      io::save_npz(path, tensors, {.compress = compress});
      for (const auto& [name, read] : io::load_npz(path)) results.add(read);
    }
    io::save_torch(path, tensors);
    for (const auto& [name, read] : io::load_torch(path)) results.add(read);
    try {
      io::load_npy(broken);
    } catch (const IoError& error) {
      results.add(static_cast<double>(std::strlen(error.what())));
    }
    results.add(static_cast<double>(to_string(x).size()));
    results.add(static_cast<double>(to_string(x > 0).size() + to_string(x.shape()).size()));
    results.add(static_cast<double>(to_string(x, ".3f").size() + to_string(x.dtype()).size()));
    results.add(static_cast<double>(op_names().size()));
  }
  void write_events(Results& results) {
    SummaryWriter board(events, {.flush_seconds = 1e9});
    board.scalar(tag, x(0, 0), 0);
    board.histogram(tag, x, 0);
    board.image(tag, x, 0);
    board.text(tag, text, 0);
    board.audio(tag, x, {}, 0);
    board.pr_curve(tag, x > 0, clip(x, 0, 1), 0);
    board.embedding(tag, x);
    board.embedding(tag, x, shown);
    board.hparams({{tag, 1}, {"b", "a text of some length, for the heap"}}, {tag});
    results.add(static_cast<double>(board.lost()));
  }
  void save_and_load(Results& results) {
    int step = 0;
    io::save(path, layer, adam, 7, text);
    io::load(path, other, second, step, read_text);
    results.add(layer.weight - other.weight);
    results.add(static_cast<double>(read_text.size()) + step);
    assign(layer, other);
    try {
      io::load(path, wide);
    } catch (const IoError& error) {
      results.add(static_cast<double>(std::strlen(error.what())));
    }
  }
};

struct Checkpointing : Program {
  Folder folder;
  std::string in = folder.file("checkpoints"), torch = folder.file("a state dict of PyTorch.pt"),
              shards = folder.file("shards.safetensors");
  nn::Linear layer{2, 3}, other{2, 3};
  optim::RMSprop optimizer{parameters(layer)}, second{parameters(other)};
  Generator noise{5}, second_noise{6};
  io::LoadOptions renamed{.convert = true, .rename = {{"model.", ""}, {"unused", ""}}};
  io::NamedTensors of_torch{{"model.weight", ones({3, 2}, DType::float64)},
                            {"model.bias", zeros({3})},
                            {"unused", ones({9})}};
  io::SafetensorsOptions sharded{.metadata = {{"key", "text"}}, .shard_bytes = 30};
  explicit Checkpointing(unsigned variant) {
    layer.weight.assign(numbers({2, 3}, variant / 2 * 2));
  }
  void reset() override {
    std::filesystem::remove_all(in);
    other.weight.assign(0);
    second_noise.restore(6, 0);
  }
  void run(Results& results) override {
    const io::Checkpoints checkpoints(in, {.keep = 1});
    std::int64_t step = 0;
    results.add(checkpoints.resume(step, other, second) ? 1 : 0);
    for (std::int64_t i = 1; i < 3; ++i) checkpoints.save(i, layer, optimizer, noise);
    checkpoints.resume(step, other, second, second_noise);
    results.add(other.weight);
    results.add(static_cast<double>(checkpoints.latest().size()) + static_cast<double>(step));

    io::save_torch(torch, of_torch);
    results.add(static_cast<double>(io::load_torch(torch, renamed, other).text().size()));
    results.add(other.weight);
    io::save_safetensors(shards, io::tensors_of(layer), sharded);
    results.add(static_cast<double>(io::load_safetensors(shards).size()));
    results.add(static_cast<double>(io::load_safetensors_metadata(shards).size()));
    assign(other, layer);
    io::load(shards, other);
    results.add(other.weight);
  }
};
}  // namespace

std::unique_ptr<Program> files_program(unsigned variant) { return make<Files>(variant); }
std::unique_ptr<Program> checkpoints_program(unsigned variant) {
  return make<Checkpointing>(variant);
}
}  // namespace reel::tests
