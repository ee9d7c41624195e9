// SPDX-License-Identifier: BSD-3-Clause
// Numbers, texts and Tensors inside models.
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Progress {
  std::int64_t epoch = 0;
  double best = 0;
  bool done = false;
  std::string note;
  Tensor order;
  REEL_FIELDS(epoch, best, done, note, order)
};
struct Run {
  nn::Linear layer{2, 1};
  Progress progress;
  double setting = 3;
  nn::Dropout dropout{0.25};
  std::vector<Progress> earlier = std::vector<Progress>(1);
  REEL_FIELDS(layer, progress, setting, dropout, earlier)
};
Run trained() {
  Run run;
  run.progress = {.epoch = 7, .best = 0.5, .done = true, .note = "a", .order = tensor({1, 0})};
  run.earlier[0].epoch = 3;
  return run;
}
template <class F>
std::string text_of(const F& f) {
  try {
    f();
  } catch (const IoError& error) {
    return error.what();
  }
  return {};
}
}  // namespace

TEST_CASE("numbers, texts and Tensors that a model lists are saved, in structs and beside layers") {
  const Folder folder;
  const std::string path = folder.file("run");
  const Run run = trained();
  io::save(path, run);
  Run other;
  other.setting = 9;
  other.dropout.probability = 0.75;  // of a layer of the library, a setting
  io::load(path, other);
  CHECK(equal(other.layer.weight, run.layer.weight));
  CHECK((other.progress.epoch == 7 && other.progress.best == 0.5 && other.progress.done));
  CHECK(other.progress.note == "a");
  CHECK(equal(other.progress.order, tensor({1, 0})));
  CHECK(other.earlier[0].epoch == 3);
  CHECK_FALSE(other.earlier[0].order.defined());  // it was not, and is not saved
  CHECK((other.setting == 3 && other.dropout.probability == 0.75));

  // A model whose Variables are all another's is a model.
  struct Tied {
    Variable weight;
    double setting = 1;
    REEL_FIELDS(weight, setting)
  };
  Tied tied{run.layer.weight};
  io::save(path, run.layer, std::make_tuple(tied));
  tied.setting = 2;
  io::load(path, run.layer, std::tie(tied));
  CHECK(tied.setting == 1);
}

TEST_CASE("what a model lists is in the file under its path, also inside of a Sequential") {
  const Folder folder;
  const std::string path = folder.file("run");
  enum class Mode { fast, exact };
  struct Scaled {
    double factor = 2;
    std::string note = "a";
    REEL_FIELDS(factor, note)
    Tensor operator()(const Tensor& x) const { return x * factor; }
  };
  struct Model {
    nn::Sequential net{nn::Linear(2, 2), Scaled(), nn::Dropout(0.25)};
    Tensor (*activation)(Operand) = tanh;  // a function is no state
    Mode mode = Mode::fast;
    Tensor mask = ones({2});
    std::int64_t steps = 5;
    Shape shape{2, 3}, scalar{4};
    REEL_FIELDS(net, activation, mode, mask, steps, shape, scalar)
  };
  Model model;
  model.net.parts[1].as<Scaled>()->factor = 7;
  model.mode = Mode::exact;
  model.mask = tensor({1.0f, 0.0f});
  model.steps = 6;
  model.shape = {0, 5, 7};
  model.scalar = {};
  io::save(path, model);
  Model other;
  CHECK(io::load(path, other).complete());
  CHECK(other.net.parts[1].as<Scaled>()->factor == 7);
  CHECK((other.mode == Mode::exact && other.steps == 6));
  CHECK((other.shape == Shape({0, 5, 7}) && other.scalar == Shape()));
  CHECK(equal(other.mask, model.mask));
  // What only the file has, and what only the program has, is never passed over.
  struct Fewer {
    nn::Sequential net{nn::Linear(2, 2), Scaled()};
    Mode mode = Mode::fast;
    REEL_FIELDS(net, mode)
  };
  Fewer fewer;
  const std::string unexpected = text_of([&] { io::load(path, fewer); });
  CHECK(unexpected.find("unexpected: value steps: int 6") != unexpected.npos);
  CHECK(unexpected.find("unexpected: values.mask: (2,) float32") != unexpected.npos);
  CHECK_FALSE(io::load(path, {.strict = false}, fewer).complete());
  io::save(path, fewer);
  const std::string missing = text_of([&] { io::load(path, other); });
  CHECK(missing.find("missing: value steps: int") != missing.npos);
  CHECK(missing.find("missing: tensor mask") != missing.npos);
  CHECK_FALSE(io::load(path, {.strict = false}, other).complete());
}

TEST_CASE("a load does not write to the numbers of a const object") {
  const Folder folder;
  const std::string path = folder.file("run");
  struct Model {
    nn::Linear layer{2, 1};
    double setting = 1;
    REEL_FIELDS(layer, setting)
  };
  Model model;
  io::save(path, model);
  const Model same;
  CHECK(io::load(path, same).complete());  // nothing of it changes but Variables
  CHECK(equal(same.layer.weight, model.layer.weight));
  model.setting = 2;
  io::save(path, model);
  check_refused<Error>([&] { io::load(path, same); },
                       "setting: expected a value that may change, got one of a const object");
  struct Outer {  // a pointer is const, and the model behind it is not
    std::shared_ptr<Model> inner = std::make_shared<Model>();
    REEL_FIELDS(inner)
  };
  const Outer outer;
  io::save(path, outer);
  outer.inner->setting = 9;
  io::load(path, outer);
  CHECK(outer.inner->setting == 1);
  struct Fixed {
    Variable x{"x", ones({1})};
    Tensor shift = ones({1});
    REEL_FIELDS(x, shift)
  };
  const Fixed fixed;
  io::save(path, fixed);
  CHECK(io::load(path, fixed).complete());
  io::save(path, Fixed{.shift = zeros({1})});
  check_refused<Error>([&] { io::load(path, fixed); }, "shift: expected a value that may change");
}

TEST_CASE("a number in a tuple is saved") {
  const Folder folder;
  const std::string path = folder.file("run");
  nn::Linear layer(2, 1);
  int step = 5;
  io::save(path, std::tie(layer, step));
  step = 0;
  io::load(path, std::tie(layer, step));
  CHECK(step == 5);
}

TEST_CASE("numbers inside a model are as strict as its Variables") {
  const Folder folder;
  const std::string path = folder.file("run");
  struct Weights {
    nn::Linear layer{2, 1};
    REEL_FIELDS(layer)
  };
  Run run;
  Weights weights;
  io::save(path, weights);
  const std::string missing = text_of([&] { io::load(path, run); });
  CHECK(missing.find("missing: value progress.epoch: int\n") != missing.npos);
  CHECK(missing.find("missing: value setting: float\n") != missing.npos);
  io::save(path, trained(), 11, tensor({4}));
  const std::string unexpected = text_of([&] { io::load(path, weights); });
  CHECK(unexpected.find("unexpected: value progress.epoch: int 7\n") != unexpected.npos);
  CHECK(unexpected.find("unexpected: values.progress.order: (2,) int32\n") != unexpected.npos);
  CHECK(unexpected.find("int 11") == unexpected.npos);  // an argument, which the call has not
  CHECK(unexpected.find("(1,) int32") == unexpected.npos);
  io::load(path, run);
  CHECK(run.progress.epoch == 7);
  // Files of other programs have no numbers.
  io::save_safetensors(path, run);
  run.progress.epoch = 1;
  io::load(path, run);
  CHECK(run.progress.epoch == 1);
}

TEST_CASE("the advice of a load is given where it helps") {
  const Folder folder;
  const std::string path = folder.file("run");
  struct First {
    nn::Linear a{2, 1};
    REEL_FIELDS(a)
  };
  struct Second {
    nn::Linear b{2, 1}, c{2, 1};
    REEL_FIELDS(b, c)
  };
  io::save(path, First());
  const std::string nothing = text_of([&] { io::load(path, Second()); });
  CHECK(nothing.find("strict") == nothing.npos);
  CHECK(nothing.find("\n  Nothing fits. {.rename = {{\"old.\", \"new.\"}}} maps names of") !=
        nothing.npos);
  struct Both {
    nn::Linear a{2, 1}, b{2, 1};
    REEL_FIELDS(a, b)
  };
  // A model that is loaded in part computes other numbers than the one that was saved.
  const std::string part = text_of([&] { io::load(path, Both()); });
  CHECK(part.find("2 missing") != part.npos);
  CHECK(part.find("{.") == part.npos);
  io::save(path, Both());
  const std::string more = text_of([&] { io::load(path, First()); });
  CHECK(more.find("2 unexpected") != more.npos);
  CHECK(more.find("\n  {.strict = false} loads what fits.") != more.npos);
  struct Bare {
    nn::Linear a{2, 1, nn::no_bias};
    REEL_FIELDS(a)
  };
  const std::string bias = text_of([&] { io::load(path, {.names = {"a."}}, Bare()); });
  CHECK(bias.find("unexpected: a.bias") != bias.npos);
  CHECK(bias.find("{.") == bias.npos);
  io::save(path, First().a);
  CHECK(text_of([&] { io::load(path, Bare().a); }).find("{.") == std::string::npos);
  io::save(path, First());
  struct Wide {
    nn::Linear a{3, 2};
    REEL_FIELDS(a)
  };
  const std::string different = text_of([&] { io::load(path, Wide()); });
  CHECK(different.find("2 different") != different.npos);
  CHECK(different.find("{.") == different.npos);
}
}  // namespace reel::tests
