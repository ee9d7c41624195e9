// SPDX-License-Identifier: BSD-3-Clause
// The recursion of the CTC loss (Graves et al. 2006, section 4.1). A state is a label, or a blank
// before, between or behind labels. The probability of a long sequence is too small for a double,
// so it is a number whose exponent has a double of its own. Sums and products of such numbers need
// no logarithm.
#pragma once
#include <cstdint>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS::ctc {
/// 2^k for a whole k; 0 below the range of double.
constexpr double power_of_two(double k) {
  if (!(k >= -1022)) return 0;
  return __builtin_bit_cast(double, (static_cast<std::int64_t>(k < 1023 ? k : 1023) + 1023) << 52);
}

/// fraction * 2^exponent. The fraction is 0, NaN, or from 1 to less than 8.
struct Number {
  double fraction = 0;
  double exponent = -1e300;
};

/// e^x.
constexpr Number exponential(double x) {
  const double power = x * 1.4426950408889634074, whole = math::floor(power);
  if (whole < -1e300) return {};
  return {math::exp2(power - whole), whole};  // NaN for +inf
}
/// The natural logarithm; -inf of 0.
constexpr double logarithm(const Number& x) {
  return x.fraction == 0 ? -__builtin_inf()
                         : math::log(x.fraction) + x.exponent * 0.69314718055994530942;
}
constexpr Number operator+(const Number& a, const Number& b) {
  const double most = a.exponent > b.exponent ? a.exponent : b.exponent;
  return {
      a.fraction * power_of_two(a.exponent - most) + b.fraction * power_of_two(b.exponent - most),
      most};
}
/// The fraction of the product is less than 2.
constexpr Number operator*(const Number& a, const Number& b) {
  const double fraction = a.fraction * b.fraction;
  if (fraction == 0) return {};
  const auto bits = __builtin_bit_cast(std::int64_t, fraction);
  const auto more = static_cast<double>((bits >> 52) - 1023);
  return {fraction * power_of_two(-more), a.exponent + b.exponent + more};
}
/// a * b / c as a double.
constexpr double ratio(const Number& a, const Number& b, const Number& c) {
  return a.fraction * b.fraction / c.fraction * power_of_two(a.exponent + b.exponent - c.exponent);
}

/// The labels of one sequence with their blanks.
struct States {
  const std::int64_t* labels;
  std::int64_t blank, classes, count;

  constexpr std::int64_t class_of(std::int64_t s) const {
    if (!(s & 1)) return blank;
    // A device may report a wrong label only after this kernel has run.
    const std::int64_t label = labels[s / 2];
    return static_cast<std::uint64_t>(label) < static_cast<std::uint64_t>(classes) ? label : blank;
  }
  /// Whether state s can be reached from s - 2, without the state between.
  constexpr bool skips(std::int64_t s) const {
    return s >= 2 && s < count && class_of(s) != class_of(s - 2);
  }
  /// The probability that paths enter state s in a step. `before` has the probabilities of all
  /// states before the step. The probability of the class of s is not included.
  constexpr Number forward_step(const Number* before, std::int64_t s) const {
    Number sum = before[s];
    if (s > 0) sum = sum + before[s - 1];
    return skips(s) ? sum + before[s - 2] : sum;
  }
  /// The probability of all ways to go on from state s. `after` has those from each state after the
  /// step, times the probability of its class.
  constexpr Number backward_step(const Number* after, std::int64_t s) const {
    Number sum = after[s];
    if (s + 1 < count) sum = sum + after[s + 1];
    return skips(s + 2) ? sum + after[s + 2] : sum;
  }
  /// Whether a path may end in state s.
  constexpr bool ends(std::int64_t s) const { return s + 2 >= count; }
  constexpr Number total(const Number* last) const {
    return count > 1 ? last[count - 1] + last[count - 2] : last[count - 1];
  }
  /// Whether no state before s has its class.
  constexpr bool is_first(std::int64_t s) const {
    for (std::int64_t before = 0; before < s; ++before)
      if (class_of(before) == class_of(s)) return false;
    return true;
  }
  /// The next state of the same class; `count` if there is none.
  constexpr std::int64_t same_after(std::int64_t s) const {
    std::int64_t next = s + 1;
    while (next < count && class_of(next) != class_of(s)) ++next;
    return next;
  }
};

/// log_probs [time, batch, classes], labels [batch, longest], the number of steps and the number of
/// labels of each sequence.
struct Sequences {
  const std::int64_t *labels, *steps, *counts;
  std::int64_t time, batch, classes, longest, blank;

  constexpr std::int64_t most_states() const { return 2 * longest + 1; }
  constexpr std::int64_t steps_of(std::int64_t b) const { return within(steps[b], time); }
  constexpr States states_of(std::int64_t b) const {
    return {labels + b * longest, blank, classes, 2 * within(counts[b], longest) + 1};
  }
  /// Where the classes of a step begin in log_probs.
  constexpr std::int64_t at(std::int64_t t, std::int64_t b) const {
    return (t * batch + b) * classes;
  }

 private:
  /// A device may report a wrong length only after this kernel has run.
  static constexpr std::int64_t within(std::int64_t n, std::int64_t most) {
    return n < 0 ? 0 : n < most ? n : most;
  }
};
template <class Body>
Sequences sequences_of(const Body& log_probs, const Body& labels, const Body& steps,
                       const Body& counts, std::int64_t blank) {
  const std::int64_t* const shape = log_probs.shape.data();
  return {labels.template as<std::int64_t>(),
          steps.template as<std::int64_t>(),
          counts.template as<std::int64_t>(),
          shape[0],
          shape[1],
          shape[2],
          labels.shape.data()[1],
          blank};
}
}  // namespace reel::REEL_FORMULAS::ctc
