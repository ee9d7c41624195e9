// SPDX-License-Identifier: BSD-3-Clause
// Records with any number of inputs and outputs, and the numbers of gradients that a gradient
// function must return.
#include <string>
#include <vector>

#include <reel/reel.hpp>

#include "support/catch.hpp"
#include "support/refused.hpp"

namespace reel::tests {
namespace {
double number(const Tensor& x) { return x.to(DType::float64).item<double>(); }

/// The squares of the elements of its input, recorded as one op with one output for each element.
void register_squares() {
  static const bool done = [] {
    register_op("each_square", [](const OpCall& call) {
      std::vector<Tensor> parts = split(call.input(0), static_cast<int>(call.input(0).size()));
      for (Tensor& part : parts) part = part * part;
      return Tensors(std::move(parts));
    });
    register_gradients("each_square", [](const OpCall& call, const Tensors& upstream) {
      REQUIRE(call.output_count() == upstream.size());
      const std::vector<Tensor> parts(upstream.begin(), upstream.end());
      return Tensors(concat(parts, 0) * call.input(0) * 2);
    });
    return true;
  }();
  (void)done;
}
/// The sum of the squares of its inputs, recorded as one op.
void register_sum() {
  static const bool done = [] {
    register_op("sum_of_squares", [](const OpCall& call) {
      std::vector<Tensor> all;
      for (std::size_t i = 0; i < call.input_count(); ++i) all.push_back(call.input(i));
      return Tensors(sum(square(stack(all))));
    });
    register_gradient("sum_of_squares", [](const OpCall& call, Tensor upstream) {
      std::vector<Tensor> slopes;
      for (std::size_t i = 0; i < call.input_count(); ++i)
        slopes.push_back(upstream * call.input(i) * 2);
      return Tensors(std::move(slopes));
    });
    return true;
  }();
  (void)done;
}

/// The first line of the E that f throws. It must name the line of the recorded op, not of the
/// call.
template <class E, class F>
std::string refusal(const F& f) {
  try {
    f();
  } catch (const E& error) {
    const std::string text = error.what(), first = text.substr(0, text.find('\n'));
    CHECK(first.size() <= 200);
    CHECK(first.rfind("counts.cpp:", 0) == 0);
    return first;
  }
  return "nothing was thrown";
}

Tensor small_numbers(std::int64_t n, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i % 7 + 1));
  return tensor(values).to(dtype);
}
bool sevens(const Tensor& x, double scale) {
  const Tensor expected = small_numbers(x.size(), DType::float64) * scale;
  return equal(x.to(DType::float64), expected);
}
}  // namespace

namespace {
void check_outputs(std::int64_t n) {
  register_squares();
  const DType dtype = GENERATE(DType::float32, DType::float64);
  const bool second = n < 1000;  // the second gradient of a split takes n^2 steps
  const Tensor x = small_numbers(n, dtype);
  GradientTape outer;
  if (second) outer.watch(x);
  Tensor slope;
  {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensors all = call_op_all("each_square", {x});
    REQUIRE(all.size() == static_cast<std::size_t>(n));
    // The last output is an ordinary output.
    const Tensor one = tape.gradient(all[static_cast<std::size_t>(n - 1)], x);
    CHECK(number(one(n - 1)) == 2 * number(x(n - 1)));
    CHECK(number(sum(one)) == 2 * number(x(n - 1)));
    CHECK(tape.ops()[0].outputs.size() == static_cast<std::size_t>(n));
    slope = tape.gradient(sum(concat(std::vector<Tensor>(all.begin(), all.end()), 0)), x);
  }
  CHECK(sevens(slope, 2));
  if (second) CHECK(equal(outer.gradient(slope, x), full({n}, 2).to(dtype)));
}

void check_inputs(int n) {
  register_sum();
  const Tensor x = small_numbers(n, DType::float64);
  const std::vector<Tensor> parts = split(x, n);
  GradientTape outer;
  std::vector<Tensor> slopes;
  {
    GradientTape tape;
    for (const Tensor& part : parts) {
      outer.watch(part);
      tape.watch(part);
    }
    const Tensor y = call_op("sum_of_squares", parts);
    CHECK(tape.ops().back().inputs.size() == static_cast<std::size_t>(n));
    slopes = tape.gradient(y, parts);
  }
  CHECK(sevens(concat(slopes, 0), 2));
  const Tensor all = sum(concat(slopes, 0));
  CHECK(equal(concat(outer.gradient(all, parts), 0), full({n}, 2).to(DType::float64)));
}

void check_concat_of(int n) {
  const Tensor x = small_numbers(n, DType::float32);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const std::vector<Tensor> parts = split(x, n);
  const Tensor whole = concat(parts, 0);
  const Tensor y = sum(whole * whole);
  CHECK(sevens(tape.gradient(y, x), 2));
  const Tensor last = tape.gradient(y, parts[static_cast<std::size_t>(n - 1)]);
  CHECK(number(last) == 2 * number(x(n - 1)));
}
}  // namespace

TEST_CASE("an op has as many outputs as it gives, under tapes to the second order") {
  check_outputs(GENERATE(1, 2, 255, 256, 257, 300, 511));
}
TEST_CASE("an op has 70,000 outputs", "[slow]") { check_outputs(70'000); }
TEST_CASE("an op has as many inputs as it takes, under tapes to the second order") {
  check_inputs(GENERATE(1, 64, 65, 255, 256));
}
TEST_CASE("an op has 65,535 inputs and more", "[slow]") { check_inputs(GENERATE(65'535, 65'536)); }
TEST_CASE("concat of many parts and split into many are recorded whole") {
  check_concat_of(GENERATE(300, 3'000));
}
TEST_CASE("concat of 65,535 parts and more is recorded whole", "[slow]") {
  check_concat_of(GENERATE(65'535, 65'536, 70'000));
}

TEST_CASE("ops of many inputs and outputs are traced") {
  register_squares();
  register_sum();
  const std::int64_t n = GENERATE(300, 3'000);
  auto f = trace([](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensors all = call_op_all("each_square", {x});
    const Tensor y = call_op("sum_of_squares", std::vector<Tensor>(all.begin(), all.end()));
    return tape.gradient(y, x);  // of the sum of x^4
  });
  const Tensor x = small_numbers(n, DType::float64);
  for (int call = 0; call < 3; ++call) CHECK(equal(f(x), 4 * x * x * x));
}

TEST_CASE("a custom gradient gives one tensor for each argument, of its shape") {
  const Tensor x = tensor({1.0f, 2.0f}), y = tensor({3.0f, 4.0f});
  const auto gradient_with = [&](auto given) {
    const auto product = custom_gradient([given](Tensor a, Tensor b) {
      return std::pair{a * b, [=](Tensor up) { return given(up, a, b); }};
    });
    GradientTape tape;
    tape.watch(x);
    tape.watch(y);
    const Tensor z = product(x, y);
    return tape.gradient(z, {x, y}, Unconnected::zero);
  };
  using T = const Tensor&;
  const auto both = gradient_with([](T up, T a, T b) { return Tensors{up * b, up * a}; });
  CHECK((equal(both[0], y) && equal(both[1], x)));
  const auto second = gradient_with([](T up, T a, T) { return Tensors{Tensor(), up * a}; });
  CHECK((equal(second[0], zeros({2})) && equal(second[1], x)));
  for (const std::size_t count : {0, 1, 3, 300}) {
    INFO(count << " tensors");
    const auto given = [&](T up, T, T) { return Tensors(std::vector<Tensor>(count, up)); };
    const std::string text = refusal<TapeError>([&] { gradient_with(given); });
    CHECK(text.find("2 tensors, one for each argument, got " + std::to_string(count)) != text.npos);
  }
  const std::string text = refusal<ShapeError>([&] {
    gradient_with([](T up, T, T) { return Tensors{sum(up), up}; });
  });
  CHECK(text.find("input 0 of custom_gradient: expected shape (2,), got ()") != text.npos);
}

TEST_CASE("a registered gradient gives one tensor for each input") {
  static std::size_t count = 0;
  register_op("sum_of_any", [](const OpCall& call) {
    Tensor sum = call.input(0);
    for (std::size_t i = 1; i < call.input_count(); ++i) sum = sum + call.input(i);
    return Tensors(sum);
  });
  register_gradient("sum_of_any", [](const OpCall&, Tensor upstream) {
    return Tensors(std::vector<Tensor>(count, upstream));
  });
  const Tensor x = tensor({1.0, 2.0});
  const std::vector<Tensor> inputs(300, x);
  const auto slope = [&] {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = call_op("sum_of_any", inputs);
    return tape.gradient(y, x);
  };
  for (const std::size_t wrong : {0, 1, 44, 299, 301}) {
    count = wrong;
    const std::string text = refusal<TapeError>(slope);
    CHECK(text.find("300 tensors, one for each input, got " + std::to_string(wrong)) != text.npos);
  }
  count = 300;
  CHECK(equal(slope(), full({2}, 300).to(DType::float64)));
}

TEST_CASE("a Jacobian of no elements, of numbers and of Variables has the shapes of both") {
  Variable w("w", tensor<double>({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}));
  GradientTape tape({.persistent = true});
  const Tensor none = w(range(0, 0)), number = sum(w.value() * w);
  CHECK(tape.jacobian(none, w).shape() == Shape{0, 3, 2, 3});
  CHECK(tape.jacobian(none, w).dtype() == DType::float64);
  CHECK(equal(tape.jacobian(number, w), 2.0 * w.value()));
  check_refused<TapeError>([&] { tape.jacobian(number, tensor(1.0)); }, "source 0");
  CHECK(equal(tape.jacobian(number, tensor({1.0, 2.0}), Unconnected::zero), zeros({2})));
}
}  // namespace reel::tests
