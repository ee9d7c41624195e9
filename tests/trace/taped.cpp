// SPDX-License-Identifier: BSD-3-Clause
// Calls of traced functions under a tape: they are replayed, and have the gradients of the
// functions.
#include <string>
#include <utility>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
using List = std::vector<Tensor>;

/// Compares gradients(traced, x) with gradients(f, x) for several x, and counts captures.
template <class F, class G>
std::size_t check(F f, G gradients, Shape shape, int calls = 8) {
  auto fast = trace(f, {.throw_on_difference = true});
  for (int i = 0; i < calls; ++i) {
    const Tensor x = random::normal(shape);
    seed(static_cast<std::uint64_t>(i));
    const List found = gradients(fast, x);
    seed(static_cast<std::uint64_t>(i));
    const List expected = gradients(f, x);
    REQUIRE(found.size() == expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
      INFO("call " << i << ", result " << k);
      CHECK(allclose(found[k], expected[k], {.rtol = 1e-5, .atol = 1e-5}));
    }
  }
  INFO(fast.explain());
  CHECK(fast.explain().find("eagerly") == std::string::npos);
  return fast.trace_count();
}
struct Net {
  nn::Linear first{4, 8, Activation::tanh}, last{8, 2};
  Tensor operator()(Tensor x) const { return last(first(x)); }
  REEL_FIELDS(first, last)
};
}  // namespace

TEST_CASE("a replay under a tape has the gradient of the function", "[cpu]") {
  const Net net;
  const auto f = [&](Tensor x) { return net(x); };
  SECTION("for Variables") {
    CHECK(check(f,
                [&](auto& model, Tensor x) {
                  GradientTape tape;
                  return tape.gradient(sum(square(model(x))), parameters(net));
                },
                {3, 4}) == 1);
  }
  SECTION("for arguments that the tape follows, of several calls, twice") {
    CHECK(check(f,
                [&](auto& model, Tensor x) {
                  GradientTape tape({.persistent = true});
                  tape.watch(x);
                  const Tensor y = model(x * 2.0) + model(x * 0.5) + model(x);
                  List all = tape.gradient(sum(y * y), parameters(net));
                  all.push_back(tape.gradient(sum(y * y), x));
                  all.push_back(tape.gradient(sum(y), x));
                  all.push_back(y);
                  return all;
                },
                {3, 4}) == 1);
  }
  SECTION("with respect to a result, and where there is no path") {
    CHECK(check(f,
                [&](auto& model, Tensor x) {
                  GradientTape tape({.persistent = true});
                  tape.watch(x);
                  const Tensor y = model(x), z = model(y(0)(0) * x);
                  return List{tape.gradient(sum(z), y), tape.gradient(sum(y), x)};
                },
                {3, 4}) == 1);
  }
  SECTION("jacobian") {
    check(f,
          [&](auto& model, Tensor x) {
            GradientTape tape({.persistent = true});
            tape.watch(x);
            return List{tape.jacobian(model(x), x)};
          },
          {1, 4});
  }
}

TEST_CASE(
    "a function under a tape branches, draws, updates and reads tensors that the tape watches",
    "[cpu]") {
  const nn::BatchNorm norm(4);
  const Tensor k = random::normal({4});
  CHECK(check(
            [&](Tensor x) {
              Tensor y = dropout(norm(x) * k, 0.5);
              if (sum(x) > 0.0f) y = y * 2.0;
              return std::pair(y, argmax(x, 1));
            },
            [&](auto& model, Tensor x) {
              GradientTape tape;
              tape.watch(x);
              tape.watch(k);
              const auto [y, places] = model(x);
              List all = tape.gradient(sum(y * y), {GradientSource(x), GradientSource(k),
                                                    GradientSource(parameters(norm)[0])});
              all.push_back(y);
              all.push_back(places);
              return all;
            },
            {5, 4}, 20) == 2);
  // A tensor that the tape of another call watches, and that of the first one did not.
  const auto f = [&](Tensor x) { return x * k; };
  auto fast = trace(f);
  for (int i = 0; i < 3; ++i) {
    const Tensor x = random::normal({4});
    GradientTape tape;
    tape.watch(x);
    CHECK(equal(tape.gradient(sum(fast(x)), x), k));
  }
  const Tensor x = random::normal({4});
  GradientTape tape;
  tape.watch(k);
  tape.watch(x);
  CHECK(equal(tape.gradient(sum(fast(x)), k), x));
}

TEST_CASE("loops in a function under a tape, and the function in a loop", "[cpu]") {
  const nn::LSTMCell cell(4, 4);
  CHECK(check(
            [&](Tensor xs) {
              return scan(cell.initial_state(2), xs,
                          [&](nn::LSTMState s, Tensor x) {
                            const nn::LSTMState next = cell(x, s);
                            return std::pair(next, next.h);
                          })
                  .second;
            },
            [&](auto& model, Tensor xs) {
              GradientTape tape;
              tape.watch(xs);
              const Tensor y = model(xs);
              return tape.gradient(sum(y * y), parameters(cell));
            },
            {5, 2, 4}) == 1);
  auto fast = trace([&](Tensor x, nn::LSTMState s) { return cell(x, s); });
  const Tensor xs = random::normal({6, 2, 4});
  const auto slopes = [&](const auto& step) {
    GradientTape tape;
    nn::LSTMState s = cell.initial_state(2);
    for (int i = 0; i < 6; ++i) s = step(xs(i), s);
    return tape.gradient(sum(s.h * s.c), parameters(cell));
  };
  for (int i = 0; i < 4; ++i) {
    const List found = slopes(fast), expected = slopes(cell);
    for (std::size_t k = 0; k < found.size(); ++k)
      CHECK(allclose(found[k], expected[k], {.atol = 1e-5}));
  }
}

TEST_CASE(
    "functions under two tapes, and functions of functions, have the derivatives of the function") {
  const auto f = [](Tensor x) { return tanh(x * x) * x; };
  check(f,
        [](auto& g, Tensor x) {
          GradientTape outer;
          outer.watch(x);
          GradientTape tape;
          tape.watch(x);
          return List{outer.gradient(sum(tape.gradient(sum(g(x)), x)), x)};
        },
        {3});
  check(f,
        [](auto& g, Tensor x) {
          GradientTape tape;
          tape.watch(x);
          return List{tape.gradient(sum(checkpoint([&](Tensor z) { return g(z) * z; })(x)), x)};
        },
        {3});
  auto fast = trace(f);
  auto step = trace([&](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(sum(fast(x)), x);
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = random::normal({3});
    CHECK(allclose(step(x), grad([&](Tensor z) { return sum(f(z)); })(x), {.atol = 1e-5}));
  }
}

TEST_CASE("a tape that watches a tensor which a captured loop reads gets its gradient") {
  const Tensor k = random::normal({4});
  auto fast = trace(
      [&](Tensor x) { return repeat(tensor(3), x, [&](Tensor s, Tensor) { return s * k; }); });
  for (const bool watches : {false, false, true, true, false}) {
    const Tensor x = random::normal({4});
    GradientTape tape;
    tape.watch(x);
    if (watches) tape.watch(k);
    const Tensor slope = tape.gradient(sum(fast(x)), watches ? k : x);
    CHECK(allclose(slope, watches ? x * k * k * 3.0 : k * k * k, {.atol = 1e-5}));
  }
}

TEST_CASE("training with a traced model learns", "[cpu]") {
  seed(5);
  const nn::Linear linear(4, 1);
  optim::SGD sgd(parameters(linear), {.learning_rate = 0.05});
  auto model = trace([&](Tensor x) { return linear(x); });
  const Tensor x = random::normal({32, 4}), y = matmul(x, random::normal({4, 1}));
  float loss = 1;
  for (int i = 0; i < 300; ++i) {
    GradientTape tape;
    const Tensor error = mean(square(model(x) - y));
    sgd.step(tape.gradient(error, parameters(linear)));
    loss = error.item<float>();
  }
  CHECK(loss < 1e-6f);
  CHECK(model.trace_count() == 1);
}
}  // namespace reel::tests
