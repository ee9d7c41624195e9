// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of layers: comparison, gradients by differences, and messages of errors.
#pragma once
#include <reel/reel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/late.hpp"

namespace reel::tests {
inline constexpr TensorOptions wide{DType::float64};

/// Normally distributed float64 numbers.
inline Tensor numbers(Shape shape) { return random::normal(shape, {.dtype = DType::float64}); }

inline void require_near(const std::vector<double>& got, const std::vector<double>& expected,
                         double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]))))
      FAIL("element " << i << ": got " << got[i] << ", expected " << expected[i]);
}
inline void require_near(const Tensor& got, const std::vector<double>& expected,
                         double tolerance = 1e-12) {
  require_near(got.to_vector<double>(), expected, tolerance);
}

/// Compares the tape's gradient of sum(f() * weights) with central differences, for each element of
/// each Variable, in float64.
template <class F>
void check_gradients(std::vector<Variable> variables, F f) {
  const Tensor weights = numbers(f().shape());
  auto value = [&] { return sum(f() * weights); };
  GradientTape tape;
  const Tensor target = value();
  const std::vector<Tensor> gradients = tape.gradient(target, variables);
  constexpr double step = 1e-5;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    Variable& x = variables[i];
    INFO("variable " << i << ", " << x.name());
    REQUIRE(gradients[i].shape() == x.shape());
    const std::vector<double> before = x.value().to_vector<double>();
    std::vector<double> differences;
    for (std::size_t k = 0; k < before.size(); ++k) {
      auto at = [&](double moved) {
        std::vector<double> values = before;
        values[k] += moved;
        x.assign(from_span(values, x.shape()));
        return value().template item<double>();
      };
      differences.push_back((at(step) - at(-step)) / (2 * step));
    }
    x.assign(from_span(before, x.shape()));
    require_near(gradients[i], differences, 1e-7);
  }
}

/// The text of the E that f throws, without the user's line. That line must be the line of this
/// call, or a line next to it, as the call may have several lines.
template <class E, class F>
std::string message(F f, Caller caller = Caller::here()) {
  try {
    f();
    await_errors();
  } catch (const E& error) {
    const std::string text = error.what();
    for (unsigned line : {caller.line, caller.line + 1, caller.line - 1}) {
      const std::string file = caller.file;
      const std::string caller =
          file.substr(file.rfind('/') + 1) + ":" + std::to_string(line) + ": ";
      if (text.starts_with(caller)) return text.substr(caller.size());
    }
    FAIL("not the line of the user: " << text);
  }
  FAIL("no error was thrown");
  return {};
}
/// Checks that the first line of the message has all these parts and at most 200 characters.
inline void require_parts(const std::string& text, std::initializer_list<std::string> parts) {
  const std::string line = text.substr(0, text.find('\n'));
  INFO(text);
  REQUIRE(line.size() <= 200);
  for (const std::string& part : parts) {
    INFO(part);
    REQUIRE(line.find(part) != std::string::npos);
  }
}
/// Checks that a line behind the first one has this advice.
inline void require_advice(const std::string& text, const std::string& advice) {
  INFO(text);
  REQUIRE(text.find(advice, text.find('\n')) != std::string::npos);
}
}  // namespace reel::tests
