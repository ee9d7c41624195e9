// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous SGD (Dean et al. 2012): workers take the weights of a server, compute a gradient,
// and send it. Meanwhile others have changed the weights, so that the gradient is stale. Beside it
// the same number of gradients in synchronous steps. Workers are threads; one of them is slow.
#include <reel/dist.hpp>
#include <reel/reel.hpp>

#include <chrono>
#include <mutex>
#include <thread>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int workers = 4, gradients = 2000, batch = 32;
  double rate = 0.1, slow = 3;
};

struct Net {
  nn::Linear hidden{8, 32, Activation::tanh}, head{32, 1};
  REEL_FIELDS(hidden, head)
  Tensor loss(const Tensor& x) const {
    const Tensor y = sin(sum(x, 1, keepdims));
    return mean(square(head(hidden(x)) - y));
  }
};

/// The time that a worker computes, as a multiple of a millisecond. Sleep, so that cores do not
/// matter.
void compute(int worker, const Options& options) {
  std::this_thread::sleep_for(
      std::chrono::duration<double, std::milli>(worker == 0 ? options.slow : 1));
}
double held_out(const Net& net) {
  const Generator own(99);
  const GeneratorScope scope(own);
  return net.loss(random::normal({1000, 8})).item<float>();
}
double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The weights, and how often they have changed.
struct Server {
  Net net;
  optim::SGD sgd;
  std::mutex one;
  int version = 0;
  double staleness = 0;
  explicit Server(const Options& options) : sgd(parameters(net), {.learning_rate = options.rate}) {}
  int pull(const std::vector<Variable>& to) {
    const std::lock_guard held(one);
    for (std::size_t i = 0; i < to.size(); ++i) to[i].assign(sgd.variables()[i]);
    return version;
  }
  void push(const std::vector<Tensor>& gradients, int of) {
    const std::lock_guard held(one);
    staleness += version++ - of;
    sgd.step(gradients);
  }
};

void run_asynchronous(const Options& options) {
  Server server(options);
  const auto start = std::chrono::steady_clock::now();
  const Device device = server.sgd.variables()[0].device();
  const auto work = [&](int worker) {
    const DeviceScope here(device);  // a thread begins on the CPU
    seed(options.seed + static_cast<std::uint64_t>(worker));
    const Net mine;
    const std::vector<Variable> weights = parameters(mine);
    for (int of = server.pull(weights); of < options.gradients; of = server.pull(weights)) {
      GradientTape tape;
      const Tensor loss = mine.loss(random::normal({options.batch, 8}));
      const std::vector<Tensor> gradients = tape.gradient(loss, weights);
      compute(worker, options);
      server.push(gradients, of);
    }
  };
  std::vector<std::thread> workers;
  for (int worker = 0; worker < options.workers; ++worker) workers.emplace_back(work, worker);
  for (std::thread& worker : workers) worker.join();
  fmt::print(
      "asynchronous: loss {:.4f} after {} gradients in {:.2f} s; a gradient is {:.1f} steps old\n",
      held_out(server.net), server.version, seconds_since(start),
      server.staleness / server.version);
}

void run_synchronous(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  dist::run_local(options.workers, [&](dist::World& world) {
    seed(options.seed);
    Net net;
    optim::SGD sgd(parameters(net), {.learning_rate = options.rate});
    dist::DataParallel replicas(world, sgd);
    seed(options.seed + static_cast<std::uint64_t>(world.rank()));
    for (int step = 0; step < options.gradients / options.workers; ++step) {
      GradientTape tape;
      const Tensor loss = net.loss(random::normal({options.batch, 8}));
      compute(static_cast<int>(world.rank()), options);
      replicas.step(tape, loss);
    }
    if (world.rank() == 0)
      fmt::print("synchronous:  loss {:.4f} after {} gradients in {:.2f} s; none is old\n",
                 held_out(net), replicas.steps() * world.size(), seconds_since(start));
  });
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("Asynchronous SGD with a parameter server, beside synchronous SGD.", options);
  line.add("--workers", options.workers, "threads that compute gradients")
      ->check(CLI::Range(1, 64));
  line.add("--gradients", options.gradients, "gradients of all workers")
      ->check(CLI::PositiveNumber);
  line.add("--batch", options.batch, "examples of a gradient")->check(CLI::PositiveNumber);
  line.add("--rate", options.rate, "the learning rate");
  line.add("--slow", options.slow, "how many times as long the first worker takes");
  return line.run(argc, argv, [&] {
    run_synchronous(options);
    run_asynchronous(options);
  });
}
