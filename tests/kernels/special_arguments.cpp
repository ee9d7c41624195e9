// SPDX-License-Identifier: BSD-3-Clause
// Powers, logarithms and trigonometric functions at arguments that have a path of their own.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
template <class T>
PassFunction function_of(const InstructionSet& set, const char* op) {
  return find_passes(set, op)->value[static_cast<int>(dtype_of<T>())];
}
template <class T>
void check_easy_powers(const InstructionSet& set) {
  struct Power {
    double exponent;
    T (*exact)(T);
  };
  const Power powers[] = {{2, [](T x) { return x * x; }},
                          {3, [](T x) { return x * x * x; }},
                          {1, [](T x) { return x; }},
                          {-1, [](T x) { return 1 / x; }},
                          {0.5, [](T x) { return std::sqrt(x); }},
                          {-0.5, [](T x) { return 1 / std::sqrt(x); }}};
  const PassFunction power = function_of<T>(set, "power");
  std::mt19937 random(3);
  std::vector<T> x(2003);
  for (T& value : x) value = std::uniform_real_distribution<T>(T(0.1), T(9))(random);
  const auto n = static_cast<std::int64_t>(x.size());
  for (const Power& each : powers) {
    INFO(set.name << ": exponent " << each.exponent);
    std::vector<T> exact, in_place = x, of_row(x.size());
    for (const T value : x) exact.push_back(each.exact(value));
    const std::vector<T> exponents(x.size(), static_cast<T>(each.exponent));
    const void *number[] = {in_place.data(), exponents.data()},
               *row[] = {x.data(), exponents.data()};
    power(n, number, 2, in_place.data());
    power(n, row, 0, of_row.data());
    CHECK(in_place == exact);
    CHECK(of_row == exact);
  }
}
}  // namespace

TEST_CASE("powers of some exponents are products, quotients and roots, in place too") {
  for_each_set([](const InstructionSet& set) {
    check_easy_powers<float>(set);
    check_easy_powers<double>(set);
  });
}

TEST_CASE("powers of float32 are rounded once") {
  std::vector<float> x, y;
  const auto add = [&](float base, float exponent) {
    x.push_back(base);
    y.push_back(exponent);
  };
  for (const float base : {2.0f, -2.0f, 0.5f, -0.5f})  // 2^-150 lies between 0 and 2^-149
    for (const float exponent :
         {-151.0f, -150.0f, -149.0f, -127.0f, 127.0f, 128.0f, 149.0f, 150.0f})
      add(base, exponent);
  for (const float base : {0.0f, -0.0f, 1.0f, -1.0f, 3.0f, -3.0f, HUGE_VALF, -HUGE_VALF, NAN})
    for (const float exponent : {0.0f, 1.5f, -1.5f, 5.0f, -5.0f, 1e9f, HUGE_VALF, -HUGE_VALF, NAN})
      add(base, exponent);
  std::mt19937 random(4);
  for (int i = 0; i < 20'000; ++i) {
    const float size = std::exp(std::normal_distribution<float>(0, i % 2 ? 20 : 0.01f)(random));
    add(size, std::normal_distribution<float>(0, 88 / (0.01f + std::abs(std::log(size))))(random));
  }
  for_each_set([&](const InstructionSet& set) {
    std::vector<float> out(x.size());
    const void* inputs[] = {x.data(), y.data()};
    function_of<float>(set, "power")(static_cast<std::int64_t>(x.size()), inputs, 0, out.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      const auto rounded = static_cast<float>(exact);
      const double unit = static_cast<double>(std::nextafter(std::abs(rounded), HUGE_VALF)) -
                          std::abs(static_cast<double>(rounded));
      INFO(set.name << ": " << x[i] << " to the power " << y[i] << ": " << out[i] << ", " << exact);
      if (std::isnan(exact))
        CHECK(std::isnan(out[i]));
      else if (!std::isfinite(rounded) || rounded == 0)
        CHECK((out[i] == rounded && std::signbit(out[i]) == std::signbit(rounded)));
      else
        CHECK(std::abs(static_cast<double>(out[i]) - exact) <= 0.56 * unit);
    }
  });
}

TEST_CASE("log2 of subnormal numbers of float64") {
  std::vector<double> x;
  for (int exponent = -1074; exponent < -1018; ++exponent)
    for (const double part : {1.0, 1.25, 1.75}) x.push_back(std::ldexp(part, exponent));
  for_each_set([&](const InstructionSet& set) {
    std::vector<double> y(x.size());
    const void* inputs[] = {x.data()};
    function_of<double>(set, "log2")(static_cast<std::int64_t>(x.size()), inputs, 0, y.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(set.name << ": " << x[i]);
      CHECK(std::abs(y[i] - std::log2(x[i])) <= 1e-11);
    }
  });
}

TEST_CASE("sine, cosine and tangent next to their roots, and where the C library takes over") {
  std::vector<double> x;
  for (int k = 1; k < 500'000; k += 997)
    for (const double quarters : {2.0 * k, 2.0 * k + 1})
      x.push_back(quarters * std::acos(-1.0) / 2);
  for (const double limit : {1.6e6, -1.6e6})
    x.insert(x.end(), {std::nextafter(limit, 0), limit, std::nextafter(limit, 2 * limit)});
  struct Function {
    const char* op;
    double (*exact)(double);
  };
  const Function functions[] = {{"sin", [](double v) { return std::sin(v); }},
                                {"cos", [](double v) { return std::cos(v); }},
                                {"tan", [](double v) { return std::tan(v); }}};
  // float32 is computed in float32 up to 30,000, then in float64.
  std::vector<float> narrow;
  for (int k = 1; k < 22'000; ++k) {
    const auto near = static_cast<float>(k * std::acos(-1.0) / 2);
    narrow.insert(narrow.end(), {std::nextafter(near, 0.f), near, std::nextafter(near, 1e9f)});
  }
  for (const float limit : {30'000.f, -30'000.f, 1.6e6f, -1.6e6f})
    narrow.insert(narrow.end(),
                  {std::nextafter(limit, 0.f), limit, std::nextafter(limit, 2 * limit)});
  for_each_set([&](const InstructionSet& set) {
    for (const Function& function : functions) {
      std::vector<double> y(x.size());
      const void* inputs[] = {x.data()};
      function_of<double>(set, function.op)(static_cast<std::int64_t>(x.size()), inputs, 0,
                                            y.data());
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = function.exact(x[i]);
        worst = std::max(worst, std::abs(y[i] - exact) / std::abs(exact));
      }
      INFO(set.name << ": " << function.op);
      CHECK(worst <= 4 * std::numeric_limits<double>::epsilon());
      std::vector<float> y_narrow(narrow.size());
      const void* narrow_inputs[] = {narrow.data()};
      function_of<float>(set, function.op)(static_cast<std::int64_t>(narrow.size()), narrow_inputs,
                                           0, y_narrow.data());
      double worst_narrow = 0;
      for (std::size_t i = 0; i < narrow.size(); ++i) {
        const double exact = function.exact(static_cast<double>(narrow[i]));
        worst_narrow = std::max(
            worst_narrow, std::abs(static_cast<double>(y_narrow[i]) - exact) / std::abs(exact));
      }
      CHECK(worst_narrow <= 4 * static_cast<double>(std::numeric_limits<float>::epsilon()));
      // A large adjacent element changes no bit, not even the sign of NaN.
      for (const float value : {-NAN, NAN, -0.f, 2.f, 40'000.f}) {
        std::uint32_t bits[3];
        for (int i = 0; i < 3; ++i) {
          const float pair[] = {value, i == 0 ? 1.f : i == 1 ? 50'000.f : 1e30f};
          const void* both[] = {pair};
          float out[2];
          function_of<float>(set, function.op)(2, both, 0, out);
          std::memcpy(&bits[i], out, 4);
        }
        CHECK(bits[0] == bits[1]);
        CHECK(bits[0] == bits[2]);
      }
    }
  });
}
}  // namespace reel::tests
