// SPDX-License-Identifier: BSD-3-Clause
#include <reel/finite.hpp>

#include <cmath>
#include <string>

#include <reel/error.hpp>

#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
/// A copy on the CPU in float64.
Tensor read(const Body& body) { return contiguous_copy(body).to(cpu()).to(DType::float64); }

/// "x is between -3 and 4. " for each floating input that has elements. The result may be in the
/// memory of an input that was a temporary.
std::string ranges_of(const GateCall& call) {
  std::string text;
  if (call.part != Part::value) return text;  // inputs of gradients have no names
  for (int i = 0; i < call.input_count; ++i) {
    const Body& body = *call.inputs[i];
    const bool overwritten = call.output_count && call.outputs[0]->data == body.data;
    if (!is_floating(body.dtype) || body.elements == 0 || overwritten) continue;
    double low = INFINITY, high = -INFINITY;
    bool has_nan = false;
    const Tensor wide = read(body);
    for (const double x : wide.values<double>()) {
      has_nan |= std::isnan(x);
      low = std::fmin(low, x);
      high = std::fmax(high, x);
    }
    text += argument_name(call.op, i);
    if (low <= high)
      text += " is between " + to_text(Scalar(low)) + " and " + to_text(Scalar(high));
    if (has_nan) text += low <= high ? ", with nan" : " is nan";
    text += ". ";
  }
  return text;
}
}  // namespace

struct FiniteScope::Watch : OwnedObserver {
  explicit Watch(FiniteOptions asked) : options(asked) {}
  void op_ends(const GateCall& call) override { check(call, "result"); }
  void gradient_ends(const GateCall& call) override { check(call, "gradient"); }

  void check(const GateCall& call, std::string_view what) const {
    for (int i = 0; i < call.output_count; ++i) {
      const Body* const body = call.outputs[i];
      if (!body || !is_floating(body->dtype)) continue;
      const Tensor wide = read(*body);
      const Values<double> values = wide.values<double>();
      for (std::size_t k = 0; k < values.size(); ++k) {
        const bool is_nan = std::isnan(values[k]);
        if (!is_nan && !(options.infinity && std::isinf(values[k]))) continue;
        const char* const cause =
            call.part == Part::value ? call.op.not_finite : call.op.slope_not_finite;
        fail<Error>(call.site, call.op.name, what, options.infinity ? "finite numbers" : "no NaN",
                    (is_nan ? "nan" : to_text(Scalar(values[k]))) +
                        place_text(body->shape, static_cast<std::int64_t>(k)),
                    ranges_of(call) + (cause ? cause : ""));
      }
    }
  }

  const FiniteOptions options;
};

FiniteScope::FiniteScope(FiniteOptions options) try : watch_(new Watch(options)) {
  start_owned(*watch_, sizeof(Watch));
} catch (const std::bad_alloc&) {
  fail_memory({}, "FiniteScope");
}
FiniteScope::~FiniteScope() { end_observing(watch_); }
}  // namespace reel
