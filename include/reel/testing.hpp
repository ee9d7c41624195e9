// SPDX-License-Identifier: BSD-3-Clause
// Tests for ops of your own.
#pragma once  // defined in lib/testing
#include <string_view>
#include <vector>

#include <reel/op.hpp>
#include <reel/tensor.hpp>

namespace reel::testing {
/// Options of check_op().
struct CheckOptions {
  /// The inputs to check with. Without any, check_op() looks for a number of inputs that the op
  /// takes, from 1 to 4, and draws float64 inputs of shape (3, 4) between 0.5 and 2.
  std::vector<Tensor> inputs = {};
  Attributes attributes = {};
  /// The largest differences that count as equal, relative to max(1, largest absolute value). For
  /// float32 inputs 1e-2 is used if it is larger.
  double gradient_tolerance = 1e-6;
  double second_gradient_tolerance = 1e-5;
  bool second_gradient = true;  // whether to check it
};
/// Checks an op of register_op() or of the library, and throws Error with what is wrong:
/// - two calls give the same values, and so does a traced call;
/// - strided inputs (transposed, reversed, every second element) give the same values;
/// - gradients agree with differences, (f(x - 2h) - 8 f(x - h) + 8 f(x + h) - f(x + 2h)) / 12 h;
/// - gradients of gradients agree with differences of gradients;
/// - where no inputs are given: empty inputs and single numbers work or throw an Error, and their
///   gradients have the shapes of the inputs.
/// Choose inputs that are not near points where the op has no derivative. Gradients are checked for
/// floating inputs and outputs. Errors of the op and of its gradient name the line of `caller`.
///
///     testing::check_op("my_square");
REEL_API void check_op(std::string_view name, CheckOptions options = {},
                       Caller caller = Caller::here());
}  // namespace reel::testing
