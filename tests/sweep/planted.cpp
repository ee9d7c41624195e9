// SPDX-License-Identifier: BSD-3-Clause
// R3: the gradient sweep finds wrong gradients that this test puts into the op table at run time.
#include <algorithm>
#include <map>

#include "sweep/gradient_case.hpp"

namespace reel::tests {
namespace {
enum class Fault { negated, scaled, shifted, absent, replaced, swapped };
constexpr Fault kernel_faults[] = {Fault::negated, Fault::scaled, Fault::shifted, Fault::absent,
                                   Fault::replaced};

// Kernels are plain functions, so the current fault is in a global variable.
struct Planted {
  Fault fault = Fault::negated;
  int output = 0;
  PassFunction function = nullptr;
  Kernel kernel = nullptr;
  GradientRule rule = nullptr;
} planted;

/// Makes a right gradient wrong, then adds it to the output if `accumulate` is set, unless the
/// fault is to replace it.
void spoil(std::vector<double>& right, double* output, bool accumulate) {
  if (planted.fault == Fault::shifted && !right.empty())
    std::rotate(right.begin(), right.begin() + 1, right.end());
  for (std::size_t i = 0; i < right.size(); ++i) {
    double x = right[i];
    if (planted.fault == Fault::negated) x = -x;
    if (planted.fault == Fault::scaled) x *= 1.00001;
    if (planted.fault == Fault::absent) x = 0;
    output[i] = accumulate && planted.fault != Fault::replaced ? output[i] + x : x;
  }
}

void wrong_pass(std::int64_t n, const void* const* values, unsigned how, void* output) {
  std::vector<double> right(static_cast<std::size_t>(n));
  const void* given[] = {values[0], values[1], values[2], values[3]};
  if (planted.fault == Fault::swapped) {
    std::swap(given[1], given[2]);
    how = (how & ~6u) | (how & 2) << 1 | (how & 4) >> 1;
  }
  planted.function(n, given, how & ~pass_adds, right.data());
  spoil(right, static_cast<double*>(output), how & pass_adds);
}

KernelResult wrong_kernel(const KernelCall& call) {
  Body* wanted = call.outputs[planted.output];
  if (!wanted) return planted.kernel(call);
  Tensor right = zeros(wanted->shape, {.dtype = DType::float64});
  SmallVector<Body*, 4> outputs;
  for (int i = 0; i < call.output_count; ++i) outputs.push_back(call.outputs[i]);
  outputs[static_cast<std::size_t>(planted.output)] = Access::body(right);
  KernelCall changed = call;
  changed.outputs = outputs.data();
  changed.accumulate = call.accumulate & ~(1u << planted.output);
  const KernelResult result = planted.kernel(changed);
  std::vector<double> values = right.to_vector<double>();
  spoil(values, wanted->as<double>(), call.accumulate >> planted.output & 1);
  return result;
}

void no_rule(GradientCall&) {}
void double_rule(GradientCall& call) {
  planted.rule(call);
  planted.rule(call);
}

using Cases = std::map<std::string_view, std::vector<GradientCase>>;
Cases all_cases() {
  Cases cases;
  for (const Op* op : library_ops())
    if (op->gradient.differentiable && !op->updates)
      for (const Sample& sample : samples_of(*op)) cases[op->name].emplace_back(sample, sample);
  return cases;
}

struct Tally {
  int planted = 0;
  std::vector<std::string> unseen;
};
void expect_found(const Cases& cases, const Op& op, const std::string& what, Tally& tally) {
  ++tally.planted;
  for (const GradientCase& one : cases.at(op.name)) {
    try {
      if (!one.problem().empty()) return;
    } catch (const Error&) {
      return;  // the wrong rule reads what was not kept
    }
  }
  tally.unseen.push_back(std::string(op.name) + ": " + what);
}

void plant_passes(const Cases& cases, Op& op, Tally& tally) {
  const Passes* right = op.on_cpu().passes;
  const int type = static_cast<int>(DType::float64);
  for (int i = 0; i < std::min(op.arity, 2); ++i) {
    // An op that passes dy on unchanged calls no function.
    if (!right->gradient[type][i] || op.gradient.passes >> i & 1) continue;
    planted.function = right->gradient[type][i];
    Passes wrong = *right;
    wrong.gradient[type][i] = wrong_pass;
    op.on_cpu().passes = &wrong;
    const bool both = (op.gradient.needs.of[i] & 3) == 3 && op.arity == 2;
    for (Fault fault : kernel_faults) {
      planted.fault = fault;
      expect_found(
          cases, op,
          "function " + std::to_string(i) + ", fault " + std::to_string(static_cast<int>(fault)),
          tally);
    }
    planted.fault = Fault::swapped;
    if (both)
      expect_found(cases, op, "function " + std::to_string(i) + ", operands swapped", tally);
    op.on_cpu().passes = right;
  }
}

void plant_kernel(const Cases& cases, Op& op, Tally& tally) {
  planted.kernel = op.on_cpu().of(Part::gradients);
  op.on_cpu().set(Part::gradients, wrong_kernel);
  for (planted.output = 0; planted.output < op.arity; ++planted.output) {
    if (!(op.promoted >> planted.output & 1)) continue;  // labels and lengths have no gradient
    for (Fault fault : kernel_faults) {
      planted.fault = fault;
      expect_found(cases, op,
                   "kernel output " + std::to_string(planted.output) + ", fault " +
                       std::to_string(static_cast<int>(fault)),
                   tally);
    }
  }
  op.on_cpu().set(Part::gradients, planted.kernel);
}

/// Whether two rules differ only where inputs are equal, which differences cannot test.
bool differ_at_ties(std::string_view a, std::string_view b) {
  const auto are = [&](std::string_view x, std::string_view y) {
    return (a == x && b == y) || (a == y && b == x);
  };
  return are("maximum", "clip_below") || are("minimum", "clip_above");
}

void plant_rules(const Cases& cases, Op& op, Tally& tally) {
  planted.rule = op.gradient.rule;
  op.gradient.rule = no_rule;
  expect_found(cases, op, "no rule", tally);
  op.gradient.rule = double_rule;
  expect_found(cases, op, "rule played twice", tally);
  for (const Op* other : library_ops()) {
    // Rules of opaque ops may use a second output or two axes, which another op may not have.
    const bool fits = other->gradient.rule && other->arity == op.arity &&
                      other->options == op.options &&
                      (other->options || other->fusion != Fusion::opaque);
    if (!fits || other->gradient.rule == planted.rule || differ_at_ties(op.name, other->name))
      continue;
    op.gradient.rule = other->gradient.rule;
    expect_found(cases, op, "rule of " + std::string(other->name), tally);
  }
  op.gradient.rule = planted.rule;
}
}  // namespace

TEST_CASE("planted wrong gradients are found", "[cpu]") {
  const Cases cases = all_cases();
  Tally tally;
  for (Op* op : library_ops()) {
    if (!op->gradient.differentiable || op->updates) continue;
    if (op->on_cpu().passes) plant_passes(cases, *op, tally);
    if (op->on_cpu().has(Part::gradients)) plant_kernel(cases, *op, tally);
    plant_rules(cases, *op, tally);
  }
  CHECK(tally.planted >= 300);
  CHECK(tally.unseen == std::vector<std::string>{});
}
}  // namespace reel::tests
