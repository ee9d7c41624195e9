// SPDX-License-Identifier: BSD-3-Clause
// The gamma function's logarithm and its derivatives, shifts and histograms.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <reel/reel.hpp>

#include "support/refused.hpp"

namespace reel::tests {
namespace {
constexpr double infinity = std::numeric_limits<double>::infinity(), nan = NAN;
struct Known {
  double x, y;
};
double at64(Tensor (*f)(Operand), double x) { return f(tensor<double>({x}))(0).item<double>(); }
float at32(Tensor (*f)(Operand), double x) {
  return f(tensor<float>({static_cast<float>(x)}))(0).item<float>();
}
Tensor longs(const std::vector<std::int64_t>& values) { return tensor(values); }
/// The distance in units of the last place of the larger of `least` and the exact value.
double ulps(double got, double exact, double least) {
  const double size = std::max(std::fabs(exact), least);
  return std::fabs(got - exact) / (std::nextafter(size, infinity) - size);
}
}  // namespace

TEST_CASE("lerp is exact at both ends, and does not overflow between them") {
  const auto each = [](auto number) {
    using T = decltype(number);
    const T most = std::numeric_limits<T>::max(), small = std::numeric_limits<T>::denorm_min();
    const std::vector<T> values = {0, 1, -1, T(1e8), T(1) / 3, -small, small, most, -most};
    for (const T x : values)
      for (const T y : values) {
        INFO(x << " and " << y);
        const auto at = [&](double w) {
          return lerp(tensor<T>(x), tensor<T>(y), w).template item<T>();
        };
        CHECK(at(0) == x);
        CHECK(at(1) == y);
        const T low = std::min(x, y), high = std::max(x, y);
        T last = x;
        for (const double w : {0.125, 0.25, 0.5, 0.75, 0.875}) {
          const T now = at(w);
          CHECK((low <= now && now <= high));
          CHECK((x <= y ? last <= now : last >= now));
          if (x == y) CHECK(now == x);
          last = now;
        }
      }
  };
  each(1.f);
  each(1.);
  CHECK(equal(lerp(tensor({1.f, 2.f}), 4, 2), tensor({7.f, 6.f})));  // beyond the end
  CHECK(lerp(tensor({1, 2}), tensor({3, 4}), 0.5).to_vector<float>() == std::vector<float>{2, 3});
  CHECK(isnan(lerp(tensor(NAN), 1, 0.5)).item<bool>());
  CHECK(lerp(tensor(INFINITY), INFINITY, 0.5).item<float>() == INFINITY);
  CHECK(equal(lerp(tensor({1.f, INFINITY}), tensor({INFINITY, 1.f}), tensor({0.f, 1.f})),
              tensor({1.f, 1.f})));
}

TEST_CASE("lerp has finite gradients for the largest numbers") {
  const float most = std::numeric_limits<float>::max();
  const Tensor x = tensor({-most, 1.f}), y = tensor({most, 3.f}), w = tensor({0.25f, 0.75f});
  GradientTape tape;
  for (const Tensor& source : {x, y, w}) tape.watch(source);
  const auto [dx, dy, dw] = tape.gradient(lerp(x, y, w) * 0.25, x, y, w);
  CHECK(equal(dx, tensor({0.1875f, 0.0625f})));
  CHECK(equal(dy, tensor({0.0625f, 0.1875f})));
  CHECK(dw(1).item<float>() == 0.5f);
}

TEST_CASE("lgamma has the values of an arithmetic of 30 digits") {
  const Known above[] = {{1e-300, 690.77552789821370518},
                         {1e-10, 23.025850929882735237},
                         {0.25, 1.2880225246980774574},
                         {0.5, 0.57236494292470008707},
                         {0.999, 0.00057803853289138023817},
                         {1.001, -0.00057639359828330615152},
                         {1.4616321449683622, -0.1214862905358496081},
                         {1.999, -0.00042246180069210728418},
                         {2.001, 0.00042310673480011699119},
                         {2.5, 0.28468287047291915963},
                         {3.7, 1.4280723266653881292},
                         {9.999, 12.799575780077413715},
                         {10.0, 12.801827480081469611},
                         {10.001, 12.804079285251861383},
                         {171.5, 709.14316303092824227},
                         {1e6, 12815504.56914761166}};
  for (const auto& [x, y] : above) {
    INFO("lgamma(" << x << ")");
    CHECK(ulps(at64(lgamma, x), y, 0) <= 4);
  }
  const Known below[] = {{-0.5, 1.2655121234846453965},    {-1.5, 0.86004701537648101451},
                         {-2.4570247382208007, 0},         {-2.5, -0.056243716497674050673},
                         {-10.25, -14.203997900931090652}, {-1000.5, -5914.4377011168518766},
                         {-1e-10, 23.02585092999817837},   {-1e-300, 690.77552789821370518}};
  for (const auto& [x, y] : below) {
    INFO("lgamma(" << x << ")");
    CHECK(ulps(at64(lgamma, x), y, 1) <= 4);
    if (std::fabs(x) > 1e-30)
      CHECK(at32(lgamma, x) ==
            Approx(std::lgamma(static_cast<double>(static_cast<float>(x)))).margin(1e-7));
  }
  for (const double pole : {0.0, -0.0, -1.0, -7.0, -1e17, infinity, -infinity, 1e307})
    CHECK(at64(lgamma, pole) == infinity);
  CHECK(std::isnan(at64(lgamma, nan)));
  CHECK(at64(lgamma, 1) == 0);
  CHECK(at64(lgamma, 2) == 0);
  CHECK(lgamma(tensor({5})).dtype() == DType::float32);
}

TEST_CASE("lgamma is accurate over its range, by the C library in long double") {
  if (std::numeric_limits<long double>::digits < 64) SKIP("long double has no more places");
  std::mt19937_64 random(1);
  const double ranges[][2] = {{0, 0.5}, {0.5, 1.5}, {1.5, 2.5}, {2.5, 10}, {10, 40}, {40, 1e300}};
  for (const auto& [low, high] : ranges) {
    std::vector<double> x(20'000);
    for (double& each : x) each = std::uniform_real_distribution<double>(low, high)(random);
    const auto y = lgamma(from_span(x, {20'000})).to_vector<double>();
    const auto single = lgamma(from_span(x, {20'000}).to(DType::float32)).to_vector<float>();
    double worst = 0, worst32 = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto exact = static_cast<double>(std::lgamma(static_cast<long double>(x[i])));
      worst = std::max(worst, ulps(y[i], exact, 0));
      const auto rounded = static_cast<float>(x[i]);
      const double exact32 = std::lgamma(static_cast<double>(rounded));
      if (rounded > 1e30f) continue;
      const auto nearest = static_cast<float>(exact32);
      const float unit = std::nextafter(std::fabs(nearest), HUGE_VALF) - std::fabs(nearest);
      worst32 = std::max(
          worst32, std::fabs(static_cast<double>(single[i]) - exact32) / static_cast<double>(unit));
    }
    INFO(low << " to " << high << ": " << worst << ", float32 " << worst32);
    CHECK(worst <= 4);
    CHECK(worst32 <= 1);
  }
}

TEST_CASE("digamma has the values of an arithmetic of 30 digits") {
  const Known known[] = {{1e-10, -10000000000.5772153},  {0.25, -4.2274535333762654081},
                         {0.5, -1.9635100260214234794},  {1.0, -0.57721566490153286061},
                         {1.4616321449683622, 0},        {1.5, 0.036489973978576520559},
                         {2.0, 0.42278433509846713939},  {9.5, 2.1977378764029495332},
                         {10.0, 2.2517525890667211076},  {100.0, 4.6001618527380874002},
                         {1e10, 23.02585092989045684},   {-0.5, 0.036489973978576520559},
                         {-1.25, 3.7141391202135278304}, {-10.75, -0.72089576016716117401},
                         {-1e-10, 9999999999.4227839706}};
  for (const auto& [x, y] : known) {
    INFO("digamma(" << x << ")");
    CHECK(ulps(at64(digamma, x), y, x < 0 ? 4 : 1) <= 4);
    if (y != 0) CHECK(at32(digamma, x) == Approx(y).epsilon(1e-5));
  }
  for (const double pole : {-1.0, -7.0, -1e17, -infinity, nan})
    CHECK(std::isnan(at64(digamma, pole)));
  CHECK(at64(digamma, 0) == -infinity);
  CHECK(at64(digamma, infinity) == infinity);
}

TEST_CASE("polygamma has the values of an arithmetic of 30 digits") {
  struct Row {
    int n;
    double x, y;
  };
  const Row rows[] = {{0, 1.5, 0.036489973978576520559},  {1, 0.25, 17.197329154507110739},
                      {1, 1.0, 1.6449340668482264365},    {1, 20.0, 0.051270822935203119832},
                      {1, 1e6, 1.0000005000001666667e-6}, {1, -0.5, 8.9348022005446793094},
                      {1, -7.25, 19.610354539293269016},  {2, 1.0, -2.4041138063191885708},
                      {2, 0.3, -75.272536588726038917},   {2, -1.5, -0.236204051641727403},
                      {3, 2.5, 0.22390584881725205126},   {5, 0.1, 120000069.307510929},
                      {20, 3.0, -233141556.11225681824},  {100, 7.5, -3.879872527105495247e+69},
                      {3, -20.25, 1558.5452329438901963}};
  for (const auto& [n, x, y] : rows) {
    INFO("polygamma(" << n << ", " << x << ")");
    CHECK(polygamma(n, tensor<double>({x}))(0).item<double>() == Approx(y).epsilon(2e-14));
    CHECK(polygamma(n, tensor<float>({1.0f})).dtype() == DType::float32);
  }
  const Tensor ends = polygamma(2, tensor<double>({infinity, -infinity, nan, -20'000.5}));
  CHECK(ends(0).item<double>() == 0);
  CHECK(all(isnan(ends(range(1, 4)))));
  CHECK(polygamma(1, tensor<double>({1e301}))(0).item<double>() == Approx(1e-301));
}

TEST_CASE("the gradients of lgamma go on by polygamma") {
  const Tensor x = tensor<double>({0.3, 1.5, 4.25, 30.0});
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor slope = inner.gradient(lgamma(x), x);
  CHECK(allclose(slope, digamma(x), {.rtol = 1e-14}));
  CHECK(allclose(outer.gradient(slope, x), polygamma(1, x), {.rtol = 1e-14}));
}

TEST_CASE("shifts move bits, and all of them where the count is outside the dtype") {
  const Tensor counts = tensor({0, 1, 7, 8, 31, 32, 63, 64, 100, -1});
  CHECK(equal(left_shift(longs({3}), counts),
              longs({3, 6, 384, 768, 3LL << 31, 3LL << 32, INT64_MIN, 0, 0, 0})));
  CHECK(equal(left_shift(3, counts), tensor({3, 6, 384, 768, INT32_MIN, 0, 0, 0, 0, 0})));
  CHECK(equal(right_shift(-5, counts), tensor({-5, -3, -1, -1, -1, -1, -1, -1, -1, -1})));
  CHECK(
      equal(right_shift(longs({1LL << 62}), counts),
            longs({1LL << 62, 1LL << 61, 1LL << 55, 1LL << 54, 1LL << 31, 1LL << 30, 0, 0, 0, 0})));
  const Tensor bytes = cast(tensor({1, 129, 255}), DType::uint8);
  CHECK(equal(left_shift(bytes, 1), cast(tensor({2, 2, 254}), DType::uint8)));
  CHECK(equal(right_shift(bytes, 7), cast(tensor({0, 1, 1}), DType::uint8)));
  CHECK(equal(right_shift(bytes, 8), cast(tensor({0, 0, 0}), DType::uint8)));
  CHECK(left_shift(tensor({true}), 2).dtype() == DType::int32);
  check_refused<Error>([] { left_shift(tensor({true}), Tensor()); },
                       "left_shift: y: expected a tensor");
}

TEST_CASE("gelu_tanh is close to gelu and exact at its ends") {
  const Tensor x = arange(-8.0, 8.0, 0.01, {.dtype = DType::float64});
  CHECK(allclose(gelu_tanh(x), gelu(x), {.rtol = 0, .atol = 5e-4}));
  const Tensor v = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  CHECK(allclose(gelu_tanh(x), 0.5 * x * (1 + tanh(v)), {.rtol = 1e-9, .atol = 1e-14}));
  const Tensor ends = tensor<double>({-infinity, -1e30, 1e30, infinity, 0.0});
  CHECK(equal(gelu_tanh(ends), tensor<double>({0.0, 0.0, 1e30, infinity, 0.0})));
  GradientTape tape;
  tape.watch(ends);
  CHECK(allclose(tape.gradient(gelu_tanh(ends), ends), tensor<double>({0.0, 0.0, 1.0, 1.0, 0.5}),
                 {.rtol = 0, .atol = 1e-100}));
}

TEST_CASE("histogram counts as NumPy does") {
  const Tensor x = tensor<double>({-0.1, 0, 0.1, 0.3, 0.5, 0.99, 1, 1.01, nan, infinity});
  CHECK(equal(histogram(x, 2, 0, 1), tensor<std::int64_t>({3, 3})));
  CHECK(equal(histogram(x, 1, 0, 1), tensor<std::int64_t>({6})));
  CHECK(equal(histogram(zeros({0}), 3, 0, 1), tensor<std::int64_t>({0, 0, 0})));
  CHECK(equal(histogram(tensor({1, 2, 2, 5}), 4, 1, 5), tensor<std::int64_t>({1, 2, 0, 1})));
  CHECK(equal(histogram(tensor({-1, 0, 1, 2, 3}), 2, 0, 2), tensor<std::int64_t>({1, 2})));
  const Tensor whole = tensor({0, 1, 2, 2, 3, 3, 3, 4, 5, -1});
  CHECK(equal(histogram(whole, 4, 2, 4), tensor({2, 0, 3, 1})));
  CHECK(equal(histogram(whole, 4, -4, 4), tensor({0, 1, 2, 6})));
  CHECK(equal(histogram(whole, 4, 0, 4), tensor({1, 1, 2, 4})));
  CHECK(equal(histogram(tensor({true, false, true}), 2, 0, 1), tensor<std::int64_t>({1, 2})));
  CHECK(equal(histogram(transpose(tensor({{1.0, 2.0}, {3.0, 4.0}})), 2, 1, 4),
              tensor<std::int64_t>({2, 2})));
  // np.histogram([0.1 * k for k in range(11)], 10, (0, 1)): edges in float64 decide
  std::vector<double> tenths;
  for (int k = 0; k <= 10; ++k) tenths.push_back(0.1 * k);
  std::vector<std::int64_t> expected(10);
  for (const double each : tenths)
    for (int k = 9; k >= 0; --k)
      if (each >= k * 0.1) {
        ++expected[static_cast<std::size_t>(k)];
        break;
      }
  CHECK(equal(histogram(from_span(tenths, {11}), 10, 0, 1), from_span(expected, {10})));
  const Tensor many = random::uniform({100'000}, {.low = -1, .high = 3});
  const auto counts = histogram(many, 40, -1, 3).to_vector<std::int64_t>();
  std::vector<std::int64_t> slow(40);
  for (const float each : many.to_vector<float>())
    for (int k = 39; k >= 0; --k)
      if (static_cast<double>(each) >= -1 + k * 0.1) {
        ++slow[static_cast<std::size_t>(k)];
        break;
      }
  CHECK(counts == slow);
}
}  // namespace reel::tests
