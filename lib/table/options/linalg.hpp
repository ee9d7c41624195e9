// SPDX-License-Identifier: BSD-3-Clause
// Options of linear algebra.
#pragma once
#include <cstdint>

namespace reel {
struct TriangularSystem {
  bool upper = false, transposed = false, unit = false;
  double tolerance = 0;  // a diagonal element of at most so much of the largest one counts as 0

  void fields(auto&& field) {
    field("upper", upper);
    field("transposed", transposed);
    field("unit", unit);
    field("tolerance", tolerance);
  }
};
struct MatrixFunction {
  std::int64_t function = 0;  // linalg::Function
  double exponent = 1;

  void fields(auto&& field) {
    field("function", function);
    field("exponent", exponent);
  }
};
}  // namespace reel
