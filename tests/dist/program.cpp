// SPDX-License-Identifier: BSD-3-Clause
// What mpi.py starts with mpirun: program MODE [ARGUMENTS]
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <reel/debug.hpp>
#include <reel/dist.hpp>
#include <reel/reel.hpp>

using namespace reel;

namespace {
struct Net {
  nn::Linear a{6, 16, Activation::tanh}, b{16, 16, Activation::tanh}, head{16, 1};
  Tensor operator()(const Tensor& x) const { return head(b(a(x))); }
  REEL_FIELDS(a, b, head)
};
Tensor table(std::int64_t number) {
  const Generator own(static_cast<std::uint64_t>(number));
  const GeneratorScope scope(own);
  return random::normal({12, 7});
}
Tensor cost(const Net& net, const Tensor& rows) {
  return mean(square(net(rows(all, range(0, 6))) - rows(all, range(6, 7))));
}
void print(const Net& net) {
  for (const Variable& p : parameters(net))
    for (const float w : p.value().values<float>()) std::printf("%a\n", static_cast<double>(w));
}
/// Which fault comes: at step 5, on rank 1.
void fail(const std::string& fault, std::int64_t step, const dist::World& world) {
  if (step != 5 || world.rank() != 1) return;
  usleep(500'000);  // the others wait by now
  if (fault == "stop") raise(SIGSTOP);
  if (fault == "kill") raise(SIGKILL);
  if (fault == "exit") _exit(0);
  if (fault == "throw") throw std::runtime_error("out of apples");
}

/// Ten steps of 12 rows that the ranks share; prints the weights.
void learn(const dist::World& world, const std::string& sum, const std::string& fault) {
  Net net;
  optim::SGD sgd(parameters(net), {.learning_rate = 0.1, .momentum = 0.9});
  const bool tree = sum == "tree", small = sum == "small";
  dist::DataParallel replicas(world, sgd,
                              {.bucket_bytes = small ? 400 : 4 << 20,
                               .sum = tree               ? dist::Sum::tree
                                      : sum == "ordered" ? dist::Sum::ordered
                                                         : dist::Sum::fast,
                               .micro_batches = tree ? 12 : 0,
                               .send_as = sum == "bfloat16" ? bfloat16 : float32,
                               .shard_optimizer = sum == "shard"});
  for (std::int64_t step = 0; step < 10; ++step) {
    fail(fault, step, world);
    const std::int64_t from = 12 * world.rank() / world.size(),
                       to = 12 * (world.rank() + 1) / world.size();
    const Tensor rows = table(step);
    for (std::int64_t k = from; tree && k + 1 < to; ++k) {
      GradientTape tape;
      replicas.accumulate(tape, cost(net, rows(range(k, k + 1))));
    }
    GradientTape tape;
    const Tensor mine = rows(range(tree ? to - 1 : from, to));
    replicas.step(tape, cost(net, mine), {.examples = mine.shape()[0]});
  }
  if (world.rank() == 0) print(net);
}

/// Ranks read trees of different shapes, and have different numbers of them.
void trees(const dist::World& world, std::int64_t steps) {
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
  const Tree tree;
  optim::SGD sgd(parameters(tree), {.learning_rate = 0.01});
  dist::DataParallel replicas(world, sgd, {.bucket_bytes = 300, .unconnected = Unconnected::zero});
  std::uint64_t state = 7 + static_cast<std::uint64_t>(world.rank());
  const std::int64_t own = steps - 100 * world.rank();
  std::int64_t done = 0;
  for (; replicas.any(done < own); ++done) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (done >= own) {
      replicas.join();
    } else {
      GradientTape tape;
      replicas.step(tape, mean(square(tree.head(tree.read(state >> 33, 6)) - 1)));
    }
  }
  if (world.rank() == 0) std::printf("%lld steps\n", static_cast<long long>(done));
}

double milliseconds() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
template <class F>
double median_of(int times, const F& f) {
  std::vector<double> all;
  for (int k = 0; k < times; ++k) {
    const double start = milliseconds();
    f();
    all.push_back(milliseconds() - start);
  }
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}
/// Prints what tools/dist_plan asks for, in milliseconds and MB/s, and the time of a step: six
/// layers of 1 MB that sleep 10 ms forward and 10 ms backward, so that other work on the machine
/// does not count.
void plan(const dist::World& world) {
  constexpr int layers = 6;
  constexpr std::int64_t count = 1 << 18;
  const Tensor small = ones({16}), large = ones({count});
  const double latency =
      median_of(50, [&] { dist::all_reduce(small, world); }) / 2 / double(world.size() - 1);
  const double whole = median_of(20, [&] { dist::all_reduce(large, world); });
  std::vector<Variable> weights;
  for (int i = 0; i < layers; ++i) weights.emplace_back("w" + std::to_string(i), ones({count}));
  optim::SGD sgd(weights, {.learning_rate = 0});
  dist::DataParallel replicas(world, sgd, {.bucket_bytes = 4 * count});
  const auto layer = custom_gradient([](const Tensor& x, const Tensor& w) {
    usleep(10'000);
    return std::pair{x + w(0), [](const Tensor& dy) -> Tensors {
                       usleep(10'000);
                       return {dy, broadcast_to(dy, {count})};
                     }};
  });
  double backward = 0;
  const double step = median_of(12, [&] {
    GradientTape tape;
    Tensor x = tensor(0.f);
    for (const Variable& w : weights) x = layer(x, w);
    const double start = milliseconds();
    replicas.step(tape, x);
    backward = milliseconds() - start;
  });
  if (world.rank() == 0)
    std::printf("%.3f %.1f %.1f %.1f\n", latency, 4e-3 * count / (whole - 2 * latency), step,
                step - backward);
}

/// Goes on from the folder to a step; prints the weights.
void train(const dist::World& world, const std::string& folder, std::int64_t to) {
  Net net;
  optim::Adam adam(parameters(net), {.learning_rate = 0.02});
  dist::DataParallel replicas(world, adam);
  auto part = data::range(120)
                  .shuffle({.seed = 4})
                  .shard(world.rank(), world.size())
                  .batch(12 / world.size());
  const io::Checkpoints checkpoints(folder);
  std::int64_t step = 0;
  checkpoints.resume(step, net, replicas, part);
  while (step < to)
    for (const Tensor& numbers : part) {
      Tensor rows = table(0)(range(0, 1));
      std::vector<Tensor> all;
      for (const std::int64_t k : numbers.to_vector<std::int64_t>())
        all.push_back(table(k / 12)(range(k % 12, k % 12 + 1)));
      GradientTape tape;
      replicas.step(tape, cost(net, concat(all)), {.examples = numbers.size()});
      checkpoints.save(++step, net, replicas, part);
      if (step == to) break;
    }
  if (world.rank() == 0) print(net);
}

/// Trains through faults such as "1:40:kill", rank 1 of the start at step 40, or "2:40+700:stop",
/// 700 microseconds after step 40 has begun. Ranks that come to the end print the weights and the
/// loss.
void survive(const std::vector<std::string>& faults, std::int64_t to, double timeout) {
  dist::World world({.timeout = timeout, .survive = true});
  const std::int64_t self = world.rank();
  const auto strike = [](const std::string& how) {
    if (how == "throw") throw std::runtime_error("out of apples");
    ::kill(getpid(), how == "stop" ? SIGSTOP : SIGKILL);
  };
  const Net net;
  optim::Adam adam(parameters(net), {.learning_rate = 0.01});
  const auto loss = [&] { return cost(net, table(0)).item<double>(); };
  const double before = loss();
  std::int64_t step = 0;
  for (bool done = false; !done;) try {
      dist::take_latest(world, step, net, adam);
      dist::DataParallel replicas(world, adam, {.bucket_bytes = 400});
      for (; step < to; ++step) {
        const std::string now = std::to_string(self) + ":" + std::to_string(step);
        for (const std::string& fault : faults) {
          const std::string how = fault.substr(fault.rfind(':') + 1);
          if (fault.starts_with(now + ":")) strike(how);
          if (fault.starts_with(now + "+"))
            std::thread([=] {
              usleep(static_cast<unsigned>(std::atoi(fault.c_str() + now.size() + 1)));
              strike(how);
            }).detach();
        }
        const Tensor mine = table(step % 3)(
            range(12 * world.rank() / world.size(), 12 * (world.rank() + 1) / world.size()));
        GradientTape tape;
        replicas.step(tape, cost(net, mine), {.examples = mine.shape()[0]});
      }
      world.barrier();
      done = true;
    } catch (const DistError& error) {
      std::fprintf(stderr, "rank %d: %s\n", static_cast<int>(self), error.what());
      world = world.shrink();
    }
  std::uint64_t hash = 0;
  for (const Variable& p : parameters(net))
    for (const float w : p.value().values<float>())
      hash = hash * 1099511628211u + std::bit_cast<std::uint32_t>(w);
  std::printf("rank %d: step %d of %d ranks, weights %016llx, loss %g from %g\n",
              static_cast<int>(self), static_cast<int>(step), static_cast<int>(world.size()),
              static_cast<unsigned long long>(hash), loss(), before);
  std::fflush(stdout);
}
}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int i) { return std::string(i < count ? arguments[i] : ""); };
  const std::string mode = argument(1);
  const auto run = [&](const dist::World& world) {
    if (mode == "learn") learn(world, argument(2), argument(3));
    if (mode == "trees") trees(world, std::atoll(argument(2).c_str()));
    if (mode == "plan") plan(world);
    if (mode == "train") train(world, argument(2), std::atoll(argument(3).c_str()));
    if (mode == "differ") {
      const Variable w("weight", ones({2 + world.rank()}));
      optim::SGD sgd({w}, {.learning_rate = 1});
      dist::DataParallel replicas(world, sgd);
    }
    if (mode == "prompt") {
      if (world.rank() == 0) debug::cli();
      std::printf("%g\n", dist::all_reduce(ones({1}), world).item<double>());
      learn(world, "fast", "");
    }
    if (mode == "engine") std::printf("%s\n", std::string(world.engine()).c_str());
  };
  try {
    seed(1);
    const char* const timeout = std::getenv("TEST_TIMEOUT");
    const double seconds = timeout ? std::atof(timeout) : 30.0;
    if (mode == "survive")
      return survive({arguments + 3, arguments + count}, std::atoll(arguments[2]), seconds), 0;
    const dist::World world({.timeout = seconds});
    run(world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "caught: %s\n", error.what());
    return 1;
  }
}
