// SPDX-License-Identifier: BSD-3-Clause
// Some programs trap division by zero, invalid operations and overflow. An op with finite inputs
// and results must not raise one of these, and neither must its gradient, at any of many lengths.
#include <cfenv>
#include <cmath>
#include <cstdlib>

#include "support/resident.hpp"
#include "sweep/table.hpp"

namespace reel::tests {
namespace {
// clang++ computes both sides of a choice, so a division that is left out may raise an exception.
#ifdef __clang__
#define REEL_NEEDS_EXCEPTIONS SKIP("clang++ does not keep floating-point exceptions")
#else
#define REEL_NEEDS_EXCEPTIONS
#endif
constexpr int trapped = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW;

bool is_finite(const Tensor& x) {
  for (const double value : host_of(x).values)
    if (!std::isfinite(value)) return false;
  return true;
}
bool are_finite(const std::vector<Tensor>& all) {
  for (const Tensor& x : all)
    if (!is_finite(x)) return false;
  return true;
}

std::vector<Tensor> as_dtype(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> converted;
  for (const Tensor& x : inputs)
    converted.push_back(is_floating(x.dtype()) && x.dtype() != dtype ? x.to(dtype) : x);
  return converted;
}

/// Changes the length of each axis that has the sample's longest length to n, by repeating
/// elements.
Tensor stretched(const Tensor& x, std::int64_t longest, std::int64_t n) {
  Tensor y = x;
  for (std::size_t axis = 0; axis < x.rank(); ++axis)
    if (x.shape().data()[axis] == longest)
      y = take(y, arange(0, n) % longest, static_cast<int>(axis));
  return y;
}
std::vector<Tensor> stretched(const std::vector<Tensor>& inputs, std::int64_t n) {
  std::int64_t longest = 1;
  for (const Tensor& x : inputs)
    for (const std::int64_t length : x.shape()) longest = std::max(longest, length);
  std::vector<Tensor> all;
  for (const Tensor& x : inputs) all.push_back(stretched(x, longest, n));
  return all;
}

/// The lengths that sample `number` of an op is tested at. The lengths of an op are each length up
/// to a vector of 16 numbers, and those next to 32, 48 and 64. Every third of them falls to a
/// sample, so that three samples have them all; an op of fewer samples has them all with each.
/// REEL_TEST_LONG tests each length up to 67 with each sample, a sanitizer fewer.
std::vector<std::int64_t> lengths_of(std::size_t number, std::size_t samples) {
  const bool full = std::getenv("REEL_TEST_LONG") != nullptr;
  std::vector<std::int64_t> lengths;
  for (std::int64_t n = 1, i = 0; n <= 67; ++n) {
    const std::int64_t beside = (n + 1) % 16;  // 0, 1 and 2 next to a multiple of 16
    if (!full && (sanitized ? n > 8 && n % 11 != 8 : n > 17 && beside > 2)) continue;
    const bool taken = full || samples < 3 || i % 3 == static_cast<std::int64_t>(number % 3);
    if (taken) lengths.push_back(n);
    ++i;
  }
  return lengths;
}

/// The exceptions of a call and of its gradient. 0 if the call is refused, or if a result is not
/// finite. `counted` is the number of other calls.
int raised(const Op& op, const Sample& sample, const std::vector<Tensor>& inputs, int& counted) {
  if (!are_finite(inputs)) return 0;
  int found = 0;
  try {
    std::feclearexcept(FE_ALL_EXCEPT);
    const Tensor y = sample.call(inputs);
    found = std::fetestexcept(trapped);
    if (!is_finite(y)) return 0;
    const std::vector<Tensor> sources = floating(inputs);
    if (op.gradient.differentiable && !sources.empty() && is_floating(y.dtype())) {
      const Tensor upstream = weights_like(y).to(y.dtype());
      std::feclearexcept(FE_ALL_EXCEPT);
      GradientTape tape;
      for (const Tensor& x : sources) tape.watch(x);
      const std::vector<Tensor> gradients = tape.gradient(
          sample.call(inputs), GradientSources(sources), {upstream, Unconnected::zero});
      if (are_finite(gradients)) found |= std::fetestexcept(trapped);
    }
  } catch (const Error&) {
    return 0;
  }
  ++counted;
  return found;
}
}  // namespace

// GPUs have no such exceptions.
TEST_CASE("elements on both sides of 0 raise nothing in lgamma and digamma", "[cpu]") {
  REEL_NEEDS_EXCEPTIONS;
  const Tensor x = tensor<double>({-0.5, 2, 3, -1.5, 1, 0.3, 5, -2.25, 7, 1e-3, -0.1, 4, -1e-30});
  for (const DType dtype : {DType::float32, DType::float64})
    for (const auto f : {lgamma, digamma}) {
      const Tensor in = x.to(dtype);
      std::feclearexcept(FE_ALL_EXCEPT);
      const Tensor y = f(in);
      CHECK(std::fetestexcept(trapped) == 0);
      CHECK(is_finite(y));
    }
}

TEST_CASE("no op raises a floating-point exception over clean numbers", "[cpu]") {
  REEL_NEEDS_EXCEPTIONS;
  for (const Op* op : library_ops()) {
    if (op->updates) continue;
    std::size_t number = 0;
    int counted = 0, lengths = 0;
    const std::vector<Sample> samples = samples_of(*op);
    for (const Sample& sample : samples) {
      INFO(describe(*op, number, sample));
      const std::vector<std::int64_t> at = lengths_of(number++, samples.size());
      for (const DType dtype : {DType::float64, DType::float32}) {
        const std::vector<Tensor> inputs = as_dtype(sample.inputs, dtype);
        CHECK(raised(*op, sample, inputs, counted) == 0);
        for (const std::int64_t n : at) {
          const int found = raised(*op, sample, stretched(inputs, n), lengths);
          if (found) FAIL_CHECK("exceptions " << found << " at length " << n);
          if (found) break;
        }
      }
    }
    INFO(op->name);
    CHECK((counted > 0 && lengths > 0));
  }
}
}  // namespace reel::tests
