// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>

#include "sweep/reference.hpp"

namespace reel::tests {
double at(const Host& x, const std::vector<std::int64_t>& index) {
  std::int64_t flat = 0;
  const std::size_t rank = x.shape.rank();
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t length = x.shape.data()[axis];
    flat = flat * length + (length == 1 ? 0 : index[index.size() - rank + axis]);
  }
  return x.values[static_cast<std::size_t>(flat)];
}

Shape broadcast_shape(const Hosts& inputs) {
  Shape out;
  for (const Host& x : inputs) {
    if (x.shape.rank() > out.rank()) {
      Shape longer = x.shape;
      for (int k = 1; k <= static_cast<int>(out.rank()); ++k)
        if (longer[-k] == 1) longer.data()[longer.rank() - static_cast<std::size_t>(k)] = out[-k];
      out = longer;
      continue;
    }
    for (int k = 1; k <= static_cast<int>(x.shape.rank()); ++k)
      if (out[-k] == 1) out.data()[out.rank() - static_cast<std::size_t>(k)] = x.shape[-k];
  }
  return out;
}

const References& references() {
  static const References table = [] {
    References all;
    for (const auto add : {add_pointwise_references, add_reduce_references, add_product_references,
                           add_attention_references, add_convolution_references,
                           add_linalg_references, add_sequence_references, add_layout_references,
                           add_gather_references, add_create_references})
      add(all);
    return all;
  }();
  return table;
}

namespace {
Reference of_one(double (*f)(double)) {
  return [f](const Hosts& in, const void*) {
    return Hosts{filled(in[0].shape, [&](const auto& index) { return f(at(in[0], index)); })};
  };
}
Reference of_two(double (*f)(double, double)) {
  return [f](const Hosts& in, const void*) {
    return Hosts{filled(broadcast_shape(in),
                        [&](const auto& index) { return f(at(in[0], index), at(in[1], index)); })};
  };
}
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

template <class F>
Reference of_bits() {
  return of_two([](double x, double y) {
    return static_cast<double>(F()(static_cast<std::int64_t>(x), static_cast<std::int64_t>(y)));
  });
}
double order_of(double x, double y) { return x != x || y != y ? nan : (x > y) - (x < y); }
double remainder_of(double x, double y) {
  if (y == 0) return nan;  // for integers the sweep takes 0
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// psi(x) by its recurrence up to 60 and three terms of the asymptotic series, in long double.
long double psi(long double x) {
  constexpr long double pi = 3.14159265358979323846264338327950288L;
  if (x == 0) return -HUGE_VALL;
  if (x < 0) {
    const long double rest = x - std::floor(x);
    return rest > 0 ? psi(1 - x) - pi / std::tan(pi * rest) : nan;
  }
  long double sum = 0;
  for (; x < 60; ++x) sum += 1 / x;
  const long double w = 1 / (x * x);
  return std::log(x) - 1 / (2 * x) - w * (1 / 12.0L - w * (1 / 120.0L - w / 252)) - sum;
}
/// Derivative n of psi: terms up to 200, then the Euler-Maclaurin formula.
double polygamma_of(double x, double n) {
  constexpr long double pi = 3.14159265358979323846264338327950288L;
  if (x != x || !(n >= 0 && n <= 100) || n != std::floor(n)) return nan;
  if (n == 0) return static_cast<double>(psi(x));
  if (n == 1 && x < 0) {
    const long double ratio = pi / std::sin(pi * (x - std::floor(static_cast<long double>(x))));
    return x == std::floor(x) ? (std::isinf(x) ? nan : HUGE_VAL)
                              : static_cast<double>(ratio * ratio) - polygamma_of(1 - x, 1);
  }
  if (x < -10'000) return nan;
  const auto s = static_cast<long double>(n + 1);
  long double sum = 0, y = x, factorial = std::tgamma(s);
  for (; y < 200; ++y) sum += std::pow(y, -s);
  sum += std::pow(y, 1 - s) / (s - 1) + std::pow(y, -s) / 2 + s / 12 * std::pow(y, -s - 1) -
         s * (s + 1) * (s + 2) / 720 * std::pow(y, -s - 3);
  return static_cast<double>((std::fmod(n, 2.0) == 1 ? 1 : -1) * factorial * sum);
}
/// x times 2^count in whole numbers, for integers of so many bits as their dtypes have together.
Reference of_shift(bool left) {
  return [left](const Hosts& in, const void*) {
    const DType common = std::max(in[0].dtype, in[1].dtype);
    const double bits = common == DType::boolean ? 1
                        : common == DType::uint8 ? 8
                        : common == DType::int32 ? 32
                                                 : 64;
    return Hosts{filled(broadcast_shape(in), [&](const auto& index) {
      const double x = at(in[0], index), count = at(in[1], index);
      if (!(count >= 0 && count < bits)) return left || x >= 0 ? 0.0 : -1.0;
      const int n = static_cast<int>(count);
      if (!left) return std::floor(std::ldexp(x, -n));
      const auto whole = static_cast<std::uint64_t>(static_cast<std::int64_t>(x)) << n;
      return static_cast<double>(static_cast<std::int64_t>(whole));
    })};
  };
}
}  // namespace

void add_pointwise_references(References& table) {
  using D = double;
  table["abs"] = of_one([](D x) { return std::fabs(x); });
  table["exp"] = of_one([](D x) { return std::exp(x); });
  table["log"] = of_one([](D x) { return std::log(x); });
  table["square"] = of_one([](D x) { return x * x; });
  table["sqrt"] = of_one([](D x) { return std::sqrt(x); });
  table["acos"] = of_one([](D x) { return std::acos(x); });
  table["acosh"] = of_one([](D x) { return std::acosh(x); });
  table["asin"] = of_one([](D x) { return std::asin(x); });
  table["asinh"] = of_one([](D x) { return std::asinh(x); });
  table["atan"] = of_one([](D x) { return std::atan(x); });
  table["atanh"] = of_one([](D x) { return std::atanh(x); });
  table["ceil"] = of_one([](D x) { return std::ceil(x); });
  table["cos"] = of_one([](D x) { return std::cos(x); });
  table["cosh"] = of_one([](D x) { return std::cosh(x); });
  table["erf"] = of_one([](D x) { return std::erf(x); });
  table["erfc"] = of_one([](D x) { return std::erfc(x); });
  table["exp2"] = of_one([](D x) { return std::exp2(x); });
  table["expm1"] = of_one([](D x) { return std::expm1(x); });
  table["floor"] = of_one([](D x) { return std::floor(x); });
  table["gelu"] = of_one([](D x) { return x < -1e9 ? 0 : x / 2 * std::erfc(-x / std::sqrt(2.0)); });
  table["log1p"] = of_one([](D x) { return std::log1p(x); });
  table["log2"] = of_one([](D x) { return std::log2(x); });
  table["reciprocal"] = of_one([](D x) { return 1 / x; });
  table["round"] = of_one([](D x) { return std::nearbyint(x); });
  table["rsqrt"] = of_one([](D x) { return 1 / std::sqrt(x); });
  table["sign"] = of_one([](D x) { return x != x ? x : D((x > 0) - (x < 0)); });
  table["silu"] = of_one([](D x) { return x < -1e9 ? 0 : x / (1 + std::exp(-x)); });
  table["sin"] = of_one([](D x) { return std::sin(x); });
  table["sinh"] = of_one([](D x) { return std::sinh(x); });
  table["softplus"] = of_one([](D x) { return x > 30 ? x : std::log1p(std::exp(x)); });
  table["tan"] = of_one([](D x) { return std::tan(x); });
  table["trunc"] = of_one([](D x) { return std::trunc(x); });
  table["isfinite"] = of_one([](D x) { return D(std::isfinite(x)); });
  table["isinf"] = of_one([](D x) { return D(std::isinf(x)); });
  table["isnan"] = of_one([](D x) { return D(std::isnan(x)); });
  table["negative"] = of_one([](D x) { return -x; });
  table["relu"] = of_one([](D x) { return x < 0 ? 0 : x; });
  table["sigmoid"] = of_one([](D x) { return 1 / (1 + std::exp(-x)); });
  table["tanh"] = of_one([](D x) { return std::tanh(x); });
  table["stop_gradient"] = of_one([](D x) { return x; });
  table["logical_not"] = of_one([](D x) { return D(x == 0); });

  table["add"] = of_two([](D x, D y) { return x + y; });
  table["subtract"] = of_two([](D x, D y) { return x - y; });
  table["multiply"] = of_two([](D x, D y) { return x * y; });
  table["divide"] = of_two([](D x, D y) { return x / y; });
  table["remainder"] = of_two(remainder_of);
  table["atan2"] = of_two([](D y, D x) { return std::atan2(y, x); });
  table["clip_above"] = of_two([](D x, D high) { return x > high ? high : x; });
  table["clip_below"] = of_two([](D x, D low) { return x < low ? low : x; });
  table["elu"] = of_two([](D x, D alpha) { return x > 0 ? x : alpha * std::expm1(x); });
  table["floor_divide"] = [](const Hosts& in, const void*) {
    const bool floating = is_floating(in[0].dtype) || is_floating(in[1].dtype);
    return Hosts{filled(broadcast_shape(in), [&](const auto& index) {
      const D x = at(in[0], index), y = at(in[1], index);
      if (y == 0) return floating ? x / y : nan;  // nan: integers give 0
      const bool vanishes = std::isinf(y) && std::isfinite(x) && x != 0 && (x < 0) != (y < 0);
      return vanishes ? -1 : std::floor(x / y);
    })};
  };
  table["hypot"] = of_two([](D x, D y) { return std::hypot(x, y); });
  table["leaky_relu"] = of_two([](D x, D slope) { return x > 0 ? x : slope * x; });
  table["logaddexp"] = of_two([](D x, D y) { return std::log(std::exp(x) + std::exp(y)); });
  table["power"] = of_two([](D x, D y) { return std::pow(x, y); });
  table["maximum"] = of_two([](D x, D y) { return x != x || y != y ? nan : std::max(x, y); });
  table["minimum"] = of_two([](D x, D y) { return x != x || y != y ? nan : std::min(x, y); });

  table["binary_cross_entropy"] = of_two([](D x, D y) {
    const D log = std::max(std::log(x), -100.0), rest = std::max(std::log1p(-x), -100.0);
    return x != x || y != y ? nan : -(y * log + (1 - y) * rest);
  });
  table["binary_cross_entropy_with_logits"] = of_two([](D x, D y) {
    if (std::fabs(x) < 30 && std::isfinite(y))
      return y * std::log1p(std::exp(-x)) + (1 - y) * std::log1p(std::exp(x));
    const D share = x > 0 ? 1 - y : y;  // a certain score costs nothing where it is right
    return share == 0 ? 0 : std::fabs(x) * share + std::log1p(std::exp(-std::fabs(x)));
  });
  table["huber"] = of_two([](D x, D delta) {
    const D size = std::fabs(x);
    if (delta < 0) return delta * (x - delta / 2);  // the order of the two bounds decides
    return size <= delta ? x * x / 2 : delta * (size - delta / 2);
  });

  table["equal"] = of_two([](D x, D y) { return D(x == y); });
  table["not_equal"] = of_two([](D x, D y) { return D(x != y); });
  table["less"] = of_two([](D x, D y) { return D(x < y); });
  table["less_equal"] = of_two([](D x, D y) { return D(x <= y); });
  table["greater"] = of_two([](D x, D y) { return D(x > y); });
  table["greater_equal"] = of_two([](D x, D y) { return D(x >= y); });
  table["logical_and"] = of_two([](D x, D y) { return D(x != 0 && y != 0); });
  table["logical_or"] = of_two([](D x, D y) { return D(x != 0 || y != 0); });
  table["logical_xor"] = of_two([](D x, D y) { return D((x != 0) != (y != 0)); });
  table["order"] = of_two(order_of);
  table["bitwise_and"] = of_bits<std::bit_and<>>();
  table["bitwise_or"] = of_bits<std::bit_or<>>();
  table["bitwise_xor"] = of_bits<std::bit_xor<>>();
  table["bitwise_not"] = [](const Hosts& in, const void*) {
    const bool truths = in[0].dtype == DType::boolean;
    return Hosts{filled(in[0].shape, [&](const auto& index) {
      const double x = at(in[0], index);
      return truths ? D(x == 0) : -1 - x;
    })};
  };
  table["left_shift"] = of_shift(true);
  table["right_shift"] = of_shift(false);
  table["lgamma"] = of_one([](D x) { return std::lgamma(x); });
  table["digamma"] = of_one([](D x) { return D(psi(x)); });
  table["polygamma"] = of_two(polygamma_of);
  // In float32 the exponent is rounded, so that small results differ by more than their rounding.
  table["gelu_tanh"] = [](const Hosts& in, const void*) {
    const bool wide = in[0].dtype == DType::float64;
    return Hosts{filled(in[0].shape, [&](const auto& index) {
      const D x = at(in[0], index);
      const auto exponent = [](auto y) -> D {
        using T = decltype(y);
        return T(1.5957691216057308) * (y * (1 + T(0.044715) * (y * y)));
      };
      return x < -1e9 ? 0 : x / (1 + std::exp(-(wide ? exponent(x) : exponent(float(x)))));
    })};
  };
  table["lerp"] = [](const Hosts& in, const void*) {
    return Hosts{filled(broadcast_shape(in), [&](const auto& index) {
      const D x = at(in[0], index), y = at(in[1], index), w = at(in[2], index);
      return (1 - w) * x + w * y;
    })};
  };
  table["where"] = [](const Hosts& in, const void*) {
    return Hosts{filled(broadcast_shape(in), [&](const auto& index) {
      return at(in[0], index) != 0 ? at(in[1], index) : at(in[2], index);
    })};
  };
}
}  // namespace reel::tests
