// SPDX-License-Identifier: BSD-3-Clause
// Tensors over memory that the library did not allocate: who keeps it, and who may write to it.
#include <reel/share.hpp>

#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "lib/body/access.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
/// Counts how often an owner of memory is destroyed.
struct Owner {
  std::shared_ptr<std::vector<float>> memory;
  int* ends;
  Owner(std::shared_ptr<std::vector<float>> kept, int* count)
      : memory(std::move(kept)), ends(count) {}
  Owner(Owner&& other) noexcept : memory(std::move(other.memory)), ends(other.ends) {
    other.ends = nullptr;
  }
  ~Owner() {
    if (ends) ++*ends;
  }
};
std::shared_ptr<std::vector<float>> six() {
  auto memory = std::make_shared<std::vector<float>>(6);
  std::iota(memory->begin(), memory->end(), 0.0f);
  return memory;
}
Tensor shared_six(const std::shared_ptr<std::vector<float>>& memory, int* ends) {
  return share(std::span<const float>(*memory), {2, 3}, Owner(memory, ends));
}
const float* address(const Tensor& x) { return x.values<float>().data(); }
}  // namespace

TEST_CASE("a shared span is used in place, and its owner goes with the last view", "[share][cpu]") {
  int ends = 0;
  const auto memory = six();
  Tensor x = shared_six(memory, &ends);
  CHECK(address(x) == memory->data());
  CHECK(x.shape() == Shape({2, 3}));
  CHECK(equal(x, arange(0.0f, 6.0f).reshape({2, 3})));
  Tensor row = x(1), last = row(2);
  x = Tensor();
  row = Tensor();
  CHECK(ends == 0);
  CHECK(last.item<float>() == 5);
  CHECK(memory.use_count() == 2);
  last = Tensor();
  CHECK(ends == 1);
  CHECK(memory.use_count() == 1);
}

TEST_CASE("no op writes to shared memory", "[share][cpu]") {
  int ends = 0;
  const auto memory = six();
  const std::vector<float> before = *memory;
  {
    Tensor x = shared_six(memory, &ends);
    x += 1;  // a temporary or the only handle, into which an op may otherwise write its result
    CHECK(*memory == before);
    Tensor y = tanh(shared_six(memory, &ends)) + 1;
    y = std::move(y) * 2;
    Tensor row = shared_six(memory, &ends)(1);  // the only view of a tensor that no longer exists
    row = std::move(row) + 1;
    CHECK(row.to_vector<float>() == std::vector<float>{4, 5, 6});
    CHECK(*memory == before);
    Variable w("w", shared_six(memory, &ends));
    w.assign_add(1);
    w(0).assign(7);
    CHECK(*memory == before);
  }
  CHECK(ends == 4);
}

TEST_CASE("tapes and traces take shared memory as they take any tensor", "[share]") {
  int ends = 0;
  const auto memory = six(), other = six();
  {
    const Tensor x = shared_six(memory, &ends);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = sum(square(x));
    CHECK(equal(tape.gradient(y, x), 2 * arange(0.0f, 6.0f).reshape({2, 3})));
    auto f = trace([](const Tensor& a) { return exp(a) * 2 + a; });
    for (int i = 0; i < 3; ++i) CHECK(equal(f(shared_six(other, &ends)), exp(x) * 2 + x));
  }
  CHECK(ends == 4);
  CHECK((*other)[5] == 5);
}

TEST_CASE("no gradient is added to shared memory", "[share][cpu]") {
  int ends = 0;
  const auto memory = six();
  const std::vector<float> before = *memory;
  {
    // The gradient of a function is in shared memory, and nothing else holds it.
    const auto given = custom_gradient([&](Tensor t) {
      return std::pair(t * 3.0f, [&](Tensor) { return shared_six(memory, &ends); });
    });
    const Tensor x = ones({2, 3});
    for (const bool first : {false, true}) {
      GradientTape tape;
      tape.watch(x);
      const Tensor twice = first ? tanh(x) * 2 : Tensor(), y = given(x);
      const Tensor gradient = tape.gradient(first ? twice + y : y + exp(x), x);
      const double slope = first ? 2 * (1 - std::tanh(1.0) * std::tanh(1.0)) : std::exp(1.0);
      CHECK(allclose(gradient, arange(0.0f, 6.0f).reshape({2, 3}) + slope));
      CHECK(*memory == before);
    }
    // A pass that follows may take over the memory of the gradient that it reads.
    GradientTape tape;
    tape.watch(x);
    const Tensor y = given(tanh(square(x)));
    const double t = std::tanh(1.0), slope = 2 * (1 - t * t);
    CHECK(allclose(tape.gradient(y, x), arange(0.0f, 6.0f).reshape({2, 3}) * slope));
    CHECK(*memory == before);
  }
  CHECK(ends == 3);
}

TEST_CASE("a container is taken over", "[share][cpu]") {
  std::vector<double> mine = {1, 2, 3, 4};
  const double* const first = mine.data();
  const Tensor x = adopt(std::move(mine), {2, 2});
  CHECK(x.values<double>().data() == first);
  CHECK(equal(x, tensor<double>({{1.0, 2.0}, {3.0, 4.0}})));
  // A std::array stores its elements inside, so they move with it.
  CHECK(equal(adopt(std::array<std::int32_t, 2>{7, 8}, {2}), tensor({7, 8})));
  const Tensor none = adopt(std::vector<float>(), {0, 3});
  CHECK(none.shape() == Shape({0, 3}));
  CHECK(equal(adopt(std::vector<float>{5}, {}), tensor(5.0f)));
}

TEST_CASE("a count that is not the shape's leaves the container as it was", "[share]") {
  std::vector<float> mine(6, 1.0f);
  CHECK_THROWS_WITH(adopt(std::move(mine), {2, 2}),
                    Catch::Contains("adopt: values: expected 4 for shape (2, 2), got 6"));
  CHECK(mine.size() == 6);
  CHECK_THROWS_WITH(share(std::span<const float>(mine), {7}, 0),
                    Catch::Contains("share: values: expected 7 for shape (7,), got 6"));
  CHECK_THROWS_AS(share(std::span<const float>(mine), {-1}, 0), ShapeError);
}

TEST_CASE(
    "memory of an address that does not suit its type, and bytes that are no bool, are copied",
    "[share]") {
  std::vector<std::byte> bytes(4 * 3 + 1);
  const float values[3] = {1, 2, 3};
  std::memcpy(bytes.data() + 1, values, sizeof values);
  const Tensor x =
      share(std::span<const float>(reinterpret_cast<const float*>(bytes.data() + 1), 3), {3}, 0);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  CHECK(equal(x, tensor({1.0f, 2.0f, 3.0f})));
  std::vector<unsigned char> truths = {0, 1, 2, 255};
  const Tensor t =
      share(std::span<const bool>(reinterpret_cast<const bool*>(truths.data()), 4), {4}, 0);
  CHECK(equal(t, tensor({false, true, true, true})));
  CHECK(equal(sum(t.to(DType::int32)), tensor<std::int64_t>(3)));
}

TEST_CASE("the owner is destroyed on the thread that ends the last tensor", "[share][threads]") {
  int ends = 0;
  const auto memory = six();
  Tensor x = shared_six(memory, &ends);
  std::thread([y = std::move(x)]() mutable { y = Tensor(); }).join();
  CHECK(ends == 1);
}

TEST_CASE("an owner may use tensors while it is destroyed", "[share][cpu]") {
  struct Uses {
    Tensor kept;
    float* sum;
    Uses(Tensor x, float* to) : kept(std::move(x)), sum(to) {}
    Uses(Uses&& other) noexcept : kept(std::move(other.kept)), sum(other.sum) {}
    ~Uses() {
      if (kept.defined()) *sum = reel::sum(kept * 2).item<float>();
    }
  };
  float sum = 0;
  Tensor kept = arange(0.0f, 4.0f);
  Tensor x = share(std::span<const float>(address(kept), 4), {2, 2}, Uses(kept, &sum));
  kept = Tensor();
  x = Tensor();
  CHECK(sum == 12);
}
}  // namespace reel::tests
