// SPDX-License-Identifier: BSD-3-Clause
// Shared by all sweeps over the op table: samples, elements on the host, comparison.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "lib/gate/gate.hpp"
#include "support/catch.hpp"

namespace reel::tests {
/// Elements of any dtype as float64, in row-major order.
struct Host {
  DType dtype = DType::float64;
  Shape shape;
  std::vector<double> values;
};
Host host_of(const Body& body);
Host host_of(const Tensor& x);

/// All ops of the library, sorted. Ops that tests register are not included.
std::vector<Op*> library_ops();
/// library_ops() and an entry for each public function made of several ops. Such an entry has a
/// name and samples, but no kernels, rules or shapes: see composites.cpp.
std::vector<Op*> ops_and_composites();
std::vector<Sample> samples_of(const Op& op);
/// Samples for tests that call each sample many times. With REEL_TEST_SHORT=1 there are about
/// `few`, spread over the list: early samples are small, late ones are strided or have several
/// axes.
std::vector<Sample> some_samples_of(const Op& op, std::size_t few);
/// "tanh, sample 3: (2, 3) x (3,)": for INFO.
std::string describe(const Op& op, std::size_t number, const Sample& sample);

struct Near {
  double relative = 0, absolute = 0;
};
/// Describes the first difference; empty if there is none. NaN equals NaN.
std::string difference(const Host& got, const Host& expected, Near near);

/// The values of x in new row-major memory.
Tensor fresh(const Tensor& x);
/// Weights for a result: float64 values that all differ.
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
