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
                           add_sequence_references, add_layout_references, add_gather_references,
                           add_create_references})
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
  if (y == 0) return nan;  // of integers the sweep takes 0 instead
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
}  // namespace

void add_pointwise_references(References& table) {
  using D = double;
  table["abs"] = of_one([](D x) { return std::fabs(x); });
  table["exp"] = of_one([](D x) { return std::exp(x); });
  table["log"] = of_one([](D x) { return std::log(x); });
  table["square"] = of_one([](D x) { return x * x; });
  table["sqrt"] = of_one([](D x) { return std::sqrt(x); });
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
  table["power"] = of_two([](D x, D y) { return std::pow(x, y); });
  table["maximum"] = of_two([](D x, D y) { return x != x || y != y ? nan : std::max(x, y); });
  table["minimum"] = of_two([](D x, D y) { return x != x || y != y ? nan : std::min(x, y); });

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
  table["where"] = [](const Hosts& in, const void*) {
    return Hosts{filled(broadcast_shape(in), [&](const auto& index) {
      return at(in[0], index) != 0 ? at(in[1], index) : at(in[2], index);
    })};
  };
}
}  // namespace reel::tests
