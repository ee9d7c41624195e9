// SPDX-License-Identifier: BSD-3-Clause
#include <reel/finite.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include <reel/error.hpp>

#include "lib/body/live.hpp"
#include "lib/body/text.hpp"
#include "lib/flow/observer.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/table/shape_rules.hpp"

namespace reel {
namespace {
/// Whether no element has all bits of its exponent set. `exponent` has these bits for 8 bytes of
/// elements, `lowest` the lowest of them: adding it carries into the sign bit if all are set.
bool all_finite(const std::byte* at, std::size_t bytes, std::uint64_t exponent,
                std::uint64_t lowest) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  const auto sum = [&](std::size_t from, std::size_t count) {
    Words elements = {};
    std::memcpy(&elements, at + from, count);
    return (elements & exponent) + lowest;
  };
  Words sums = {};
  std::size_t i = 0;
  for (; i + 64 <= bytes; i += 64)
    sums |= sum(i, 16) | sum(i + 16, 16) | sum(i + 32, 16) | sum(i + 48, 16);
  for (; i + 16 <= bytes; i += 16) sums |= sum(i, 16);
  if (i < bytes) sums |= sum(i, bytes - i);
  return !((sums[0] | sums[1]) & (exponent + lowest));
}
/// Whether all elements are finite, found in one pass. False if this pass cannot tell.
bool surely_finite(const Body& body) {
  if (!on_cpu(body) || !body.contiguous) return false;
  const auto count = static_cast<std::size_t>(body.elements);
  if (body.dtype == DType::float32)
    return all_finite(body.data, count * sizeof(float), 0x7f800000'7f800000, 0x00800000'00800000);
  if (body.dtype == DType::float64)
    return all_finite(body.data, count * sizeof(double), 0x7ff00000'00000000, 0x00100000'00000000);
  return false;
}
/// A row-major copy on the CPU.
Tensor read(const Body& body) { return contiguous_copy(body).to(cpu()); }

/// The name of input i of a call. Those of gradients are in the order that Part gives.
std::string input_name(const GateCall& call, int i) {
  if (call.part == Part::value) return argument_name(call.op, i);
  const int inputs = call.part == Part::gradients ? call.output_count : 2;
  const int outputs = (call.input_count - inputs) / 2;
  if (i < outputs) return "The gradient of the result";
  return i < outputs + inputs ? argument_name(call.op, i - outputs) : "The result";
}
/// Which gradient output i is.
std::string output_note(const GateCall& call, int i) {
  if (call.part == Part::value) return {};
  return "This is the gradient with respect to " +
         argument_name(call.op, call.part == Part::gradient_1 ? 1 : i) + ". ";
}

/// "x is between -3 and 4. " for each floating input that has elements. The result may be in the
/// memory of an input that was a temporary.
std::string ranges_of(const GateCall& call) {
  std::string text;
  const auto overwritten = [&](const Body& input) {
    for (int i = 0; i < call.output_count; ++i)
      if (call.outputs[i] && call.outputs[i]->data == input.data) return true;
    return false;
  };
  for (int i = 0; i < call.input_count; ++i) {
    const Body* const body = call.inputs[i];  // null: an input that this gradient does not need
    if (!body || !is_floating(body->dtype) || body->elements == 0 || overwritten(*body)) continue;
    double low = INFINITY, high = -INFINITY;
    bool has_nan = false;
    const Tensor wide = read(*body).to(DType::float64);
    for (const double x : wide.values<double>()) {
      has_nan |= std::isnan(x);
      low = std::fmin(low, x);
      high = std::fmax(high, x);
    }
    text += input_name(call, i);
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
  void op_ends(const GateCall& call) override { check(call); }
  void gradient_ends(const GateCall& call) override { check(call); }

  void check(const GateCall& call) const {
    for (int i = 0; i < call.output_count; ++i) {
      const Body* const body = call.outputs[i];
      if (!body || !is_floating(body->dtype) || surely_finite(*body)) continue;
      const Tensor copy = read(*body);
      if (surely_finite(*Access::body(copy))) continue;
      const Tensor wide = copy.to(DType::float64);
      const Values<double> values = wide.values<double>();
      for (std::size_t k = 0; k < values.size(); ++k) {
        const bool is_nan = std::isnan(values[k]);
        if (!is_nan && !(options.infinity && std::isinf(values[k]))) continue;
        const char* const cause =
            call.part == Part::value ? call.op.not_finite : call.op.slope_not_finite;
        fail<Error>(call.site, call.op.name, call.part == Part::value ? "result" : "gradient",
                    options.infinity ? "finite numbers" : "no NaN",
                    (is_nan ? "nan" : to_text(Scalar(values[k]))) +
                        place_text(body->shape, static_cast<std::int64_t>(k)),
                    output_note(call, i) + ranges_of(call) + (cause ? cause : ""));
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
