// SPDX-License-Identifier: BSD-3-Clause
// Distributions that are computed number by number, in double: the same code for CPUs and GPUs.
#pragma once
#include "lib/formulas/philox.hpp"

namespace reel::REEL_FORMULAS {
/// c[0] + c[1] x + ... + c[7] x^7.
constexpr double polynomial7(double x, double c0, double c1, double c2, double c3, double c4,
                             double c5, double c6, double c7) {
  return ((((((c7 * x + c6) * x + c5) * x + c4) * x + c3) * x + c2) * x + c1) * x + c0;
}
/// The number below which a normal number is with probability p (Wichura 1988, algorithm AS 241,
/// PPND16). The relative error is about 1e-16.
constexpr double normal_quantile(double p) {
  const double q = p - 0.5;
  if (math::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q *
           polynomial7(r, 3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427,
                       13731.693765509461125, 45921.953931549871457, 67265.770927008700853,
                       33430.575583588128105, 2509.0809287301226727) /
           polynomial7(r, 1, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
                       21213.794301586595867, 39307.895800092710610, 28729.085735721942674,
                       5226.4952788528545610);
  }
  const double r = math::sqrt(-math::log(q < 0 ? p : 1 - p));
  double x = 0;
  if (r <= 5) {
    const double s = r - 1.6;
    x = polynomial7(s, 1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550,
                    3.64784832476320460504, 1.27045825245236838258, 0.241780725177450611770,
                    0.0227238449892691845833, 7.74545014278341407640e-4) /
        polynomial7(s, 1, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
                    0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
                    1.05075007164441684324e-9);
  } else {
    const double s = r - 5;
    x = polynomial7(s, 6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
                    0.296560571828504891230, 0.0265321895265761230930, 1.24266094738807843860e-3,
                    2.71155556874348757815e-5, 2.01033439929228813265e-7) /
        polynomial7(s, 1, 0.599832206555887937690, 0.136929880922735805310,
                    0.0148753612908506148525, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                    1.42151175831644588870e-7, 2.04426310338993978564e-15);
  }
  return q < 0 ? -x : x;
}

/// A normal number between two bounds, from a uniform number above 0 and below 1. The bounds are
/// mirrored where both are positive: probabilities near 0 are more exact than those near 1.
struct TruncatedNormal {
  double location, scale, low, high;  // of standard normal numbers, low < high
  double below, between;              // the probabilities below `low` and between both
  double sign = 1;
  TruncatedNormal(double mean, double stddev, double least, double most)
      : location(mean), scale(stddev), low(least), high(most) {
    if (low > 0) low = -most, high = -least, sign = -1;
    below = probability_below(low);
    between = probability_below(high) - below;
  }
  static double probability_below(double x) {
    return 0.5 * __builtin_erfc(x * -0.70710678118654752440);
  }
  constexpr double operator()(double uniform) const {
    const double p = below + uniform * between, most = 1 - 0x1p-53;
    const double x = p > 0 ? normal_quantile(p < most ? p : most) : low;
    return location + scale * (sign * (x < low ? low : x > high ? high : x));
  }
};

/// Gamma distributed numbers with the scale 1 (Marsaglia and Tsang 2000). Draw `number` uses the
/// Philox counters (number, attempt, series): those of one draw differ from those of all others.
struct GammaDraws {
  double alpha, d, c;
  explicit GammaDraws(double shape)
      : alpha(shape), d((shape < 1 ? shape + 1 : shape) - 1 / 3.0), c(1 / __builtin_sqrt(9 * d)) {}

  static constexpr double unit(std::uint32_t word) {
    return (static_cast<double>(word) + 0.5) * 0x1p-32;
  }
  struct Draw {
    double factor, root;  // (1 + c x)^3, and the uniform number for alpha below 1
  };
  constexpr Draw draw(std::uint64_t seed, std::uint64_t number, std::uint32_t series) const {
    for (std::uint32_t attempt = 0;; ++attempt) {
      std::uint32_t words[4] = {static_cast<std::uint32_t>(number),
                                static_cast<std::uint32_t>(number >> 32), attempt, series};
      philox(words, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
      const double radius = math::sqrt(-2 * math::log(unit(words[0])));
      const double x = radius * math::cos(6.283185307179586476925 * unit(words[1]));
      const double side = 1 + c * x, v = side * side * side, u = unit(words[2]);
      if (v <= 0) continue;
      if (u < 1 - 0.0331 * (x * x) * (x * x) ||
          math::log(u) < 0.5 * x * x + d * (1 - v + math::log(v)))
        return {v, unit(words[3])};
    }
  }
  constexpr double value(std::uint64_t seed, std::uint64_t number) const {
    const Draw drawn = draw(seed, number, 0);
    // A draw for alpha + 1 times u^(1 / alpha) is one for alpha below 1.
    const double rest = alpha < 1 ? math::exp(math::log(drawn.root) / alpha) : 1;
    return d * drawn.factor * rest;
  }
  constexpr double logarithm(std::uint64_t seed, std::uint64_t number, std::uint32_t series) const {
    const Draw drawn = draw(seed, number, series);
    return math::log(d * drawn.factor) + (alpha < 1 ? math::log(drawn.root) / alpha : 0);
  }
};
}  // namespace reel::REEL_FORMULAS
