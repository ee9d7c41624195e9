// SPDX-License-Identifier: BSD-3-Clause
// Steps of DataParallel in traced functions have the bits of eager steps: with a LossScaler, parts
// of a model, several losses, rows of tables, trees of micro-batches, and ranks without examples.
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
using dist::DataParallelOptions;
using dist::World;

constexpr int calls = 30, never = calls;
void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}
/// From which call on each rank traces its steps. Ranks whose numbers differ capture, check and
/// replay at different calls.
const std::vector<std::vector<int>> mixes = {
    {0, 0, 0, 0}, {0, 1, 2, 3}, {3, 0, never, 1}, {never, 0, 5, 9}, {2, never, 0, never}};
/// How a rank traces: from which call on, and how often replays are checked.
struct Tracing {
  int first = never;
  double verify = 0.01;
  template <class F>
  auto operator()(const F& f) const {
    return trace(f, {.verify = verify, .throw_on_difference = true});
  }
  /// A capture has taken place, and the function runs from it.
  void check(const auto& traced) const {
    if (first >= never) return;
    const std::string text = traced.explain();
    require(traced.trace_count() > 0 && text.find("runs eagerly") == text.npos &&
                text.find("replays, ") != text.npos,
            text);
  }
};
using Bits = std::vector<double>;
void append(Bits& bits, const Variable& x) {
  for (const double number : x.value().to(float64).to_vector<double>()) bits.push_back(number);
}
/// The Variables of a model and the state of its optimizer.
Bits bits_of(const auto& model, auto& optimizer) {
  Bits bits;
  for (const Variable& x : parameters(model)) append(bits, x);
  optimizer.fields([&](auto, auto& member) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(member)>, Variable>)
      append(bits, member);
    else
      for (const Variable& x : member) append(bits, x);
  });
  return bits;
}
/// run(world, tracing) returns what a rank has after its calls: of ranks that trace, what it has of
/// eager ranks.
template <class F>
void compare(std::int64_t ranks, const F& run) {
  std::vector<Bits> eager(static_cast<std::size_t>(ranks));
  const auto mine = [&](World& world) -> Bits& {
    return eager[static_cast<std::size_t>(world.rank())];
  };
  dist::run_local(ranks, [&](World& world) { mine(world) = run(world, Tracing()); },
                  {.timeout = 20});
  for (std::size_t mix = 0; mix < mixes.size(); ++mix)
    dist::run_local(ranks,
                    [&](World& world) {
                      const int first = mixes[mix][static_cast<std::size_t>(world.rank())];
                      const Bits found = run(world, Tracing{first, mix % 2 ? 1.0 : 0.01});
                      require(found.size() == mine(world).size(), "numbers");
                      for (std::size_t i = 0; i < found.size(); ++i)
                        require(found[i] == mine(world)[i],
                                "number " + std::to_string(i) + " of rank " +
                                    std::to_string(world.rank()) + ", which traces from call " +
                                    std::to_string(first) + ": " + std::to_string(found[i]) +
                                    ", of eager ranks " + std::to_string(mine(world)[i]));
                    },
                    {.timeout = 20});
}

struct Net {
  nn::Linear a{3, 5, Activation::tanh}, b{5, 4, Activation::tanh}, head{4, 2};
  Tensor operator()(const Tensor& x) const { return head(b(a(x))); }
  REEL_FIELDS(a, b, head)
};
Tensor data(std::int64_t rank, int call, std::int64_t rows = 4) {
  const Tensor x = arange(0, 3 * rows).to(float32).reshape({rows, 3});
  return sin(x * static_cast<double>(1 + rank) + static_cast<double>(call));
}
Tensor cost(const Net& net, const Tensor& x) { return mean(square(net(x) - 0.3)); }
}  // namespace

TEST_CASE("a step that a LossScaler leaves out in a trace advances nothing", "[cpu][dist]") {
  const auto steps_of = [](const Variable& x) { return x.value().item<std::int64_t>(); };
  for (const std::int64_t ranks : {1, 3})
    for (const bool shards : {false, true})
      if (!shards || ranks > 1)
        compare(ranks, [&](World& world, const Tracing& tracing) {
          seed(11);
          Net net;
          optim::Adam adam(parameters(net), {.learning_rate = 0.02});
          optim::Schedule schedule(adam, optim::exponential_decay(0.9));
          optim::LossScaler scaler({.scale = 64, .interval = 3, .clip_norm = 0.5});
          dist::DataParallel replicas(
              world, adam, {.bucket_bytes = 64, .scaler = &scaler, .shard_optimizer = shards});
          const nn::Dropout dropout(0.2);
          const Variable draws("draws", zeros({}));
          seed(static_cast<std::uint64_t>(20 + world.rank()));
          const auto step = [&](const Tensor& x, const Tensor& factor) {
            GradientTape tape;
            const Tensor loss = cost(net, dropout(x)) * factor;
            if (!replicas.step(tape, loss, {.examples = 1 + world.rank()})) return;
            schedule.step();
            draws.assign(random::uniform({}));
          };
          auto traced = tracing(step);
          int left_out = 0;
          for (int call = 0; call < calls; ++call) {
            // One rank has an infinite gradient.
            const bool infinite = call % 7 == 3 && call % ranks == world.rank();
            left_out += call % 7 == 3;
            const Tensor x = data(world.rank(), call), factor = tensor(infinite ? HUGE_VALF : 1.0f);
            call >= tracing.first ? traced(x, factor) : step(x, factor);
          }
          tracing.check(traced);
          for (const std::int64_t steps :
               {replicas.steps(), steps_of(adam.steps()), steps_of(schedule.steps())})
            require(steps == calls - left_out, "steps that were taken");
          Bits bits;
          for (const Variable& x : parameters(net)) append(bits, x);
          for (const Variable& x : {scaler.factor, scaler.good_steps, draws, adam.learning_rate()})
            append(bits, x);
          return bits;
        });
}

TEST_CASE("losses that add up in a trace have the bits of eager ones", "[cpu][dist]") {
  // 0: one function adds two losses and takes the step; 1: a function each; 2: a function adds, and
  // the step is eager; 3: it is the other way round.
  for (const int way : {0, 1, 2, 3})
    for (const std::int64_t ranks : {1, 3})
      if (way == 0 || ranks > 1)
        compare(ranks, [&](World& world, const Tracing& tracing) {
          seed(11);
          Net net;
          optim::Adam adam(parameters(net), {.learning_rate = 0.02});
          dist::DataParallel replicas(world, adam, {.bucket_bytes = 64, .clip_norm = 0.05});
          const auto add = [&](const Tensor& x) {
            GradientTape tape;
            replicas.accumulate(tape, cost(net, x), {.examples = x.shape()[0]});
          };
          const auto end = [&](const Tensor& x) {
            GradientTape tape;
            replicas.step(tape, cost(net, x), {.examples = x.shape()[0]});
          };
          const auto whole = [&](const Tensor& x, const Tensor& y, const Tensor& z) {
            add(x);
            add(y);
            end(z);
          };
          auto traced = tracing(whole);
          auto traced_add = tracing(add), traced_end = tracing(end);
          for (int call = 0; call < calls; ++call) {
            const Tensor x = data(world.rank(), call, 2), y = data(world.rank(), call + 50, 5),
                         z = data(world.rank(), call + 99, 3);
            const bool traces = call >= tracing.first;
            if (call % 5 == 4) {  // one loss
              traces&& way != 2 ? traced_end(x) : end(x);
            } else if (way == 0) {
              traces ? traced(x, y, z) : whole(x, y, z);
            } else {
              traces&& way < 3 ? traced_add(x) : add(x);
              traces&& way < 3 ? traced_add(y) : add(y);
              traces&& way != 2 ? traced_end(z) : end(z);
            }
          }
          if (way == 0) tracing.check(traced);
          if (way == 1 || way == 2) tracing.check(traced_add);
          if (way == 1 || way == 3) tracing.check(traced_end);
          require(replicas.steps() == calls, "steps");
          return bits_of(net, adam);
        });
}

TEST_CASE("trees of micro-batches in a trace have the bits of eager ones", "[cpu][dist]") {
  std::optional<Bits> one;  // rank
  for (const std::int64_t ranks : {1, 2, 4})
    compare(ranks, [&](World& world, const Tracing& tracing) {
      constexpr std::int64_t micro_batches = 8;
      const std::int64_t share = micro_batches / ranks, from = world.rank() * share;
      seed(11);
      Net net;
      optim::Adam adam(parameters(net), {.learning_rate = 0.02});
      dist::DataParallel replicas(world, adam,
                                  {.sum = dist::Sum::tree, .micro_batches = micro_batches});
      const auto step = [&](const Tensor& x) {  // [share, 3, 3]
        for (std::int64_t k = 0; k < share; ++k) {
          GradientTape tape;
          const Tensor loss = cost(net, x(k));
          if (k + 1 < share)
            replicas.accumulate(tape, loss, {.examples = 3});
          else
            replicas.step(tape, loss, {.examples = 3});
        }
      };
      auto traced = tracing(step);
      for (int call = 0; call < calls; ++call) {
        const Tensor x = data(0, call, 3 * micro_batches)
                             .reshape({micro_batches, 3, 3})(range(from, from + share));
        call >= tracing.first ? traced(x) : step(x);
      }
      tracing.check(traced);
      const Bits bits = bits_of(net, adam);
      if (ranks == 1 && !one) one = bits;
      require(bits == *one, "the bits of one rank");
      return bits;
    });
}

TEST_CASE("ranks without examples join in a trace", "[cpu][dist]") {
  for (const bool scales : {false, true})
    compare(3, [&](World& world, const Tracing& tracing) {
      seed(11);
      Net net;
      optim::Adam adam(parameters(net), {.learning_rate = 0.02});
      optim::LossScaler scaler({.scale = 64, .interval = 3});
      dist::DataParallel replicas(world, adam,
                                  {.bucket_bytes = 64, .scaler = scales ? &scaler : nullptr});
      std::int64_t taken = 0;
      const auto learn = [&](const Tensor& x) {
        GradientTape tape;
        return replicas.step(tape, cost(net, x), {.examples = x.shape()[0]});
      };
      const auto add = [&](const Tensor& x) {
        GradientTape tape;
        replicas.accumulate(tape, cost(net, x), {.examples = x.shape()[0]});
      };
      const auto join = [&] { return replicas.join(); };
      const auto add_and_join = [&](const Tensor& x) {
        add(x);
        return replicas.join();
      };
      const auto nothing = [&](const Tensor& x) {
        GradientTape tape;
        return replicas.step(tape, sum(x), {.examples = 0});
      };
      auto traced = tracing(learn);
      auto traced_join = tracing(join);
      auto traced_add_and_join = tracing(add_and_join);
      auto traced_nothing = tracing(nothing);
      for (int call = 0; call < calls; ++call) {
        const Tensor x = data(world.rank(), call);
        const bool traces = call >= tracing.first;
        const auto way = (call + world.rank()) % 3;
        bool stepped = false;
        if (call % 5 == 2)  // no rank has examples
          stepped = traces ? traced_join() : join();
        else if (way == 0)
          stepped = traces ? traced(x) : learn(x);
        else if (way == 1 && call % 2 == 0)
          stepped = traces ? traced_join() : join();
        else if (way == 1)
          stepped = traces ? traced_nothing(x) : nothing(x);
        else
          stepped = traces ? traced_add_and_join(x) : add_and_join(x);
        taken += stepped;
        require(stepped == (call % 5 != 2), "whether the step is taken");
      }
      tracing.check(traced);
      tracing.check(traced_join);
      tracing.check(traced_add_and_join);
      require(replicas.steps() == taken, "steps");
      Bits bits = bits_of(net, adam);
      append(bits, scaler.factor);
      return bits;
    });
}

TEST_CASE("rows of tables in a trace have the bits of eager ones", "[cpu][dist]") {
  struct Words {
    nn::Embedding table{40, 4, {.sparse = true}}, other{7, 4, {.sparse = true}};
    nn::Linear head{4, 1};
    REEL_FIELDS(table, other, head)
  };
  const DataParallelOptions all[] = {
      {}, {.clip_norm = 0.01}, {.sum = dist::Sum::ordered}, {.shard_optimizer = true}};
  for (const DataParallelOptions& options : all)
    for (const std::int64_t ranks : {1, 3})
      if (&options == all || ranks > 1)
        compare(ranks, [&](World& world, const Tracing& tracing) {
          seed(3);
          Words words;
          optim::Adam adam(parameters(words), {.learning_rate = 0.05});
          dist::DataParallel replicas(world, adam, options);
          const auto loss_of = [&](const Tensor& ids) {
            return mean(square(words.head(words.table(ids) + words.other(ids % 7)) - 1));
          };
          const auto step = [&](const Tensor& ids) {
            GradientTape tape;
            replicas.step(tape, loss_of(ids), {.examples = ids.size()});
          };
          const auto two = [&](const Tensor& ids, const Tensor& more) {
            {
              GradientTape tape;
              replicas.accumulate(tape, loss_of(ids), {.examples = ids.size()});
            }
            GradientTape tape;
            replicas.step(tape, loss_of(more), {.examples = more.size()});
          };
          auto traced = tracing(step);
          auto traced_two = tracing(two);
          for (int call = 0; call < calls; ++call) {
            // Lengths differ between ranks and calls.
            const std::int64_t length = call % 4 == 3 ? 20 : 3 + (call / 2 + world.rank()) % 3;
            const Tensor ids = (arange(0, length) * (7 + world.rank()) + call * 5) % 40;
            const Tensor more = (arange(0, 4) * 3 + call + world.rank()) % 40;
            const bool traces = call >= tracing.first;
            if (call % 3 == 1)
              traces ? traced_two(ids, more) : two(ids, more);
            else
              traces ? traced(ids) : step(ids);
          }
          tracing.check(traced);
          tracing.check(traced_two);
          require(replicas.steps() == calls, "steps");
          Bits bits;
          for (const Variable& x : parameters(words)) append(bits, x);
          return bits;
        });
}

TEST_CASE("parts of a model learn in a trace as eager ones", "[cpu][dist]") {
  struct Split {
    dist::SplitEmbedding embedding;
    dist::SplitLinears pair;
    explicit Split(const World& axis)
        : embedding(axis, nn::Embedding(12, 5)),
          pair(axis, nn::Linear(5, 8, Activation::tanh), nn::Linear(8, 1)) {}
    REEL_FIELDS(embedding, pair)
    Tensor operator()(const Tensor& words) const { return pair(embedding(words)); }
  };
  enum class How { plain, clips, scales };
  for (const How how : {How::plain, How::clips, How::scales})
    for (const auto& [rows, columns] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 2}, {2, 2}})
      compare(rows * columns, [&, rows = rows, columns = columns](World& world,
                                                                  const Tracing& tracing) {
        const dist::Mesh mesh(world, {.axes = {{"batch", rows}, {"hidden", columns}}});
        seed(6);
        Split model(mesh.axis("hidden"));
        optim::Adam adam(parameters(model), {.learning_rate = 0.05});
        optim::LossScaler scaler({.scale = 64, .interval = 3, .clip_norm = 0.02});
        dist::DataParallel replicas(mesh.axis("batch"), adam,
                                    {.bucket_bytes = 64,
                                     .clip_norm = how == How::clips ? 0.02 : 0,
                                     .scaler = how == How::scales ? &scaler : nullptr});
        const auto step = [&](const Tensor& words, const Tensor& factor) {
          GradientTape tape;
          const Tensor error = squeeze(model(words), -1) - sin(cast(words, float32));
          return replicas.step(tape, mean(square(error)) * factor, {.examples = words.shape()[0]});
        };
        auto traced = tracing(step);
        for (int call = 0; call < calls; ++call) {
          const bool infinite = how == How::scales && call % 7 == 3;
          const Tensor words =
              (arange(0, 8).reshape({2, 4}) * (3 + call) + mesh.axis("batch").rank()) % 12;
          const Tensor factor = tensor(infinite ? HUGE_VALF : 1.0f);
          const bool stepped = call >= tracing.first ? traced(words, factor) : step(words, factor);
          require(stepped == !infinite, "whether the step is taken");
        }
        tracing.check(traced);
        Bits bits = bits_of(model, adam);
        append(bits, scaler.factor);
        return bits;
      });
}

TEST_CASE("gradients of one's own are steps of a trace, with rows and a scaler", "[cpu][dist]") {
  compare(2, [&](World& world, const Tracing& tracing) {
    seed(3);
    const nn::Embedding table(30, 2, {.sparse = true});
    optim::SGD sgd({table.table}, {.learning_rate = 0.5, .momentum = 0.9});
    optim::LossScaler scaler({.scale = 8, .interval = 4});
    dist::DataParallel replicas(world, sgd, {.scaler = &scaler});
    const auto step = [&](const Tensor& ids) {
      GradientTape tape;
      const Tensor loss = scaler.scale(sum(square(table(ids) - 1)));
      replicas.step(tape.row_gradients(loss, {table.table}));
    };
    auto traced = tracing(step);
    for (int call = 0; call < calls; ++call) {
      const Tensor ids = (arange(0, 4) * 7 + call + world.rank()) % 30;
      call >= tracing.first ? traced(ids) : step(ids);
    }
    tracing.check(traced);
    require(replicas.steps() == calls, "steps");
    Bits bits;
    append(bits, table.table);
    append(bits, scaler.factor);
    return bits;
  });
}

TEST_CASE("a loss that an exception has left does not count in the next traced step",
          "[cpu][dist]") {
  dist::run_local(
      2,
      [](World& world) {
        const Variable w("w", ones({3})), u("u", ones({3}));
        optim::SGD sgd({w, u}, {.learning_rate = 0.1});
        dist::DataParallel replicas(world, sgd,
                                    {.sum = dist::Sum::ordered, .unconnected = Unconnected::zero});
        auto step = trace([&](const Tensor& x) {
          GradientTape tape;
          // The gradient of u is complete before the one of w, which fails for an odd number.
          Tensor y = w * x;
          if (bool(x(0) > 5))
            y = custom_gradient([](const Tensor& given) {
              return std::pair{stop_gradient(given), [](const Tensor&) -> Tensor {
                                 throw Error("a gradient that fails");
                               }};
            })(y);
          replicas.step(tape, sum(bool(x(1) > 0) ? y + u : y));
        });
        for (int call = 0; call < 12; ++call) {
          const std::string text = error_text([&] { step(tensor({9.0f, 1.0f, 1.0f})); });
          require(text.find("a gradient that fails") != text.npos, text);
          const Tensor before = u.value();
          step(tensor({1.0f, -1.0f, 1.0f}));
          require(equal(u, before), "u has no gradient");
        }
        require(replicas.steps() == 12, "steps");
      },
      {.timeout = 20});
}

TEST_CASE("a capture that fails sends what a replay sends", "[cpu][dist]") {
  compare(3, [&](World& world, const Tracing& tracing) {
    seed(11);
    Net net;
    optim::Adam adam(parameters(net), {.learning_rate = 0.02});
    dist::DataParallel replicas(world, adam, {.bucket_bytes = 64});
    const auto step = [&](const Tensor& x) {
      GradientTape tape;
      if (world.rank() == 1) num_threads();  // which a trace cannot follow
      replicas.accumulate(tape, cost(net, x));
      GradientTape other;
      replicas.step(other, cost(net, x + 1));
    };
    auto traced = tracing(step);
    for (int call = 0; call < calls; ++call) {
      const Tensor x = data(world.rank(), call);
      call >= tracing.first ? traced(x) : step(x);
    }
    if (world.rank() != 1) tracing.check(traced);
    require(replicas.steps() == calls, "steps");
    return bits_of(net, adam);
  });
}

TEST_CASE("a check that finds a change sends nothing", "[cpu][dist]") {
  for (const std::vector<int>& mix : mixes)
    dist::run_local(3,
                    [&](World& world) {
                      seed(11);
                      Net net;
                      optim::SGD sgd(parameters(net), {.learning_rate = 0.02});
                      dist::DataParallel replicas(world, sgd, {.bucket_bytes = 64});
                      double goal = 0;  // in no Variable
                      const auto step = [&](const Tensor& x) {
                        GradientTape tape;
                        replicas.step(tape, mean(square(net(x) - goal)));
                        return dist::all_reduce(net(x), world);
                      };
                      auto traced = trace(step);
                      for (int call = 0; call < calls; ++call) {
                        goal = call < 18 ? 0.3 : -0.2;
                        const Tensor x = data(world.rank(), call);
                        call >= mix[static_cast<std::size_t>(world.rank())] ? traced(x) : step(x);
                        require(replicas.steps() == call + 1, "steps");
                        const Tensor w = net.a.weight.value();
                        require(equal(dist::broadcast(w, world), w),
                                "all ranks have the same weights");
                      }
                    },
                    {.timeout = 20});
}
}  // namespace reel::tests
