// SPDX-License-Identifier: BSD-3-Clause
// What every sweep over the op table needs: samples, elements on the host, comparing.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/gate/gate.hpp"
#include "support/catch.hpp"

namespace reel::tests {
/// Elements in row-major order as float64, whatever the dtype.
struct Host {
  DType dtype = DType::float64;
  Shape shape;
  std::vector<double> values;
};
Host host_of(const Body& body);
Host host_of(const Tensor& x);

/// All ops of the library, sorted; none that a test has registered.
std::vector<Op*> library_ops();
std::vector<Sample> samples_of(const Op& op);
/// "tanh, sample 3: (2, 3) x (3,)": for INFO.
std::string describe(const Op& op, std::size_t number, const Sample& sample);

struct Near {
  double relative = 0, absolute = 0;
};
/// Empty if all is well, else the first difference. NaN equals NaN.
std::string difference(const Host& got, const Host& expected, Near near);

/// The same values in row-major memory of its own.
Tensor fresh(const Tensor& x);
/// float64 values that differ from each other, for weighing results.
Tensor weights_like(const Tensor& y, unsigned turn = 0);
std::vector<Tensor> floating(const std::vector<Tensor>& inputs);

/// Calls f(index, flat) for each element of a shape in row-major order.
template <class F>
void each_position(const Shape& shape, F f) {
  std::vector<std::int64_t> index(shape.rank());
  const std::int64_t count = shape.elements();
  for (std::int64_t flat = 0; flat < count; ++flat) {
    f(index, static_cast<std::size_t>(flat));
    for (std::size_t axis = shape.rank(); axis-- > 0;) {
      if (++index[axis] < shape.data()[axis]) break;
      index[axis] = 0;
    }
  }
}
}  // namespace reel::tests
