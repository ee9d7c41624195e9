// SPDX-License-Identifier: BSD-3-Clause
// Functions of one float32 over all of its range, a sample of bit patterns: at most 2 units of the
// last place from the exact value.
#include <cmath>
#include <limits>

#include "kernels/kernels.hpp"
#include "support/catch.hpp"

namespace reel::tests {
namespace {
struct Exact {
  const char* op;
  double (*function)(double);
};
const Exact functions[] = {
    {"exp", [](double x) { return std::exp(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
};

/// Every 2039th bit pattern (NaN, infinities and subnormals among them), and where the functions
/// bend.
std::vector<float> sample() {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 2039) {
    const auto pattern = static_cast<std::uint32_t>(bits);
    float value = 0;
    std::memcpy(&value, &pattern, sizeof value);
    values.push_back(value);
  }
  for (int i = -110'000; i < 110'000; ++i) values.push_back(static_cast<float>(i) * 0.001f);
  return values;
}

double ulps(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (std::isnan(rounded) && std::isnan(got)) return 0;
  if (got == rounded) return std::signbit(got) == std::signbit(rounded) ? 0 : 1e9;
  if (!std::isfinite(got) || !std::isfinite(rounded)) return 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(got) - exact) /
         std::ldexp(1.0, std::max(exponent - 24, -149));
}
}  // namespace

// SSE4.2 has no fused products.
TEST_CASE("functions of float32 are exact to 2 units of the last place, 2.1 on sse4") {
  const std::vector<float> x = sample();
  std::vector<float> y(x.size());
  for_each_set([&](const InstructionSet& set) {
    for (const Exact& exact : functions) {
      const void* inputs[] = {x.data()};
      find_tiles(set, exact.op)
          ->value[static_cast<int>(DType::float32)](static_cast<std::int64_t>(x.size()), inputs, 0,
                                                    y.data());
      double worst = 0;
      float where = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double error = ulps(y[i], exact.function(static_cast<double>(x[i])));
        if (error <= worst) continue;
        worst = error;
        where = x[i];
      }
      INFO(exact.op << "(" << where << ") on " << set.name);
      CHECK(worst <= (set.name == std::string_view("sse4") ? 2.1 : 2));
    }
  });
}
}  // namespace reel::tests
