// SPDX-License-Identifier: BSD-3-Clause
// A FiniteScope names the op that makes the first NaN or infinity.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/error_text.hpp"

namespace reel::tests {
namespace {
template <class F>
std::string first_line_of(const F& f) {
  const std::string text = error_text(f);
  return text.substr(0, text.find('\n'));
}
std::string at(unsigned line) { return "finite.cpp:" + std::to_string(line) + ": "; }
}  // namespace

TEST_CASE("a FiniteScope names op, place and line of the first number that is not finite") {
  const Variable w("w", tensor({{4.0f, 1.0f}, {9.0f, 0.0f}}));
  const Tensor x = tensor({{1.0f, 2.0f}, {-3.0f, 4.0f}});
  {
    const FiniteScope finite;
    CHECK(first_line_of([&] { sqrt(w) + exp(x); }).empty());
    unsigned line = __LINE__ + 1;
    std::string found = first_line_of([&] { log(x); });
    CHECK(found == at(line) + "log: result: expected finite numbers, got nan at [1, 0]");
    line = __LINE__ + 1;
    found = first_line_of([&] { log(w); });
    CHECK(found == at(line) + "log: result: expected finite numbers, got -inf at [1, 1]");
    CHECK(first_line_of([&] { log(x(1, 0)); }).find("got nan") != std::string::npos);
    CHECK(first_line_of([&] { full({2}, 1e30).to(DType::float16); }).find("got inf at [0]") !=
          std::string::npos);
    GradientTape tape;
    line = __LINE__ + 1;
    const Tensor y = sqrt(w);
    CHECK(first_line_of([&] { tape.gradient(y, w); }) ==
          at(line) + "gradient: gradient of sqrt: expected finite numbers, got inf at [1, 1]");
  }
  CHECK(first_line_of([&] { log(x); }).empty());
  const FiniteScope no_nan({.infinity = false});
  CHECK(first_line_of([&] { log(w); }).empty());
  const unsigned line = __LINE__ + 1;
  const std::string found = first_line_of([&] { log(x); });
  CHECK(found == at(line) + "log: result: expected no NaN, got nan at [1, 0]");
}

TEMPLATE_TEST_CASE("a FiniteScope sees each element, and no largest or smallest number", "", float,
                   double) {
  using Limits = std::numeric_limits<TestType>;
  const TestType ends[] = {Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
  for (std::size_t size = 1; size < 23; ++size)
    for (std::size_t place = 0; place < size; ++place)
      for (const TestType bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
        std::vector<TestType> values(size);
        for (std::size_t i = 0; i < size; ++i) values[i] = ends[i % 4];
        const Tensor good = tensor<TestType>(values);
        // A NaN is given. An infinity is made: the largest number times 2.
        std::vector<TestType> factors(size, 1);
        factors[place] = std::isnan(bad) ? bad : 2;
        if (!std::isnan(bad)) values[place] = bad > 0 ? Limits::max() : Limits::lowest();
        const Tensor x = tensor<TestType>(values), factor = tensor<TestType>(factors);
        const std::string found = "got " + fmt::format("{}", bad);
        const FiniteScope finite;
        CHECK(first_line_of([&] { good + 0; }).empty());
        CHECK(first_line_of([&] { transpose(stack({good, good})); }).empty());
        const unsigned line = __LINE__ + 1;
        const std::string text = first_line_of([&] { x* factor; });
        CHECK(text == at(line) + "multiply: result: expected finite numbers, " + found + " at [" +
                          std::to_string(place) + "]");
        if (std::isnan(bad))
          CHECK(first_line_of([&] {
                  broadcast_to(expand_dims(factor, 1), {static_cast<std::int64_t>(size), 2});
                }).find(found) != std::string::npos);
      }
}

TEST_CASE("a FiniteScope tells the range of each input and a likely cause") {
  const Tensor x = tensor({{1.0f, 2.0f}, {-3.0f, 4.0f}});
  const Tensor zero = x - 1, all_nan = full({2}, NAN), one_nan = tensor({1.0, NAN});
  const FiniteScope finite;
  CHECK_THAT(error_text([&] { log(x); }),
             Catch::Contains("x is between -3 and 4. log(0) is -inf; log of a negative number is"));
  CHECK_THAT(error_text([&] { x / zero; }),
             Catch::Contains("x is between -3 and 4. y is between -4 and 3. Was a number divided"));
  CHECK_THAT(error_text([&] { x / (x - 1); }),  // whose result is in the memory of y
             Catch::Contains("x is between -3 and 4. y is between -4 and 3. Was a number divided"));
  CHECK_THAT(error_text([&] { log(relu(x)); }), Catch::Contains("x is between 0 and 4. log(0)"));
  CHECK_THAT(error_text([&] { exp(x * 100 + 1); }),
             Catch::Contains("x is between -299 and 401. exp of float32 overflows"));
  CHECK_THAT(error_text([&] { x * 1e38f; }),
             Catch::Contains("y is between 9.999999680285692e+37 and 9.999999680285692e+37. "
                             "Is it too large for float32?"));
  CHECK_THAT(error_text([&] { norm(full({2}, 3e38f)); }),
             Catch::Contains("This is the result of ") && Catch::Contains(", a step of norm. "));
  CHECK_THAT(error_text([&] { x + all_nan; }), Catch::Contains("y is nan."));
  CHECK_THAT(error_text([&] { x + one_nan; }), Catch::Contains("y is between 1 and 1, with nan."));
  const Variable w("w", zeros({2}));
  GradientTape tape;
  const Tensor y = sqrt(w);
  CHECK_THAT(error_text([&] { tape.gradient(y, w); }),
             Catch::Contains("The slope of sqrt at 0 is infinite."));
}

TEST_CASE("a FiniteScope tells the range of what a gradient is made of") {
  const auto text = [](const Variable& source, const auto& f) {
    GradientTape tape;
    const Tensor y = f();
    try {
      const FiniteScope finite;
      tape.gradient(y, source);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Variable v("v", tensor({0.25f, 4.0f}));
  // The result is in the memory of the gradient of the result.
  CHECK_THAT(text(v, [&] { return sum(asin(v * 0.25f) * 3); }),
             Catch::Contains("gradient of asin: expected finite numbers, got inf at [1]\n"
                             "  This is the gradient with respect to x. The gradient of the result "
                             "is between 3 and 3. x is between 0.0625 and 1. The slope of asin at "
                             "-1 and 1 is infinite."));
  const Variable tiny("tiny", tensor({0x1p-100f, 0x1p-100f}));
  CHECK_THAT(text(tiny, [&] { return sum(power(v, 2) / tiny); }),
             Catch::Contains("gradient of divide: expected finite numbers, got -inf at [0]\n"
                             "  This is the gradient with respect to y. The gradient of the result "
                             "is between 1 and 1. x is between 0.0625 and 16. y is between"));
  // A kernel that makes the gradients of all inputs at once.
  const Variable gain("gain", full({2}, 0x1p100f));
  CHECK_THAT(text(v,
                  [&] {
                    return sum(layer_norm(v, gain, zeros({2})) * tensor({1e30f, 0.0f}));
                  }),
             Catch::Contains("gradient of layer_norm: expected finite numbers, got nan at [0]\n"
                             "  This is the gradient with respect to x. The gradient of the result "
                             "is between 0 and 1.0000000150474662e+30. x is between 0.25 and 4. "
                             "scale is between 1.2676506002282294e+30 and 1.2676506002282294e+30"));
}

TEST_CASE("a FiniteScope names the Variables and gradients of an optimizer's step") {
  const std::vector<Variable> weights{Variable("first", ones({2})), Variable("second", ones({3}))};
  const FiniteScope finite;
  try {
    sgd_update(weights, {full({2}, 1e30f), full({3}, -2.0f)}, 1e20);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK_THAT(std::string(error.what()),
               Catch::Contains("first was overwritten by the result. second was overwritten by the "
                               "result. gradient 0 is between 1.0000000150474662e+30 and") &&
                   Catch::Contains("gradient 1 is between -2 and -2. rate is between 1e+20 and"));
  }
  Variable mean("mean", ones({2})), m("m", ones({2})), v("v", ones({2}));
  CHECK_THAT(error_text([&] {
               average_update(std::vector{mean}, std::vector{tensor({NAN, NAN})}, 0.5);
             }),
             Catch::Contains("value 0 is nan. rate is between 0.5 and 0.5."));
  CHECK_THAT(error_text([&] {
               adam_update(mean, m, v, tensor({NAN, NAN}), 0.5, 3);
             }),
             Catch::Contains("gradient 0 is nan. rate is between 0.5 and 0.5."));
}

TEST_CASE("a FiniteScope takes an infinity that an op is given for a mask") {
  const Tensor scores = tensor({{0.5f, 2.0f, -1.0f}, {1.0f, 0.0f, 3.0f}}), mask = scores > 0;
  const Tensor ids = tensor({0, 0, 2}), logits = random::normal({4, 2, 3});
  const auto attend = [mask](Tensor x) { return softmax(where(mask, x * 2, -INFINITY) + 1); };
  const auto losses = [=](Tensor x) {
    return ctc_loss(log_softmax(x), tensor({{1, 2}, {2, 0}}), tensor({4, 4}), tensor({2, 1}));
  };
  const auto traced = trace([=](Tensor x) { return attend(x); });
  const auto traced_losses = trace([=](Tensor x) { return losses(x); });
  for (int i = 0; i < 4; ++i) traced(scores), traced_losses(logits);
  optim::SGD sgd(std::vector<Variable>{Variable("w", ones({2}))});
  optim::ReduceOnPlateau plateau(sgd);
  const FiniteScope finite;
  CHECK(equal(attend(scores), traced(scores)));
  CHECK(equal(losses(logits), traced_losses(logits)));
  segment_softmax(tensor({1.0f, 2.0f, 3.0f}), ids, 4);
  random::choice(arange(0, 3), 2, {.weights = tensor({0.5, 0.0, 0.5}), .replace = false});
  plateau.step(tensor(2.0f));
  GradientTape tape;
  tape.watch(scores);
  tape.watch(logits);
  tape.gradient(sum(logcumsumexp(scores, 1)), scores);
  GradientTape other;
  other.watch(logits);
  other.gradient(sum(losses(logits)), logits);
  // NaN is an error, whatever it comes from.
  CHECK(first_line_of([&] { where(mask, scores, -INFINITY) * 0; }).find("got nan") !=
        std::string::npos);
}

TEST_CASE("a FiniteScope checks the steps of a trace, and changes no result") {
  const nn::Linear layer(3, 2);
  const auto traced = trace([&](Tensor x) { return log(layer(x) * 0 + sum(x)); });
  const Tensor good = ones({4, 3});
  const Tensor wanted = traced(good);
  for (int i = 0; i < 3; ++i) traced(good);
  const FiniteScope finite;
  CHECK(equal(traced(good), wanted));
  CHECK(first_line_of([&] {
          traced(-good);
        }).find("log: result: expected finite numbers, got nan") != std::string::npos);
  CHECK(equal(traced(good), wanted));
}

TEST_CASE("a FiniteScope inside of a traced function checks every call") {
  const auto traced = trace([](Tensor x) {
    const FiniteScope finite;
    return log(x) * 2;
  });
  const Tensor good = ones({4});
  for (int i = 0; i < 4; ++i) CHECK(equal(traced(good), zeros({4})));
  for (int i = 0; i < 2; ++i)
    CHECK(first_line_of([&] {
            traced(-good);
          }).find("log: result: expected finite numbers, got nan") != std::string::npos);
  CHECK(equal(traced(good), zeros({4})));
  CHECK_THAT(traced.explain(), Catch::Contains("FiniteScope"));
}

TEST_CASE("a FiniteScope that ends elsewhere checks no more") {
  const Tensor x = tensor({-1.0f});
  std::string both, one, none;
  std::thread([&] {
    auto outer = std::make_unique<FiniteScope>(), inner = std::make_unique<FiniteScope>();
    both = first_line_of([&] { log(x); });
    outer.reset();
    one = first_line_of([&] { log(x); });
    std::thread([&] { inner.reset(); }).join();
    none = first_line_of([&] { log(x); });
  }).join();
  CHECK(both.find("log: result: ") != std::string::npos);
  CHECK(one.find("log: result: ") != std::string::npos);
  CHECK(none.empty());
}

TEST_CASE("a FiniteScope tells the ranges of floating inputs alone") {
  const Tensor x = tensor({1.0f, NAN}), places = tensor({0, 1}), mask = tensor({true, true});
  const FiniteScope finite;
  CHECK_THAT(error_text([&] { take(x, places); }),
             Catch::Contains("x is between 1 and 1, with nan.") && !Catch::Contains("indices is"));
  CHECK_THAT(
      error_text([&] { where(mask, x, x); }),
      Catch::Contains("y is between 1 and 1, with nan.") && !Catch::Contains("condition is"));
}
}  // namespace reel::tests
