// SPDX-License-Identifier: BSD-3-Clause
// Steps of several ranks beside the step of one.
#include <chrono>
#include <functional>
#include <thread>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "lib/dist/state.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
using dist::DataParallelOptions;
using dist::World;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
struct Net {
  nn::Linear a{6, 16, Activation::tanh}, b{16, 16, Activation::tanh}, head{16, 1};
  Tensor operator()(const Tensor& x) const { return head(b(a(x))); }
  REEL_FIELDS(a, b, head)
};
std::vector<float> weights(const auto& model) {
  std::vector<float> all;
  for (const Variable& p : parameters(model))
    for (const float w : p.value().template values<float>()) all.push_back(w);
  return all;
}
/// How far two models are apart, at most.
float distance(const std::vector<float>& a, const std::vector<float>& b) {
  float most = a.size() == b.size() ? 0 : 1e9f;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}
Tensor table(std::uint64_t number, std::int64_t rows = 12) {
  const Generator own(number);
  const GeneratorScope scope(own);
  return random::normal({rows, 7});
}
Tensor cost(const Net& net, const Tensor& rows) {
  return mean(square(net(rows(all, range(0, 6))) - rows(all, range(6, 7))));
}
/// The weights after some steps of SGD with momentum, each of 12 rows, by one rank.
std::vector<float> alone(int steps) {
  seed(1);
  Net net;
  optim::SGD sgd(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
  for (int step = 0; step < steps; ++step) {
    GradientTape tape;
    sgd.step(tape, cost(net, table(static_cast<std::uint64_t>(step))));
  }
  return weights(net);
}
/// The same by several ranks; `share` says from which row on a rank has its part.
std::vector<float> together(std::int64_t ranks, int steps, const DataParallelOptions& options,
                            const std::function<std::int64_t(std::int64_t, std::int64_t)>& share) {
  std::vector<float> found;
  dist::run_local(ranks, [&](World& world) {
    seed(1);
    Net net;
    optim::SGD sgd(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
    dist::DataParallel replicas(world, sgd, options);
    for (int step = 0; step < steps; ++step) {
      const std::int64_t from = share(world.rank(), ranks), to = share(world.rank() + 1, ranks);
      if (from == to) {
        require(replicas.join(), "join");
        continue;
      }
      const Tensor rows = table(static_cast<std::uint64_t>(step))(range(from, to));
      GradientTape tape;
      require(replicas.step(tape, cost(net, rows), {.examples = to - from}), "step");
    }
    require(replicas.steps() == steps, "steps");
    const std::vector<float> mine = weights(net);
    const Tensor first = dist::broadcast(tensor(mine), world);
    require(distance(first.to_vector<float>(), mine) == 0, "all ranks have the same bits");
    if (world.rank() == 0) found = mine;
  });
  return found;
}
std::int64_t even(std::int64_t rank, std::int64_t ranks) { return 12 * rank / ranks; }
}  // namespace

TEST_CASE("2, 3 and 4 ranks take the steps of one", "[cpu][dist]") {
  const std::vector<float> one = alone(5);
  for (const std::int64_t ranks : {1, 2, 3, 4})
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{600}, std::int64_t{4} << 20})
      for (const dist::Sum sum : {dist::Sum::fast, dist::Sum::ordered}) {
        INFO(ranks << " ranks, buckets of " << bytes);
        CHECK(distance(together(ranks, 5, {.bucket_bytes = bytes, .sum = sum}, even), one) < 1e-6f);
      }
}

TEST_CASE("ranks weigh by their examples, and one may have none", "[cpu][dist]") {
  const std::vector<float> one = alone(4);
  const auto uneven = [](std::int64_t rank, std::int64_t ranks) {
    return rank == ranks ? 12 : 5 * rank;
  };
  CHECK(distance(together(2, 4, {}, uneven), one) < 1e-6f);
  CHECK(distance(together(3, 4, {.bucket_bytes = 300}, uneven), one) < 1e-6f);
  const auto first_only = [](std::int64_t rank, std::int64_t) { return rank > 0 ? 12 : 0; };
  CHECK(distance(together(3, 4, {}, first_only), one) < 1e-6f);
  // Also where rank 0, which fixes the order of the buckets, has none.
  const auto last_only = [](std::int64_t rank, std::int64_t ranks) {
    return rank == ranks ? 12 : 0;
  };
  CHECK(distance(together(3, 4, {.bucket_bytes = 300}, last_only), one) < 1e-6f);
}

TEST_CASE("tree sums have the same bits on 1, 2, 3 and 4 ranks", "[cpu][dist]") {
  const auto learn = [](std::int64_t ranks, std::int64_t micro_batches) {
    std::vector<float> found;
    dist::run_local(ranks, [&](World& world) {
      seed(1);
      Net net;
      optim::SGD sgd(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
      dist::DataParallel replicas(world, sgd,
                                  {.sum = dist::Sum::tree, .micro_batches = micro_batches});
      for (int step = 0; step < 4; ++step) {
        const Tensor rows = table(static_cast<std::uint64_t>(step), 3 * micro_batches);
        const std::int64_t first = world.rank() * micro_batches / ranks,
                           end = (world.rank() + 1) * micro_batches / ranks;
        for (std::int64_t k = first; k < end; ++k) {
          GradientTape tape;
          const Tensor loss = cost(net, rows(range(3 * k, 3 * k + 3)));
          if (k + 1 < end)
            replicas.accumulate(tape, loss, {.examples = 3});
          else
            replicas.step(tape, loss, {.examples = 3});
        }
      }
      if (world.rank() == 0) found = weights(net);
    });
    return found;
  };
  for (const std::int64_t micro_batches : {4, 8, 6}) {
    const std::vector<float> one = learn(1, micro_batches);
    for (const std::int64_t ranks : {2, 3, 4}) {
      INFO(ranks << " ranks, " << micro_batches << " micro-batches");
      CHECK(distance(learn(ranks, micro_batches), one) == 0);
    }
  }
}

TEST_CASE("accumulated losses count in the step", "[cpu][dist]") {
  const std::vector<float> one = alone(3);
  for (const std::int64_t ranks : {1, 2})
    dist::run_local(ranks, [&](World& world) {
      seed(1);
      Net net;
      optim::SGD sgd(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
      dist::DataParallel replicas(world, sgd);
      for (int step = 0; step < 3; ++step) {
        const std::int64_t share = 12 / ranks, from = share * world.rank();
        const Tensor rows = table(static_cast<std::uint64_t>(step));
        {
          GradientTape tape;
          replicas.accumulate(tape, cost(net, rows(range(from, from + 4))), {.examples = 4});
        }
        GradientTape tape;
        replicas.step(tape, cost(net, rows(range(from + 4, from + share))),
                      {.examples = share - 4});
      }
      require(distance(weights(net), one) < 1e-6f, "accumulate");
    });
}

TEST_CASE("ranks of different branches and lengths do not wait for ever", "[cpu][dist]") {
  // A recursive network: each rank reads trees of its own shapes, and some ranks end early.
  struct Tree {
    nn::Linear leaf{4, 8}, left{8, 8, Activation::tanh}, right{8, 8, Activation::tanh}, head{8, 1};
    REEL_FIELDS(leaf, left, right, head)
    Tensor read(std::uint64_t shape, int depth) const {
      if (depth == 0 || shape % 3 == 0)
        return leaf(full({1, 4}, 0.1 * static_cast<double>(shape % 7)));
      if (shape % 3 == 1) return left(read(shape / 3, depth - 1));
      return left(read(shape / 3, depth - 1)) + right(read(shape / 5, depth - 1));
    }
  };
  dist::run_local(3,
                  [](World& world) {
                    Tree tree;
                    optim::SGD sgd(parameters(tree), {.learning_rate = 0.01});
                    dist::DataParallel replicas(
                        world, sgd, {.bucket_bytes = 200, .unconnected = Unconnected::zero});
                    std::uint64_t state = 7 + static_cast<std::uint64_t>(world.rank());
                    const int own = 60 + 20 * static_cast<int>(world.rank());
                    int done = 0;
                    for (int step = 0; replicas.any(step < own); ++step) {
                      state = state * 6364136223846793005u + 1442695040888963407u;
                      if (step >= own) {
                        replicas.join();
                      } else {
                        GradientTape tape;
                        replicas.step(tape, mean(square(tree.head(tree.read(state >> 33, 6)) - 1)));
                      }
                      ++done;
                    }
                    require(done == 100, "all ranks take as many steps");
                  },
                  {.timeout = 20.0});
}

TEST_CASE("rows of an embedding are exchanged as rows", "[cpu][dist]") {
  struct Words {
    nn::Embedding table{50, 4, {.sparse = true}};
    nn::Linear head{4, 1};
    REEL_FIELDS(table, head)
  };
  const auto rows_of = [](int step, std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> all;
    for (std::int64_t k = from; k < to; ++k) all.push_back((step * 7 + k * k) % 50);
    return tensor(all);
  };
  const auto loss_of = [](const Words& words, const Tensor& rows) {
    return mean(square(words.head(words.table(rows)) - 1));
  };
  for (const std::int64_t share : {2, 40}) {  // few rows, and more than a dense sum takes
    seed(3);
    Words one;
    optim::Adam adam(parameters(one), {.learning_rate = 0.05});
    for (int step = 0; step < 4; ++step) {
      GradientTape tape;
      adam.step(tape, loss_of(one, rows_of(step, 0, 2 * share)));
    }
    for (const std::int64_t ranks : {1, 2})
      dist::run_local(ranks, [&](World& world) {
        seed(3);
        Words two;
        optim::Adam own(parameters(two), {.learning_rate = 0.05});
        dist::DataParallel replicas(world, own);
        for (int step = 0; step < 4; ++step) {
          const std::int64_t from = world.rank() * share,
                             end = ranks == 1 ? 2 * share : from + share;
          {
            GradientTape tape;
            replicas.accumulate(tape, loss_of(two, rows_of(step, from, from + 1)));
          }
          GradientTape tape;
          replicas.step(tape, loss_of(two, rows_of(step, from + 1, end)),
                        {.examples = end - from - 1});
        }
        require(replicas.buckets().find("table") == std::string::npos, "the table is in no bucket");
        require(distance(weights(two), weights(one)) < 1e-6f, "rows");
      });
  }
}

TEST_CASE("gradients may be sent as bfloat16", "[cpu][dist]") {
  const std::vector<float> one = alone(4);
  for (const std::int64_t bytes : {std::int64_t{300}, std::int64_t{1} << 20}) {
    const float far =
        distance(together(2, 4, {.bucket_bytes = bytes, .send_as = bfloat16}, even), one);
    CHECK(far < 1e-2f);
    CHECK(far > 0);
  }
}

TEST_CASE("a LossScaler leaves a step out on all ranks or on none", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    Variable w("w", ones({3}));
    optim::SGD sgd({w}, {.learning_rate = 0.5});
    optim::LossScaler scaler({.scale = 8});
    dist::DataParallel replicas(world, sgd, {.scaler = &scaler});
    const auto step = [&](float factor) {
      GradientTape tape;
      return replicas.step(tape, sum(w * factor));
    };
    // Rank 1 has an infinite gradient.
    require(!step(world.rank() ? INFINITY : 1.0f), "left out");
    require(allclose(w, ones({3})) && scaler.factor.value().item<float>() == 4, "unchanged");
    require(step(static_cast<float>(world.rank() + 1)), "taken");
    require(allclose(w, full({3}, 1 - 0.5f * 1.5f)), "mean of 1 and 2");
  });
}

TEST_CASE("the global norm is that of the mean gradient", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    Variable w("w", zeros({2}));
    optim::SGD sgd({w}, {.learning_rate = 1});
    dist::DataParallel replicas(world, sgd, {.clip_norm = 1});
    GradientTape tape;
    // The mean gradient is (3, 4).
    replicas.step(tape, sum(w * tensor({6.0f * static_cast<float>(world.rank()),
                                        8.0f * static_cast<float>(1 - world.rank())})));
    require(allclose(w, tensor({-0.6f, -0.8f})), "clipped");
  });
}

TEST_CASE("float64, float16 and buffers of several dtypes", "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    Variable a("a", ones({2}, float64)), b("b", ones({3}, float16)), c("c", ones({4}));
    optim::SGD sgd({a, b, c}, {.learning_rate = 1});
    dist::DataParallel replicas(world, sgd);
    GradientTape tape;
    const double own = static_cast<double>(world.rank() + 1);
    replicas.step(tape, sum(a * own) + cast(sum(b * own), float64) + cast(sum(c * own), float64));
    require(allclose(a, full({2}, -0.5, {float64})), "float64");
    require(allclose(b, full({3}, -0.5, {float16})), "float16");
    require(allclose(c, full({4}, -0.5)), "float32");
  });
}

TEST_CASE("the constructor gives all ranks the values of rank 0", "[cpu][dist]") {
  struct Model {
    nn::BatchNorm norm{3};
    REEL_FIELDS(norm)
  };
  dist::run_local(3, [](World& world) {
    Model model;
    model.norm.scale.assign(static_cast<float>(world.rank() + 5));
    model.norm.mean.assign(static_cast<float>(world.rank() + 7));
    optim::SGD sgd(parameters(model), {.learning_rate = 1});
    dist::DataParallel replicas(world, sgd);
    require(allclose(model.norm.scale, full({3}, 5)), "Variables");
    replicas.broadcast(model);
    require(allclose(model.norm.mean, full({3}, 7)), "Buffers");
  });
}

TEST_CASE("all ranks are told the first difference between them", "[cpu][dist]") {
  seed(2);  // which run_local() gives its threads
  const auto difference = [](const auto& make) {
    std::string texts[2];
    dist::run_local(2, [&](World& world) {
      try {
        make(world, world.rank() == 1);
      } catch (const DistError& error) {
        texts[world.rank()] = error.what();
      }
    });
    INFO(texts[0] << "\n" << texts[1]);
    CHECK(texts[0] == texts[1]);
    return texts[0];
  };
  const auto says = [](const std::string& text, const char* expected, const char* got) {
    INFO(text);
    return text.find("DataParallel: rank 1: expected " + std::string(expected) +
                     " as on rank 0, got " + got) != text.npos;
  };
  const auto variables = [](const char* name, const Shape& shape, DType dtype, double rate = 1,
                            DataParallelOptions options = {}) {
    return [=](World& world, bool = true) {
      Variable w("first", ones({2})), v(name, ones(shape, dtype));
      optim::SGD sgd({w, v}, {.learning_rate = rate});
      dist::DataParallel replicas(world, sgd, options);
    };
  };
  const auto same = variables("w", {2, 3}, float32);
  const auto against = [&](const auto& other) {
    return difference([&](World& world, bool second) { second ? other(world) : same(world); });
  };
  CHECK(says(against(variables("v", {2, 3}, float32)), "Variable 1 \"w\" float32 (2, 3)",
             "Variable 1 \"v\" float32 (2, 3)"));
  CHECK(says(against(variables("w", {3, 2}, float32)), "Variable 1 \"w\" float32 (2, 3)",
             "Variable 1 \"w\" float32 (3, 2)"));
  CHECK(says(against(variables("w", {2, 3}, float64)), "Variable 1 \"w\" float32 (2, 3)",
             "Variable 1 \"w\" float64 (2, 3)"));
  CHECK(says(against(variables("w", {2, 3}, float32, 2)),
             "group 0: 2 Variables so far, learning_rate 1",
             "group 0: 2 Variables so far, learning_rate 2"));
  CHECK(says(against([&](World& world) {
               seed(9);
               same(world);
             }),
             "seed 2", "seed 9"));
  const auto adam = [](World& world, double beta) {
    Variable w("w", ones({2}));
    optim::Adam own({w}, {.beta1 = beta});
    dist::DataParallel replicas(world, own);
  };
  CHECK(says(difference([&](World& world, bool second) { adam(world, second ? 0.8 : 0.9); }),
             "options beta1 0.9 beta2 0.999 epsilon 1e-08 weight_decay 0",
             "options beta1 0.8 beta2 0.999 epsilon 1e-08 weight_decay 0"));
  const std::string options = against(variables("w", {2, 3}, float32, 1, {.bucket_bytes = 100}));
  CHECK(options.find("bucket_bytes 100") != options.npos);
}

TEST_CASE("a Variable that no rank uses is an error of all of them, before any update",
          "[cpu][dist]") {
  dist::run_local(2, [](World& world) {
    Variable a("a", ones({2})), b("b", ones({2})), c("c", ones({2}));
    optim::SGD sgd({a, b, c}, {.learning_rate = 1});
    dist::DataParallel replicas(world, sgd);
    const auto step = [&](const Variable& other) {
      GradientTape tape;
      replicas.step(tape, sum(a * other));
    };
    bool thrown = false;
    try {
      step(b);
    } catch (const TapeError& error) {
      thrown = std::string(error.what()).find("none that depends on \"c\"") != std::string::npos;
    }
    require(thrown && allclose(a, ones({2})), "unused on both");
    // Each rank uses a part; together they use all.
    step(world.rank() ? b : c);
    require(allclose(a, zeros({2})) && allclose(b, full({2}, 0.5)) && allclose(c, full({2}, 0.5)),
            "used on one rank");
  });
}

TEST_CASE("a rank that does not step is named with the bucket and its Variables", "[cpu][dist]") {
  for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{1}}) {
    std::string text;
    dist::run_local(2,
                    [&](World& world) {
                      Variable w("weight", ones({2})), b("bias", ones({2}));
                      optim::SGD sgd({w, b}, {.learning_rate = 1});
                      dist::DataParallel replicas(world, sgd, {.bucket_bytes = bytes});
                      for (int step = 0; step < 3; ++step) {
                        if (world.rank() == 1 && step == 2) return;
                        GradientTape tape;
                        try {
                          replicas.step(tape, sum(w * b));
                        } catch (const DistError& error) {
                          text = error.what();
                          return;
                        }
                      }
                    },
                    {.timeout = 0.3});
    INFO(text);
    CHECK(text.find("DataParallel: rank 1: expected to come within 0.3 s for bucket_0 of step 3, "
                    "got one that came to bucket_") != text.npos);
    CHECK(text.find("of step 2") != text.npos);
    CHECK((text.find("weight") != text.npos || text.find("bias") != text.npos));
  }
}

TEST_CASE("a bucket is sent while the backward pass goes on", "[cpu][dist]") {
  // Where the gradient of x * 2 waits until the bucket of a later layer has come.
  static thread_local std::function<void()> waits;
  register_op("dist_late", [](const OpCall& call) { return call.input(0) * 2; });
  register_op("dist_wait", [](const OpCall& call) {
    waits();
    return call.input(0) * (num_threads() > 0 ? 2 : 0);  // which makes the op one step of a trace
  });
  register_gradient("dist_late",
                    [](const OpCall&, Tensor dy) { return Tensors(call_op("dist_wait", {dy})); });
  for (const bool is_traced : {false, true})
    dist::run_local(2, [&](World& world) {
      Variable first("first", ones({100})), last("last", ones({100}));
      optim::SGD sgd({first, last}, {.learning_rate = 1e-3});
      dist::DataParallel replicas(world, sgd, {.bucket_bytes = 100});
      const auto calls = [&](int rank) { return world.state().board.read(rank, 1).call; };
      int sent = 0, step = 0;
      waits = [&] {
        // Buckets of earlier steps, two each, and the first one of this step.
        const int expected = 2 * step + 1;
        bool came = false;
        for (int k = 0; step > 0 && k < 10'000 && !came; ++k) {
          came = calls(0) >= expected && calls(1) >= expected;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        sent += came;
      };
      const auto f = [&](Tensor x) {
        GradientTape tape;
        replicas.step(tape, sum(call_op("dist_late", {first * x}) * last));
      };
      auto traced = trace(f, {.verify = 0});
      for (; step < 4; ++step) is_traced ? traced(ones({100})) : f(ones({100}));
      waits = nullptr;
      require(sent == 3, "the bucket of the last layer came before the gradient of the first");
      require(!is_traced || traced.trace_count() == 1, "a trace");
    });
}

TEST_CASE("an exception between steps of a rank reaches the others", "[cpu][dist]") {
  try {
    dist::run_local(2, [](World& world) {
      Variable w("w", ones({100})), b("b", ones({100}));
      optim::SGD sgd({w, b}, {.learning_rate = 1});
      dist::DataParallel replicas(world, sgd, {.bucket_bytes = 100});
      for (int step = 0; step < 3; ++step) {
        GradientTape tape;
        const auto f = custom_gradient([&](Tensor x) {
          return std::pair{x * 2, [&, step](Tensor dy) -> Tensor {
                             if (world.rank() == 1 && step == 2) throw std::runtime_error("mine");
                             return dy * 2;
                           }};
        });
        // The gradient of b is complete, and sent, before the function throws.
        replicas.step(tape, sum(f(w) + b));
      }
    });
    FAIL("no exception");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "mine");
  }
}

TEST_CASE("options of DataParallel are checked", "[cpu][dist]") {
  World world;
  Variable w("w", ones({2}));
  optim::SGD sgd({w}, {.learning_rate = 1});
  optim::LossScaler scaler;
  const auto make = [&](const DataParallelOptions& options) {
    dist::DataParallel replicas(world, sgd, options);
  };
  CHECK_THROWS_AS(make({.bucket_bytes = 0}), Error);
  CHECK_THROWS_AS(make({.sum = dist::Sum::tree}), Error);
  CHECK_THROWS_AS(make({.micro_batches = 2}), Error);
  CHECK_THROWS_AS(make({.send_as = float16}), DTypeError);
  CHECK_THROWS_AS(make({.sum = dist::Sum::ordered, .send_as = bfloat16}), Error);
  CHECK_THROWS_AS(make({.clip_norm = -1}), Error);
  CHECK_THROWS_AS(make({.clip_norm = 1, .scaler = &scaler}), Error);
  dist::DataParallel replicas(world, sgd);
  GradientTape tape;
  CHECK_THROWS_AS(replicas.step(tape, w * 2), ShapeError);
  CHECK_THROWS_AS(replicas.step(tape, sum(w), {.examples = -1}), Error);
  CHECK(replicas.step(tape, sum(w), {.examples = 4}));
  CHECK(allclose(w, zeros({2})));
  CHECK(replicas.any(true));
  CHECK(!replicas.any(false));
}

TEST_CASE("ranks that share the optimizer's state take steps with the same bits", "[cpu][dist]") {
  struct Words {
    nn::Embedding table{9, 6, {.sparse = true}};
    Net net;
    Variable scale = Variable("scale", tensor(1.f)), offset = Variable("offset", tensor(0.0));
    Tensor operator()(const Tensor& x) const {
      return net(table(x)) * scale + cast(offset, float32);
    }
    REEL_FIELDS(table, net, scale, offset)
  };
  const auto bytes_of = [](auto& optimizer) {
    std::int64_t bytes = 0;
    optimizer.fields([&](std::string_view, auto& member) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, std::vector<Variable>>)
        for (const Variable& x : member)
          bytes += x.size() * static_cast<std::int64_t>(size_of(x.dtype()));
    });
    return bytes;
  };
  /// The weights after some steps, and the bytes of state of each rank.
  const auto learn = [&](std::int64_t ranks, const auto& make, DataParallelOptions options,
                         bool scales) {
    std::pair<std::vector<double>, std::vector<std::int64_t>> found;
    found.second.resize(static_cast<std::size_t>(ranks));
    dist::run_local(ranks, [&](World& world) {
      seed(3);
      Words model;
      auto optimizer = make(model);
      optim::LossScaler scaler;
      DataParallelOptions own = options;
      if (scales) own.scaler = &scaler;
      dist::DataParallel replicas(world, optimizer, own);
      for (int step = 0; step < 4; ++step) {
        const Tensor x = tensor({step, step + 2 + static_cast<int>(world.rank()) % 3, 7});
        GradientTape tape;
        replicas.step(tape, mean(square(model(x) - 1)) + sum(square(model.offset)) * 0.0f);
      }
      found.second[static_cast<std::size_t>(world.rank())] = bytes_of(optimizer);
      std::vector<double> mine;
      for (const Variable& p : parameters(model))
        for (const double w : p.value().to(float64).values<double>()) mine.push_back(w);
      const Tensor first = dist::broadcast(tensor(mine), world);
      require(first.to_vector<double>() == mine, "all ranks have the same bits");
      if (world.rank() == 0) found.first = mine;
    });
    return found;
  };
  const auto check = [&](const auto& make, DataParallelOptions options, bool scales = false) {
    for (const std::int64_t ranks : {1, 2, 3, 12}) {
      options.shard_optimizer = false;
      const auto whole = learn(ranks, make, options, scales);
      options.shard_optimizer = true;
      const auto part = learn(ranks, make, options, scales);
      CHECK(part.first == whole.first);
      std::int64_t all = 0;
      for (const std::int64_t bytes : part.second) {
        all += bytes;
        if (ranks == 2) CHECK(bytes <= whole.second[0] * 6 / 10);
      }
      CHECK(all == whole.second[0]);
    }
  };
  const auto adam = [](const Words& m) { return optim::Adam(parameters(m)); };
  check(adam, {});
  check(adam, {.bucket_bytes = 300, .sum = dist::Sum::ordered, .clip_norm = 0.01});
  check(adam, {}, true);
  check([](const Words& m) { return optim::SGD(parameters(m), {.momentum = 0.9}); }, {});
  check([](const Words& m) { return optim::RMSprop(parameters(m), {.momentum = 0.9}); }, {});
  check(
      [](const Words& m) {
        return optim::AdamW({{parameters(m.table), {.amsgrad = true}},
                             {parameters(m.net), {.weight_decay = 0.2}},
                             {{m.scale, m.offset}, {.learning_rate = 0.5}}});
      },
      {});
}
}  // namespace reel::tests
