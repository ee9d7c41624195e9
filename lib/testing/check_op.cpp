// SPDX-License-Identifier: BSD-3-Clause
#include <reel/testing.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>

#include <reel/error.hpp>
#include <reel/format.hpp>
#include <reel/ops.hpp>
#include <reel/tape.hpp>
#include <reel/trace.hpp>

namespace reel::testing {
namespace {
using Inputs = std::vector<Tensor>;

/// A row-major tensor of these values.
Tensor made_of(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return tensor<double>(values).reshape(shape).to(dtype);
}
std::vector<double> numbers_of(const Tensor& x) {
  return x.to(cpu()).to(DType::float64).to_vector<double>();
}
/// Irregular numbers between 0.5 and 2.
Tensor drawn(const Shape& shape, int seed) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.elements(); ++i)
    values.push_back(1.25 + 0.75 * std::sin(1.7 * static_cast<double>(i) + 2.9 * seed + 1));
  return made_of(values, shape, DType::float64);
}

enum class View { transposed, reversed, stepped };
/// The values of x in another layout.
Tensor laid_out(const Tensor& x, View view) {
  if (x.rank() == 0) return x;
  if (view == View::transposed) {
    const Tensor y = transpose(x);
    return transpose(made_of(numbers_of(y), y.shape(), x.dtype()));
  }
  if (view == View::reversed) {
    const Tensor y = x(ellipsis, range({}, {}, -1));
    return made_of(numbers_of(y), y.shape(), x.dtype())(ellipsis, range({}, {}, -1));
  }
  std::vector<double> twice;
  for (const double value : numbers_of(x)) twice.insert(twice.end(), {value, value});
  Shape doubled = x.shape();
  doubled.data()[x.rank() - 1] *= 2;
  return made_of(twice, doubled, x.dtype())(ellipsis, range({}, {}, 2));
}

class Check {
 public:
  Check(std::string_view name, CheckOptions options, Caller caller)
      : name_(name), options_(static_cast<CheckOptions&&>(options)), caller_(caller) {}

  void run() {
    const bool given = !options_.inputs.empty();
    const Inputs inputs = given ? copies_of(options_.inputs) : found_inputs();
    const Inputs expected = call(inputs);
    compare("a second call", call(inputs), expected, 0);
    check_trace(inputs, expected);
    check_views(inputs, expected);
    check_gradients(inputs);
    if (given) return;
    check_shape(inputs.size(), {0, 4});
    check_shape(inputs.size(), {});
  }

 private:
  [[noreturn]] void fail_check(const std::string& what, const std::string& expected,
                               const std::string& got) const {
    fail<Error>(caller_, "check_op", name_ + ": " + what, expected, got);
  }

  Inputs call(const Inputs& inputs) const {
    const Tensors outputs = call_op_all(name_, inputs, options_.attributes);
    return {outputs.begin(), outputs.end()};
  }
  /// Each input in memory of its own: one tensor at two places would have one gradient.
  static Inputs copies_of(const Inputs& given) {
    Inputs inputs;
    for (const Tensor& x : given) inputs.push_back(stack({x})(0));
    return inputs;
  }
  /// As many inputs as the op takes.
  Inputs found_inputs() const {
    constexpr int most = 4;
    Inputs inputs;
    std::exception_ptr first;
    for (int count = 1;; ++count) {
      inputs.push_back(drawn({3, 4}, count));
      try {
        call(inputs);
        return inputs;
      } catch (const Error&) {
        if (!first) first = std::current_exception();
        if (count == most) std::rethrow_exception(first);
      }
    }
  }

  /// `tolerance` is relative to max(1, largest absolute value). NaN equals NaN.
  void compare(const std::string& what, const Inputs& got, const Inputs& expected,
               double tolerance) const {
    if (got.size() != expected.size())
      fail_check(what, fmt::format("{} outputs", expected.size()), fmt::format("{}", got.size()));
    for (std::size_t k = 0; k < got.size(); ++k) {
      if (got[k].shape() != expected[k].shape() || got[k].dtype() != expected[k].dtype())
        fail_check(what, fmt::format("{} {}", expected[k].dtype(), expected[k].shape()),
                   fmt::format("{} {}", got[k].dtype(), got[k].shape()));
      const std::vector<double> a = numbers_of(got[k]), b = numbers_of(expected[k]);
      double largest = 1;
      for (const double x : b)
        if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
      for (std::size_t i = 0; i < a.size(); ++i) {
        const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
        if (same || std::abs(a[i] - b[i]) <= tolerance * largest) continue;
        fail_check(what, fmt::format("{}", b[i]),
                   fmt::format("{} at element {}{}", a[i], i,
                               got.size() > 1 ? fmt::format(" of number {}", k) : ""));
      }
    }
  }
  /// How far sums in another order may be away.
  static double rounding(const Inputs& inputs) {
    for (const Tensor& x : inputs)
      if (is_floating(x.dtype()) && x.dtype() != DType::float64) return 1e-4;
    return 1e-12;
  }
  double tolerance(const Inputs& inputs, double asked) const {
    return rounding(inputs) > 1e-12 ? std::max(asked, 1e-2) : asked;
  }

  void check_trace(const Inputs& inputs, const Inputs& expected) const {
    auto traced = trace([this](const Inputs& x) { return call(x); });
    for (int i = 0; i < 4; ++i)
      compare("a traced call", traced(inputs), expected, rounding(inputs));
  }
  void check_views(const Inputs& inputs, const Inputs& expected) const {
    for (const View view : {View::transposed, View::reversed, View::stepped}) {
      Inputs views;
      for (const Tensor& x : inputs) views.push_back(laid_out(x, view));
      const char* const names[] = {"transposed inputs", "reversed inputs", "stepped inputs"};
      compare(names[static_cast<int>(view)], call(views), expected, rounding(inputs));
    }
  }

  static Inputs floating(const Inputs& all) {
    Inputs some;
    for (const Tensor& x : all)
      if (is_floating(x.dtype())) some.push_back(x);
    return some;
  }
  /// One number that depends on every element: the sum, each multiplied by a number of its own.
  static Tensor weighted(const Inputs& outputs) {
    Tensor total = tensor<double>(0.0);
    int seed = 10;
    for (const Tensor& y : floating(outputs))
      total = total + sum(y.to(DType::float64) * drawn(y.shape(), ++seed));
    return total;
  }
  /// The gradients of weighted(call(inputs)) for each floating input.
  Inputs gradients(const Inputs& inputs) const {
    GradientTape tape;
    const Inputs sources = floating(inputs);
    for (const Tensor& x : sources) tape.watch(x);
    return tape.gradient(weighted(call(inputs)), GradientSources(sources), {{}, Unconnected::zero});
  }
  /// The derivatives of f for each floating input, by differences.
  template <class F>
  Inputs differences(const Inputs& inputs, const F& f) const {
    Inputs slopes;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!is_floating(inputs[k].dtype())) continue;
      const double width = inputs[k].dtype() == DType::float64 ? 1e-3 : 2e-2;
      std::vector<double> at = numbers_of(inputs[k]), slope;
      for (double& x : at) {
        const double before = x, h = width * std::max(1.0, std::abs(x));
        const auto value = [&](int steps) {
          x = before + steps * h;
          Inputs moved = inputs;
          moved[k] = made_of(at, inputs[k].shape(), inputs[k].dtype());
          return f(moved).template item<double>();
        };
        slope.push_back((value(-2) - 8 * value(-1) + 8 * value(1) - value(2)) / (12 * h));
        x = before;
      }
      slopes.push_back(made_of(slope, inputs[k].shape(), inputs[k].dtype()));
    }
    return slopes;
  }

  void check_gradients(const Inputs& inputs) const {
    if (floating(inputs).empty() || floating(call(inputs)).empty()) return;
    const auto value = [this](const Inputs& x) { return weighted(call(x)); };
    compare("gradients, compared with differences", gradients(inputs), differences(inputs, value),
            tolerance(inputs, options_.gradient_tolerance));
    if (!options_.second_gradient) return;
    const auto slope = [this](const Inputs& x) { return weighted(gradients(x)); };
    GradientTape tape;
    const Inputs sources = floating(inputs);
    for (const Tensor& x : sources) tape.watch(x);
    const Inputs second =
        tape.gradient(slope(inputs), GradientSources(sources), {{}, Unconnected::zero});
    compare("gradients of gradients, compared with differences of gradients", second,
            differences(inputs, slope), tolerance(inputs, options_.second_gradient_tolerance));
  }

  /// Inputs of this shape work or are refused with an Error.
  void check_shape(std::size_t count, const Shape& shape) const {
    Inputs inputs, outputs;
    for (std::size_t i = 0; i < count; ++i) inputs.push_back(drawn(shape, static_cast<int>(i)));
    try {
      outputs = call(inputs);
    } catch (const Error&) {
      return;
    }
    if (floating(outputs).empty()) return;
    for (const Tensor& slope : gradients(inputs))
      if (slope.shape() != shape)
        fail_check(fmt::format("the gradient of inputs of shape {}", shape),
                   fmt::format("shape {}", shape), fmt::format("{}", slope.shape()));
  }

  std::string name_;
  CheckOptions options_;
  Caller caller_;
};
}  // namespace

void check_op(std::string_view name, CheckOptions options, Caller caller) try {
  const CallerScope here(caller);
  Check(name, static_cast<CheckOptions&&>(options), caller).run();
} catch (const std::bad_alloc&) {
  fail_memory(caller, "check_op");
}
}  // namespace reel::testing
