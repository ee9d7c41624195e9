// SPDX-License-Identifier: BSD-3-Clause
// Ops of float32 numbers near the ends of their range, beside the same ops in float64, where these
// numbers are ordinary ones.
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <string_view>

#include "sweep/table.hpp"

namespace reel::tests {
namespace {
constexpr double largest = std::numeric_limits<float>::max();

/// Describes an element that is not the exact one, rounded. Sums of numbers of both signs keep the
/// digits of the largest one.
std::string wrong(const Tensor& narrow, const Tensor& wide) {
  const Host got = host_of(narrow), exact = host_of(wide);
  double size = 0;
  for (double x : exact.values)
    if (std::abs(x) <= largest) size = std::max(size, std::abs(x));
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i], b = exact.values[i];
    if (std::isnan(b) || std::abs(b) > 0.25 * largest) continue;
    if (std::abs(a - b) <= 1e-4 * std::abs(b) + 1e-5 * size + 1e-37) continue;
    char text[120];
    std::snprintf(text, sizeof text, "element %zu is %.9g instead of %.9g", i, a, b);
    return text;
  }
  return {};
}

/// The inputs with one of them multiplied by `factor`, all its elements or one; as float32 holds
/// them.
std::vector<Tensor> scaled(std::vector<Tensor> inputs, std::size_t which, double factor, bool all) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensor& x = inputs[i];
    if (!is_floating(x.dtype())) continue;
    const Tensor places = reshape(arange(std::int64_t{0}, x.size()), x.shape());
    const Tensor chosen = all ? places >= 0 : places == x.size() / 2;
    if (i == which) x = where(chosen, x * factor, x);
    x = x.to(DType::float32).to(DType::float64);
  }
  return inputs;
}
std::vector<Tensor> narrowed(std::vector<Tensor> inputs) {
  for (Tensor& x : inputs)
    if (is_floating(x.dtype())) x = x.to(DType::float32);
  return inputs;
}

/// The gradients by kernels, or by rules where another tape listens.
std::vector<Tensor> slopes(const Sample& sample, const std::vector<Tensor>& inputs,
                           const Tensor& upstream, bool listened) {
  const std::vector<Tensor> sources = floating(inputs);
  GradientTape outer, tape;
  for (const Tensor& x : sources) {
    if (listened) outer.watch(x);
    tape.watch(x);
  }
  return tape.gradient(sample.call(inputs), GradientSources(sources),
                       {upstream, Unconnected::zero});
}

std::string problem(const Op& op, const Sample& sample, const std::vector<Tensor>& wide) {
  const std::vector<Tensor> narrow = narrowed(wide);
  const Tensor exact = sample.call(wide), got = sample.call(narrow);
  if (!is_floating(exact.dtype())) return {};
  std::string found = wrong(got, exact);
  if (!found.empty() || !op.gradient.differentiable) return found;
  const Tensor upstream = weights_like(exact);
  for (const bool listened : {false, true}) {
    const auto of_narrow = slopes(sample, narrow, upstream.to(got.dtype()), listened);
    const auto of_wide = slopes(sample, wide, upstream, listened);
    for (std::size_t i = 0; i < of_wide.size(); ++i)
      if (found = wrong(of_narrow[i], of_wide[i]); !found.empty())
        return (listened ? "rule, source " : "kernel, source ") + std::to_string(i) + ": " + found;
  }
  return {};
}

/// Ops that differ, and why.
const std::set<std::string_view> limited = {
    "attention",   // as softmax: weights whose sum is 1 have slopes whose sum is 0
    "layer_norm",  // squares overflow, as its header says
    "limit_norm",  // the gradient is a difference of equal numbers; tests/autograd has another test
    "mse_loss",    // a sum of squares overflows before it is divided by their number
    "linear_scan",        // products of several scales overflow
    "dense",              // 1 - y * y and y - y * y of a rounded y near 1
    "convolution_dense",  // as dense
    "softmax",
    // Conditions of matrices, and squares.
    "cholesky",
    "cofactors",
    "det",
    "eigh",
    "eigvalsh",
    "function_curve",
    "function_slope",
    "inverse",
    "matrix_function",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "triangular_solve",
};
}  // namespace

TEST_CASE("float32 numbers of 1e-30 to 1e30 give what they give in float64", "[cpu]") {
  for (const Op* op : ops_and_composites()) {
    if (op->updates || limited.contains(op->name)) continue;
    std::size_t number = 0;
    for (const Sample& sample : samples_of(*op)) {
      INFO(describe(*op, number++, sample));
      if (sample.note.find("number") != std::string::npos) continue;  // which float32 would round
      for (std::size_t which = 0; which < sample.inputs.size(); ++which) {
        const Tensor& x = sample.inputs[which];
        if (!is_floating(x.dtype()) || x.size() == 0) continue;
        for (const double factor : {1e30, 1e19, 1e-19, 1e-30})
          for (const bool all : {true, false}) {
            INFO("input " << which << (all ? "" : ", one element") << " times " << factor);
            CHECK(problem(*op, sample, scaled(sample.inputs, which, factor, all)) == "");
          }
      }
    }
  }
}
}  // namespace reel::tests
