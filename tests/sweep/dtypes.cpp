// SPDX-License-Identifier: BSD-3-Clause
// The dtypes of results, and their values and gradients.
#include <algorithm>
#include <cmath>

#include "lib/ops/ops.hpp"
#include "lib/table/options/reduce.hpp"
#include "lib/table/options/reshape.hpp"
#include "sweep/checker.hpp"

namespace reel::tests {
namespace {
constexpr DType every_dtype[] = {DType::boolean, DType::uint8,   DType::int32,   DType::int64,
                                 DType::float32, DType::float64, DType::float16, DType::bfloat16,
                                 DType::int8,    DType::int16};
using enum DType;
/// PyTorch's table, in the order of every_dtype.
constexpr DType torch[10][10] = {
    {boolean, uint8, int32, int64, float32, float64, float16, bfloat16, int8, int16},
    {uint8, uint8, int32, int64, float32, float64, float16, bfloat16, int16, int16},
    {int32, int32, int32, int64, float32, float64, float16, bfloat16, int32, int32},
    {int64, int64, int64, int64, float32, float64, float16, bfloat16, int64, int64},
    {float32, float32, float32, float32, float32, float64, float32, float32, float32, float32},
    {float64, float64, float64, float64, float64, float64, float64, float64, float64, float64},
    {float16, float16, float16, float16, float32, float64, float16, float32, float16, float16},
    {bfloat16, bfloat16, bfloat16, bfloat16, float32, float64, float32, bfloat16, bfloat16,
     bfloat16},
    {int8, int16, int32, int64, float32, float64, float16, bfloat16, int8, int16},
    {int16, int16, int32, int64, float32, float64, float16, bfloat16, int16, int16}};
DType promoted_by_torch(DType a, DType b) {
  return torch[static_cast<int>(a)][static_cast<int>(b)];
}

Tensor some(DType dtype) {
  switch (dtype) {
    case boolean:
      return tensor({true, false, true, true, false});
    case uint8:
      return cast(tensor({0, 3, 128, 200, 255}), uint8);
    case int32:
      return tensor({0, -7, 3, 100000, -70001});
    case int64:
      return cast(tensor({5, 0, -3, 65536, -1}), int64);
    case float32:
      return tensor({0.0f, -1.5f, 2.25f, NAN, 3.0f});
    case float64:
      return tensor<double>({2.5, 0.0, -HUGE_VAL, 1.0, -0.75});
    case float16:
    case bfloat16:
      return cast(tensor({0.5, -2.0, 3.0, NAN, 0.0}), dtype);
    case int8:
    case int16:
      return cast(tensor({0, -128, 3, 127, -1}), dtype);
  }
  return {};
}

bool is_in(formulas::Domain domain, DType common) {
  if (domain == formulas::Domain::numbers) return common != boolean;
  return domain != formulas::Domain::bits || !is_floating(common);
}
DType result_of(const Op& op, DType common) {
  if (op.result == ResultDType::boolean) return boolean;
  return op.promote == Promote::floating && !is_floating(common) ? float32 : common;
}

void check_pointwise(const Op& op, const std::vector<Tensor>& inputs, DType common) {
  Checker checker({2e-6, 1e-37});
  const InterceptorScope scope(checker);
  // A comparison, and an op of floating numbers, converts integers.
  const bool computes = has_arithmetic(common) || op.promote != Promote::numeric;
  if (!computes || !is_in(op.domain, common)) {
    CHECK_THROWS_AS(call_op(op.name, inputs), DTypeError);
    return;
  }
  CHECK(call_op(op.name, inputs).dtype() == result_of(op, common));
}
bool has_given_dtype(const Op& op) { return op.options == &options_type<DTypeOptions>; }
/// Whether this call does arithmetic, and not only moves elements.
bool computes(const Sample& sample, const std::vector<Tensor>& inputs) {
  try {
    sample.call(inputs);
    return false;
  } catch (const DTypeError& error) {
    return std::string_view(error.what()).find("with arithmetic") != std::string_view::npos;
  }
}
}  // namespace

TEST_CASE("pointwise ops promote as PyTorch does, with the right values") {
  for (const Op* op : library_ops()) {
    if (op->fusion != Fusion::pointwise || op->arity > 2 || op->options) continue;
    if (op->promote == Promote::none)
      continue;  // order, of int64 and float64: see tests/tensor/promotion.cpp
    for (DType a : every_dtype) {
      INFO(op->name << " of " << name_of(a));
      if (op->arity == 1) check_pointwise(*op, {some(a)}, a);
      for (DType b : every_dtype) {
        if (op->arity == 1) break;
        INFO("and " << name_of(b));
        check_pointwise(*op, {some(a), some(b)}, promoted_by_torch(a, b));
      }
    }
  }
}

TEST_CASE("reductions of every dtype have the promised dtype and values") {
  for (DType dtype : every_dtype) {
    INFO(name_of(dtype));
    Checker checker({1e-6, 0});
    const InterceptorScope scope(checker);
    const Tensor x = some(dtype), numbers = x(range(0, 3));
    for (Op* op : library_ops()) {
      if (op->options != &options_type<ReduceOptions>) continue;
      INFO(op->name);
      if (has_arithmetic(dtype) || op->promote == Promote::floating)
        run(*op, numbers, ReduceOptions{});
      else
        CHECK_THROWS_AS(run(*op, numbers, ReduceOptions{}), DTypeError);
    }
    if (!has_arithmetic(dtype)) continue;
    CHECK(sum(x).dtype() == (is_floating(dtype) ? dtype : int64));
    CHECK(mean(x).dtype() == (is_floating(dtype) ? dtype : float32));
    CHECK(max(x).dtype() == dtype);
    CHECK(min(x).dtype() == dtype);
    CHECK(any(x).dtype() == boolean);
    CHECK(all(x).dtype() == boolean);
    CHECK(argmax(numbers).dtype() == int64);
  }
}

namespace {
/// Calls each op that moves elements with those of a narrow dtype, and compares with float32.
void check_moves(DType narrow) {
  for (const Op* op : library_ops()) {
    if (!op->moves || op->updates || op->arity == 0 || has_given_dtype(*op)) continue;
    int moved_by = 0;
    for (const Sample& sample : samples_of(*op)) {
      INFO(op->name << " " << sample.note << " of " << narrow);
      std::vector<Tensor> narrowed, floats;
      for (const Tensor& x : sample.inputs) {
        const bool floating = is_floating(x.dtype());
        narrowed.push_back(floating ? cast(is_floating(narrow) ? x : x * 40, narrow) : x);
        floats.push_back(floating ? cast(narrowed.back(), float32) : x);
      }
      if (narrowed.empty() || computes(sample, narrowed)) continue;
      ++moved_by;
      const Tensor moved = sample.call(narrowed), expected = sample.call(floats);
      // A number with a fraction beside integers gives float32.
      const bool is_float =
          moved.dtype() == float32 && sample.note.find("a number") != std::string::npos;
      if (is_floating(narrow) || !is_float)
        CHECK(moved.dtype() == (is_floating(expected.dtype()) ? narrow : expected.dtype()));
      const double rtol = op->accumulates ? 0.02 : 0;  // sums are rounded at each step
      CHECK(allclose(cast(moved, expected.dtype()), expected, {.rtol = rtol, .atol = 0}));
    }
    INFO(op->name << " of " << narrow);
    const bool sums = op->name == "scatter" || op->name == "scatter_elements";
    CHECK((moved_by > 0) == (has_arithmetic(narrow) || !sums));
  }
}
}  // namespace

TEST_CASE("ops that only move elements move those of 8 and 16 bits too") {
  for (const DType narrow : {bfloat16, int8, int16}) check_moves(narrow);
}

TEST_CASE("C++ numbers take the tensor's dtype") {
  CHECK((tensor({1.0f}) + 1.5).dtype() == float32);
  CHECK((tensor<double>({1.0}) + 1.5f).dtype() == float64);
  CHECK((2 * tensor({1.0f})).dtype() == float32);
  CHECK((tensor({1, 2}) + 1).dtype() == int32);
  CHECK((tensor({1, 2}) + 1L).dtype() == int32);
  CHECK((tensor({1, 2}) + 1.5).dtype() == float32);
  CHECK((tensor({1, 2}) / 2).dtype() == float32);
  CHECK((some(uint8) + 1).dtype() == uint8);
  CHECK((some(boolean) + 1).dtype() == int32);
  CHECK((tensor({1, 2}) > 1.5).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK_THROWS_AS(some(uint8) + 300, DTypeError);
  CHECK_THROWS_AS(some(uint8) - -1, DTypeError);
}

namespace {
std::vector<Tensor> narrowed(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> narrow;
  for (const Tensor& x : inputs) narrow.push_back(is_floating(x.dtype()) ? cast(x, float32) : x);
  return narrow;
}
std::vector<Tensor> gradients(const Sample& sample, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> sources = floating(inputs);
  GradientTape tape;
  for (const Tensor& x : sources) tape.watch(x);
  const Tensor y = sample.call(inputs);
  const Tensor upstream = cast(weights_like(y), y.dtype());
  return tape.gradient(y, GradientSources(sources), {upstream, Unconnected::zero});
}
Host widened(const Tensor& x) {
  Host host = host_of(x);
  host.dtype = float64;
  return host;
}
constexpr Near single{2e-5, 2e-5};
}  // namespace

TEST_CASE("every op computes in float32 what it computes in float64, gradients too") {
  for (const Op* op : ops_and_composites()) {
    if (op->updates) continue;
    std::size_t number = 0;
    for (const Sample& sample : some_samples_of(*op, 3)) {
      if (floating(sample.inputs).empty()) continue;
      INFO(describe(*op, number++, sample));
      // If a value next to an integer is rounded to float32, it may cross the integer. Ops that
      // would show this are exact in any case.
      const Tensor wide = sample.call(sample.inputs), narrow = sample.call(narrowed(sample.inputs));
      const bool narrows = wide.dtype() == float64 && !has_given_dtype(*op);
      CHECK(narrow.dtype() == (narrows ? float32 : wide.dtype()));
      CHECK(difference(widened(narrow), widened(wide), single) == "");
      if (!op->gradient.differentiable || !is_floating(narrow.dtype())) continue;
      const auto expected = gradients(sample, sample.inputs);
      const auto got = gradients(sample, narrowed(sample.inputs));
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("source " << i);
        CHECK(got[i].dtype() == float32);
        const Host wanted = widened(expected[i]);
        double scale = 1;
        for (double value : wanted.values) scale = std::max(scale, std::abs(value));
        CHECK(difference(widened(got[i]), wanted, {1e-4, 1e-4 * scale}) == "");
      }
    }
  }
}
}  // namespace reel::tests
