// SPDX-License-Identifier: BSD-3-Clause
// Models, optimizers, generators and numbers in one file.
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Model {
  nn::Embedding embed{5, 2};
  std::vector<nn::Linear> layers = {nn::Linear(2, 3), nn::Linear(3, 1)};
  std::map<std::string, nn::Linear> heads = {{"noun", nn::Linear(3, 2)},
                                             {"verb", nn::Linear(3, 4)}};
  std::map<int, Variable> scales = {{-1, Variable("s", ones({}))}, {7, Variable("s", ones({2}))}};
  std::shared_ptr<nn::LayerNorm> norm = std::make_shared<nn::LayerNorm>(2);
  Buffer mean{"mean", zeros({3})}, count{"count", tensor(std::int64_t{0})};
  Variable tied = embed.table;
  nn::Dropout dropout{0.25};
  double setting = 3;
  Tensor constant = ones({2});
  REEL_FIELDS(embed, layers, heads, scales, norm, mean, count, tied, dropout, setting, constant)
};
const std::vector<std::string> parameter_names = {
    "embed.table",       "layers.0.weight", "layers.0.bias",     "layers.1.weight", "layers.1.bias",
    "heads.noun.weight", "heads.noun.bias", "heads.verb.weight", "heads.verb.bias", "scales.-1",
    "scales.7",          "norm.scale",      "norm.shift"};

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& named : list) names.push_back(named.first);
  return names;
}

/// Changes all numbers.
void change(const std::vector<Variable>& variables, double by) {
  for (Variable x : variables) x.assign(x.dtype() == DType::int64 ? x + 5 : x * 0.5 + by);
}
void step(const Model& model, optim::Adam& adam) {
  std::vector<Tensor> gradients;
  for (const Variable& x : parameters(model)) gradients.push_back(random::normal(x.shape()));
  adam.step(gradients);
}
bool same(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i)
    all = a[i].dtype() == b[i].dtype() && equal(a[i], b[i]);
  return all;
}
std::vector<Variable> everything(const Model& model, optim::Adam& adam) {
  std::vector<Variable> all = parameters(model);
  for (const Variable& x : buffers(model)) all.push_back(x);
  for (const Variable& x : parameters(adam)) all.push_back(x);
  return all;
}
std::vector<Tensor> values_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> values;
  for (const Variable& x : variables) values.push_back(x.value());
  return values;
}
bool same(const std::vector<Variable>& a, const std::vector<Tensor>& b) {
  bool all = a.size() == b.size();
  for (std::size_t i = 0; all && i < a.size(); ++i) all = equal(a[i], b[i]);
  return all;
}
}  // namespace

TEST_CASE("buffers are distinguished from parameters, and keys of maps are names") {
  const Model model;
  CHECK(names_of(named_parameters(model)) == parameter_names);
  CHECK(names_of(named_buffers(model)) == std::vector<std::string>{"mean", "count"});
  CHECK(buffers(model).size() == 2);
  CHECK(parameters(model).size() == parameter_names.size());
  const std::unordered_map<std::string, nn::Linear> one = {{"only", nn::Linear(1, 1)}};
  CHECK(names_of(named_parameters(one)) == std::vector<std::string>{"only.weight", "only.bias"});
  const std::map<std::pair<int, int>, Variable> pairs = {{{1, 2}, Variable("v", ones({}))}};
  CHECK(names_of(named_parameters(pairs)) == std::vector<std::string>{"0"});
}

TEST_CASE("a clone has Buffers and Generators of its own, and a check finds Buffers listed") {
  struct Noisy {
    Buffer mean{"mean", zeros({2})};
    Generator noise{3};
    REEL_FIELDS(mean, noise)
    Tensor operator()(Operand x) const {
      Buffer seen = mean;
      seen.assign(mean * 0.5 + x);
      return mean * 2;
    }
  };
  const Noisy model;
  Noisy copy = clone(model);
  CHECK_FALSE(copy.mean.same_cell(model.mean));
  copy.mean.assign(7);
  copy.noise.set_position(9);
  CHECK(equal(model.mean, zeros({2})));
  CHECK(model.noise.position() == 0);
  CHECK(copy.noise.seed() == 3);
  nn::check(model, model, ones({2}));
  // A replay reads and writes them in the same way as Variables.
  const Noisy traced_model, eager_model;
  const auto traced = trace([&](Tensor x) { return traced_model(x); });
  for (int i = 0; i < 5; ++i) {
    const Tensor x = full({2}, i);
    CHECK(equal(traced(x), eager_model(x)));
  }
  CHECK(equal(traced_model.mean, eager_model.mean));
  const auto takes = trace([](Buffer b) { return b * 2; });
  for (int i = 0; i < 3; ++i) CHECK(equal(takes(traced_model.mean), traced_model.mean * 2));
  CHECK(fmt::format("{}", model.mean).find("mean") != std::string::npos);
}

TEST_CASE("what is saved is loaded again: models, optimizers, generators, numbers") {
  const Folder folder;
  const std::string path = folder.file("run.safetensors");
  seed(5);
  const Model model;
  optim::Adam adam(parameters(model));
  step(model, adam);
  change(buffers(model), 1);
  adam.learning_rate().assign(0.125);
  const Generator generator(0xfedcba9876543210u);
  generator.seed();
  Generator(generator).set_position(0xffffffffffffffffu);
  const std::int64_t big = INT64_MIN;
  const std::uint8_t byte = 250;
  const std::uint64_t wide = UINT64_MAX;
  enum class Phase { warm, cold };
  nn::LSTMState state{full({1, 2}, 3), full({1, 2}, 4)};
  struct Progress {
    int epoch = 4;
    double best = 0.1;
    float rate = 0.3f;
    std::string note = "line\n\"two\" \xc3\xa9";
    std::map<std::string, int> counts = {{"a", 1}, {"b", 2}};
    Tensor order = tensor({2, 0, 1});
    REEL_FIELDS(epoch, best, rate, note, counts, order)
  };
  io::save(path, model, adam, generator, std::int64_t{17}, big, byte, wide, true, 0.1, 1e-30f,
           std::string("text"), Phase::cold, state, Progress(), tensor({5, 6}));

  Model other;
  other.setting = 5;
  optim::Adam second(parameters(other));
  Generator stream(1), copy = stream;
  std::int64_t steps = 0, small = 0;
  std::uint8_t eight = 0;
  std::uint64_t natural = 0;
  bool truth = false;
  double real = 0;
  float tiny = 0;
  std::string text;
  Phase phase{};
  nn::LSTMState read_state;
  Progress progress{
      .epoch = 0, .best = 0, .rate = 0, .note = "", .counts = {{"a", 0}, {"b", 0}}, .order = {}};
  Tensor pair;
  const io::LoadReport report =
      io::load(path, other, second, stream, steps, small, eight, natural, truth, real, tiny, text,
               phase, read_state, progress, pair);
  CHECK(report.complete());
  CHECK(report.text().empty());
  CHECK(same(everything(model, adam), everything(other, second)));
  CHECK(other.tied.same_cell(other.embed.table));
  CHECK(copy.seed() == 0xfedcba9876543210u);
  CHECK(copy.position() == 0xffffffffffffffffu);
  CHECK((steps == 17 && small == INT64_MIN && eight == 250 && natural == UINT64_MAX));
  CHECK((truth && real == 0.1 && tiny == 1e-30f && text == "text" && phase == Phase::cold));
  CHECK(equal(read_state.h, state.h));
  CHECK(equal(read_state.c, state.c));
  CHECK((progress.epoch == 4 && progress.best == 0.1 && progress.rate == 0.3f));
  CHECK(progress.note == Progress().note);
  CHECK(progress.counts == Progress().counts);
  CHECK(equal(progress.order, Progress().order));
  CHECK(equal(pair, tensor({5, 6})));
  CHECK(other.setting == 3);
}

TEST_CASE("names are paths of fields, and optimizer state is named by parameter") {
  const Folder folder;
  const std::string path = folder.file("run.safetensors");
  struct Small {
    nn::Linear a{2, 1};
    Buffer mean{"mean", zeros({1})};
    REEL_FIELDS(a, mean)
  };
  const Small model, critic;
  optim::Adam adam(parameters(model));
  optim::SGD plain(parameters(model)), sgd({critic.a.bias}, {.momentum = 0.5});
  const auto names = [&] {
    std::vector<std::string> found = names_of(io::load_safetensors(path));
    std::sort(found.begin(), found.end());
    return found;
  };
  io::save(path, model);
  CHECK(names() == std::vector<std::string>{"a.bias", "a.weight", "mean"});
  io::save(path, adam, model);  // the order of the objects may differ
  CHECK(names() == std::vector<std::string>{"a.bias", "a.weight", "mean", "optimizer.learning_rate",
                                            "optimizer.m.a.bias", "optimizer.m.a.weight",
                                            "optimizer.steps", "optimizer.v.a.bias",
                                            "optimizer.v.a.weight"});
  io::save(path, model, plain);
  CHECK(names() ==
        std::vector<std::string>{"a.bias", "a.weight", "mean", "optimizer.learning_rate"});
  struct Training {
    Small model, critic;
    optim::SGD sgd;
    Generator noise{1};
    REEL_FIELDS(model, critic, sgd, noise)
  };
  const Training training{model, critic, sgd};
  io::save(path, training);
  CHECK(names() == std::vector<std::string>{"critic.a.bias", "critic.a.weight", "critic.mean",
                                            "model.a.bias", "model.a.weight", "model.mean",
                                            "sgd.learning_rate", "sgd.velocity.critic.a.bias"});
  io::load(path, training);
  io::save(path, std::tie(model, critic), sgd);
  CHECK(names() == std::vector<std::string>{"0.a.bias", "0.a.weight", "0.mean", "1.a.bias",
                                            "1.a.weight", "1.mean", "optimizer.learning_rate",
                                            "optimizer.velocity.1.a.bias"});
  io::load(path, std::tie(model, critic), sgd);
  const Variable w("width", ones({2}));
  io::save(path, w);
  CHECK(names() == std::vector<std::string>{"width"});
  io::save(path, adam);
  CHECK(names()[1] == "optimizer.m.0");
  check_refused<Error>([&] { io::save(path, model, critic); }, "got \"a.bias\" twice");
  check_refused<Error>([&] { io::save(path, model, adam, sgd); },
                       "\"optimizer.learning_rate\" twice");
  check_refused<Error>([&] { io::save(path, std::string("\xff")); }, "UTF-8");
  check_refused<Error>([&] { io::save(path, Tensor()); }, "undefined");
  check_refused<IoError>([&] { io::save(folder.file("no/x"), model); }, "save: \"x\"");
}

TEST_CASE("parts that hold nothing are an error of load()") {
  const Folder folder;
  const std::string path = folder.file("numbers.safetensors");
  io::save(path, std::vector<double>{1, 2, 3});
  std::vector<double> empty, three(3);
  CHECK_THROWS_WITH(io::load(path, empty), Catch::Contains("parts that hold nothing") &&
                                               Catch::Contains("A list keeps the length"));
  io::load(path, three);
  CHECK(three == std::vector<double>{1, 2, 3});
}

TEST_CASE("a list of numbers that is empty does not pass over the numbers of the file") {
  const Folder folder;
  const std::string path = folder.file("x.safetensors");
  const nn::Linear model(2, 2), other(2, 2);
  const Tensor before = other.weight;
  const std::vector<double> numbers = {1, 2, 3};
  io::save(path, model, numbers);
  std::vector<double> empty;
  check_refused<IoError>([&] { io::load(path, other, empty); }, "unexpected");
  CHECK(equal(other.weight, before));
  io::load(path, other);  // a call without numbers skips them
  CHECK(equal(other.weight, model.weight));
}

TEST_CASE("a path that another format ends with, and an empty one, are refused") {
  const Folder folder;
  const nn::Linear model(2, 2);
  for (const char* ending : {".npy", ".npz", ".pt", ".pth"}) {
    const std::string path = folder.file((std::string("x") + ending).c_str());
    check_refused<IoError>([&] { io::save(path, model); }, "another format, got .");
    CHECK(!std::ifstream(path));
  }
  check_refused<IoError>([&] { io::load("", model); }, "an empty one");
}

TEST_CASE("a call passes over what it has nothing of") {
  const Folder folder;
  const std::string path = folder.file("run.safetensors");
  const Model model, other;
  optim::Adam adam(parameters(model)), second(parameters(other));
  step(model, adam);
  const Generator generator(1);
  const nn::LSTMState state{ones({1}), ones({1})};
  io::save(path, model, adam, generator, 3, state);
  CHECK(io::load(path, other).complete());
  CHECK(same(parameters(model), parameters(other)));
  CHECK(io::load(path, other, second).complete());
  CHECK(same(parameters(adam), parameters(second)));
  int three = 0;
  nn::LSTMState read;
  CHECK(io::load(path, other, three, read).complete());
  CHECK(three == 3);
  check_refused<IoError>([&] { io::load(path, second); }, "unexpected");
  check_refused<IoError>([&] { io::load(path, other, three); }, "2 unexpected");
  check_refused<IoError>([&] { io::load(path, other, read); }, "1 unexpected");
}

TEST_CASE("one error lists all that differs, and nothing has changed after it") {
  const Folder folder;
  const std::string path = folder.file("run.safetensors");
  struct Wide {
    nn::Linear a{2, 3}, b{3, 4};
    Buffer mean{"mean", zeros({3}, {.dtype = DType::float64})};
    REEL_FIELDS(a, b, mean)
  };
  struct Narrow {
    nn::Linear a{2, 5}, c{3, 4};
    Buffer mean{"mean", zeros({3})};
    REEL_FIELDS(a, c, mean)
  };
  const Wide wide;
  Narrow narrow;
  optim::Adam adam(parameters(wide)), other(parameters(narrow));
  int number = 5;
  bool truth = false;
  std::string text = "before";
  Generator generator(7);
  Tensor kept = tensor(9);
  io::save(path, wide, adam, 1e99, 300, std::string("after"));
  const std::vector<Tensor> before = values_of(parameters(narrow));
  std::string error;
  float real = 4;
  try {
    io::load(path, narrow, other, real, number, truth, text, generator, kept);
  } catch (const IoError& failure) {
    error = failure.what();
  }
  INFO(error);
  CHECK(error.find("save.cpp:") == 0);
  CHECK(error.find("load: \"run.safetensors\": expected what the program has, by name, shape and "
                   "dtype, got 9 missing, 6 unexpected, 8 different\n") != error.npos);
  for (const char* const line :
       {"\n  missing: parameter c.weight: (3, 4) float32\n",
        "missing: parameter c.bias: (4,) float32\n",
        "missing: optimizer state optimizer.m.c.weight: (3, 4) float32\n",
        "unexpected: b.weight: (3, 4) float32\n", "unexpected: optimizer.v.b.bias: (4,) float32\n",
        "different: parameter a.weight: expected (2, 5) float32, got (2, 3) float32\n",
        "different: buffer mean: expected (3,) float32, got (3,) float64\n",
        "missing: generator 0\n", "missing: value 3: text\n", "missing: tensor 4\n",
        "different: value 2: expected bool, got text after\n"})
    CHECK(error.find(line) != error.npos);
  CHECK(same(parameters(narrow), before));
  CHECK((number == 5 && real == 4 && !truth && text == "before" && generator.seed() == 7));
  CHECK(kept.item<std::int32_t>() == 9);
  // Without `strict`, it loads the names that fit.
  const io::LoadReport report =
      io::load(path, {.strict = false}, narrow, other, real, number, truth, text, generator, kept);
  CHECK(report.missing.size() == 9);
  CHECK(report.unexpected.size() == 6);
  CHECK(report.different.size() == 8);
  CHECK(report.text().find("missing: parameter c.weight") == 0);
  CHECK(number == 300);
  CHECK(text == "before");
}

TEST_CASE("numbers that do not fit their place are different") {
  const Folder folder;
  const std::string path = folder.file("n");
  std::int8_t small = 1;
  std::uint32_t natural = 2;
  const auto refuse = [&](auto saved, auto& place, const std::string& part,
                          Caller caller = Caller::here()) {
    io::save(path, saved);
    std::string text;
    try {
      io::load({path, caller}, place);
    } catch (const IoError& error) {
      text = error.what();
    }
    INFO(text);
    CHECK(text.find(part) != text.npos);
  };
  refuse(128, small, "expected int of 1 byte, got int 128");
  refuse(-129, small, "got int -129");
  refuse(-1, natural, "got int -1");
  refuse(std::int64_t{1} << 32, natural, "got int 4294967296");
  refuse(1.0, natural, "got float 1");
  refuse(true, natural, "got bool true");
  io::save(path, -128);
  io::load(path, small);
  CHECK(small == -128);
  for (const double real : {0.1, -0.0, 1e308, 5e-324, 1.0 / 3}) {
    double read = 7;
    io::save(path, real);
    io::load(path, read);
    CHECK(std::signbit(read) == std::signbit(real));
    CHECK(read == real);
  }
  double read = 7;
  io::save(path, -INFINITY);
  io::load(path, read);
  CHECK(read == -INFINITY);
  io::save(path, NAN);
  io::load(path, read);
  CHECK(std::isnan(read));
}

TEST_CASE("names of a file are changed to the model's, and floats converted where asked for") {
  const Folder folder;
  const std::string path = folder.file("old.safetensors");
  struct Model {
    nn::Linear hidden{2, 3}, head{3, 1};
    REEL_FIELDS(hidden, head)
  };
  const Model model;
  const Tensor x = arange(0.0f, 6.0f).reshape({2, 3});
  io::save_safetensors(path, {{"net.0.weight", x.to(DType::bfloat16)},
                              {"net.0.bias", ones({3})},
                              {"head.weight", ones({3, 1}, {.dtype = DType::float64})},
                              {"head.bias", ones({1})},
                              {"mask", ones({9})}});
  check_refused<IoError>(
      [&] {
        io::load(path, {.rename = {{"net.0.", "hidden."}}}, model);
      },
      "1 unexpected, 2 different");
  io::load(path, {.convert = true, .rename = {{"net.0.", "hidden."}, {"mask", ""}}}, model);
  CHECK(equal(model.hidden.weight, x));
  CHECK(model.head.weight.dtype() == DType::float32);
  CHECK(equal(model.head.weight, ones({3, 1})));
  const auto rename = [](const std::string& name) {
    return name == "mask" ? "" : name.starts_with("net.0.") ? "hidden." + name.substr(6) : name;
  };
  CHECK(io::load(path, {.convert = true, .rename = rename}, model).complete());
  check_refused<IoError>(
      [&] {
        io::load(path, {.rename = [](const std::string&) { return std::string("a"); }}, model);
      },
      "\"a\" twice");
}

TEST_CASE("a model is saved to and loaded from plain safetensors") {
  const Folder folder;
  const nn::Linear layer(3, 2), other(3, 2);
  io::save_safetensors(folder.file("a"), layer);
  io::load_safetensors(folder.file("a"), other);
  CHECK(equal(layer.weight, other.weight));
  CHECK(names_of(io::tensors_of(layer)) == std::vector<std::string>{"weight", "bias"});
}

TEST_CASE("loading keeps handles: traces, optimizers and tensors that were read") {
  const Folder folder;
  const std::string path = folder.file("m");
  const nn::Linear layer(2, 1);
  layer.weight.value();
  Variable(layer.weight).assign(3);
  io::save(path, layer);
  const auto f = trace([&](Tensor x) { return layer(x); });
  const Tensor x = ones({1, 2});
  for (int i = 0; i < 3; ++i) CHECK(f(x).item<float>() == 6);
  Variable(layer.weight).assign(4);
  const Tensor read = layer.weight;
  io::load(path, layer);
  CHECK(f(x).item<float>() == 6);
  CHECK(f.trace_count() == 1);
  CHECK(equal(read, full({2, 1}, 4)));
  Variable(layer.weight).assign_add(1);
  CHECK(f(x).item<float>() == 8);
}

TEST_CASE("assign gives a model the values of another, and lists the paths that differ") {
  Model model, best;
  assign(best, model);
  CHECK(same(parameters(best), parameters(model)));
  change(parameters(model), 1);
  change(buffers(model), 1);
  CHECK_FALSE(same(parameters(best), parameters(model)));
  assign(best, model);
  CHECK(same(parameters(best), parameters(model)));
  CHECK(same(buffers(best), buffers(model)));
  CHECK_FALSE(best.embed.table.same_cell(model.embed.table));
  // A target network in a traced step.
  const nn::Linear online(1, 1), target(1, 1);
  const auto follow = trace([&](Tensor x) {
    Variable(online.weight).assign_add(x);
    assign(target, online);
    return target.weight * 1;
  });
  for (int i = 0; i < 5; ++i) {
    const Tensor y = follow(ones({1, 1}));
    CHECK(equal(y, online.weight));
    CHECK(equal(target.weight, online.weight));
  }
  struct Other {
    nn::Linear layers{2, 3};
    Variable mean{"mean", zeros({4})};
    REEL_FIELDS(layers, mean)
  };
  const Tensor before = best.layers[0].weight;
  std::string error;
  try {
    assign(best, Other());
  } catch (const Error& failure) {
    error = failure.what();
  }
  INFO(error);
  CHECK(error.find("assign: other: expected the paths, shapes and dtypes of the model, got 17 that "
                   "differ") != error.npos);
  CHECK(error.find("\n  missing: layers.0.weight\n") != error.npos);
  CHECK(error.find("\n  unexpected: layers.weight\n") != error.npos);
  CHECK(error.find("\n  different: mean: expected (3,) float32, got (4,) float32\n") != error.npos);
  CHECK(equal(before, best.layers[0].weight));
}

TEST_CASE("the generator of a thread can be saved") {
  const Folder folder;
  seed(3);
  random::normal({10});
  io::save(folder.file("g"), thread_generator());
  const Tensor wanted = random::normal({4});
  seed(8);
  io::load(folder.file("g"), thread_generator());
  CHECK(equal(random::normal({4}), wanted));
  const Generator own(5);
  const GeneratorScope scope(own);
  CHECK(thread_generator().seed() == 5);
}
}  // namespace reel::tests
