// SPDX-License-Identifier: BSD-3-Clause
// Results do not depend on the order in which threads, blocks and streams run.
#include <reel/reel.hpp>

#include "cuda/emulated.hpp"

namespace reel::tests {
namespace {
std::vector<Tensor> results() {
  const DeviceScope scope(cuda(0));
  seed(11);
  std::vector<Tensor> all;
  const auto keep = [&](const Tensor& y) { all.push_back(y.to(cpu())); };
  const auto both_ways = [&](const std::vector<Tensor>& sources, const auto& f) {
    GradientTape tape;
    for (const Tensor& each : sources) tape.watch(each);
    const Tensor y = f();
    keep(y);
    for (const Tensor& gradient : tape.gradient(sum(y * y), sources)) keep(gradient);
  };
  const Tensor x = random::normal({97, 83}), row = random::normal({83});
  const Tensor labels = random::integers(0, 83, {97});
  const Tensor many = random::normal({9000}), places = random::integers(0, 5, {9000});
  for (const Axes axes : {Axes({0}), Axes({1}), Axes({0, 1})})
    both_ways({x}, [&] { return sum(x, axes); });
  both_ways({x}, [&] { return prod(x, 1); });
  both_ways({x}, [&] { return softmax(x); });
  both_ways({x}, [&] { return cross_entropy(x, labels); });
  both_ways({x, row}, [&] { return layer_norm(x, row, row); });
  both_ways({x, row}, [&] { return x * row; });
  both_ways({x}, [&] { return matmul(x, transpose(x)); });
  both_ways({x}, [&] { return take(x, labels); });
  for (const int axis : {0, 1}) both_ways({x}, [&] { return cumsum(x, axis); });
  both_ways({many}, [&] { return scatter_add(zeros({5}), places, many, 0); });
  both_ways({many}, [&] { return segment_sum(many, places, 5); });
  both_ways({many}, [&] { return segment_softmax(many, places, 5); });
  keep(histogram(many, 20, -2, 2));
  keep(sort(many));
  keep(random::permutation(1000));
  keep(random::gamma(0.7, {3000}));
  nn::LSTM lstm(5, 7);
  const Tensor steps = random::normal({4, 6, 5});
  both_ways({steps}, [&] { return lstm(steps).outputs; });
  Variable w("w", row);
  optim::Adam adam({w});
  for (int i = 0; i < 3; ++i) adam.step({row * row});
  keep(w);
  return all;
}
}  // namespace

TEST_CASE("results are the same bits in any order of threads, blocks and streams") {
  emulate::set_seed(1);
  const std::vector<Tensor> first = results();
  for (const std::uint64_t seed : {2, 3}) {
    emulate::set_seed(seed);
    const std::vector<Tensor> again = results();
    REQUIRE(again.size() == first.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      INFO("result " << i << " with seed " << seed);
      CHECK(equal(again[i], first[i]));
    }
  }
}

TEST_CASE("a scan gives the same bits along adjacent elements as along others") {
  const DeviceScope scope(cuda(0));
  for (const std::int64_t length : {32, 83, 5000}) {
    INFO(length);
    const Tensor rows = random::uniform({33, length}, {.low = 0.9, .high = 1.1});
    const Tensor columns = transpose(rows) + 0;
    for (const auto f : {cumsum, cumprod, cummax, logcumsumexp})
      for (const bool reverse : {false, true}) {
        const Tensor adjacent = f(rows, 1, {reverse}), other = f(columns, 0, {reverse});
        CHECK(all(adjacent == transpose(other)).item<bool>());
      }
  }
}
}  // namespace reel::tests
