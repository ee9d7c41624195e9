// SPDX-License-Identifier: BSD-3-Clause
// Ranks with a GPU each: collectives and steps by NCCL, whose stand-in in the emulator compares the
// calls of the ranks, beside those of ranks on the CPU.
#include <functional>
#include <vector>

#include <reel/dist.hpp>

#include "cuda/emulated.hpp"
#include "debug/user.hpp"
#include "support/error_text.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
using dist::World;

struct Net {
  nn::Linear a{6, 16, Activation::tanh}, b{16, 16, Activation::tanh}, head{16, 1};
  Tensor operator()(const Tensor& x) const { return head(b(a(x))); }
  REEL_FIELDS(a, b, head)
};
void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}
float distance(const Tensor& a, const Tensor& b) {
  if (a.size() == 0) return 0;
  return max(abs(a.to(cpu()) - b.to(cpu()))).to(float32).item<float>();
}
/// Runs f on ranks with a GPU each, whose new tensors are there.
void on_gpus(std::int64_t ranks, const std::function<void(World&)>& f, double timeout = 60) {
  dist::run_local(ranks,
                  [&](World& world) {
                    const DeviceScope mine(world.device());
                    f(world);
                  },
                  {.timeout = timeout, .engine = dist::Engine::nccl});
}
/// The weights after some steps on 12 rows, which ranks share; on the CPU without an engine.
Tensor learned(std::int64_t ranks, dist::Engine engine, const dist::DataParallelOptions& options) {
  Tensor found;
  dist::run_local(ranks,
                  [&](World& world) {
                    const DeviceScope mine(world.device());
                    seed(1);
                    Net net;
                    optim::Adam adam(parameters(net), {.learning_rate = 0.02});
                    dist::DataParallel replicas(world, adam, options);
                    for (std::uint64_t step = 0; step < 4; ++step) {
                      const Generator own(step);
                      const GeneratorScope scope(own);
                      const Tensor rows = random::normal({12, 7});
                      const std::int64_t from = 12 * world.rank() / ranks,
                                         to = 12 * (world.rank() + 1) / ranks;
                      const auto cost = [&](std::int64_t first, std::int64_t end) {
                        const Tensor part = rows(range(first, end));
                        return mean(square(net(part(all, range(0, 6))) - part(all, range(6, 7))));
                      };
                      const bool tree = options.sum == dist::Sum::tree;
                      for (std::int64_t k = from; tree && k + 1 < to; ++k) {
                        GradientTape tape;
                        replicas.accumulate(tape, cost(k, k + 1));
                      }
                      GradientTape tape;
                      const std::int64_t first = tree ? to - 1 : from;
                      replicas.step(tape, cost(first, to), {.examples = to - first});
                    }
                    std::vector<Tensor> weights;
                    for (const Variable& p : parameters(net))
                      weights.push_back(p.value().reshape({-1}));
                    const Tensor whole = concat(weights);
                    require(whole.device() == world.device(), "the weights are on the device");
                    require(distance(dist::broadcast(whole, world), whole) == 0,
                            "all ranks have the same bits");
                    if (world.rank() == 0) found = whole.to(cpu());
                  },
                  {.timeout = 60, .engine = engine});
  return found;
}
}  // namespace

TEST_CASE("ranks with a GPU each: the collectives stay there, with gradients", "[nccl]") {
  on_gpus(2, [](World& world) {
    const auto rank = static_cast<float>(world.rank());
    require(world.device() == cuda(world.rank()) && world.engine() == "local", "device");
    const auto equals = [&](const Tensor& got, const Tensor& expected, const char* what) {
      require(got.device() == world.device() && got.shape() == expected.shape() &&
                  distance(got, expected) == 0,
              what);
    };
    for (const DType dtype : {float32, float64, bfloat16, int32, int64}) {
      const Tensor x = tensor({1.f + rank, 2.f}).to(dtype);
      equals(dist::all_reduce(x, world), tensor({3.f, 4.f}).to(dtype), "all_reduce");
      equals(dist::all_reduce(x, world, {.op = dist::Reduce::max}), tensor({2.f, 2.f}).to(dtype),
             "max");
      equals(dist::all_gather(x, world), tensor({1.f, 2.f, 2.f, 2.f}).to(dtype), "all_gather");
      equals(dist::reduce_scatter(x, world),
             (world.rank() ? tensor({4.f}) : tensor({3.f})).to(dtype), "reduce_scatter");
      equals(dist::broadcast(x, world, {.root = 1}), tensor({2.f, 2.f}).to(dtype), "broadcast");
    }
    equals(dist::all_gather(transpose(arange(0, 6).reshape({2, 3}).to(float32)), world)(0),
           tensor({0.f, 3.f}), "a strided tensor");
    equals(dist::all_reduce(zeros({0, 3}), world), zeros({0, 3}), "an empty tensor");
    require(dist::all_reduce(tensor({1.f}).to(cpu()), world).device() == cpu(), "one of the host");
    GradientTape tape;
    const Tensor x = tensor({rank, 1.f});
    tape.watch(x);
    const Tensor loss = sum(square(dist::all_reduce(x, world)));
    equals(tape.gradient(loss, x), tensor({4.f, 8.f}), "gradient");  // 2 ranks x 2 sum
    const World part = world.split(0);
    equals(dist::all_reduce(tensor({1.f}), part), tensor({2.f}), "split");
  });
}

TEST_CASE("ranks with a GPU each take the steps of ranks on the CPU", "[nccl]") {
  const std::vector<dist::DataParallelOptions> cases = {
      {},
      {.bucket_bytes = 400},
      {.bucket_bytes = 400, .sum = dist::Sum::ordered},
      {.sum = dist::Sum::tree, .micro_batches = 12},
      {.bucket_bytes = 400, .clip_norm = 0.5, .shard_optimizer = true}};
  std::uint64_t order = 0;  // of the streams
  for (const dist::DataParallelOptions& options : cases) {
    emulate::set_seed(++order);
    const Tensor expected = learned(2, dist::Engine::local, options);
    CHECK(distance(learned(2, dist::Engine::nccl, options), expected) < 1e-5f);
  }
  dist::DataParallelOptions halves{.bucket_bytes = 400, .send_as = bfloat16};
  CHECK(distance(learned(2, dist::Engine::nccl, halves), learned(2, dist::Engine::local, halves)) <
        2e-2f);
  // The bits of a tree do not depend on the number of GPUs.
  dist::DataParallelOptions tree{.sum = dist::Sum::tree, .micro_batches = 12};
  CHECK(distance(learned(1, dist::Engine::nccl, tree), learned(2, dist::Engine::nccl, tree)) == 0);
}

TEST_CASE("a rank that does not come is named, and its peers abort NCCL", "[nccl]") {
  const std::string text = error_text([] {
    on_gpus(
        2,
        [](World& world) {
          dist::all_reduce(ones({3}), world);
          if (world.rank() == 0) dist::all_reduce(ones({3}), world);
        },
        0.5);
  });
  INFO(text);
  CHECK(text.find("all_reduce: rank 1: expected to come within 0.5 s") != std::string::npos);
  on_gpus(2, [](World& world) { dist::all_reduce(ones({3}), world); });  // others still work
}

TEST_CASE("ranks with a GPU each wait for one that is stopped at a prompt", "[nccl]") {
  const CaughtStderr caught;
  const CaughtCout shown;
  std::chrono::steady_clock::time_point end = {};
  User user("tensors\ncont\n", [&] {  // after the deadline
    const auto now = std::chrono::steady_clock::now();
    if (!has(caught.text(), "is stopped in a debugger")) return false;
    if (end == std::chrono::steady_clock::time_point{}) end = now + std::chrono::seconds(3);
    return now >= end;
  });
  on_gpus(
      2,
      [&](World& world) {
        dist::all_reduce(ones({3}), world);
        if (world.rank() == 0) debug::cli();
        for (int i = 0; i < 3000 && !user.is_asked; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        require(distance(dist::all_reduce(ones({3}), world), full({3}, 2)) == 0, "all_reduce");
      },
      2);
  CHECK(caught.text() == "rank 1 waits in all_reduce of step 0: rank 0 is stopped in a debugger\n");
}

TEST_CASE("an error of NCCL is an error of the collective", "[nccl]") {
  const std::string text = error_text([] {
    on_gpus(2, [](World& world) {
      world.barrier();
      if (world.rank() == 0) emulate::fail_collectives(true);
      world.barrier();
      dist::all_reduce(ones({3}), world);
    });
  });
  emulate::fail_collectives(false);
  INFO(text);
  CHECK(text.find("all_reduce: engine: expected the data of all ranks, got NCCL: remote process "
                  "exited or there was a network error") != std::string::npos);
}

TEST_CASE("more ranks than GPUs are refused on each rank", "[nccl]") {
  const std::string text = error_text([] { on_gpus(3, [](World&) {}); });
  INFO(text);
  CHECK(text.find("got 2 GPUs for 3 ranks of a host") != std::string::npos);
}
}  // namespace reel::tests
