// SPDX-License-Identifier: BSD-3-Clause
// Derivatives by five-point differences in float64.
#pragma once
#include <algorithm>
#include <cmath>

#include "sweep/table.hpp"

namespace reel::tests {
/// The sum of all elements, each multiplied by its weight.
inline double weighted(const Tensor& y, const Host& factors) {
  const Host values = host_of(y);
  long double sum = 0;
  for (std::size_t i = 0; i < values.values.size(); ++i)
    sum += static_cast<long double>(values.values[i]) * factors.values[i];
  return static_cast<double>(sum);
}

/// d f / d x for every floating input: (f(x - 2h) - 8 f(x - h) + 8 f(x + h) - f(x + 2h)) / 12 h.
/// On the CPU, whose values sweep/value.cpp checks: another device takes long for so many calls.
template <class F>
std::vector<Host> numeric_gradients(const std::vector<Tensor>& inputs, F f) {
  const DeviceScope here(cpu());
  std::vector<Host> slopes;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    if (!is_floating(inputs[k].dtype())) continue;
    Host at = host_of(inputs[k]), slope = at;
    std::vector<Tensor> moved = inputs;
    for (std::size_t i = 0; i < at.values.size(); ++i) {
      const double x = at.values[i], h = 1e-3 * std::max(1.0, std::abs(x));
      const auto value = [&](double steps) {
        at.values[i] = x + steps * h;
        moved[k] = from_span(at.values, at.shape);
        return f(moved);
      };
      slope.values[i] = (value(-2) - 8 * value(-1) + 8 * value(1) - value(2)) / (12 * h);
      at.values[i] = x;
    }
    slopes.push_back(slope);
  }
  return slopes;
}

inline double largest(const Host& x) {
  double found = 0;
  for (double value : x.values)
    if (std::isfinite(value)) found = std::max(found, std::abs(value));
  return found;
}
/// R1: rtol 1e-7, atol 1e-9. atol grows with the largest value, because rounding of that value
/// limits the precision of a difference.
inline Near first_order(const Host& expected) {
  return {1e-7, 1e-9 * std::max(1.0, largest(expected))};
}
/// R2: rtol 1e-6.
inline Near second_order(const Host& expected) {
  return {1e-6, 1e-8 * std::max(1.0, largest(expected))};
}
}  // namespace reel::tests
