// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <memory>

#include "rows.hpp"

namespace rows {
namespace {

Variable leaf(const char* name, std::uint64_t seed, float around) {
  return Variable(name, around + numbers(seed, {16}, 0.1f));
}

/// The tape is renewed now and then: it must not hold all calls of a batch.
struct AddRecorded {
  static constexpr std::size_t calls_on_a_tape = 256;
  Variable x = leaf("x", 1, 0), y = leaf("y", 2, 0);
  std::unique_ptr<GradientTape> tape;
  std::size_t calls = 0;
  void operator()() {
    if (calls++ % calls_on_a_tape == 0) {
      tape.reset();
      tape = std::make_unique<GradientTape>();
    }
    keep(x + y);
  }
  double value() { return squares(x + y); }
};

struct Chain {
  Tensor x = numbers(1, {16}, 0.1f);
  Variable w = leaf("w", 2, 1), b = leaf("b", 3, 0);
  std::array<Tensor, 2> slopes(Tensor y) {
    GradientTape tape;
    for (std::size_t i = 0; i < harness::chain_length; ++i) {
      y = i % 2 == 0 ? std::move(y) * w : std::move(y) + b;
    }
    return tape.gradient(y, w, b);
  }
  Traced<std::array<Tensor, 2>(Tensor)> trace_of_slopes =
      trace([this](Tensor y) { return slopes(y); });
  std::array<Tensor, 2> gradients() { return traced ? trace_of_slopes(x) : slopes(x); }
  void operator()() { keep(gradients()); }
  double value() { return squares_of(gradients()); }
};

struct Square {
  Variable w = leaf("w", 1, 1);
  Tensor slope() {
    GradientTape tape;
    return tape.gradient(w * w, w);
  }
  Traced<Tensor()> trace_of_slope = trace([this] { return slope(); });
  Tensor gradient() { return traced ? trace_of_slope() : slope(); }
  void operator()() { keep(gradient()); }
  double value() { return squares(gradient()); }
};

}  // namespace

void add_tape(harness::Rows& rows) {
  using harness::row, harness::traced_row;
  rows.push_back(row<AddRecorded>("add 16 recorded", 1));
  rows.push_back(traced_row<Chain>("chain of 100, per op", harness::chain_length));
  rows.push_back(traced_row<Square>("y = w*w and gradient", 1));
}

}  // namespace rows
