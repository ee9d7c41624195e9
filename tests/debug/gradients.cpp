// SPDX-License-Identifier: BSD-3-Clause
// gradients_by_step() and check_gradient().
#include <cmath>

#include "debug/support.hpp"
#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
TEST_CASE("gradients by step are those of copies of the weight, and add up") {
  const Variable w("w", random::normal({3, 3}).to(float64));
  const Tensor x = random::normal({4, 2, 3}).to(float64);
  const auto loss_of = [&](const auto& weight) {
    Tensor h = zeros({2, 3}, float64);
    for (int t = 0; t < 4; ++t) h = tanh(x(t) + matmul(h, weight(t)));
    return sum(h * h);
  };
  GradientTape tape({.persistent = true});
  const Tensor loss = loss_of([&](int) { return Tensor(w); });
  const debug::GradientsByStep found = debug::gradients_by_step(tape, loss, w);
  REQUIRE(found.uses.size() == 4);
  const auto norm = [](const Tensor& y) { return std::sqrt(sum(y * y).item<double>()); };
  CHECK(found.norm == Approx(norm(tape.gradient(loss, w))));
  for (int t = 0; t < 4; ++t) {
    const Variable copy("copy", w.value());
    GradientTape own;
    const Tensor again = loss_of([&](int k) { return k == t ? Tensor(copy) : stop_gradient(w); });
    const Tensor part = own.gradient(again, {copy}, Unconnected::zero)[0];
    CHECK(found.uses[static_cast<std::size_t>(t)].contribution == Approx(norm(part)).margin(1e-12));
  }
  double shares = 0;
  for (const debug::GradientUse& use : found.uses) {
    shares += use.share;
    CHECK(use.op == "matmul");
    CHECK(has(use.line, "gradients.cpp:"));
  }
  CHECK(shares == Approx(1));
  CHECK(has(found.to_text(), "the gradient of \"w\" has norm"));
  CHECK(found.to_svg().starts_with("<svg "));
  CHECK(found.to_svg().ends_with("</svg>\n"));
}

TEST_CASE("gradients by step of what the loss does not depend on throw as gradient() does") {
  const Variable w("w", ones({2})), v("v", ones({2}));
  GradientTape tape;
  const Tensor loss = sum(w * 2);
  CHECK_THROWS_AS(debug::gradients_by_step(tape, loss, v), TapeError);
  CHECK(debug::gradients_by_step(tape, loss, w).uses.size() == 1);
  tape.gradient(loss, w);
  CHECK_THROWS_AS(debug::gradients_by_step(tape, loss, w), TapeError);
}

TEST_CASE("check_gradient finds a wrong gradient, and passes right ones") {
  const nn::Linear hidden(3, 5, Activation::tanh), head(5, 2);
  const Tensor x = random::normal({4, 3}), y = random::integers(0, 2, {4});
  const auto loss = [&] { return nn::cross_entropy(head(hidden(x)), y); };
  const Tensor before = hidden.weight.value();
  debug::check_gradient(loss, {hidden.weight, hidden.bias, head.weight, head.bias});
  CHECK(bool(all(hidden.weight.value() == before)));
  const Variable w("w", tensor<double>({0.3, -0.7}));
  debug::check_gradient([&] { return sum(sin(w) * w); }, {w});
  auto wrong = custom_gradient([](Tensor a) {
    return std::pair(a * a, [a](Tensor upstream) { return upstream * a; });  // not 2 a
  });
  const std::string text =
      error_text([&] { debug::check_gradient([&] { return sum(wrong(w)); }, {w}); });
  CHECK(has(text, "check_gradient: gradient: expected 0."));
  CHECK(has(text, "by differences, for \"w\" at [0], got 0.3"));
  CHECK(has(error_text([&] { debug::check_gradient([&] { return w * 1; }, {w}); }),
            "f: expected a loss of one element, got (2,)"));
  CHECK(has(error_text(
                [&] { debug::check_gradient([&] { return sum(w * random::uniform({2})); }, {w}); }),
            "expected the same loss each time"));
  CHECK(
      has(error_text([&] { debug::check_gradient([&] { return sum(w); }, {w}, {.elements = 0}); }),
          "elements: expected a number from 1 on, got 0"));
}
}  // namespace reel::tests
