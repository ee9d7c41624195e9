// SPDX-License-Identifier: BSD-3-Clause
// Truncated backpropagation through time: GradientTape::truncate().
#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
/// A recurrent network whose loss is formed in each step.
struct Net {
  Variable w{"w", random::normal({3, 3}, {.stddev = 0.7}).to(float64)};
  Variable u{"u", random::normal({2, 3}).to(float64)};
  Tensor step(const Tensor& x, const Tensor& h) const { return tanh(matmul(x, u) + matmul(h, w)); }
  static Tensor loss(const Tensor& h) { return sum(h * h * h); }
};
/// The gradient of the loss behind `steps` inputs from `first` on, from a constant state.
std::vector<Tensor> cut_by_hand(const Net& net, const Tensor& x, Tensor h, std::int64_t first,
                                std::int64_t steps) {
  GradientTape tape;
  for (std::int64_t t = first; t < first + steps; ++t) h = net.step(x(t), h);
  return tape.gradient(Net::loss(h), {net.w, net.u});
}
bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return allclose(a[0], b[0], {.rtol = 1e-12, .atol = 1e-12}) &&
         allclose(a[1], b[1], {.rtol = 1e-12, .atol = 1e-12});
}
}  // namespace

TEST_CASE("gradients of a truncated tape are those of a loop that is cut by hand") {
  const Net net;
  constexpr std::int64_t length = 40;
  const Tensor x = random::normal({length, 2, 2}).to(float64);
  for (const std::int64_t steps : {1, 2, 5, 100}) {
    GradientTape tape({.persistent = true});
    std::vector<Tensor> states = {zeros({2, 3}, float64)};
    for (std::int64_t t = 0; t < length; ++t) {
      tape.truncate(steps);
      states.push_back(net.step(x(t), states.back()));
      const std::int64_t first = std::max<std::int64_t>(t + 1 - steps, 0);
      const std::vector<Tensor> found = tape.gradient(Net::loss(states.back()), {net.w, net.u});
      const Tensor before = stop_gradient(states[static_cast<std::size_t>(first)]);
      const GradientTape::Pause paused = tape.pause();
      INFO(steps << " steps, step " << t);
      CHECK(same(found, cut_by_hand(net, x, before, first, t + 1 - first)));
    }
  }
}

TEST_CASE("a truncated gradient is the difference of the loss from the state before its steps") {
  const Net net;
  const Tensor x = random::normal({9, 2, 2}).to(float64);
  GradientTape tape;
  Tensor h = zeros({2, 3}, float64), before;
  for (std::int64_t t = 0; t < 9; ++t) {
    tape.truncate(4);
    if (t == 5) before = stop_gradient(h);
    h = net.step(x(t), h);
  }
  const Tensor slope = tape.gradient(Net::loss(h), net.w);
  const Tensor value = net.w.value();
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto loss_at = [&](double step) {
      Tensor moved = value + step * one_hot(Tensor(tensor(i)), 9, float64).reshape({3, 3});
      net.w.assign(moved);
      Tensor state = before;
      for (std::int64_t t = 5; t < 9; ++t) state = net.step(x(t), state);
      return Net::loss(state).item<double>();
    };
    const double difference = (loss_at(1e-5) - loss_at(-1e-5)) / 2e-5;
    CHECK(slope(0, i).item<double>() == Approx(difference).margin(1e-8));
    net.w.assign(value);
  }
}

TEST_CASE("a truncated tape keeps the records of its steps only") {
  const Net net;
  const Tensor x = random::normal({2, 2}).to(float64);
  GradientTape tape({.persistent = true});
  Tensor h = zeros({2, 3}, float64);
  std::int64_t bytes = 0, records = 0;
  for (int t = 0; t < 3000; ++t) {
    tape.truncate(10);
    h = net.step(x, h);
    if (t == 100) bytes = tape.memory().bytes;
    if (t == 2000) records = memory_statistics().live_records;
    if (t > 100) REQUIRE(tape.memory().bytes == bytes);
  }
  CHECK(tape.ops().size() == 40);
  CHECK(memory_statistics().live_records <= std::max<std::int64_t>(records, 1200));
  CHECK(same(tape.gradient(sum(h), {net.w, net.u}), tape.gradient(sum(h), {net.w, net.u})));
}

TEST_CASE("Variables that are updated in each step are truncated too") {
  const Net one, other = {Variable("w", one.w.value()), Variable("u", one.u.value())};
  const Tensor x = random::normal({30, 2, 2}).to(float64);
  const auto learn = [](const Variable& v, const Tensor& slope) { v.assign_sub(0.1 * slope); };
  GradientTape tape({.persistent = true});
  Tensor h = zeros({2, 3}, float64), by_hand = h;
  for (std::int64_t t = 0; t < 30; ++t) {
    tape.truncate(1);
    h = one.step(x(t), h);
    const std::vector<Tensor> slopes = tape.gradient(Net::loss(h), {one.w, one.u});
    const GradientTape::Pause paused = tape.pause();
    learn(one.w, slopes[0]), learn(one.u, slopes[1]);
    const std::vector<Tensor> cut = cut_by_hand(other, x, by_hand, t, 1);
    by_hand = other.step(x(t), by_hand);
    learn(other.w, cut[0]), learn(other.u, cut[1]);
    CHECK(allclose(one.w, other.w, {.rtol = 1e-12, .atol = 1e-12}));
  }
}

TEST_CASE(
    "a tensor that is watched stays a source; a value that was read long before is a constant") {
  const Variable w("w", tensor<double>({2.0}));
  const Tensor x = tensor<double>({3.0});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor read = w;
  Tensor h = x * 0.0 + 1.0;
  for (int t = 0; t < 400; ++t) {
    tape.truncate(2);
    h = stop_gradient(h / h) * w * x;  // 6
    const Tensor y = h * x;            // w x^2
    CHECK(tape.gradient(y, x).item<double>() == Approx(12));
    CHECK(tape.gradient(y, w).item<double>() == Approx(9));
    CHECK(tape.gradient(y * read, w).item<double>() == Approx(t == 0 ? 36 : 18));
  }
}

TEST_CASE("an outer tape keeps what an inner tape drops, and the other way round") {
  const Net net;
  const Tensor x = random::normal({300, 2, 2}).to(float64);
  GradientTape outer({.persistent = true});
  GradientTape inner({.persistent = true});
  Tensor h = zeros({2, 3}, float64);
  std::vector<Tensor> states = {h};
  for (std::int64_t t = 0; t < 300; ++t) {
    inner.truncate(3);
    if (t % 2 == 0) outer.truncate(20);
    states.push_back(h = net.step(x(t), h));
    if (t % 50 != 49) continue;
    const Tensor loss = Net::loss(h);
    const GradientTape::Pause first = outer.pause(), second = inner.pause();
    const std::int64_t from = t - 39;
    CHECK(same(
        inner.gradient(loss, {net.w, net.u}),
        cut_by_hand(net, x, stop_gradient(states[static_cast<std::size_t>(t - 2)]), t - 2, 3)));
    CHECK(
        same(outer.gradient(loss, {net.w, net.u}),
             cut_by_hand(net, x, stop_gradient(states[static_cast<std::size_t>(from)]), from, 40)));
  }
}

TEST_CASE("second derivatives go back through the steps of both tapes") {
  const Variable w("w", tensor<double>({1.5}));
  GradientTape outer({.persistent = true});
  Tensor h = ones({1}, float64);
  for (int t = 0; t < 5; ++t) {
    outer.truncate(2);
    GradientTape inner;
    h = stop_gradient(h) * w * w * w;
    const Tensor slope = inner.gradient(h, w);      // 3 h w^2
    const Tensor curve = outer.gradient(slope, w);  // 6 h w
    CHECK(curve.item<double>() ==
          Approx(6 * h.item<double>() / (1.5 * 1.5)));  // h w^3 is the new h
  }
}

TEST_CASE("truncate refuses what it cannot do, and dropped steps have no gradient") {
  const Variable w("w", tensor({2.0}));
  GradientTape tape({.persistent = true});
  CHECK(error_text([&] { tape.truncate(0); }).find("steps: expected a number from 1 on, got 0") !=
        std::string::npos);
  const Tensor old = w * 2;
  tape.truncate(1);
  const std::string text = error_text([&] { tape.gradient(old, w); });
  CHECK(text.find("got a target from a time step that truncate() has dropped") !=
        std::string::npos);
  CHECK_THROWS_AS(tape.gradient(old * 3, w), TapeError);
  CHECK(all(tape.gradient(old * w, w) == 4.0f).item<bool>());  // `old` is a constant
  auto inside = custom_gradient([&](Tensor x) {
    return std::pair(x * 1, [&](Tensor dy) {
      tape.truncate(1);
      return dy;
    });
  });
  CHECK_THROWS_AS(tape.gradient(inside(w * 1), w), TapeError);
  GradientTape spent;
  spent.gradient(w * 2, w);
  CHECK_THROWS_AS(spent.truncate(1), TapeError);
}

TEST_CASE("a traced function that truncates its tape runs eagerly, and says so") {
  const Variable w("w", full({4}, 0.5));
  const auto body = [&](Tensor x) {
    GradientTape tape;
    Tensor h = x;
    for (int t = 0; t < 6; ++t) {
      tape.truncate(2);
      h = tanh(h * w) + x;
    }
    return tape.gradient(sum(h), w);
  };
  const auto traced = trace(body);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({4});
    CHECK(all(traced(x) == body(x)).item<bool>());
  }
  INFO(traced.explain());
  CHECK(traced.explain().find("it calls truncate()") != std::string::npos);
}

TEST_CASE("a tape that drops records with tapes inside") {
  const Variable w("w", ones({4}));
  const auto block = checkpoint([&](Tensor x) { return tanh(x * w); });
  auto traced = trace([&](Tensor x) { return tanh(x * w); });
  GradientTape tape({.persistent = true});
  Tensor h = full({4}, 0.5);
  for (int t = 0; t < 600; ++t) {
    tape.truncate(3);
    h = t % 2 ? block(h) : traced(h);
    Tensor cut = stop_gradient(h);
    const Tensor slope = tape.gradient(sum(h), w);
    CHECK(slope.size() == 4);
    h = cut + 0.1;
  }
}
}  // namespace reel::tests
