// SPDX-License-Identifier: BSD-3-Clause
// Signatures that differ in lengths: two are captured, the others are made from them.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/stderr.hpp"

namespace reel::tests {
namespace {
constexpr Tolerance near_enough{.rtol = 1e-5, .atol = 1e-5};

/// Calls a traced function and the function itself with x of each length, twice, and compares.
/// Gives the number of captures.
template <class F, class Make>
std::size_t captures(F f, const std::vector<int>& lengths, Make make, std::string* text = nullptr) {
  auto fast = trace<Tensor(Tensor)>(f, {.throw_on_difference = true});
  for (const int length : lengths)
    for (int call = 0; call < 3; ++call) {
      const Tensor x = make(length);
      INFO("length " << length << ", call " << call);
      CHECK(allclose(fast(x), f(x), near_enough));
    }
  const std::string explained = fast.explain();
  INFO(explained);
  CHECK(explained.find("eagerly") == std::string::npos);
  if (text) *text = explained;
  return fast.trace_count();
}
const auto rows = [](int length) { return random::normal({length, 4}); };
const auto square_of = [](int length) { return random::normal({length, length}); };
const std::vector<int> several = {3, 5, 9, 17, 30, 2, 40};
}  // namespace

TEST_CASE("two captures serve every length", "[cpu]") {
  std::string text;
  CHECK(captures([](Tensor x) { return tanh(x) * 2.0 + x; }, several, rows, &text) == 2);
  CHECK(text.find("made from") != std::string::npos);
  CHECK(captures([](Tensor x) { return softmax(x, -1) + sum(x, 0); }, several, rows) == 2);
  const Tensor w = random::normal({4, 6});
  CHECK(captures([w](Tensor x) { return matmul(x, w); }, several, rows) == 2);
  CHECK(captures([](Tensor x) { return transpose(x) + 1.0; }, several, rows) == 2);
  CHECK(captures(
            [](Tensor x) {
              return reshape(x, {2, x.shape()[0] * 2}) * 0.5;
            },
            several, rows) == 2);
  CHECK(captures([](Tensor x) { return x(x.shape()[0] - 1) + x(0); }, several, rows) == 2);
}
TEST_CASE("two axes of one length", "[cpu]") {
  CHECK(captures([](Tensor x) { return matmul(transpose(x), x) + x; }, several, square_of) == 2);
  CHECK(captures([](Tensor x) { return reshape(x, {-1}) * 2.0; }, several, square_of) >= 2);
  const auto scores = [](int length) { return random::normal({2, length, length, 3}); };
  CHECK(captures(
            [](Tensor x) {
              return sum(transpose(x, {0, 2, 1, 3}) * x, -1);
            },
            several, scores) == 2);
}
TEST_CASE("a batch that is equal to the length", "[cpu]") {
  auto f = [](Tensor x) { return sum(exp(x), 0) / static_cast<double>(x.shape()[1]); };
  auto fast = trace<Tensor(Tensor)>(f, {.throw_on_difference = true});
  const std::pair<int, int> sizes[] = {{5, 5}, {5, 7}, {5, 9}, {9, 9}, {9, 5},   {7, 5},
                                       {3, 5}, {3, 3}, {4, 4}, {6, 6}, {11, 11}, {5, 11}};
  for (const auto& [batch, length] : sizes)
    for (int call = 0; call < 2; ++call) {
      const Tensor x = random::normal({batch, length});
      INFO(batch << " x " << length);
      CHECK(allclose(fast(x), f(x), near_enough));
    }
  CHECK(fast.trace_count() < std::size(sizes));
}
TEST_CASE("a constant that is computed from the length", "[cpu]") {
  CHECK(captures([](Tensor x) { return sum(x, 0) * (1.0 / static_cast<double>(x.shape()[0])); },
                 several, rows) == 2);
  CHECK(captures([](Tensor x) { return x * static_cast<double>(x.shape()[0] - 1); }, several,
                 rows) == 2);
  CHECK(captures([](Tensor x) { return x / static_cast<double>(3 * x.shape()[0]); }, several,
                 rows) == 2);
  // Neither a sum nor a quotient: each length is captured.
  CHECK(captures([](Tensor x) { return x * std::sqrt(static_cast<double>(x.shape()[0])); }, several,
                 rows) == several.size());
  CHECK(captures(
            [](Tensor x) {
              return x * reshape(arange(0, x.shape()[0]), {-1, 1});
            },
            several, rows) == several.size());
}
TEST_CASE("a table with a row for each position", "[cpu]") {
  const Tensor table = random::normal({64, 4});
  CHECK(captures([table](Tensor x) { return x + table(range(0, x.shape()[0])); }, several, rows) ==
        2);
}
TEST_CASE("numbers that do not follow the length", "[cpu]") {
  const auto least = [](Tensor x) {
    return sum(x(range(0, std::min<std::int64_t>(x.shape()[0], 16))), 0);
  };
  const std::string text = on_stderr([&] {
    CHECK(captures(least, {3, 5, 9, 17, 30, 40, 50, 12}, rows) <= 5);
  });
  CHECK(text.find("depends on lengths") != std::string::npos);
  CHECK(text.find("may have been wrong") == std::string::npos);
  on_stderr([&] {
    const auto half = [](Tensor x) { return x(range(0, x.shape()[0] / 2)) * 2.0; };
    CHECK(captures(half, {4, 6, 10, 30, 20, 12}, rows) == 2);
    CHECK(captures(half, {3, 5, 9, 17, 30, 12, 13, 14, 15, 16}, rows) < 10);
    CHECK(captures([](Tensor x) { return x.shape()[0] > 16 ? exp(x) : x * 2.0; },
                   {3, 5, 9, 17, 30, 40, 50, 12}, rows) <= 5);
  });
}
TEST_CASE("plain values of a result that follow the length", "[cpu]") {
  auto f = [](Tensor x) { return std::pair(x * 2.0, x.shape()[0]); };
  auto fast = trace<std::pair<Tensor, std::int64_t>(Tensor)>(f, {.throw_on_difference = true});
  for (const int length : several)
    for (int call = 0; call < 2; ++call) CHECK(fast(rows(length)).second == length);
  CHECK(fast.trace_count() == several.size());
}
TEST_CASE("a training step whose batch changes", "[cpu]") {
  seed(3);
  nn::Sequential model{nn::Linear(4, 8), tanh, nn::Linear(8, 2)};
  nn::Sequential other{nn::Linear(4, 8), tanh, nn::Linear(8, 2)};
  const auto own = parameters(model), others = parameters(other);
  for (std::size_t i = 0; i < own.size(); ++i) others[i].assign(own[i].value());
  optim::Adam first(own), second(others);
  const auto step = [](auto& net, auto& optimizer) {
    return [&](Tensor x, Tensor y) {
      GradientTape tape;
      Tensor loss = mean(square(net(x) - y));
      optimizer.step(tape.gradient(loss, parameters(net)));
      return loss;
    };
  };
  auto fast = trace<Tensor(Tensor, Tensor)>(step(model, first), {.throw_on_difference = true});
  const auto slow = step(other, second);
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const int batch : {32, 16, 32, 32, 7, 21}) {
      const Tensor x = random::normal({batch, 4}), y = random::normal({batch, 2});
      INFO("epoch " << epoch << ", batch " << batch);
      CHECK(allclose(fast(x, y), slow(x, y), near_enough));
    }
  INFO(fast.explain());
  CHECK(fast.trace_count() == 2);
  for (std::size_t i = 0; i < own.size(); ++i)
    CHECK(allclose(own[i].value(), others[i].value(), near_enough));
}
TEST_CASE("a Transformer layer at many lengths has two captures", "[cpu]") {
  seed(4);
  nn::TransformerEncoderLayer layer(16, 4, {.feed_forward = 32, .dropout = 0.0});
  const auto gradient = [&](Tensor x) {
    GradientTape tape;
    const Tensor y = layer(x);
    const Tensor loss = mean(square(y));
    Tensor all = loss;
    for (const Tensor& g : tape.gradient(loss, parameters(layer))) all = all + sum(g);
    return all;
  };
  std::vector<int> lengths;
  for (int length = 6; length < 40; length += 3) lengths.push_back(length);
  const auto batch = [](int length) { return random::normal({2, length, 16}); };
  CHECK(captures([&](Tensor x) { return layer(x); }, lengths, batch) == 2);
  CHECK(captures(gradient, lengths, batch) == 2);
}
TEST_CASE("scan() over time at many lengths has two captures", "[cpu]") {
  nn::RNNCell cell(3, 8);
  const auto last = [&](Tensor xs) {
    return scan(zeros({xs.shape()[1], 8}), xs, [&](Tensor s, Tensor x) {
      Tensor next = cell(x, s);
      return std::pair(next, next);
    });
  };
  const auto time = [](int length) { return random::normal({length, 4, 3}); };
  const auto batch = [](int length) { return random::normal({6, length, 3}); };
  const auto states = [&](Tensor xs) { return last(xs).second; };
  CHECK(captures(states, several, time) == 2);
  CHECK(captures(states, several, batch) == 2);
  const auto with_rows = [&](Tensor xs) {
    GradientTape tape;
    const Tensor loss = sum(square(last(xs).second));
    Tensor all = loss;
    for (const Tensor& g : tape.gradient(loss, parameters(cell))) all = all + sum(g);
    return all;
  };
  CHECK(captures(with_rows, several, time) == 2);
}
TEST_CASE("a branch that both lengths know", "[cpu]") {
  auto f = [](Tensor x) { return (sum(x) > 0.0).item<bool>() ? x * 2.0 : exp(x); };
  auto fast = trace<Tensor(Tensor)>(f, {.throw_on_difference = true});
  for (const int length : {3, 5, 9, 17})
    for (const double sign : {1.0, -1.0, 1.0, -1.0}) {
      const Tensor x = full({length, 2}, sign);
      CHECK(allclose(fast(x), f(x), near_enough));
    }
  INFO(fast.explain());
  CHECK(fast.trace_count() == 4);
}
TEST_CASE("random functions at random lengths", "[cpu]") {
  std::uint64_t state = 7;
  const auto pick = [&](int count) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>(state >> 33) % count;
  };
  const Tensor table = random::normal({64, 4}), w = random::normal({4, 4});
  on_stderr([&] {
    for (int program = 0; program < 200; ++program) {
      std::vector<int> ops;
      for (int i = 0; i < 5; ++i) ops.push_back(pick(16));
      const auto f = [ops, table, w](Tensor x) {
        for (const int op : ops) {
          const std::int64_t n = x.shape()[0];
          const auto length = static_cast<double>(n);
          if (op == 0) x = tanh(x);
          if (op == 1) x = matmul(x, w);
          if (op == 2) x = x(range(0, std::min<std::int64_t>(n, 12)));
          if (op == 3) x = x(range(n / 2, n));
          if (op == 4) x = x * (1.0 / length);
          if (op == 5) x = n > 16 ? sigmoid(x) : x * 0.5;
          if (op == 6) x = x - mean(x, 0, Keepdims::yes);
          if (op == 7) x = x + table(range(0, n));
          if (op == 8) x = matmul(matmul(x, transpose(x)), x) * 0.01;
          if (op == 9) x = reshape(transpose(reshape(x, {n, 2, 2}), {1, 0, 2}), {n, 4});
          if (op == 10) x = x * reshape(arange(0, n) * 0.1, {-1, 1});
          if (op == 11) x = concat({x, x(range(0, 1))}, 0);
          if (op == 12) x = x / std::sqrt(length);
          if (op == 13) x = x + (length - 2);
          if (op == 14) x = reshape(flip(reshape(x, {-1}), 0), {n, 4});
          if (op == 15) x = softmax(x, 0);
        }
        return x;
      };
      auto fast = trace<Tensor(Tensor)>(f, {.throw_on_difference = true});
      for (int call = 0; call < 12; ++call) {
        const Tensor x = random::normal({2 + pick(24), 4});
        const Tensor expected = f(x);
        for (int again = 0; again < 2; ++again) {
          INFO("program " << program << ", length " << x.shape()[0]);
          CHECK(allclose(fast(x), expected, {.rtol = 1e-4, .atol = 1e-4}));
        }
      }
      CHECK(fast.explain().find("eagerly") == std::string::npos);
    }
  });
}
}  // namespace reel::tests
