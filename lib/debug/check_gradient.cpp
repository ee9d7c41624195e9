// SPDX-License-Identifier: BSD-3-Clause
// debug::check_gradient(): gradients of a model, and differences.
#include <reel/debug.hpp>

#include <algorithm>
#include <cmath>
#include <string>

#include <reel/error.hpp>
#include <reel/ops.hpp>

#include "lib/body/text.hpp"

namespace reel::debug {
namespace {
double loss_of(const reel::detail::Function<Tensor()>& f, Caller caller) {
  const Tensor loss = f();
  if (!loss.defined() || loss.size() != 1)
    fail<Error>(caller, "check_gradient", "f", "a loss of one element",
                loss.defined() ? to_text(loss.shape()) : Text("an undefined Tensor"));
  return loss.to(DType::float64).reshape({}).item<double>();
}
/// While it lives, a Variable has other values.
class Moved {
 public:
  explicit Moved(const Variable& variable) : variable_(variable), before_(variable.value()) {
    numbers_ = before_.to(cpu()).to(DType::float64).to_vector<double>();
  }
  ~Moved() { variable_.assign(before_); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;
  double at(std::size_t i) const { return numbers_[i]; }
  void set(std::size_t i, double x) const {
    std::vector<double> numbers = numbers_;
    numbers[i] = x;
    variable_.assign(
        tensor(numbers).reshape(before_.shape()).to(before_.dtype()).to(before_.device()));
  }

 private:
  Variable variable_;
  Tensor before_;
  std::vector<double> numbers_;
};
}  // namespace

void check_gradient(const reel::detail::Function<Tensor()>& f,
                    const std::vector<Variable>& variables, const CheckGradientOptions& options,
                    Caller caller) try {
  const auto wrong = [&](const char* argument, const Text& expected, const Text& got,
                         const Text& advice = "") {
    fail<Error>(caller, "check_gradient", argument, expected, got, advice);
  };
  if (options.elements < 1)
    wrong("elements", "a number from 1 on", to_text(std::int64_t{options.elements}));
  if (!(options.tolerance >= 0))
    wrong("tolerance", "a number from 0 on", to_text(Scalar(options.tolerance)));
  if (const double first = loss_of(f, caller), second = loss_of(f, caller); first != second)
    wrong("f", "the same loss each time",
          to_text(Scalar(first)) + " and " + to_text(Scalar(second)),
          "Set the seed of random ops in f, or evaluate: TrainScope evaluate(false).");
  std::vector<Tensor> gradients;
  {
    GradientTape tape({}, caller);
    const Tensor loss = f();
    gradients = tape.gradient({sum(loss), caller}, variables);
  }
  for (std::size_t k = 0; k < variables.size(); ++k) {
    const bool wide = variables[k].dtype() == DType::float64;
    const std::vector<double> slopes =
        gradients[k].to(cpu()).to(DType::float64).to_vector<double>();
    double scale = 1;
    for (const double slope : slopes) scale = std::max(scale, std::abs(slope));
    const double tolerance = options.tolerance > 0 ? options.tolerance : wide ? 1e-6 : 1e-2;
    const Moved moved(variables[k]);
    const std::size_t count = std::min(slopes.size(), static_cast<std::size_t>(options.elements));
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t i = j * slopes.size() / count;
      const double h = (wide ? 1e-3 : 1e-2) * std::max(1.0, std::abs(moved.at(i)));
      const auto at = [&](double step) {
        moved.set(i, moved.at(i) + step * h);
        return loss_of(f, caller);
      };
      const double slope = (at(-2) - 8 * at(-1) + 8 * at(1) - at(2)) / (12 * h);
      if (!(std::abs(slope - slopes[i]) <= tolerance * scale))
        wrong("gradient",
              to_text(Scalar(slope)) + " by differences, for \"" + Text(variables[k].name()) +
                  "\"" + place_text(variables[k].shape(), static_cast<std::int64_t>(i)),
              to_text(Scalar(slopes[i])));
    }
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, "check_gradient");
}
}  // namespace reel::debug
