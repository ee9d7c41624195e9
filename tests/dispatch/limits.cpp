// SPDX-License-Identifier: BSD-3-Clause
// Depth, exceptions and memory: what must hold whatever the program does.
#include <pthread.h>

#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/dispatch/context.hpp"
#include "support/catch.hpp"

using namespace reel;

namespace {
struct ThreadState {
  std::uint8_t mode;
  std::uint64_t alive, active;
  bool training;
  const char* site;
  std::int64_t tensors, records;
  friend bool operator==(const ThreadState&, const ThreadState&) = default;
};
ThreadState state() {
  Context& context = Context::here();
  const MemoryStatistics memory = memory_statistics();
  return {context.mode,      context.reel.alive,  context.reel.active, context.training,
          context.site.file, memory.live_tensors, memory.live_records};
}

/// Throws at the k-th call that reaches the gate.
class Bomb : public Stage {
 public:
  explicit Bomb(int k) : left_(k) {}
  bool before(const GateCall&) override {
    if (left_-- == 0) throw std::runtime_error("bomb");
    return true;
  }

 private:
  int left_;
};

void program(nn::LSTMCell& cell, const Tensor& x) {
  const TrainScope train(false);
  GradientTape outer({.persistent = true});
  outer.watch(x);
  GradientTape tape;
  auto state = cell(x, cell.initial_state(2));
  Tensor loss = sum(state.h * state.h);
  auto pause = tape.pause();
  Tensor slope = outer.gradient(loss, x);
  Tensor unused = slope + 1.0f;
}

constexpr int chain_length = 4'000'000;

void* long_chain(void* bytes) {
  Variable w("w", tensor(1.0f));
  GradientTape tape;
  Tensor x = w * 1.0f;
  for (int i = 0; i < chain_length; ++i) x = x + w;
  *static_cast<float*>(bytes) = tape.gradient(x, w).item<float>();
  return nullptr;
}
}  // namespace

TEST_CASE("four million ops are recorded, played and freed on a stack of 256 kB") {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  float slope = 0;
  REQUIRE(pthread_create(&thread, &attributes, long_chain, &slope) == 0);
  pthread_join(thread, nullptr);
  CHECK(slope == chain_length + 1);
}

TEST_CASE("an exception at every op position leaves the thread as it was") {
  nn::LSTMCell cell{3, 4};
  Tensor x = random::normal({2, 3});
  program(cell, x);
  const ThreadState before = state();
  int thrown = 0;
  for (int k = 0; k < 200; ++k) {
    Bomb bomb(k);
    try {
      const StageScope scope(bomb);
      program(cell, x);
    } catch (const std::runtime_error&) {
      ++thrown;
    }
    REQUIRE(state() == before);
  }
  CHECK(thrown > 10);
  CHECK(thrown < 200);
}

TEST_CASE("tensors made in one thread and freed in another do not pile up", "[threads]") {
  const auto cached = [] { return memory_statistics().live_bytes; };
  const auto before = cached();
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < 2000; ++i) tensors.push_back(tensor({1.0f, 2.0f}));
    std::thread([tensors = std::move(tensors)]() mutable { tensors.clear(); }).join();
  }
  CHECK(cached() == before);
}

TEST_CASE("each thread has tapes of its own; weights are shared", "[threads]") {
  Variable w("w", tensor({1.0f, 2.0f}));
  std::vector<float> slopes(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < slopes.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        GradientTape tape;
        Tensor y = sum(w * w * static_cast<float>(t));
        slopes[t] = tape.gradient(y, w)(1).item<float>();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < slopes.size(); ++t) CHECK(slopes[t] == 4.0f * static_cast<float>(t));
}
