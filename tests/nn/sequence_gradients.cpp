// SPDX-License-Identifier: BSD-3-Clause
// Gradients of lstm() and gru() beside differences along a direction: of inputs that other ops use
// too, and of sequences of several lengths.
#include "nn/near.hpp"

namespace reel::tests {
namespace {
/// Compares the tape's gradient of f() for x, along one direction, with a central difference.
template <class F>
void check_along(Variable x, F f) {
  constexpr double step = 1e-5;
  const Tensor before = x.value(), direction = numbers(x.shape());
  GradientTape tape;
  const Tensor gradient = tape.gradient(f(), x);
  const auto at = [&](double moved) {
    x.assign(before + moved * direction);
    return f().template item<double>();
  };
  const double difference = (at(step) - at(-step)) / (2 * step);
  x.assign(before);
  const double got = sum(gradient * direction).item<double>();
  INFO(x.name());
  CHECK(std::abs(got - difference) <= 1e-6 * std::max(1.0, std::abs(difference)));
}

/// The outputs of an LSTM or a GRU whose states begin at 0.
Tensor outputs_of(bool is_gru, const Variable& x, const Variable& weight, const Variable& bias,
                  std::int64_t hidden, const Tensor& lengths) {
  const Tensor state = zeros({x.shape()[1], hidden}, wide);
  const SequenceOptions options{.lengths = lengths};
  return is_gru ? gru(x, state, weight, bias, options).outputs
                : lstm(x, state, state, weight, bias, options).outputs;
}

void check_sequence(bool is_gru, Shape shape, std::int64_t hidden, const Tensor& lengths) {
  const std::int64_t in = shape[2], columns = (is_gru ? 3 : 4) * hidden;
  const Variable x("x", numbers(shape)), weight("weight", 0.3 * numbers({in + hidden, columns}));
  const Variable bias("bias", numbers({4 * hidden}));
  const Tensor sums = numbers({shape[0], shape[1], hidden}), others = numbers(shape);
  const auto of_outputs = [&] {
    return sum(outputs_of(is_gru, x, weight, bias, hidden, lengths) * sums);
  };
  // x is also used before and after the sequence, so that one gradient is added to the other.
  const auto with_first = [&] {
    const Tensor first = sum(x * others);
    return first + of_outputs();
  };
  const auto with_last = [&] {
    const Tensor first = of_outputs();
    return first + sum(x * others);
  };
  INFO((is_gru ? "gru" : "lstm") << " of " << in << " to " << hidden);
  for (const Variable& each : {x, weight, bias}) {
    check_along(each, with_first);
    check_along(each, with_last);
  }
}
}  // namespace

TEST_CASE("the gradient of a narrow sequence is added to that of another use", "[nn]") {
  for (const bool is_gru : {false, true})
    for (const std::int64_t in : {1, 2, 3}) check_sequence(is_gru, {50, 6, in}, 8, {});
}

TEST_CASE("sequences of several lengths with many inputs and few states have gradients", "[nn]") {
  for (const bool is_gru : {false, true}) check_sequence(is_gru, {5, 3, 100}, 2, tensor({5, 2, 0}));
}
}  // namespace reel::tests
