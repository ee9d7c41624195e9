// SPDX-License-Identifier: BSD-3-Clause
// fit() beside the loops that it stands for.
#include <reel/reel.hpp>

#include "io/folder.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
struct Example {
  Tensor x, y;
  REEL_FIELDS(x, y)
};
struct Net {
  nn::Linear hidden{3, 8}, head{8, 1};
  nn::Dropout dropout{0.3};
  REEL_FIELDS(hidden, dropout, head)
  Tensor operator()(const Tensor& x) const { return head(dropout(tanh(hidden(x)))); }
};
const auto loss = [](const Net& m, const Example& e) { return mean(square(m(e.x) - e.y)); };

Example table() {
  const Generator own(3);
  const GeneratorScope scope(own);
  const Tensor x = random::normal({50, 3});
  return {x, sum(x, 1, keepdims)};
}
auto batches() { return data::rows(table()).shuffle({.seed = 2}).batch(8); }
Net fresh() {
  seed(5);
  return {};
}
std::vector<float> weights(const Net& net) {
  std::vector<float> all;
  for (const Variable& p : parameters(net))
    for (const float w : p.value().values<float>()) all.push_back(w);
  return all;
}
}  // namespace

TEST_CASE("fit() gives the bits of a loop written by hand", "[cpu][fit]") {
  Net one = fresh();
  auto train = batches();
  optim::Adam adam(parameters(one));
  optim::Schedule schedule(adam, optim::cosine_decay(14));
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& example : train) {
      GradientTape tape;
      adam.step(tape, loss(one, example));
      schedule.step();
    }
  Net two = fresh();
  auto again = batches();
  optim::Adam adam_two(parameters(two));
  optim::Schedule schedule_two(adam_two, optim::cosine_decay(14));
  const auto history = fit(two, adam_two, again, loss, {.epochs = 2, .schedule = &schedule_two});
  CHECK(weights(one) == weights(two));
  REQUIRE(history.epochs.size() == 2);
  CHECK(history.epochs[1].step == 14);
  CHECK(history.epochs[1].loss < history.epochs[0].loss);
  CHECK(adam.learning_rate().value().item<double>() ==
        adam_two.learning_rate().value().item<double>());
}

TEST_CASE("fit() accumulates gradients and limits their norm", "[cpu][fit]") {
  Net one = fresh();
  auto train = batches();
  optim::SGD sgd(parameters(one), {.learning_rate = 0.1});
  optim::GradientSum sum(parameters(one));
  int waiting = 0;
  const auto step = [&] {
    sgd.step(optim::clip_by_global_norm(sum.take(), 0.5));
    waiting = 0;
  };
  for (auto& example : train) {
    GradientTape tape;
    sum.add(tape.gradient(loss(one, example), parameters(one)));
    if (++waiting == 3) step();
  }
  if (waiting) step();  // 7 batches: 3, 3 and 1
  Net two = fresh();
  auto again = batches();
  optim::SGD sgd_two(parameters(two), {.learning_rate = 0.1});
  const auto history = fit(two, sgd_two, again, loss, {.accumulate = 3, .clip_norm = 0.5});
  CHECK(weights(one) == weights(two));
  CHECK(history.epochs[0].step == 3);
}

TEST_CASE("fit() validates without training", "[cpu][fit]") {
  Net net = fresh();
  auto train = batches();
  optim::SGD sgd(parameters(net), {.learning_rate = 0.05});
  const Example all = table();
  std::vector<Example> valid = {{all.x(range(0, 20)), all.y(range(0, 20))},
                                {all.x(range(20, 50)), all.y(range(20, 50))}};
  int evaluated = 0;
  const auto watched = [&](const Net& m, const Example& e) {
    evaluated += !training();
    return loss(m, e);
  };
  const auto history = fit(
      net, sgd, train, watched,
      {.validate = valid,
       .metrics = {{"bias", [](const Net& m, const Example& e) { return mean(m(e.x) - e.y); }}}});
  CHECK(evaluated == 2);
  CHECK(training());
  const TrainScope evaluating(false);
  // The mean over the examples, not over the batches of 20 and 30.
  const double expected = loss(net, all).to(DType::float64).item<double>();
  CHECK(std::abs(history.epochs[0].validation - expected) < 1e-6);
  CHECK(std::abs(history.epochs[0].metrics.at(0) - mean(net(all.x) - all.y).item<float>()) < 1e-6);
}

TEST_CASE("fit() stops early and restores the best parameters", "[cpu][fit]") {
  Net net = fresh();
  auto train = batches();
  optim::SGD sgd(parameters(net), {.learning_rate = 0.05});
  std::vector<std::vector<float>> after;
  std::vector<Example> valid = {table()};
  std::vector<double> scores = {5, 3, 4, NAN, 2};
  std::size_t turn = 0;
  const auto scored = [&](const Net& m, const Example& e) {
    return training() ? loss(m, e) : tensor(scores.at(turn));
  };
  const auto history = fit(net, sgd, train, scored,
                           {.epochs = 10,
                            .validate = valid,
                            .patience = 2,
                            .restore_best = true,
                            .after_epoch = [&](FitEpoch&) {
                              after.push_back(weights(net));
                              ++turn;
                            }});
  CHECK(history.epochs.size() == 4);
  CHECK(history.stopped_early);
  CHECK(history.best == 1);
  CHECK(weights(net) == after.at(1));
}

TEST_CASE("fit() restores the Buffers of the best epoch", "[cpu][fit]") {
  nn::BatchNorm norm(3);
  optim::SGD sgd(parameters(norm), {.learning_rate = 0.05});
  std::vector<Example> valid = {table()};
  std::vector<std::vector<float>> means;
  double score = 1;
  const auto scored = [&](const nn::BatchNorm& m, const Example& e) {
    return training() ? mean(square(m(e.x) - e.y)) : tensor(score);
  };
  fit(norm, sgd, batches(), scored,
      {.epochs = 4, .validate = valid, .restore_best = true, .after_epoch = [&](FitEpoch& epoch) {
         means.push_back(norm.mean.value().to_vector<float>());
         score = epoch.epoch == 0 ? 0.5 : 2;  // of the next epoch
       }});
  REQUIRE(means.size() == 4);
  CHECK(means[1] != means[3]);
  CHECK(norm.mean.value().to_vector<float>() == means[1]);
}

TEST_CASE("fit() refuses losses and metrics of several numbers", "[cpu][fit]") {
  Net net = fresh();
  optim::SGD sgd(parameters(net), {.learning_rate = 0.05});
  std::vector<Example> valid = {table()};
  const auto distances = [](const Net& m, const Example& e) { return abs(m(e.x) - e.y); };
  const auto refused = [&](const auto& loss_of, const std::string& what, auto options) {
    try {
      fit(net, sgd, batches(), loss_of, options);
      FAIL("fit() took it");
    } catch (const ShapeError& error) {
      const std::string said = error.what();
      INFO(said);
      CHECK(said.find(": fit: " + what + ": expected one number, got shape (") != said.npos);
      CHECK(said.find("fit.cpp:") == 0);
    }
  };
  using Options = FitOptions<Net, Example>;
  refused(distances, "loss", Options{});
  const auto late = [&](const Net& m, const Example& e) {
    return training() ? loss(m, e) : distances(m, e);
  };
  refused(late, "validation loss", Options{.validate = valid});
  refused(loss, "metric distance",
          Options{.validate = valid, .metrics = {{"distance", distances}}});
}

TEST_CASE("fit() goes on from a checkpoint as if it had not stopped", "[cpu][fit]") {
  Net whole = fresh();
  auto train = batches();
  optim::Adam adam(parameters(whole));
  const auto all = fit(whole, adam, train, loss, {.epochs = 3});
  for (const std::int64_t stop : {1, 6, 7, 8, 20}) {
    const Folder folder;
    const io::Checkpoints checkpoints(folder.path.string());
    {
      Net net = fresh();
      auto some = batches();
      optim::Adam first(parameters(net));
      fit(net, first, some, loss,
          {.epochs = 3, .checkpoints = &checkpoints, .after_step = [&](FitStep& step) {
             step.stop = step.step == stop;
           }});
    }
    seed(77);  // another process
    Net net;
    auto rest = batches();
    optim::Adam second(parameters(net));
    const auto history = fit(net, second, rest, loss, {.epochs = 3, .checkpoints = &checkpoints});
    INFO(stop);
    CHECK(weights(net) == weights(whole));
    CHECK(history.epochs.back().loss == all.epochs.back().loss);
  }
  // 7 batches, and a step for each two: the last one has a step of its own.
  Net pairs = fresh();
  auto even = batches();
  optim::Adam third(parameters(pairs));
  fit(pairs, third, even, loss, {.epochs = 3, .accumulate = 2});
  for (const std::int64_t stop : {1, 3, 4, 5, 8, 11, 12}) {
    const Folder folder;
    const io::Checkpoints checkpoints(folder.path.string());
    const auto run_to = [&](std::int64_t last) {
      Net net = fresh();
      auto some = batches();
      optim::Adam own(parameters(net));
      fit(net, own, some, loss,
          {.epochs = 3,
           .checkpoints = &checkpoints,
           .accumulate = 2,
           .after_step = [&](FitStep& step) { step.stop = step.step == last; }});
      return weights(net);
    };
    run_to(stop);
    INFO(stop);
    CHECK(run_to(-1) == weights(pairs));
    CHECK(run_to(-1) == weights(pairs));  // there is nothing left to do
  }
  Net net = fresh();
  std::vector<Example> list = {table()};
  optim::Adam other(parameters(net));
  const Folder folder;
  const io::Checkpoints checkpoints(folder.path.string());
  CHECK_THROWS_AS(fit(net, other, list, loss, {.checkpoints = &checkpoints}), Error);
}

TEST_CASE("fit() weighs batches by their examples", "[cpu][fit]") {
  Variable w("w", zeros({}));
  struct Model {
    Variable& w;
    REEL_FIELDS(w)
  } model{w};
  const Tensor y = tensor({1.0f, 1.0f, 1.0f, 1.0f, 3.0f});
  auto pairs = data::zip(data::rows(y), data::range(5)).batch(4);
  optim::SGD sgd({w}, {.learning_rate = 0});
  const auto first = [](const Model& m, const std::pair<Tensor, Tensor>& e) {
    return mean(e.first) + m.w;
  };
  CHECK(std::abs(fit(model, sgd, pairs, first).epochs[0].loss - 1.4) < 1e-6);
  // A stop at the last batch leaves no epoch without examples.
  const auto stopped = fit(model, sgd, pairs, first, {.epochs = 2, .steps = 2});
  CHECK(stopped.epochs.size() == 1);
  const auto next = fit(model, sgd, pairs, first, {.epochs = 2});
  CHECK(next.epochs.size() == 2);
  for (const FitEpoch& epoch : next.epochs) CHECK(std::isfinite(epoch.loss));
  auto none = pairs.take(0);
  CHECK_THROWS_AS(fit(model, sgd, none, first, {.epochs = 2}), Error);
}

TEST_CASE("fit() validates from the start of an epoch", "[cpu][fit]") {
  Net net = fresh();
  auto train = batches();
  optim::SGD sgd(parameters(net), {.learning_rate = 0});
  auto valid = batches().take(3);
  for ([[maybe_unused]] const Example& e : valid) break;
  const auto history = fit(net, sgd, train, loss, {.epochs = 2, .validate = valid});
  CHECK(history.epochs[0].validation == history.epochs[1].validation);
  CHECK(valid.epoch() == 0);
}

TEST_CASE("fit() ends after steps, and writes curves", "[cpu][fit]") {
  Net net = fresh();
  auto train = batches();
  optim::SGD sgd(parameters(net), {.learning_rate = 0.05});
  const Folder folder;
  std::vector<Example> valid = {table()};
  {
    SummaryWriter board(folder.path.string());
    const auto history =
        fit(net, sgd, train, loss,
            {.epochs = 100, .steps = 9, .validate = valid, .board = &board, .board_every = 2});
    CHECK(history.epochs.back().step == 9);
    CHECK(history.epochs.size() == 2);
    CHECK(board.lost() == 0);
  }
  std::string bytes;
  for (const auto& file : std::filesystem::directory_iterator(folder.path))
    bytes += contents(file.path());
  for (const char* tag : {"train/loss", "validation/loss", "learning_rate"})
    CHECK(bytes.find(tag) != bytes.npos);
  CHECK_THROWS_AS(fit(net, sgd, train, loss, {.accumulate = 0}), Error);
  CHECK_THROWS_AS(fit(net, sgd, train, loss, {.clip_norm = -1}), Error);
  CHECK_THROWS_AS(fit(net, sgd, train, loss, {.board_every = 0}), Error);
}
}  // namespace reel::tests
