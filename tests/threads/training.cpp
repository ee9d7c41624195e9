// SPDX-License-Identifier: BSD-3-Clause
// R17, R18, R19: training in threads that share weights, in children of a fork, and from a seed.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"
#include "threads/process.hpp"
#include "threads/threads.hpp"

namespace reel::tests {
namespace {
/// A cell in a loop, a sequence op, dropout, and a layer that is wide enough for several threads.
struct Model {
  nn::Embedding embed{20, 16};
  nn::LSTMCell cell{16, 24};
  nn::LSTM lstm{24, 24};
  nn::Linear wide{24, 8192}, out{8192, 5};
  nn::Dropout drop{0.1};

  Tensor loss(const Tensor& words, const Tensor& labels) const {
    nn::LSTMState state = cell.initial_state(words.shape()[1]);
    std::vector<Tensor> steps;
    for (std::int64_t t = 0; t < words.shape()[0]; ++t)
      steps.push_back((state = cell(embed(words(t)), state)).h);
    const auto [outputs, states] = lstm(stack(steps));
    return mean(cross_entropy(out(drop(tanh(wide(outputs(-1))))), labels));
  }
  void fields(auto&& field) {
    field("embed", embed);
    field("cell", cell);
    field("lstm", lstm);
    field("wide", wide);
    field("out", out);
  }
};

struct Batch {
  Tensor words = random::integers(0, 20, {6, 12}), labels = random::integers(0, 5, {12});
};

/// A hash of the bits of all weights after a few steps from a seed.
std::uint64_t bits_after_training(int steps) {
  seed(7);
  Model model;
  const std::vector<Variable> weights = parameters(model);
  optim::Adam adam(weights, {.learning_rate = 0.01});
  const Batch batch;
  for (int i = 0; i < steps; ++i) {
    GradientTape tape;
    adam.step(tape.gradient(model.loss(batch.words, batch.labels), weights));
  }
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a over words
  for (const Variable& weight : weights)
    for (const float x : weight.value().values<float>()) {
      std::uint32_t word;
      std::memcpy(&word, &x, sizeof word);
      hash = (hash ^ word) * 1099511628211u;
    }
  return hash;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].values<float>(), y = b[i].values<float>();
    if (x.size() != y.size() || std::memcmp(x.data(), y.data(), 4 * x.size()) != 0) return false;
  }
  return a.size() == b.size();
}
}  // namespace

TEST_CASE("threads with a tape each learn from shared weights", "[threads]") {
  const KeepThreads keep;
  set_num_threads(2);
  seed(3);
  Model model;
  const std::vector<Variable> weights = parameters(model);
  const Batch batch;
  const auto gradients = [&] {
    const TrainScope without_dropout(false);
    GradientTape tape;
    return tape.gradient(model.loss(batch.words, batch.labels), weights);
  };
  const std::vector<Tensor> expected = gradients();
  bool right[4] = {};
  std::vector<std::thread> threads;
  for (bool& all_right : right)
    threads.emplace_back([&] {
      all_right = true;
      for (int i = 0; i < 5; ++i) all_right &= same_bits(gradients(), expected);
    });
  for (std::thread& thread : threads) thread.join();
  for (const bool all_right : right) CHECK(all_right);
}

TEST_CASE("threads may list the parameters of one model, which names its Variables by their path",
          "[threads]") {
  int named = 0;
  for (int round = 0; round < 50; ++round) {
    const Model model;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { parameters(model); });
    for (std::thread& thread : threads) thread.join();
    named += model.cell.weight.name() == "cell.weight";
  }
  CHECK(named == 50);
}

TEST_CASE("trains from a seed", "[.trains]") {
  std::cout << "bits: " << bits_after_training(3) << '\n';
}

TEST_CASE("the same seed trains to the same bits, in every run and with any number of threads") {
  const std::string expected = printed_under("[.trains]", "REEL_NUM_THREADS=1");
  REQUIRE(expected.find("bits: ") != expected.npos);
  for (const char* threads : {"1", "2", "3", "8"})
    CHECK(printed_under("[.trains]", std::string("REEL_NUM_THREADS=") + threads) == expected);
}

#ifndef __SANITIZE_THREAD__  // which allows no threads after a fork
TEST_CASE("children of a fork train as their parent does") {
  const KeepThreads keep;
  set_num_threads(3);
  const std::uint64_t expected = bits_after_training(2);
  CHECK(expected != bits_after_training(1));
  const int children = std::getenv("REEL_TEST_LONG") ? 200 : 20;
  int right = 0;
  for (int i = 0; i < children; ++i)
    right += true_in_child([&] { return bits_after_training(2) == expected; });
  CHECK(right == children);
}
#endif
}  // namespace reel::tests
