// SPDX-License-Identifier: BSD-3-Clause
#include <reel/finite.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

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
bool has_elements(const Body* body) {
  return body && is_floating(body->dtype) && body->elements > 0;
}

/// The smallest and the largest element that is no NaN; `low` is above `high` if there is none.
struct Extremes {
  double low = INFINITY, high = -INFINITY;
  bool has_nan = false;
  bool has_infinity() const { return low == -INFINITY || high == INFINITY; }
  void add(double x) {
    has_nan |= std::isnan(x);
    low = std::fmin(low, x);
    high = std::fmax(high, x);
  }
};
Extremes range_of_row(const float* x, std::int64_t count) {
  using Four = float __attribute__((vector_size(16)));
  Extremes range;
  std::int64_t i = 0;
  if (count >= 4) {
    Four low, high;
    std::memcpy(&low, x, sizeof low);
    high = low;
    auto nan = low != low;
    for (; i + 4 <= count; i += 4) {
      Four some;
      std::memcpy(&some, x + i, sizeof some);
      nan |= some != some;
      low = low < some ? low : some;
      high = high > some ? high : some;
    }
    for (int lane = 0; lane < 4; ++lane) {
      range.add(low[lane]), range.add(high[lane]);
      range.has_nan |= nan[lane] != 0;
    }
  }
  for (; i < count; ++i) range.add(x[i]);
  return range;
}
Extremes range_of(const Body& body) {
  if (on_cpu(body) && body.contiguous && body.dtype == DType::float32) {
    const Extremes range = range_of_row(body.as<float>(), body.elements);
    if (!range.has_nan) return range;  // it compared NaN with numbers
  }
  Extremes range;
  const Tensor wide = read(body).to(DType::float64);
  for (const double x : wide.values<double>()) range.add(x);
  return range;
}

/// The name of input i of a call. Inputs of gradients are in the order that Part gives.
Text input_name(const GateCall& call, int i) {
  if (call.part != Part::value) {
    const int inputs = call.part == Part::gradients ? call.output_count : 2;
    const int outputs = (call.input_count - inputs) / 2;
    if (i < outputs) return "The gradient of the result";
    return i < outputs + inputs ? argument_name(call.op, i - outputs) : "The result";
  }
  if (!call.op.updates || call.op.arity >= 0) return argument_name(call.op, i);
  // The Variables that the op writes, the gradients of all parameters, and the op's numbers.
  const int numbers = call.input_count - call.op.numbers;
  if (i < call.output_count) return call.updated[i].name();
  const std::string_view names = call.op.argument_names;
  if (i >= numbers) {
    const auto count = static_cast<int>(std::count(names.begin(), names.end(), ',')) + 1;
    return argument_name(call.op, count - (call.input_count - i));
  }
  int parameters = 0;  // rows of sparse gradients, which are integers, are not counted
  for (int k = call.output_count; k < numbers; ++k)
    parameters += call.inputs[k] && is_floating(call.inputs[k]->dtype);
  return argument_name(call.op, call.output_count / std::max(parameters, 1)) + " " +
         to_text(i - call.output_count);
}
/// Which gradient output i is, or which op of the user's function made it.
Text output_note(const GateCall& call, int i) {
  if (call.part != Part::value)
    return "This is the gradient with respect to " +
           argument_name(call.op, call.part == Part::gradient_1 ? 1 : i) + ". ";
  const std::string_view function = Context::here().function;
  if (function.empty() || function == call.op.name) return "";
  return "This is the result of " + Text(call.op.name) + ", a step of " + function + ". ";
}
}  // namespace

struct FiniteScope::Watch : OwnedObserver {
  explicit Watch(FiniteOptions asked) : options(asked) {}
  void op_begins(const GateCall& call) override { keep_ranges(call); }
  void gradient_begins(const GateCall& call) override { keep_ranges(call); }
  void op_ends(const GateCall& call) override { check(call); }
  void gradient_ends(const GateCall& call) override { check(call); }

  /// An op may take over the memory of an input that is a recent result. So the range of such an
  /// input is found before.
  void keep_ranges(const GateCall& call) {
    kept.clear();
    for (int i = 0; i < call.input_count; ++i)
      if (const Body* const body = call.inputs[i];
          has_elements(body) && on_cpu(*body) &&
          std::find(recent.begin(), recent.end(), body->data) != recent.end())
        kept.emplace_back(body, range_of(*body));
  }
  /// Null if it is not known.
  const Extremes* range_of_input(const GateCall& call, const Body& input) {
    for (const auto& [body, range] : kept)
      if (body == &input) return &range;
    for (int i = 0; i < call.output_count; ++i)
      if (const Body* const made = call.outputs[i];
          made && made->data == input.data && call.op.fusion != Fusion::layout)
        return nullptr;  // it is no view of the input
    kept.emplace_back(&input, range_of(input));
    return &kept.back().second;
  }

  void check(const GateCall& call) {
    bool complete = true;
    for (int i = 0; i < call.output_count; ++i) {
      const Body* const body = call.outputs[i];
      if (call.part == Part::value) complete &= body != nullptr;
      if (!has_elements(body)) continue;
      recent[turn++ % recent.size()] = body->data;
      if (surely_finite(*body)) continue;
      const Tensor copy = read(*body);
      if (!surely_finite(*Access::body(copy))) report(call, i, copy);
    }
    // Values inside of blocks of a replay have no bodies. Their passes lead to one that has.
    if (complete) inside.clear();
    for (int i = 0; !complete && i < call.input_count; ++i)
      if (has_elements(call.inputs[i])) inside.push_back(call.inputs[i]);
  }
  /// Whether the op, or a pass before it in its block, was given an infinity. Then the op has not
  /// made the first one: it may be a mask. Also whether it fills a tensor with a given number.
  bool was_given_infinity(const GateCall& call) {
    bool given = false, any = false;
    const auto look = [&](const Body* body) {
      if (!has_elements(body)) return;
      any = true;
      const Extremes* const range = range_of_input(call, *body);
      given |= range && range->has_infinity();
    };
    for (int i = 0; i < call.input_count; ++i) {
      any |= call.inputs[i] == nullptr;
      look(call.inputs[i]);
    }
    for (const Body* const body : inside) look(body);
    return given || !any;
  }
  void report(const GateCall& call, int output, const Tensor& copy) {
    const Tensor wide = copy.to(DType::float64);
    const Values<double> values = wide.values<double>();
    std::size_t k = 0;
    const auto find = [&](auto wrong) {
      for (k = 0; k < values.size() && !wrong(values[k]);) ++k;
      return k < values.size();
    };
    const bool is_nan = find([](double x) { return std::isnan(x); });
    if (!is_nan && !(options.infinity && find([](double x) { return std::isinf(x); }))) return;
    if (!is_nan && was_given_infinity(call)) return;
    Text text = output_note(call, output);
    for (int i = 0; i < call.input_count; ++i)
      if (has_elements(call.inputs[i])) text += range_text(call, i);
    const bool is_value = call.part == Part::value;
    if (const char* cause = is_value ? call.op.not_finite : call.op.slope_not_finite)
      text += cause;
    else if (!is_nan)
      text += "Is it too large for " + Text(name_of(copy.dtype())) + "?";
    const std::string_view advice = text.view();
    fail<Error>(call.caller, call.op.name, is_value ? "result" : "gradient",
                options.infinity ? "finite numbers" : "no NaN",
                (is_nan ? "nan" : to_text(Scalar(values[k]))) +
                    place_text(copy.shape(), static_cast<std::int64_t>(k)),
                advice.substr(0, advice.find_last_not_of(' ') + 1));
  }
  /// "x is between -3 and 4. "
  Text range_text(const GateCall& call, int i) {
    const Extremes* const range = range_of_input(call, *call.inputs[i]);
    Text text = input_name(call, i);
    if (!range) return text + " was overwritten by the result. ";
    const bool any = range->low <= range->high;
    if (any)
      text += " is between " + to_text(Scalar(range->low)) + " and " + to_text(Scalar(range->high));
    if (range->has_nan) text += any ? ", with nan" : " is nan";
    return text + ". ";
  }

  const FiniteOptions options;
  std::array<const std::byte*, 8> recent = {};  // the elements of the latest results
  std::size_t turn = 0;
  std::vector<std::pair<const Body*, Extremes>> kept;  // of inputs of the op that runs
  std::vector<const Body*> inside;  // inputs of passes whose results stay inside of a block
};

FiniteScope::FiniteScope(FiniteOptions options) try : watch_(new Watch(options)) {
  start_owned(*watch_, sizeof(Watch));
} catch (const std::bad_alloc&) {
  fail_memory({}, "FiniteScope");
}
FiniteScope::~FiniteScope() { end_observing(watch_); }
}  // namespace reel
