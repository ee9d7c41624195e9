// SPDX-License-Identifier: BSD-3-Clause
// Gradients at kinks, ties, poles and NaN, computed by passes and by ops.
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
namespace {
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();
using Vector = std::vector<double>;

/// Equal numbers, or NaN at the same positions.
bool alike(const Tensor& got, const Vector& expected) {
  const std::vector<double> found = got.to(DType::float64).to_vector<double>();
  if (found.size() != expected.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))))
      return false;
  return true;
}

struct Slopes {
  Vector x, y;
};
using Binary = std::function<Tensor(Tensor, Tensor)>;

/// Checks the gradients of f at these points for this upstream gradient: in both dtypes, at several
/// positions among other elements, alone, and under an outer tape, which uses ops in place of
/// passes.
void check_slopes(const Binary& f, const Vector& x, const Vector& y, const Vector& dz,
                  const Slopes& expected) {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const int before : {0, 1, 5, 16, 33})
      for (const bool listened : {false, true}) {
        const auto placed = [&](const Vector& values) {
          return concat({full({before}, 1.5), tensor(values).to(DType::float32), full({2}, 1.5)}, 0)
              .to(dtype);
        };
        const Tensor a = placed(x), b = placed(y);
        GradientTape outer;
        if (listened) outer.watch(a);
        GradientTape tape;
        tape.watch(a);
        tape.watch(b);
        const auto found = tape.gradient(
            f(a, b), {a, b}, {.upstream = placed(dz), .unconnected = Unconnected::zero});
        const auto size = static_cast<std::int64_t>(x.size());
        INFO(name_of(dtype) << " behind " << before << ", listened " << listened << ": " << found[0]
                            << found[1]);
        CHECK(alike(found[0](range(before, before + size)), expected.x));
        CHECK(alike(found[1](range(before, before + size)), expected.y));
      }
}
/// The first, second and third derivative of f at x.
Vector derivatives(const std::function<Tensor(Tensor)>& f, double x) {
  const Tensor at = full({1}, x, DType::float64);
  const auto first = [&](Tensor v) { return grad(f)(v); };
  const auto second = [&](Tensor v) { return grad(first)(v); };
  return {first(at).item<double>(), second(at).item<double>(), grad(second)(at).item<double>()};
}
/// d2 f / dx dy at (x, y), by both orders.
Vector mixed_derivatives(const Binary& f, double x, double y) {
  const Tensor a = full({1}, x, DType::float64), b = full({1}, y, DType::float64);
  const auto along_x = [&](Tensor v) { return grad([&](Tensor u) { return f(u, v); })(a); };
  const auto along_y = [&](Tensor u) { return grad([&](Tensor v) { return f(u, v); })(b); };
  return {grad(along_x)(b).item<double>(), grad(along_y)(a).item<double>()};
}
void check_derivatives(const char* name, const Vector& found, const Vector& expected) {
  INFO(name << ": " << found[0] << ", " << found[1] << ", " << found.back());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(found[i] == Approx(expected[i]).epsilon(1e-12).margin(1e-14));
}
}  // namespace

// A formula that takes a constant at such a point in place of an operand has a right first
// derivative there, and a wrong second or third one. Values by JAX, except for those of power at
// the exponent 0.
TEST_CASE("smooth functions have three right derivatives where their formulas branch") {
  const auto check = [](const char* name, auto f, double x, const Vector& expected) {
    check_derivatives(name, derivatives([&](Tensor v) { return f(v); }, x), expected);
  };
  const auto of = [](auto f, double other) {
    return [=](Tensor v) { return f(v, full({1}, other, DType::float64)); };
  };
  const auto from = [](auto f, double other) {
    return [=](Tensor v) { return f(full({1}, other, DType::float64), v); };
  };
  const double density = std::sqrt(2 / M_PI), root = std::sqrt(0.5), log2 = std::log(2);
  check("logaddexp", of([](Tensor a, Tensor b) { return logaddexp(a, b); }, 0.5), 0.5,
        {0.5, 0.25, 0});
  check("logaddexp of x twice", [](Tensor v) { return logaddexp(v, 2 * v); }, 0, {1.5, 0.25, 0});
  check("softplus", [](Tensor v) { return softplus(v); }, 0, {0.5, 0.25, 0});
  check("asinh", [](Tensor v) { return asinh(v); }, 0, {1, 0, -1});
  check("asinh", [](Tensor v) { return asinh(v); }, 1, {root, -root / 2, root / 4});
  check("asinh", [](Tensor v) { return asinh(v); }, -1, {root, root / 2, root / 4});
  check("silu", [](Tensor v) { return silu(v); }, 0, {0.5, 0.5, 0});
  check("gelu", [](Tensor v) { return gelu(v); }, 0, {0.5, density, 0});
  check("elu", [](Tensor v) { return elu(v, 1.5); }, 0, {1.5, 1.5, 1.5});
  check("binary_cross_entropy_with_logits",
        [](Tensor v) { return binary_cross_entropy_with_logits(v, full({1}, 0.3)); }, 0,
        {0.5 - 0.3f, 0.25, 0});
  const auto angle = [](Tensor a, Tensor b) { return atan2(a, b); };
  check("atan2 along y", of(angle, 2), 0, {0.5, 0, -0.25});
  check("atan2 along x", from(angle, 2), 0, {-0.5, 0, 0.25});
  check("hypot", of([](Tensor a, Tensor b) { return hypot(a, b); }, 3), 0, {0, 1 / 3.0, 0});
  check("norm", [](Tensor v) { return norm(concat({v, tensor<double>({3, 4})})); }, 0, {0, 0.2, 0});
  check("logsumexp",
        [](Tensor v) {
          return logsumexp(concat({v, full({3}, 0.5, DType::float64)}));
        },
        0.5, {0.25, 0.1875, 0.09375});
  check("logcumsumexp",
        [](Tensor v) {
          return logcumsumexp(concat({v, full({3}, 0.5, DType::float64)}))(range(3, 4));
        },
        0.5, {0.25, 0.1875, 0.09375});
  const auto raised = [](Tensor a, Tensor b) { return power(a, b); };
  check("power 1 of 0", of(raised, 1), 0, {1, 0, 0});
  check("power 2 of 0", of(raised, 2), 0, {0, 2, 0});
  check("power 3 of 0", of(raised, 3), 0, {0, 0, 6});
  check("power 3 of -2", of(raised, 3), -2, {12, -12, 6});
  check("power 0 of 2", of(raised, 0), 2, {0, 0, 0});
  check("power of 2 along the exponent", from(raised, 2), 0,
        {log2, log2 * log2, log2 * log2 * log2});
  // d2 x^y / dx dy = x^(y - 1) (1 + y log x)
  for (const double x : {2.0, 0.25, 1e20})
    check_derivatives("power", mixed_derivatives(raised, x, 0), {1 / x, 1 / x});
  check_derivatives("power", mixed_derivatives(raised, 2, 1), {1 + log2, 1 + log2});
  check_derivatives("power", mixed_derivatives(raised, 0, 2), {0, 0});
  check_derivatives("logaddexp",
                    mixed_derivatives([](Tensor a, Tensor b) { return logaddexp(a, b); }, 3, 3),
                    {-0.25, -0.25});
}

TEST_CASE("the second derivative of ctc_loss at equal scores is that of differences of the first") {
  const auto loss = [](Tensor z) {
    return ctc_loss(log_softmax(z), tensor({{1, 2}}), tensor({4}), tensor({2}));
  };
  const Tensor z = zeros({4, 1, 3}, DType::float64);
  const Tensor v = ones({4, 1, 3}, DType::float64) * arange(0, 3, DType::float64);
  const Tensor slopes = grad(loss)(z + 1e-5 * v) - grad(loss)(z - 1e-5 * v);
  CHECK(allclose(hvp(loss, z, v), slopes / 2e-5, {.rtol = 1e-6, .atol = 1e-8}));
}

TEST_CASE("the gradient of equal numbers goes to both, half each") {
  const Vector x = {1, 2, 3, -4, 0}, y = {1, 3, 2, -4, -0.0}, dz = {8, 8, 8, 2, 6};
  check_slopes([](Tensor a, Tensor b) { return maximum(a, b); }, x, y, dz,
               {{4, 0, 8, 1, 3}, {4, 8, 0, 1, 3}});
  check_slopes([](Tensor a, Tensor b) { return minimum(a, b); }, x, y, dz,
               {{4, 8, 0, 1, 3}, {4, 0, 8, 1, 3}});
}

TEST_CASE("the gradient of an extreme is shared by all that are equal to it") {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const bool listened : {false, true}) {
      const Tensor x = tensor({{3, 1, 3, 3}, {2, 2, 1, 0}, {-1, -1, -1, -1}}).to(dtype);
      GradientTape outer;
      if (listened) outer.watch(x);
      GradientTape tape({.persistent = true});
      tape.watch(x);
      const Tensor up = tensor({12, 8, 4}).to(dtype);
      const Tensor rows = tape.gradient(max(x, 1), x, {.upstream = up});
      CHECK(alike(rows, {4, 0, 4, 4, 4, 4, 0, 0, 1, 1, 1, 1}));
      CHECK(equal(rows, tape.gradient(max(x, 1, keepdims), x, {.upstream = reshape(up, {3, 1})})));
      CHECK(alike(tape.gradient(min(x, 1), x, {.upstream = up}),
                  {0, 12, 0, 0, 0, 0, 0, 8, 1, 1, 1, 1}));
      CHECK(alike(tape.gradient(6 * max(x), x), {2, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
      CHECK(alike(tape.gradient(8 * min(x, {0, 1}), x), {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2}));
    }
}

TEST_CASE("powers of 0 and by 0 have the values and gradients of PyTorch") {
  const Vector x = {0, 0, 0, 0, -2, -2, 3, 0, 1}, y = {0, 1, 2, 0.5, 0, 2, 0, -1, 5};
  CHECK(alike(power(tensor(x), tensor(y)), {1, 0, 0, 0, 1, 4, 1, inf, 1}));
  // d x^y / dx = y x^(y - 1); d x^y / dy = x^y log x, 0 where x is 0 and y is not negative
  check_slopes([](Tensor a, Tensor b) { return power(a, b); }, {0, 0, 0, 0, -2, -2, 0, 1},
               {0, 1, 2, 0.5, 0, 2, -1, 5}, {2, 2, 2, 2, 2, 2, 2, 2},
               {{0, 2, 0, inf, 0, -8, -inf, 10}, {0, 0, 0, 0, nan, nan, -inf, 0}});
  GradientTape tape;
  const Tensor zero = tensor<double>(0.0), three = tensor<double>(3.0);
  tape.watch(zero);
  CHECK(tape.gradient(power(three, zero), zero).item<double>() == Approx(std::log(3.0)));
}

TEST_CASE("the gradient of where is 0 for what was not chosen, whatever came there") {
  const Vector x = {1, -1, 1, -1, 1, -1}, dz = {nan, nan, inf, -inf, 2, 3};
  check_slopes([](Tensor a, Tensor b) { return where(stop_gradient(a) > 0, a, b); }, x,
               {5, 6, nan, inf, 7, 8}, dz, {{nan, 0, inf, 0, 2, 0}, {0, nan, 0, -inf, 0, 3}});
  // A pole inside of the branch that is not chosen has no effect, if its argument is first replaced
  // by a harmless one.
  const Tensor at = tensor({-1.0, 0.0, 4.0});
  const auto safe_root = [](const Tensor& v) {
    return where(v > 0, sqrt(where(v > 0, v, 1.0)), 0.0);
  };
  GradientTape tape({.persistent = true});
  tape.watch(at);
  CHECK(alike(tape.gradient(safe_root(at), at), {0, 0, 0.25}));
  // One condition for several elements, and one branch for all elements.
  const Tensor wide = ones({2, 3});
  tape.watch(wide);
  const Tensor chosen = where(tensor({true, false, true}), wide, at(2));
  const auto [dwide, dat] = tape.gradient(chosen, wide, at);
  CHECK(alike(dwide, {1, 0, 1, 1, 0, 1}));
  CHECK(alike(dat, {0, 0, 2}));
}

TEST_CASE("gradients at infinities and NaN") {
  const auto of = [](auto f) { return [f](Tensor a, Tensor) { return f(a); }; };
  const Vector none(3, 0), ends = {inf, -inf, nan};
  check_slopes(of([](Tensor a) { return gelu(a); }), ends, none, {3, 3, 3}, {{3, 0, nan}, none});
  check_slopes(of([](Tensor a) { return silu(a); }), ends, none, {3, 3, 3}, {{3, 0, nan}, none});
  check_slopes(of([](Tensor a) { return relu(a); }), ends, none, {3, 3, 3}, {{3, 0, 0}, none});
  check_slopes([](Tensor a, Tensor b) { return maximum(a, b); }, {nan, 1, inf}, {1, nan, inf},
               {3, 3, 4}, {{0, 0, 2}, {0, 0, 2}});
  check_slopes([](Tensor a, Tensor b) { return minimum(a, b); }, {nan, 1, -inf}, {1, nan, inf},
               {3, 3, 4}, {{0, 0, 4}, {0, 0, 0}});
  // x - y floor(x / y): the floor of a small negative quotient is -1.
  check_slopes([](Tensor a, Tensor b) { return remainder(a, b); }, {-1, 1, -1, 1, 0},
               {inf, inf, -inf, -inf, inf}, {2, 2, 2, 2, 2}, {{2, 2, 2, 2, 2}, {2, 0, 0, 2, 0}});
  CHECK(alike(
      floor_divide(tensor<double>({-1, 1, -1, 1, 0}), tensor<double>({inf, inf, -inf, -inf, inf})),
      {-1, 0, 0, -1, 0}));
}

TEST_CASE("the gradient of binary_cross_entropy is right where a prediction is certain") {
  check_slopes([](Tensor a, Tensor b) { return binary_cross_entropy(a, b, Reduction::none); },
               {0, 1, 0.5}, {0, 1, 0.5}, {1, 1, 1}, {{1, -1, 0}, {100, -100, 0}});
}

TEST_CASE("limit_norm of large float32 numbers has the gradient of float64") {
  const auto slope = [](DType dtype, bool listened) {
    const Tensor x = tensor({1e30, 2e30, -2e30}).to(dtype);
    GradientTape outer;
    if (listened) outer.watch(x);
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(limit_norm({x}, 1e20)[0](0), x).to(DType::float64);
  };
  // s (e - x x[0] / |x|^2) with s = 1e20 / 3e30
  const Tensor expected = 1e20 / 3e30 * tensor<double>({8 / 9.0, -2 / 9.0, 2 / 9.0});
  for (const DType dtype : {DType::float32, DType::float64})
    for (const bool listened : {false, true})
      CHECK(allclose(slope(dtype, listened), expected, {.rtol = 1e-5, .atol = 0}));
}

TEST_CASE("gradients at kinks and poles") {
  const auto of = [](auto f) { return [f](Tensor a, Tensor) { return f(a); }; };
  const Vector x = {0, -0.0, 2, -2, inf, -inf}, none(6, 0), dz = {3, 3, 3, 3, 3, 3};
  check_slopes(of([](Tensor a) { return abs(a); }), x, none, dz, {{0, 0, 3, -3, 3, -3}, none});
  check_slopes(of([](Tensor a) { return relu(a); }), x, none, dz, {{0, 0, 3, 0, 3, 0}, none});
  check_slopes(of([](Tensor a) { return sqrt(a); }), {0, 4, 1, -1}, {0, 0, 0, 0}, {3, 8, 2, 1},
               {{inf, 2, 1, nan}, {0, 0, 0, 0}});
  check_slopes(of([](Tensor a) { return log(a); }), {0, 4, -2, 1}, {0, 0, 0, 0}, {3, 8, 2, 1},
               {{inf, 2, -1, 1}, {0, 0, 0, 0}});
  check_slopes([](Tensor a, Tensor b) { return a / b; }, {1, 0, 6}, {0, 4, 2}, {1, 8, 4},
               {{inf, 2, 2}, {-inf, 0, -6}});
  // -x / y^2, where y^2 is not finite
  check_slopes([](Tensor a, Tensor b) { return a / b; }, {0x1p100}, {0x1p90}, {1},
               {{0x1p-90}, {-0x1p-80}});
  check_slopes([](Tensor a, Tensor b) { return remainder(a, b); }, {7, -7, 7, 6}, {3, 3, -3, 3},
               {1, 1, 2, 1}, {{1, 1, 2, 1}, {-2, 3, 6, -2}});
}

TEST_CASE("layer_norm of equal numbers has gradients of 0, by the kernel and by ops") {
  for (const bool listened : {false, true}) {
    const Tensor x = full({2, 7}, 0.1f), scale = ones({7}), shift = zeros({7});
    GradientTape outer;
    if (listened) outer.watch(scale);
    GradientTape tape;
    for (const Tensor* each : {&x, &scale, &shift}) tape.watch(*each);
    const Tensor y = layer_norm(x, scale, shift);
    CHECK(equal(y, zeros({2, 7})));
    const auto found = tape.gradient(y * arange(0.0, 7.0), {x, scale, shift});
    CHECK(allclose(found[1], zeros({7}), {.atol = 1e-12}));
    CHECK(allclose(found[2], 2.0f * arange(0.0, 7.0)));
  }
}

TEST_CASE("layer_norm of numbers far from 0 has the gradients of the formula, by kernel and ops") {
  constexpr std::size_t n = 7;
  const double x[n] = {0x1p23 + 1,  0x1p23 + 2,  0x1p23 + 4, 0x1p23 + 7,
                       0x1p23 + 12, 0x1p23 + 19, 0x1p23 + 31};
  const double up[n] = {1, -2, 0.5, 3, -1, 0.25, 2}, gain[n] = {1, 2, -1, 0.5, 1, 3, -2};
  constexpr double epsilon = 1e-5;
  double mean = 0, variance = 0, g_mean = 0, product = 0;
  for (const double each : x) mean += each / n;
  for (const double each : x) variance += (each - mean) * (each - mean) / n;
  const double scale = 1 / std::sqrt(variance + epsilon);
  for (std::size_t i = 0; i < n; ++i) {
    g_mean += up[i] * gain[i] / n;
    product += up[i] * gain[i] * (x[i] - mean) * scale / n;
  }
  const auto row = [](const double(&values)[n]) {
    return from_span(std::span<const double>(values), {1, n}).to(DType::float32);
  };
  for (const bool listened : {false, true}) {
    INFO("listened: " << listened);
    const Tensor rows = row(x), scales = row(gain).reshape({n}), shifts = zeros({n});
    GradientTape outer;
    if (listened) outer.watch(scales);
    GradientTape tape;
    for (const Tensor* each : {&rows, &scales}) tape.watch(*each);
    const auto found =
        tape.gradient(layer_norm(rows, scales, shifts, epsilon) * row(up), {rows, scales});
    for (std::size_t i = 0; i < n; ++i) {
      const double place = (x[i] - mean) * scale;
      const auto at = static_cast<std::int64_t>(i);
      CHECK(std::abs(found[0](0, at).item<float>() -
                     scale * (up[i] * gain[i] - g_mean - place * product)) < 1e-6);
      CHECK(std::abs(found[1](at).item<float>() - up[i] * place) < 1e-5);
    }
  }
}

TEST_CASE("the gradient of limit_norm() at the very limit is that of no limit") {
  for (const bool listened : {false, true}) {
    INFO("listened: " << listened);
    const Tensor x = tensor({3.0, 4.0}), up = tensor({1.0, 2.0});
    GradientTape outer;
    if (listened) outer.watch(x);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = limit_norm({x}, 5)[0];
    CHECK(equal(tape.gradient(y, x, {.upstream = up}), tensor({1.0, 2.0})));
  }
}

TEST_CASE("the gradient of a 16-bit tensor that is read twice is a sum in 16 bits") {
  const Tensor x = tensor({1.0f, 2.0f}).to(DType::float16);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x.to(DType::float32) * 2.0f + x.to(DType::float32) * 3.0f;
  CHECK(equal(tape.gradient(y, x), full({2}, 5, {DType::float16})));
}
}  // namespace reel::tests
