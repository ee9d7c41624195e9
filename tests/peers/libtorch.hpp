// SPDX-License-Identifier: BSD-3-Clause
// Calls of one row in both libraries: values, gradients and second gradients as float64 on the
// host.
#pragma once
#include <string>
#include <vector>

#include "peers/rows.hpp"

namespace reel::tests::peers {
/// A tensor of either library.
struct Numbers {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};
Numbers numbers(const Tensor& x);
Numbers numbers(const at::Tensor& x);

at::Tensor to_theirs(const Tensor& x);
Theirs to_theirs(const Ours& x);

/// The results of a row, and gradients of all floating inputs: of the sum of the results times
/// weights; then of the sum of these gradients times weights, also for the weights of the results.
struct Outcome {
  std::vector<Numbers> values, gradients, second_gradients;
};
/// How far to go: 0 for values only, 1 for gradients, 2 for both.
Outcome run_ours(const Row& row, const Ours& inputs, int orders);
Outcome run_theirs(const Row& row, const Ours& inputs, int orders);

struct Tolerance {
  double relative = 0;    // to the element
  double of_largest = 0;  // to the largest finite element of the tensor
};
/// Describes the first difference; empty if there is none. NaN equals NaN.
std::string difference(const Numbers& got, const Numbers& expected, Tolerance tolerance,
                       bool signed_zeros = false);
std::string difference(const std::vector<Numbers>& got, const std::vector<Numbers>& expected,
                       Tolerance tolerance, bool signed_zeros = false);
}  // namespace reel::tests::peers
