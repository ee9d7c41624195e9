// SPDX-License-Identifier: BSD-3-Clause
// Ranks that have parts of one model: what they decide together, and the checkpoints that they
// save.
#include <filesystem>
#include <limits>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/error_text.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using dist::Mesh;
using dist::World;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
struct Whole {
  nn::Embedding embedding{12, 5};
  nn::Linear first{5, 8, Activation::tanh}, second{8, 1};
  REEL_FIELDS(embedding, first, second)
  Tensor operator()(const Tensor& words) const { return second(first(embedding(words))); }
};
struct Split {
  dist::SplitEmbedding embedding;
  dist::SplitLinears pair;
  explicit Split(const World& axis, const Whole& whole = Whole())
      : embedding(axis, whole.embedding), pair(axis, whole.first, whole.second) {}
  REEL_FIELDS(embedding, pair)
  Tensor operator()(const Tensor& words) const { return pair(embedding(words)); }
};
Tensor words() { return tensor({{0, 5, 11, 3}, {2, 1, 10, 5}, {3, 3, 8, 7}, {1, 4, 6, 9}}); }
template <class Model>
Tensor cost(const Model& model, std::int64_t from = 0, std::int64_t to = 4) {
  const Tensor own = words()(range(from, to));
  return mean(square(squeeze(model(own), -1) - sin(cast(own, float32))));
}
using Grid = std::pair<std::int64_t, std::int64_t>;
const std::vector<Grid> grids = {{1, 2}, {2, 2}, {1, 4}};
/// Runs f(batch, hidden) on each rank of a grid.
template <class F>
void on_grid(const Grid& grid, const F& f) {
  dist::run_local(grid.first * grid.second, [&](World& world) {
    const Mesh mesh(world, {.axes = {{"batch", grid.first}, {"hidden", grid.second}}});
    f(mesh.axis("batch"), mesh.axis("hidden"));
  });
}
/// Steps of a DataParallel, with the rows of this rank of the batch.
void learn(dist::detail::Replicas& replicas, const Split& model, int steps) {
  const std::int64_t rank = replicas.world().rank(), share = 4 / replicas.world().size();
  for (int step = 0; step < steps; ++step) {
    GradientTape tape;
    replicas.step(tape, cost(model, rank * share, (rank + 1) * share), {.examples = share});
  }
}
/// The largest difference of a tensor between the ranks of an axis.
float spread(const Tensor& x, const World& axis) {
  const Tensor top = dist::all_reduce(x, axis, {.op = dist::Reduce::max});
  return max(top - dist::all_reduce(x, axis, {.op = dist::Reduce::min})).item<float>();
}
void require_same(const Split& model, const Whole& one, const World& hidden) {
  const Tensor table = dist::all_gather(model.embedding.part.table, hidden);
  require(allclose(table, one.embedding.table, {.atol = 1e-5}), "the words' rows");
  const Tensor rows = dist::all_gather(model.pair.second.weight, hidden);
  require(allclose(rows, one.second.weight, {.atol = 1e-5}), "rows of the second weight");
  require(allclose(model.pair.second.bias, one.second.bias, {.atol = 1e-5}), "bias");
  require(spread(model.pair.second.bias, hidden) == 0, "one bias");
}
void require_in(const std::string& text, const char* part) {
  require(text.find(part) != std::string::npos,
          (std::string(part) + " is not in: " + text).c_str());
}
}  // namespace

TEST_CASE("clip_norm limits the gradients of all parts of a model together", "[cpu][dist]") {
  for (const bool scales : {false, true}) {
    const optim::LossScalerOptions scaling{.scale = 64, .clip_norm = 0.05};
    seed(6);
    Whole one;
    optim::SGD sgd(parameters(one), {.learning_rate = 0.5});
    optim::LossScaler scaler(scaling);
    for (int step = 0; step < 5; ++step) {
      GradientTape tape;
      const Tensor loss = cost(one);
      if (scales)
        scaler.step(sgd, tape, loss);
      else
        sgd.step(optim::clip_by_global_norm(tape.row_gradients(loss, sgd.variables()), 0.05));
    }
    for (const Grid& grid : grids)
      on_grid(grid, [&](const World& batch, const World& hidden) {
        seed(6);
        Split model(hidden);
        optim::SGD own(parameters(model), {.learning_rate = 0.5});
        optim::LossScaler its_scaler(scaling);
        dist::DataParallel replicas(
            batch, own, {.clip_norm = scales ? 0 : 0.05, .scaler = scales ? &its_scaler : nullptr});
        learn(replicas, model, 5);
        require_same(model, one, hidden);
      });
  }
}

TEST_CASE("a part of a part is one of all parts", "[cpu][dist]") {
  dist::run_local(4, [](World& world) {
    const Mesh mesh(world, {.axes = {{"batch", 1}, {"rows", 2}, {"columns", 2}}});
    const Variable whole("w", reshape(arange(0.0f, 16.0f), {4, 4}));
    const Variable part =
        dist::part_of(dist::part_of(whole, mesh.axis("rows"), 0), mesh.axis("columns"), 1);
    const Tensor before = part.value();
    optim::SGD own({part}, {.learning_rate = 1});
    dist::DataParallel replicas(mesh.axis("batch"), own, {.clip_norm = 0.5});
    GradientTape tape;
    const Tensor loss = sum(part.value());  // the gradient of the whole has the length 4
    replicas.step(tape, loss);
    require(allclose(before - part, 0.125), "an eighth of the gradient");
  });
}

TEST_CASE("a LossScaler leaves a step out on all parts of a model or on none", "[cpu][dist]") {
  // One row of the second weight is large: the gradient of one part is infinite at first.
  const auto raise = [](const nn::Linear& second, std::int64_t row) {
    if (row >= 0 && row < second.weight.shape()[0]) second.weight(row, all).assign(3e6f);
  };
  const optim::LossScalerOptions scaling{.scale = 0x1p60};
  const auto far = [](const auto& model) { return cost(model) * 1e12f; };
  seed(6);
  Whole one;
  raise(one.second, 6);
  optim::SGD sgd(parameters(one), {.learning_rate = 1e-30});
  optim::LossScaler scaler(scaling);
  std::vector<bool> taken;
  for (int step = 0; step < 30; ++step) {
    GradientTape tape;
    taken.push_back(scaler.step(sgd, tape, far(one)));
  }
  REQUIRE(!taken.front());
  REQUIRE(taken.back());
  for (const Grid& grid : {Grid{1, 2}, {1, 4}})
    on_grid(grid, [&](const World& batch, const World& hidden) {
      seed(6);
      Split model(hidden);
      raise(model.pair.second, 6 - hidden.rank() * 8 / hidden.size());
      optim::SGD own(parameters(model), {.learning_rate = 1e-30});
      optim::LossScaler its_scaler(scaling);
      dist::DataParallel replicas(batch, own, {.scaler = &its_scaler});
      for (const bool expected : taken) {
        GradientTape tape;
        require(replicas.step(tape, far(model)) == expected, "whether the step is taken");
        require(spread(its_scaler.factor, hidden) == 0, "one factor");
      }
      require(equal(its_scaler.factor, scaler.factor), "the factor of one rank");
    });
}

TEST_CASE("each part of a model resumes from its own checkpoint", "[cpu][dist]") {
  seed(6);
  Whole one;
  optim::Adam adam(parameters(one), {.learning_rate = 0.05});
  for (int step = 0; step < 6; ++step) {
    GradientTape tape;
    adam.step(tape, cost(one));
  }
  for (const Grid& grid : grids) {
    const Folder folder;
    const auto run = [&](std::int64_t from, std::int64_t to) {
      on_grid(grid, [&](const World& batch, const World& hidden) {
        seed(from == 0 ? 6 : 7);
        Split model(hidden);
        optim::Adam own(parameters(model), {.learning_rate = 0.05});
        dist::DataParallel replicas(batch, own, {.shard_optimizer = true});
        const io::Checkpoints checkpoints(folder.path.string(), {.keep = 2});
        std::int64_t step = 0;
        require(checkpoints.resume(step, model, replicas) == (from > 0), "resume()");
        require(step == from, "the step");
        while (step < to) {
          learn(replicas, model, 1);
          checkpoints.save(++step, model, replicas);
        }
        if (to == 6) require_same(model, one, hidden);
      });
    };
    run(0, 3);
    run(3, 6);
    run(6, 6);
  }
}

TEST_CASE("a run with parts resumes from the latest step that all parts have", "[cpu][dist]") {
  const Folder folder;
  const std::string path = folder.path.string();
  const auto file = [&](int step, const char* part) {
    return path + "/step-00000000000" + std::to_string(step) + ".part-" + part + ".safetensors";
  };
  const auto run = [&](const Grid& grid, std::int64_t from, std::int64_t to, const char* why = "") {
    on_grid(grid, [&](const World& batch, const World& hidden) {
      seed(6);
      Split model(hidden);
      optim::SGD own(parameters(model), {.learning_rate = 0.05});
      dist::DataParallel replicas(batch, own);
      const io::Checkpoints checkpoints(path, {.keep = 2});
      std::int64_t step = 0;
      const std::string text = error_text([&] { checkpoints.resume(step, model, replicas); });
      require(text.empty() == !*why, text.c_str());
      if (!text.empty()) return require_in(text, why);
      require(step == from, "the step");
      while (step < to) checkpoints.save(++step, model, replicas);
    });
  };
  run({2, 2}, 0, 3);
  for (const char* part : {"1-of-2", "2-of-2"}) {
    CHECK(std::filesystem::exists(file(3, part)));
    CHECK(std::filesystem::exists(file(2, part)));
    CHECK(!std::filesystem::exists(file(1, part)));
  }
  CHECK(io::Checkpoints(path).latest() == file(3, "1-of-2"));
  // The run was killed when one part had written its file.
  std::filesystem::remove(file(3, "2-of-2"));
  run({1, 2}, 2, 3);
  CHECK(std::filesystem::exists(file(3, "2-of-2")));
  // Steps 4 and 5 were written by one part only: the next run begins behind step 3, and its step 4
  // replaces them.
  for (const int step : {4, 5}) std::filesystem::copy_file(file(3, "1-of-2"), file(step, "1-of-2"));
  run({1, 2}, 3, 4);
  CHECK(!std::filesystem::exists(file(5, "1-of-2")));
  // Each part lacks a step that the other one has.
  run({1, 2}, 4, 5);
  std::filesystem::remove(file(5, "1-of-2"));
  std::filesystem::rename(file(4, "2-of-2"), file(3, "2-of-2"));
  run({1, 2}, 0, 0);
  // A file that cannot be written is an error of both parts, at once.
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(file(1, "2-of-2"));
  on_grid({1, 2}, [&](const World& batch, const World& hidden) {
    Split model(hidden);
    optim::SGD own(parameters(model), {.learning_rate = 0.05});
    dist::DataParallel replicas(batch, own);
    const io::Checkpoints checkpoints(path);
    require_in(error_text([&] { checkpoints.save(1, model, replicas); }),
               hidden.rank() == 0 ? "the rank of another part could not write its file"
                                  : "expected a regular file");
  });
  run({1, 4}, 0, 0, "expected checkpoints of 4 parts of a model, got checkpoints of 2 parts");
  run({4, 1}, 0, 0, "expected checkpoints of whole models, got checkpoints of 2 parts of a model");
}

TEST_CASE("a rank that stops fit() stops those with other parts of the model", "[cpu][dist][fit]") {
  struct Example {
    Tensor words;
    REEL_FIELDS(words)
  };
  const auto cost_of = [](const Split& model, const Example& example) {
    return mean(square(model(example.words)));
  };
  for (const Grid& grid : grids)
    on_grid(grid, [&](const World& batch, const World& hidden) {
      Split model(hidden);
      optim::SGD own(parameters(model), {.learning_rate = 0.05});
      dist::DataParallel replicas(batch, own);
      const std::vector<Example> examples(4, {words()});
      const bool decides = hidden.rank() == 1 && batch.rank() == 0;
      auto history =
          fit(model, replicas, examples, cost_of, {.epochs = 3, .after_step = [&](FitStep& event) {
                                                     event.stop = decides && event.step == 2;
                                                   }});
      require(history.epochs.back().step == 2, "steps");
      history = fit(model, replicas, examples, cost_of,
                    {.epochs = 3, .after_epoch = [&](FitEpoch& event) {
                       event.stop = decides && event.epoch == 1;
                     }});
      require(history.epochs.size() == 2, "epochs");
      require(replicas.any(decides), "any()");
    });
}

TEST_CASE("a part of a Variable is refused where its other parts are not known", "[cpu][dist]") {
  const Folder folder;
  const std::string path = folder.path.string();
  dist::run_local(2, [&](World& world) {
    const auto has_no_mesh = [&](const auto& f, const char* why) {
      require_in(error_text(f), why);
    };
    Split model(world);
    optim::SGD sgd(parameters(model), {.learning_rate = 0.05});
    std::int64_t step = 1;
    const io::Checkpoints checkpoints(path);
    const char* const none =
        "Checkpoints: arguments: expected a dist::DataParallel along an axis of the Mesh, got "
        "none, "
        "beside a part of \"embedding.part.table\"";
    has_no_mesh([&] { checkpoints.save(step, model, sgd); }, none);
    has_no_mesh([&] { checkpoints.resume(step, model, sgd); }, none);
    has_no_mesh(
        [&] { dist::DataParallel(world, sgd); },
        "Variable 0 \"embedding.part.table\" float32 (6, 5), part 1 of 2 as on rank 0, got");
    const World own = world.split(world.rank());
    has_no_mesh([&] { dist::DataParallel(own, sgd, {.clip_norm = 1}); },
                "world: expected an axis of a Mesh, for .clip_norm and .scaler");
    optim::LossScaler scaler;
    has_no_mesh([&] { dist::DataParallel(own, sgd, {.scaler = &scaler}); },
                "world: expected an axis of a Mesh, for .clip_norm and .scaler");
    dist::DataParallel(own, sgd);
    // A file of one part is not loaded into another one.
    const std::string mine = path + "/" + std::to_string(world.rank());
    io::save(mine, model);
    world.barrier();
    io::load(mine, model);
    has_no_mesh([&] { io::load(path + "/" + std::to_string(1 - world.rank()), model); },
                world.rank() ? "expected part 2 of 2, got part 1 of 2"
                             : "expected part 1 of 2, got part 2 of 2");
  });
}

TEST_CASE("a divided layer of one's own", "[cpu][dist]") {
  struct Layer {  // x w, of which each rank has rows
    Variable rows;
    World axis;
    REEL_FIELDS(rows)
    Tensor operator()(const Tensor& x) const {
      const std::int64_t share = rows.shape()[0], from = share * axis.rank();
      return dist::sum_of_parts(matmul(x(all, range(from, from + share)), rows), axis);
    }
  };
  const Tensor x = reshape(arange(0, 12).to(float32), {3, 4}) / 10;
  const Variable whole("rows", reshape(arange(0, 8).to(float32), {4, 2}));
  Variable one = whole.clone();
  optim::SGD sgd({one}, {.learning_rate = 1});
  {
    GradientTape tape;
    const Tensor loss = sum(square(matmul(x, one)));
    sgd.step(optim::clip_by_global_norm(tape.row_gradients(loss, {one}), 0.5));
  }
  on_grid({1, 2}, [&](const World& batch, const World& hidden) {
    const auto learned = [&](const Variable& rows) {
      const Layer layer{rows, hidden};
      optim::SGD own({rows}, {.learning_rate = 1});
      dist::DataParallel replicas(batch, own, {.clip_norm = 0.5});
      GradientTape tape;
      replicas.step(tape, sum(square(layer(x))));
      return rows.value();
    };
    const Variable part = dist::part_of(whole, hidden);
    require(equal(part, whole(range(2 * hidden.rank(), 2 * hidden.rank() + 2), all)), "rows");
    require(equal(dist::part_of(whole, hidden, -1),
                  whole(all, range(hidden.rank(), hidden.rank() + 1))),
            "columns");
    require(allclose(dist::all_gather(learned(part.clone()), hidden), one, {.atol = 1e-6}),
            "a step of all parts");
    const Variable unknown("rows", part.value());
    require_in(error_text([&] { learned(unknown); }),
               "expected one gradient on all ranks of a Variable that is no part, got lengths");
    require_in(error_text([&] { dist::part_of(Variable("x", ones({3})), hidden); }),
               "part_of: whole: expected a multiple of 2 ranks, got 3");
  });
}

TEST_CASE("a divided Embedding hides infinite rows of other ranks", "[cpu][dist]") {
  nn::Embedding whole(4, 2);
  whole.table(0, all).assign(std::numeric_limits<float>::infinity());
  whole.table(2, all).assign(std::numeric_limits<float>::quiet_NaN());
  dist::run_local(2, [&](World& world) {
    const dist::SplitEmbedding parts(world, whole);
    const Tensor words = tensor({1, 3, -1});
    GradientTape tape;
    const Tensor rows = parts(words), gradient = tape.gradient(sum(rows), parts.part.table);
    require(equal(rows, take(whole.table, words)), "finite rows");
    require(equal(gradient(0), zeros({2})), "no gradient of the infinite row");
  });
}
}  // namespace reel::tests
