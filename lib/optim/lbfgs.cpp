// SPDX-License-Identifier: BSD-3-Clause
#include <reel/ops.hpp>
#include <reel/optim/lbfgs.hpp>
#include <reel/tape.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "lib/optim/check.hpp"

namespace reel::optim {
namespace {
constexpr const char* const name = "LBFGS";
constexpr double decrease = 1e-4, curvature = 0.9;  // of the strong Wolfe conditions
constexpr double growth = 10;                       // of a step that is too short, at most
constexpr double digits = 4;                        // of the last ones may be wrong by rounding
constexpr double endless = 1e10;                    // times the first step: no minimum is near

/// A point of the line x + t d.
struct Point {
  double t = 0, loss = 0, slope = 0;  // slope: the loss's derivative for t
  Tensor gradient;                    // all Variables' in one vector
  bool finite() const { return std::isfinite(loss) && std::isfinite(slope); }
};

/// The minimum of the cubic through two points with their slopes; NaN if there is none.
double cubic_minimum(const Point& a, const Point& b) {
  const double d = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double root = std::copysign(std::sqrt(d * d - a.slope * b.slope), b.t - a.t);
  return b.t - (b.t - a.t) * (b.slope + root - d) / (b.slope - a.slope + 2 * root);
}

/// The distance between 1 and the next number.
double precision_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return 0x1p-52;
    case DType::float32:
      return 0x1p-23;
    case DType::float16:
      return 0x1p-10;
    default:
      return 0x1p-7;
  }
}
double largest_in(const Tensor& x) { return cast(max(abs(x)), DType::float64).item<double>(); }
double dot(const Tensor& a, const Tensor& b) {
  return sum(cast(a, DType::float64) * cast(b, DType::float64)).item<double>();
}
/// All tensors in one vector.
Tensor flat(const std::vector<Tensor>& tensors, Caller caller) {
  auto parts = room_for<Tensor>(tensors.size(), caller, name);
  for (const Tensor& x : tensors) parts.push_back(reshape(x, {-1}));
  return concat(parts, 0);
}
Variable zeros_of(std::string_view title, std::size_t i, const Tensor& like, Caller caller) {
  return Variable(std::string(title) + '.' + std::to_string(i), zeros_like(like), caller);
}
}  // namespace

LBFGS::LBFGS(std::vector<Variable> variables, LBFGSOptions options, Caller caller) try
    : variables_(std::move(variables)),
      pairs_("pairs", tensor(std::int64_t{0}, caller), caller),
      options_(options) {
  const CallerScope here(caller, name);
  check_variables(name, variables_, caller);
  for (const Variable& x : variables_) {
    if (x.dtype() != variables_[0].dtype())
      fail<DTypeError>(caller, name, "variable " + std::string(x.name()),
                       std::string(name_of(variables_[0].dtype())) + " as the first one",
                       name_of(x.dtype()));
    if (x.device() != variables_[0].device())
      fail<DeviceError>(caller, name, "variable " + std::string(x.name()),
                        to_string(variables_[0].device()) + " as the first one",
                        to_string(x.device()));
  }
  const auto check_count = [&](std::int64_t number, std::string_view argument) {
    check_number(number >= 1, name, argument, "1 or more", static_cast<double>(number), caller);
  };
  check_count(options.iterations, "iterations");
  check_count(options.evaluations, "evaluations");
  check_count(options.history, "history");
  check_number(std::isfinite(options.learning_rate) && options.learning_rate > 0, name,
               "learning_rate", "more than 0", options.learning_rate, caller);
  check_positive(options.gradient_tolerance, name, "gradient_tolerance", caller);
  check_positive(options.change_tolerance, name, "change_tolerance", caller);
  const Tensor all = zeros_like(flat({variables_.begin(), variables_.end()}, caller));
  for (std::size_t i = 0; i < static_cast<std::size_t>(options.history); ++i) {
    steps_.push_back(zeros_of("step", i, all, caller));
    changes_.push_back(zeros_of("change", i, all, caller));
  }
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}

/// A line search from the values that the Variables have at its start.
struct LBFGS::Search {
  const LBFGS& lbfgs;
  Tensor (*function)(void*);
  void* argument;
  Caller caller;
  std::vector<Tensor> start;  // the Variables' values
  Tensor direction;
  std::int64_t left = 0, evaluations = 0;
  DType dtype = DType::float64;  // of the loss
  Point rising = {};             // the nearest one of a search behind a minimum; t is 0 if none is
  bool endless_fall = false;     // over a long way, or to -infinity

  /// Assigns start + t direction.
  void move_to(double t) const {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const Variable& x = lbfgs.variables_[i];
      if (t == 0) {
        x.assign(start[i]);
        continue;
      }
      const std::int64_t end = first + x.size();
      x.assign(start[i] + t * reshape(direction(range(first, end)), x.shape()));
      first = end;
    }
  }
  /// The loss and its gradient where the Variables are.
  Point evaluate(double t) {
    ++evaluations;
    GradientTape tape({}, caller);
    const Tensor loss = function(argument);
    if (!loss.defined() || loss.size() != 1)
      fail<ShapeError>(caller, name, "loss", "one number",
                       loss.defined() ? "shape " + to_text(loss.shape()) : "nothing",
                       "Use its mean() or its sum().");
    dtype = loss.dtype();
    Point point{t, cast(loss, DType::float64).item<double>(), 0,
                flat(tape.gradient(loss, lbfgs.variables_), caller)};
    if (direction.defined()) point.slope = dot(point.gradient, direction);
    return point;
  }
  Point point_at(double t) {
    --left;
    move_to(t);
    Point point = evaluate(t);
    if (point.finite() && point.slope >= 0 && (rising.t == 0 || t < rising.t)) rising = point;
    if (std::isinf(point.loss) && point.loss < 0) {
      endless_fall = true;
      left = 0;
    }
    return point;
  }
  double rounding(const Point& of) const {
    return digits * precision_of(dtype) * std::abs(of.loss);
  }
  /// Whether the search began at a minimum, as far as the numbers' precision tells: the step to it
  /// changes no digit of the Variables or of the loss.
  bool at_minimum(const Point& origin) const {
    if (rising.t == 0) return false;
    const double t = rising.t * origin.slope / (origin.slope - rising.slope);
    const double largest = largest_in(flat(start, caller));
    return -0.5 * t * origin.slope <= rounding(origin) ||
           t * largest_in(direction) <= digits * precision_of(start[0].dtype()) * largest;
  }

  bool is_low(const Point& point, const Point& origin) const {
    return point.finite() && point.loss <= origin.loss + decrease * point.t * origin.slope;
  }
  static bool is_flat(const Point& point, const Point& origin) {
    return std::abs(point.slope) <= -curvature * origin.slope;
  }
  /// Whether the loss falls by less than its last digits show.
  bool is_too_short(const Point& point, const Point& origin) const {
    const bool lower = point.loss < origin.loss && is_low(point, origin);
    return point.slope < 0 && !lower && point.loss - origin.loss <= rounding(origin);
  }
  /// A point between two of which the first is the lower one (algorithm 3.6).
  Point zoom(const Point& origin, Point low, Point high) {
    while (left > 0) {
      const double begin = std::min(low.t, high.t), end = std::max(low.t, high.t);
      double t = high.finite() ? cubic_minimum(low, high) : std::nan("");
      const double margin = 0.1 * (end - begin);
      if (!(t > begin + margin && t < end - margin)) t = begin + 0.5 * (end - begin);
      if (!(t > begin && t < end)) break;
      Point point = point_at(t);
      if (!is_low(point, origin) || point.loss >= low.loss) {
        high = std::move(point);
        continue;
      }
      if (is_flat(point, origin)) return point;
      if (point.slope * (high.t - low.t) >= 0) high = std::move(low);
      low = std::move(point);
    }
    return low;
  }
  /// The point that the search ends at (algorithm 3.5); t is 0 if it found no lower loss.
  Point find(const Point& origin, double t) {
    left = lbfgs.options_.evaluations;
    rising = {};
    double first = 0;
    Point before = origin;
    while (left > 0) {
      Point point = point_at(t);
      if (before.t == 0 && is_too_short(point, origin)) {
        t *= growth;
        continue;
      }
      if (!is_low(point, origin) || (before.t > 0 && point.loss >= before.loss))
        return zoom(origin, std::move(before), std::move(point));
      if (is_flat(point, origin)) return point;
      if (point.slope >= 0) return zoom(origin, std::move(point), std::move(before));
      const double next = cubic_minimum(before, point), nearest = t + 0.01 * (t - before.t);
      before = std::move(point);
      if (first == 0) first = t;
      t = next > nearest && next < growth * t ? next : growth * t;
    }
    endless_fall = endless_fall || before.t > endless * first;
    return before;
  }
};

Tensor LBFGS::direction(const Tensor& gradient) const {
  const std::int64_t count = pairs_.value().item<std::int64_t>(), kept = options_.history;
  const std::int64_t used = std::min(count, kept);
  auto weights = room_for<double>(static_cast<std::size_t>(used), {}, name);
  Tensor d = -gradient;
  const auto pair = [&](std::int64_t age) {
    return static_cast<std::size_t>((count - 1 - age) % kept);
  };
  for (std::int64_t age = 0; age < used; ++age) {
    const Tensor s = steps_[pair(age)], y = changes_[pair(age)];
    const double weight = dot(s, d) / dot(s, y);
    weights.push_back(weight);
    d = std::move(d) - weight * y;
  }
  if (used > 0) {
    const Tensor s = steps_[pair(0)], y = changes_[pair(0)];
    d = std::move(d) * (dot(s, y) / dot(y, y));
  }
  for (std::int64_t age = used; age-- > 0;) {
    const Tensor s = steps_[pair(age)], y = changes_[pair(age)];
    const double weight = dot(y, d) / dot(s, y);
    d = std::move(d) + (weights[static_cast<std::size_t>(age)] - weight) * s;
  }
  return d;
}

void LBFGS::remember(const Tensor& step, const Tensor& change) {
  // By the second Wolfe condition the cosine between them is positive. Rounding may hide it.
  const double lengths = std::sqrt(dot(step, step)) * std::sqrt(dot(change, change));
  if (!(dot(step, change) > 1e-10 * lengths)) return;
  const std::int64_t count = pairs_.value().item<std::int64_t>();
  const auto i = static_cast<std::size_t>(count % options_.history);
  steps_[i].assign(step);
  changes_[i].assign(change);
  pairs_.assign(count + 1);
}

LBFGSResult LBFGS::minimize(Tensor (*loss)(void*), void* function, Caller caller) try {
  const CallerScope here(caller, name);
  check_not_moved(name, variables_, caller);
  Search search{*this, loss, function, caller, {variables_.begin(), variables_.end()}, {}};
  Point now = search.evaluate(0);
  const auto largest = [&] { return largest_in(now.gradient); };
  if (!std::isfinite(now.loss) || !std::isfinite(largest()))
    fail<Error>(
        caller, name, "loss", "a finite loss with a finite gradient",
        std::isfinite(now.loss) ? "a gradient with an infinity or a NaN" : to_text(now.loss),
        "FiniteScope names the op that makes it.");
  std::int64_t iterations = 0;
  bool at_minimum = false;
  const auto ended = [&](bool converged, std::string_view reason) {
    return LBFGSResult{now.loss, iterations, search.evaluations, converged, reason};
  };
  try {
    while (iterations < options_.iterations) {
      if (largest() <= options_.gradient_tolerance)
        return ended(true, "the gradient is within gradient_tolerance");
      search.direction = direction(now.gradient);
      now.slope = dot(now.gradient, search.direction);
      if (!(now.slope < 0)) {  // rounding: start again from the gradient
        pairs_.assign(0);
        search.direction = -now.gradient;
        now.slope = dot(now.gradient, search.direction);
      }
      const bool first = pairs_.value().item<std::int64_t>() == 0;
      const double size = first ? cast(sum(abs(now.gradient)), DType::float64).item<double>() : 1;
      now.t = 0;
      const Point next = search.find(now, options_.learning_rate * std::min(1.0, 1 / size));
      search.move_to(next.t);
      if (search.endless_fall && next.t == 0)
        return ended(false, "the loss falls without end along a line");
      if (next.t == 0) {
        at_minimum = search.at_minimum(now) || (first && at_minimum);
        if (first)
          return at_minimum ? ended(true, "the precision of the dtype allows no lower loss")
                            : ended(false, "the line search found no lower loss");
        pairs_.assign(0);  // the pairs may be those of another loss
        continue;
      }
      remember(next.t * search.direction, next.gradient - now.gradient);
      search.start.assign(variables_.begin(), variables_.end());
      const double change = now.loss - next.loss;
      const bool flat = Search::is_flat(next, now);  // not where the search ended early
      now = next;
      ++iterations;
      at_minimum = false;
      if (search.endless_fall) return ended(false, "the loss falls without end along a line");
      if (flat && change <= options_.change_tolerance * std::max(1.0, std::abs(now.loss)))
        return ended(true, "the loss changes less than change_tolerance");
    }
  } catch (...) {
    search.move_to(0);
    throw;
  }
  return largest() <= options_.gradient_tolerance
             ? ended(true, "the gradient is within gradient_tolerance")
             : ended(false, "all iterations are done");
} catch (const std::bad_alloc&) {
  fail_memory(caller, name);
}
}  // namespace reel::optim
