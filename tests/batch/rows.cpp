// SPDX-License-Identifier: BSD-3-Clause
// Calls whose inputs lie in several launches, in strided outputs, or were there before.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
void check_close(const Tensor& a, const Tensor& b) {
  CHECK(allclose(a, b, {.rtol = 1e-4, .atol = 1e-5}));
}
std::int64_t launches_of(const std::string& name) {
  for (const BatchedOp& op : batching_report().ops)
    if (op.name == name) return op.launches;
  return 0;
}
/// Its input runs through `i` layers. Then each example reads a value, so that all examples wait
/// and the ops after it take results of many launches. They take columns of a wider result: a
/// strided view.
Tensor deep(int i, const Tensor& x, const Variable& w, int width) {
  Tensor y = x;
  for (int k = 0; k < i; ++k) {
    const Tensor wide = matmul(y, w);
    y = tanh(wide(all, range(0, width))) + wide(all, range(width, 2 * width));
  }
  const Tensor part = matmul(y, w)(all, range(width, {}));
  if (!std::isfinite(sum(part).item<double>())) return sum(part);
  return sum(square(sin(part))) + sum(y);
}
}  // namespace

TEST_CASE("inputs from many launches have the values and gradients of a loop") {
  for (const int count : {2, 5, 33, 70}) {
    INFO(count << " examples");
    seed(3);
    const Variable w("w", random::normal({3, 6}, {.stddev = 0.3}));
    const Tensor x = random::normal({1, 3});
    std::vector<int> depths;
    for (int i = 0; i < count; ++i) depths.push_back(i * 7 % count);
    GradientTape loop, tape;
    loop.watch(x);
    tape.watch(x);
    std::vector<Tensor> one_by_one;
    for (const int i : depths) one_by_one.push_back(deep(i, x, w, 3));
    const Tensor expected = sum(stack(one_by_one));
    const Tensor found = sum(stack(batched(depths, [&](int i) { return deep(i, x, w, 3); })));
    CHECK(launches_of("sin") == 1);
    check_close(found, expected);
    const auto slopes = loop.gradient(expected, {GradientSource(w), GradientSource(x)});
    const auto got = tape.gradient(found, {GradientSource(w), GradientSource(x)});
    for (std::size_t i = 0; i < 2; ++i) check_close(got[i], slopes[i]);
  }
}

TEST_CASE("inputs from several launches have second gradients") {
  seed(4);
  const Variable w("w", random::normal({2, 4}, {.stddev = 0.3, .dtype = DType::float64}));
  const Tensor x = random::normal({1, 2}, {.dtype = DType::float64});
  const std::vector<int> depths{0, 3, 1, 2};
  const auto slope_of_slope = [&](const auto& scores_of) {
    GradientTape outer;
    GradientTape inner;
    const Tensor total = sum(stack(scores_of()));
    const Tensor slope = inner.gradient(total, w);
    return outer.gradient(sum(square(slope)), w);
  };
  const auto by_loop = slope_of_slope([&] {
    std::vector<Tensor> all;
    for (const int i : depths) all.push_back(deep(i, x, w, 2));
    return all;
  });
  const auto together =
      slope_of_slope([&] { return batched(depths, [&](int i) { return deep(i, x, w, 2); }); });
  check_close(together, by_loop);
}

TEST_CASE("results of ops and tensors that were there before are inputs of one launch") {
  for (const DType dtype : {DType::float32, DType::float16, DType::float64}) {
    INFO(dtype);
    const Variable w("w", ones({2}, {.dtype = dtype}));
    const Tensor watched = full({2}, 7.0f, {.dtype = dtype});
    GradientTape tape;
    tape.watch(watched);
    const std::vector<int> six{0, 1, 2, 3, 4, 5};
    const auto found = batched(six, [&](int i) {
      const Tensor given = full({2}, i, {.dtype = dtype});
      const Tensor x = i % 3 == 0 ? given : i % 3 == 1 ? w * 2 : watched;
      return square(x + w);
    });
    CHECK(launches_of("square") == 1);
    const std::vector<float> expected{1, 9, 64, 16, 9, 64};
    for (std::size_t i = 0; i < 6; ++i) {
      const Tensor row = found[i].to(float32);
      CHECK(row.to_vector<float>() == std::vector<float>(2, expected[i]));
    }
    const auto slopes =
        tape.gradient(sum(concat(found)), {GradientSource(w), GradientSource(watched)});
    CHECK(slopes[0].to(float32).to_vector<float>() ==
          std::vector<float>(2, 2 + 18 + 16 + 8 + 18 + 16));
    CHECK(slopes[1].to(float32).to_vector<float>() == std::vector<float>(2, 32));
  }
}

TEST_CASE("a queue of which all calls are ready comes before one that others will join") {
  // Examples take two kinds of steps in orders of their own, as a shift-reduce network does.
  const Variable w("w", full({2}, 0.5f));
  std::mt19937 random(5);
  std::vector<std::vector<bool>> programs(12, std::vector<bool>(20));
  for (auto& program : programs)
    for (std::size_t i = 0; i < program.size(); ++i) program[i] = random() % 2;
  batched(programs, [&](const std::vector<bool>& program) {
    Tensor x = w * 1.0f;
    for (const bool longer : program) {
      if (longer) x = tanh(x + w);
      x = sin(x);
    }
    return x;
  });
  // The smallest mean depth first makes 49 launches, the most ready calls first 27.
  CHECK(launches_of("sin") <= 24);
}
}  // namespace reel::tests
