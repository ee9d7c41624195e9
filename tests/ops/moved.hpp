// SPDX-License-Identifier: BSD-3-Clause
// Comparison of ops that move elements with plain loops.
#pragma once
#include <functional>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"

namespace reel::tests {
using Position = std::vector<std::int64_t>;

/// Calls f(position) for each position of a shape, in row-major order.
template <class F>
void for_each_position(const Shape& shape, const F& f) {
  Position at(shape.rank());
  for (std::int64_t i = 0, n = shape.elements(); i < n; ++i) {
    std::int64_t rest = i;
    for (std::size_t axis = shape.rank(); axis-- > 0; rest /= shape.data()[axis])
      at[axis] = rest % shape.data()[axis];
    f(at);
  }
}
inline std::vector<double> doubles(const Tensor& x) {
  return cast(x, DType::float64).to_vector<double>();
}
/// Checks the shape and dtype of y, and that y[at] is x[from(at)], or `other` where from(at) is
/// outside x.
inline void check_moved(const Tensor& y, const Tensor& x, const Shape& shape,
                        const std::function<Position(Position)>& from, double other = 0) {
  CHECK(y.dtype() == x.dtype());
  REQUIRE(y.shape() == shape);
  const std::vector<double> values = doubles(x);
  std::vector<double> expected;
  for_each_position(shape, [&](const Position& at) {
    const Position place = from(at);
    REQUIRE(place.size() == x.rank());
    std::int64_t flat = 0;
    bool inside = true;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const std::int64_t length = x.shape().data()[i];
      inside = inside && place[i] >= 0 && place[i] < length;
      flat = flat * length + place[i];
    }
    expected.push_back(inside ? values[static_cast<std::size_t>(flat)] : other);
  });
  CHECK(doubles(y) == expected);
}
/// Different numbers that every dtype holds, in each dtype and layout: 2 x 3 x 4 elements.
template <class F>
void for_each_layout(const F& f) {
  using enum DType;
  for (const DType dtype :
       {uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, boolean}) {
    const Tensor x = cast(arange(0, 48) % (dtype == boolean ? 3 : 48), dtype);
    f(x(range(0, 24)).reshape({2, 3, 4}));
    f(transpose(x(range(0, 24)).reshape({4, 3, 2})));
    f(x.reshape({2, 3, 8})(all, range({}, {}, -1), range(1, 8, 2)));
    f(broadcast_to(x(range(0, 12)).reshape({3, 4}), {2, 3, 4}));
  }
}
}  // namespace reel::tests
