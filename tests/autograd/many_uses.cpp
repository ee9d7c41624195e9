// SPDX-License-Identifier: BSD-3-Clause
// The gradient of a value that one tape uses very often, compared with an exact sum.
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/resident.hpp"

namespace reel::tests {
namespace {
const int uses = sanitized ? 500 : 20'000;
const double rate = 0.1f;

struct Use {
  const char* name;
  std::function<Tensor(const Tensor&)> of;  // the gradient of its sum is `rate` in element (0, 0)
};
std::vector<Use> kinds_of_use(DType dtype) {
  const Tensor matrix = full({2, 2}, 0.1f).to(dtype), row = full({1, 2}, 0.1f).to(dtype);
  const Tensor number = full({}, 0.1f).to(dtype);
  return {
      {"a number", [](const Tensor& x) { return x * 0.1f; }},
      {"a tensor", [=](const Tensor& x) { return x * matrix; }},
      {"both inputs", [=](const Tensor& x) { return (x + x) * matrix * 0.5f; }},
      {"a row", [=](const Tensor& x) { return row * x; }},
      {"a 0-d tensor", [=](const Tensor& x) { return number * x; }},
      {"a view", [=](const Tensor& x) { return transpose(x) * matrix; }},
      {"a slice", [=](const Tensor& x) { return x(0) * row(0); }},
      {"a product", [=](const Tensor& x) { return matmul(matrix(all, range(0, 1)), row * 1) * x; }},
      {"take", [=](const Tensor& x) { return take(x, tensor({0}), 0) * row; }},
      {"a cast", [=](const Tensor& x) { return x.to(DType::float64) * matrix; }}};
}
double corner(const Tensor& x) { return x(0, 0).to(DType::float64).item<double>(); }
}  // namespace

TEST_CASE("a value that is used thousands of times has an exact gradient", "[slow]") {
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const double unit = dtype == DType::float32 ? std::numeric_limits<float>::epsilon()
                                              : std::numeric_limits<double>::epsilon();
  for (const Use& kind : kinds_of_use(dtype)) {
    INFO(kind.name << ", " << name_of(dtype));
    const double each = std::string_view(kind.name) == "a product" ? rate * rate : rate;
    const Tensor x = ones({2, 2}, {.dtype = dtype});
    const Variable w("w", x);
    const auto all_uses = [&](const Tensor& value) {
      Tensor y = zeros({}, {.dtype = DType::float64});
      for (int i = 0; i < uses; ++i) y = y + sum(kind.of(value)).to(DType::float64);
      return y;
    };
    const auto near = [&](const Tensor& got, const char* what) {
      INFO(what << ": " << corner(got) / (uses * each) - 1);
      CHECK(std::abs(corner(got) / (uses * each) - 1) < 24 * unit);
    };
    {
      GradientTape tape;
      tape.watch(x);
      near(tape.gradient(all_uses(x), x), "a tensor");
    }
    {
      GradientTape tape({.persistent = true});
      const Tensor value = w.value() * 1;  // not a leaf
      const Tensor y = all_uses(value);
      const auto slopes = tape.gradient(y, {GradientSource(w), GradientSource(value)});
      near(slopes[0], "a Variable");
      near(slopes[1], "a value on the way");
    }
  }
}

TEST_CASE("the same gradient comes under another tape, and from a trace") {
  const Tensor x = ones({2, 2});
  const auto slope = [](const Tensor& at) {
    GradientTape tape;
    tape.watch(at);
    Tensor y = zeros({});
    for (int i = 0; i < 300; ++i) y = y + sum(at * (0.1f * static_cast<float>(i % 7)) * at);
    return tape.gradient(y, at);
  };
  const Tensor plain = slope(x);
  GradientTape outer;
  outer.watch(x);
  const Tensor seen = slope(x);
  const Tensor second = outer.gradient(sum(seen), x);
  CHECK(equal(stop_gradient(seen), plain));
  CHECK(allclose(second, plain));
  const auto traced = trace(slope);
  for (int call = 0; call < 4; ++call) CHECK(equal(traced(x), plain));
}

TEST_CASE("a matrix and a bias of thousands of products have exact gradients") {
  const Variable w("w", ones({3, 2})), b("b", zeros({2}));
  const Tensor x = full({64, 3}, 0.1f);
  const int products = sanitized ? 100 : 2'000;
  GradientTape tape;
  Tensor y = zeros({}, {.dtype = DType::float64});
  for (int i = 0; i < products; ++i) y = y + sum(matmul_add(x, w, b)).to(DType::float64);
  const auto slopes = tape.gradient(y, {GradientSource(w), GradientSource(b)});
  CHECK(std::abs(corner(slopes[0]) / (64 * products * rate) - 1) < 3e-6);
  CHECK(slopes[1](0).item<float>() == static_cast<float>(64 * products));
}

TEST_CASE("results of layers are sources beside what they were computed from") {
  const Tensor x = random::normal({3, 4}), w = random::normal({4, 5}), b = random::normal({5});
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::tanh, Activation::sigmoid}) {
    GradientTape tape({.persistent = true});
    for (const Tensor* each : {&x, &w, &b}) tape.watch(*each);
    const Tensor y = dense(x, w, b, activation), z = y * y * 3.0;
    const auto all = tape.gradient(z, {y, x, w, b});
    CHECK(allclose(all[0], 6.0 * y));
    CHECK(equal(all[1], tape.gradient(z, x)));
    CHECK(equal(all[2], tape.gradient(z, w)));
    CHECK(equal(all[3], tape.gradient(z, b)));
  }
  // A scale that is used twice. Its gradients are added, in place or not.
  const Tensor scale = random::normal({4}), shift = random::normal({4});
  const auto loss = [&] {
    return sum(layer_norm(x, scale, shift) * x) + sum(layer_norm(x * x, scale, shift) * x);
  };
  GradientTape tape;
  for (const Tensor* each : {&scale, &shift}) tape.watch(*each);
  const auto found = tape.gradient(loss(), {scale, shift});
  const auto normal = [](const Tensor& v) {
    const Tensor centred = v - mean(v, 1, keepdims);
    return centred / sqrt(mean(square(centred), 1, keepdims) + 1e-5);
  };
  CHECK(allclose(found[0], sum((normal(x) + normal(x * x)) * x, 0), {.rtol = 1e-4, .atol = 1e-5}));
  CHECK(allclose(found[1], 2.0 * sum(x, 0), {.rtol = 1e-5, .atol = 1e-6}));
}
}  // namespace reel::tests
