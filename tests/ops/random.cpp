// SPDX-License-Identifier: BSD-3-Clause
// Streams of random numbers as programs use them. tests/kernels/random.cpp tests the numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"
#include "threads/process.hpp"

namespace reel::tests {
namespace {
using Draw = Tensor (*)();
const Draw draws[] = {
    [] { return random::normal({7}); },
    [] {
      return random::normal({3, 5}, {.mean = 2, .stddev = 3, .dtype = DType::float64});
    },
    [] { return random::uniform({9}, {.low = -1, .high = 1}); },
    [] { return random::uniform({5}, {.dtype = DType::float64}); },
    [] { return random::integers(-5, 5, {6}); },
    [] { return random::bernoulli(0.4, {33}); },
    [] { return random::permutation(11); },
    [] { return dropout(ones({10}), 0.5); }};

bool same_draws(const std::vector<Tensor>& x, const std::vector<Tensor>& y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const Tensor& a, const Tensor& b) { return equal(a, b); });
}
std::vector<Tensor> draw_all() {
  std::vector<Tensor> drawn;
  for (Draw draw : draws) drawn.push_back(draw());
  return drawn;
}
std::vector<Tensor> draw_all(const Generator& generator) {
  const GeneratorScope scope(generator);
  return draw_all();
}
}  // namespace

TEST_CASE("the same seed gives the same bits, another seed others") {
  seed(42);
  const std::vector<Tensor> first = draw_all(), later = draw_all();
  CHECK_FALSE(same_draws(first, later));
  seed(42);
  CHECK(same_draws(draw_all(), first));
  CHECK(same_draws(draw_all(), later));
  CHECK(same_draws(draw_all(Generator(42)), first));
  CHECK_FALSE(same_draws(draw_all(Generator(43)), first));
}

TEST_CASE("no two draws of a stream share numbers") {
  const GeneratorScope scope(Generator(1));
  std::vector<float> all;
  for (int count = 1; count < 12; ++count)
    for (float x : random::uniform({count}).to_vector<float>()) all.push_back(x);
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
}

TEST_CASE("copies of a Generator share the stream; its position can be set back") {
  Generator generator(7), copy = generator, other(7);
  const std::vector<Tensor> first = draw_all(generator);
  CHECK(generator.position() > 0);
  CHECK(copy.position() == generator.position());
  CHECK(copy.seed() == 7);
  CHECK(other.position() == 0);
  const std::vector<Tensor> second = draw_all(copy);
  CHECK_FALSE(same_draws(first, second));
  copy.set_position(0);
  CHECK(same_draws(draw_all(generator), first));
  CHECK(same_draws(draw_all(copy), second));
  other = copy;
  CHECK(other.position() == copy.position());
}

TEST_CASE("a stream moves on by the blocks of four words that a draw takes") {
  Generator generator(0);
  const GeneratorScope scope(generator);
  const auto blocks = [&](Draw draw) {
    generator.set_position(0);
    draw();
    return generator.position();
  };
  CHECK(blocks([] { return random::uniform({4}); }) == 1);
  CHECK(blocks([] { return random::uniform({5}); }) == 2);
  CHECK(blocks([] { return random::normal({6}, {.dtype = DType::float64}); }) == 3);
  CHECK(blocks([] { return random::integers(0, 2, {3}); }) == 2);
  CHECK(blocks([] { return random::bernoulli(0.5, {2, 6}); }) == 3);
  CHECK(blocks([] { return random::permutation(8); }) == 4);
  CHECK(blocks([] { return random::uniform({0}); }) == 0);
}

TEST_CASE("scopes nest, and the thread's own stream goes on behind them") {
  seed(5);
  const Tensor first = random::uniform({3}), second = random::uniform({3});
  seed(5);
  CHECK(equal(random::uniform({3}), first));
  {
    const GeneratorScope outer(Generator(1));
    random::uniform({100});
    {
      const GeneratorScope inner(Generator(5));
      CHECK(equal(random::uniform({3}), first));
    }
    CHECK_FALSE(equal(random::uniform({3}), first));
  }
  CHECK(equal(random::uniform({3}), second));
}

TEST_CASE("distributions have the ends, moments and dtypes that were asked for") {
  const GeneratorScope scope(Generator(3));
  const Tensor uniform = random::uniform({40'000}, {.low = 2, .high = 6});
  CHECK(min(uniform).item<float>() >= 2);
  CHECK(max(uniform).item<float>() < 6);
  CHECK(mean(uniform).item<float>() == Approx(4).margin(0.03));
  const Tensor normal = random::normal({200, 200}, {.mean = -1, .stddev = 2});
  CHECK(mean(normal).item<float>() == Approx(-1).margin(0.05));
  CHECK(std::sqrt(mean(square(normal + 1)).item<float>()) == Approx(2).epsilon(0.02));
  const Tensor integers = random::integers(-2, 3, {10'000});
  CHECK(integers.dtype() == DType::int64);
  for (int value = -2; value < 3; ++value)
    CHECK(sum(integers == value).item<std::int64_t>() == Approx(2000).epsilon(0.1));
  CHECK(sum(random::bernoulli(0.25, {10'000})).item<std::int64_t>() == Approx(2500).epsilon(0.1));
  CHECK(equal(random::uniform({3}, {.low = 2, .high = 2}), full({3}, 2.0f)));
  CHECK(equal(random::normal({3}, {.mean = 2, .stddev = 0}), full({3}, 2.0f)));
  CHECK(random::normal({}).rank() == 0);
  CHECK(random::normal({0, 3}).shape() == Shape{0, 3});
  CHECK(equal(random::integers(5, 6, {4}), full({4}, 5)));
  CHECK(equal(random::bernoulli(0, {50}), full({50}, false)));
  CHECK(equal(random::bernoulli(1, {50}), full({50}, true)));
  const Tensor far = random::normal({4}, {.mean = 1e300, .dtype = DType::float64});
  CHECK(all(abs(far - 1e300) < 1e290).item<bool>());
}

TEST_CASE("a permutation holds each number once") {
  const GeneratorScope scope(Generator(8));
  for (int n : {0, 1, 2, 17, 1000}) {
    std::vector<std::int64_t> x = random::permutation(n).to_vector<std::int64_t>();
    std::sort(x.begin(), x.end());
    CHECK(equal(tensor(x), arange(0, n)));
  }
}

TEST_CASE("dropout keeps the mean; its gradient has the same zeros") {
  const GeneratorScope scope(Generator(4));
  const Tensor x = random::uniform({100, 100}, {.low = 1, .high = 2});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = dropout(x, 0.25);
  const Tensor slope = tape.gradient(y, x);
  const Tensor kept = y != 0;
  CHECK(mean(kept).item<float>() == Approx(0.75).margin(0.02));
  CHECK(mean(y).item<float>() == Approx(mean(x).item<float>()).epsilon(0.03));
  CHECK(allclose(y, x * kept / 0.75, {.rtol = 1e-6}));
  CHECK(allclose(slope, kept.to(DType::float32) / 0.75, {.rtol = 1e-6}));
  CHECK(equal(dropout(x, 0), x));
  CHECK(dropout(x.to(DType::float64), 0.5).dtype() == DType::float64);
}

TEST_CASE("distributions that do not exist are refused, and draw nothing") {
  Generator generator(1);
  const GeneratorScope scope(generator);
  check_refused<Error>([] { random::normal({2}, {.stddev = -1e-9}); }, "normal: stddev: expected");
  check_refused<Error>([] { random::normal({2}, {.mean = NAN}); }, "normal: mean");
  check_refused<Error>([] { random::uniform({2}, {.low = NAN}); }, "uniform: low");
  check_refused<Error>([] { random::uniform({2}, {.high = 1e39}); }, "uniform: high");
  check_refused<Error>([] { random::uniform({2}, {.low = 1, .high = 0}); }, "uniform: high");
  check_refused<Error>([] { random::uniform({2}, {.high = INFINITY}); }, "uniform: high");
  check_refused<Error>([] { random::integers(3, 3, {2}); }, "integers: high: expected more than");
  check_refused<Error>([] { random::normal({2}, {.mean = 1e300}); }, "normal: mean");
  for (const double p : {-1e-9, 1 + 1e-9, std::nan("")})
    check_refused<Error>([&] { random::bernoulli(p, {2}); }, "bernoulli: probability");
  for (const double p : {-1e-9, 1.0, std::nan("")})
    check_refused<Error>([&] { dropout(ones({2}), p); }, "dropout: probability");
  check_refused<DTypeError>([] { dropout(tensor({1}), 0.5); }, "dropout");
  check_refused<DTypeError>([] { random::normal({2}, {.dtype = DType::int32}); }, "normal: dtype");
  check_refused<ShapeError>([] { random::uniform({-1}); }, "lengths of at least 0");
  check_refused<ShapeError>([] { random::permutation(-1); }, "lengths of at least 0");
  CHECK(generator.position() == 0);
}

TEST_CASE("uniform numbers of an interval of one point, and of all that is finite") {
  CHECK(equal(random::uniform({100}, {.low = 0.1, .high = 0.1}), full({100}, 0.1f)));
  const double most = std::numeric_limits<double>::max();
  const Tensor x = random::uniform({100}, {.low = -most, .high = most, .dtype = DType::float64});
  CHECK(all(abs(x) < most));
}

TEST_CASE("prints its first draw", "[.first]") {
  std::printf("drew %.9g\n", static_cast<double>(random::uniform({}).item<float>()));
}

TEST_CASE("the first thread that draws has the stream of seed 0", "[fork]") {
  const GeneratorScope scope(Generator(0));
  std::array<char, 40> expected;
  const auto drawn = static_cast<double>(random::uniform({}).item<float>());
  std::snprintf(expected.data(), expected.size(), "drew %.9g\n", drawn);
  CHECK(printed_under("[.first]", "").find(expected.data()) != std::string::npos);
}

TEST_CASE("a traced function reads the seed and the position of a generator anew") {
  Generator numbers(5);
  auto placed = trace([&](Tensor x) { return x + static_cast<float>(numbers.position()); });
  auto seeded = trace([&](Tensor x) { return x + static_cast<float>(numbers.seed()); });
  for (int i = 0; i < 5; ++i) {
    CHECK(equal(placed(zeros({1})), tensor({static_cast<float>(numbers.position())})));
    CHECK(equal(seeded(zeros({1})), tensor({static_cast<float>(numbers.seed())})));
    {
      const GeneratorScope scope(numbers);
      random::uniform({100});
    }
    if (i == 3) numbers = Generator(11);
  }
}

TEST_CASE("seed() inside a scope restarts the stream of the scope") {
  seed(5);
  const Tensor first = random::uniform({3}), second = random::uniform({3});
  seed(5);
  random::uniform({3});
  Generator generator(1);
  {
    const GeneratorScope scope(generator);
    random::uniform({7});
    seed(5);
    CHECK(equal(random::uniform({3}), first));
    CHECK(generator.seed() == 5);
  }
  CHECK(equal(random::uniform({3}), second));
}
}  // namespace reel::tests
