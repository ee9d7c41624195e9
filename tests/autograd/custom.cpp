// SPDX-License-Identifier: BSD-3-Clause
// custom_gradient(): records, captured Variables, and arguments that are refused.
#include <cstddef>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
const auto twice = custom_gradient([](Tensor a, Tensor b) {
  return std::pair(a + b, [](Tensor up) -> Tensors { return {up, up * 2}; });
});
/// x times a captured value.
template <class Factor>
struct Times {
  Factor factor;
  auto operator()(Tensor x) const {
    return std::pair(x * factor, [f = factor](Tensor up) { return up * f; });
  }
};
template <class Factor>
Times(Factor) -> Times<Factor>;
}  // namespace

TEST_CASE("a custom gradient leaves a record where a tape follows an argument, and nowhere else") {
  const Tensor x = tensor({1.0f, 2.0f}), y = tensor({3.0f, 4.0f});
  const auto records = [] { return memory_statistics().live_records; };
  const auto before = records();
  const Tensor alone = twice(x, y);
  CHECK(records() == before);
  {
    GradientTape first, second;
    const Tensor constant = twice(x, 2.0);
    CHECK(first.ops().empty());
    CHECK(second.ops().empty());
    CHECK(records() == before);
    second.watch(y);
    const auto watched = records();
    const Tensor z = twice(x, y);
    CHECK(first.ops().empty());
    REQUIRE(second.ops().size() == 2);  // the op a + b, and the whole function
    CHECK(second.ops()[1].name == "custom_gradient");
    CHECK(second.ops()[1].inputs.size() == 2);
    CHECK(records() == watched + 2);
    CHECK(equal(second.gradient(z, y), tensor({2.0f, 2.0f})));
  }
  CHECK(records() == before);
  CHECK(equal(alone, x + y));
}

TEST_CASE("an undefined argument or value of a custom function is refused by its number") {
  const Tensor x = tensor({1.0f, 2.0f});
  check_refused<Error>([&] { twice(x, Tensor()); }, "argument 1: expected a tensor");
  check_refused<Error>([&] { twice(Tensor(), x); }, "argument 0: expected a tensor");
  const auto nothing =
      custom_gradient([](Tensor a) { return std::pair(Tensor(), [a](Tensor up) { return up; }); });
  check_refused<Error>([&] { nothing(x); }, "value: expected a tensor");
}

TEST_CASE("a custom gradient of several captured Variables has the gradient of each") {
  const Variable v("v", tensor({2.0, 3.0})), w("w", tensor({5.0, 7.0})), u("u", tensor({1.0, 4.0}));
  const Tensor x = tensor({1.0, 10.0});
  const auto f = custom_gradient(
      [&](Tensor t) {
        return std::pair(t * v + w * u, [](Tensor up) {
          return Tensors{up * 2, up * 3, up * 4, up * 5};
        });
      },
      {v, w, u});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  CHECK(equal(y, tensor({7.0, 58.0})));
  const auto found = tape.gradient(y, {x, v, w, u});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto slope = static_cast<double>(i + 2);
    CHECK(equal(found[i], full({2}, slope)));
  }
}

TEST_CASE("a Variable that a custom_gradient captures has a gradient only if it is listed") {
  const Variable s("s", tensor(2.0f));
  const Tensor x = tensor({1.0f, 2.0f});
  const auto listed = custom_gradient(
      [&](Tensor t) {
        return std::pair(t * s, [](Tensor up) { return Tensors{up * 100, sum(up) * 7}; });
      },
      {s});
  const auto unlisted = custom_gradient(
      [&](Tensor t) { return std::pair(t * s, [](Tensor up) { return up * 100; }); });
  for (const bool watched : {false, true}) {
    INFO(watched);
    GradientTape tape({.persistent = true});
    if (watched) tape.watch(x);
    const Tensor y = sum(unlisted(x)), z = sum(listed(x));
    check_refused<TapeError>([&] { tape.gradient(y + 10 * s, s); },
                             "which reads one of watch (custom.cpp:");
    CHECK(tape.gradient(z + 10 * s, s).item<float>() == 24);
    if (watched) CHECK(equal(tape.gradient(y, x), full({2}, 100.0)));
    GradientTape another;
    if (watched) another.watch(x);
    check_refused<TapeError>([&] { another.gradient(unlisted(x), s); },
                             "custom_gradient (custom.cpp:");
  }
  // A tape around does not see the captured Variable either, and one inside is not disturbed.
  GradientTape outer;
  outer.watch(x);
  const auto slope = custom_gradient([&](Tensor t) {
    GradientTape inner;
    inner.watch(t);
    const Tensor dt = inner.gradient(sum(t * t * s), t);
    return std::pair(dt, [](Tensor up) { return up * 3; });
  });
  CHECK(equal(outer.gradient(sum(slope(x)), x), full({2}, 3.0)));
}

TEST_CASE("a part of a gradient that a function with its own gradient would lose is an error") {
  const Variable gain("gain", tensor(3.0f)), listed("listed", tensor(2.0f));
  const Tensor k = tensor(5.0f), x = tensor(2.0f);
  const auto by_gain = custom_gradient(Times{gain});
  const auto by_k = custom_gradient(Times{k});
  register_op("captures_gain", [&](const OpCall& call) { return call.input(0) * gain.value(); });
  register_gradient("captures_gain", [&](const OpCall&, Tensor up) { return up * gain; });
  GradientTape tape({.persistent = true});
  tape.watch(k);
  tape.watch(x);
  const char* const refused = "which reads one of";
  const Tensor one = by_gain(x) * gain, two = by_k(x * k);
  const Tensor three = call_op("captures_gain", {x}) * gain;
  check_refused<TapeError>([&] { tape.gradient(one, gain); }, refused);
  check_refused<TapeError>([&] { tape.gradient(one, {x, gain}, Unconnected::zero); }, refused);
  check_refused<TapeError>([&] { tape.gradient(two, k); }, "custom_gradient (custom.cpp:");
  check_refused<TapeError>([&] { tape.gradient(three, gain); }, "captures_gain (custom.cpp:");
  // Other sources, other targets, and what is listed or a constant have their gradients.
  CHECK(tape.gradient(one, x).item<float>() == 9);
  CHECK(tape.gradient(x * gain, gain).item<float>() == 2);
  const auto constant = custom_gradient([&](Tensor t) {
    const Tensor fixed = stop_gradient(gain);
    return std::pair(t * fixed, [=](Tensor up) { return up * fixed; });
  });
  CHECK(tape.gradient(constant(x) * gain, gain).item<float>() == 6);
  const auto full = custom_gradient(
      [&](Tensor t) {
        return std::pair(t * listed, [&, t](Tensor up) { return Tensors{up * listed, up * t}; });
      },
      {listed});
  CHECK(tape.gradient(full(x) * listed, listed).item<float>() == 8);
  // A tensor that the source is read for.
  const Tensor twice = 2 * gain;
  const auto by_twice = custom_gradient(Times{twice});
  check_refused<TapeError>([&] { tape.gradient(by_twice(x) * gain, gain); }, refused);
}
}  // namespace reel::tests
