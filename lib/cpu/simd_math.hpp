// SPDX-License-Identifier: BSD-3-Clause
// The functions of formulas for vectors of float and double.
#pragma once
#include <cmath>
#include <type_traits>
#include <utility>

#include "lib/cpu/erf.hpp"
#include "lib/cpu/exponential.hpp"
#include "lib/cpu/lanes.hpp"
#include "lib/cpu/trigonometry.hpp"
#include "lib/formulas/functions.hpp"
#include "lib/formulas/gamma.hpp"

namespace reel::kernels::REEL_ISA::formulas::math {
template <class T, class A>
struct Functions<xsimd::batch<T, A>> {
  using X = xsimd::batch<T, A>;
  using Bool = typename X::batch_bool_type;

  static X number(double value) { return constant<T>(value); }
  static X select(const Bool& condition, const X& x, const X& y) {
    return xsimd::select(condition, x, y);
  }
  /// xsimd's own minus makes 0 of 0.
  static X negative(const X& x) { return x ^ X(T(-0.0)); }
  static X abs(const X& x) { return xsimd::abs(x); }
  static X sqrt(const X& x) { return xsimd::sqrt(x); }
  static X exp(const X& x) { return exponential(x); }
  static X log(const X& x) { return logarithm(x); }
  static X ceil(const X& x) { return xsimd::ceil(x); }
  static X floor(const X& x) { return xsimd::floor(x); }
  static X nearbyint(const X& x) { return xsimd::nearbyint(x); }
  static X trunc(const X& x) { return xsimd::trunc(x); }
  // Long functions have one copy each.
#define REEL_OF_XSIMD(name) \
  [[gnu::noinline]] static X name(const X& x) { return xsimd::name(x); }
  REEL_OF_XSIMD(acos)
  REEL_OF_XSIMD(asin)
  REEL_OF_XSIMD(asinh)
  REEL_OF_XSIMD(atan)
  REEL_OF_XSIMD(atanh)
  REEL_OF_XSIMD(cosh)
  REEL_OF_XSIMD(sinh)
#undef REEL_OF_XSIMD
  [[gnu::noinline]] static X cos(const X& x) {
    return by_quadrant([](const auto& v) { return cosine_of(v); }, ::cos, x);
  }
  [[gnu::noinline]] static X sin(const X& x) {
    return by_quadrant([](const auto& v) { return sine_of(v); }, ::sin, x);
  }
  [[gnu::noinline]] static X tan(const X& x) {
    return by_quadrant([](const auto& v) { return tangent_of(v); }, ::tan, x);
  }
  [[gnu::noinline]] static X acosh(const X& x) {
    return select(x < X(1), number(__builtin_nan("")), xsimd::acosh(x));
  }
  [[gnu::noinline]] static X erf(const X& x) { return error_function<T>(x); }
  [[gnu::noinline]] static X erfc(const X& x) { return error_complement<T>(x); }
  [[gnu::noinline]] static X lgamma(const X& x) {
    return in_double([](const auto& v) { return log_gamma(v); }, x);
  }
  [[gnu::noinline]] static X digamma(const X& x) {
    return in_double([](const auto& v) { return digamma_of(v); }, x);
  }
  [[gnu::noinline]] static X polygamma(const X& x, const X& n) {
    return by_lane([](T a, T b) { return math::polygamma(a, b); }, x, n);
  }
  /// Unlike xsimd's own it is correct near the largest and the smallest numbers.
  [[gnu::noinline]] static X exp2(const X& x) {
    const X cut = clamped(x, is_single<T> ? -151 : -1076, is_single<T> ? 129 : 1025);
    const X whole = xsimd::nearbyint(cut), rest = (cut - whole) * constant<T>(0.69314718055994531);
    if constexpr (is_single<T>)
      return scaled(X(1) + less_one_of(rest), whole);
    else
      return scaled(exponential(rest), whole);
  }
  // xsimd's own lose the sign of 0, and its expm1 overflows too early.
  [[gnu::noinline]] static X expm1(const X& x) {
    const X y = select(x > X(40), exponential(x), xsimd::expm1(x));
    return select(x == X(0), x, y);
  }
  [[gnu::noinline]] static X log1p(const X& x) { return select(x == X(0), x, xsimd::log1p(x)); }
  /// xsimd's own is wrong for subnormal numbers of float64.
  [[gnu::noinline]] static X log2(const X& x) {
    if constexpr (is_single<T>) return xsimd::log2(x);
    const Bool subnormal = x < constant<T>(2.2250738585072014e-308);
    const X y = xsimd::log2(select(subnormal, x * constant<T>(0x1p54), x));
    return select(subnormal, y - constant<T>(54), y);
  }
  /// The angle between the nearer axis and (x, y), from a ratio of at most 1, then that in the half
  /// plane y > 0.
  [[gnu::noinline]] static X atan2(const X& y, const X& x) {
    const X a = xsimd::abs(y), b = xsimd::abs(x), infinity = number(__builtin_inf());
    const X larger = xsimd::max(a, b), smaller = xsimd::min(a, b);
    const Bool diagonal = smaller == infinity;
    const X ratio =
        select(diagonal, X(1), smaller) / select(diagonal | (larger == X(0)), X(1), larger);
    const X near = atan(ratio), angle = select(a > b, constant<T>(1.5707963267948966) - near, near);
    const Bool left = (X(1) | xsimd::bitofsign(x)) < X(0);
    const X above = select(left, constant<T>(3.1415926535897932) - angle, angle);
    return select(xsimd::isnan(a) | xsimd::isnan(b), a + b, above | xsimd::bitofsign(y));
  }
  /// The larger size is a factor, so that no square overflows.
  static X hypot(const X& x, const X& y) {
    const X a = xsimd::abs(x), b = xsimd::abs(y), infinity = number(__builtin_inf());
    const X larger = xsimd::max(a, b), smaller = xsimd::min(a, b);
    const X ratio = smaller / select(larger == X(0), X(1), larger);
    const X result = larger * xsimd::sqrt(X(1) + ratio * ratio);
    const Bool none = xsimd::isnan(a) | xsimd::isnan(b);
    const X finite = select(none, a + b, result);
    return select((a == infinity) | (b == infinity), infinity, finite);
  }
  static X tanh(const X& x) {
    if constexpr (!is_single<T>)
      return tanh64(x);
    else
#if defined(__AVX512F__)
      return tanh_by_table(x) | xsimd::bitofsign(x);
#else
      return tanh_of_size(x) | xsimd::bitofsign(x);
#endif
  }
  // e^x / (1 + e^x) below 0, 1 / (1 + e^-x) above.
  static X sigmoid(const X& x) {
    if constexpr (!is_single<T>) {
      return sigmoid64(x);
    } else {
      const X one(1), zero(0);
#if defined(__AVX512F__)  // the rest is top - y (1 + e), without the rounded sum
      const X e = exponential(-xsimd::abs(x)), top = select(x < zero, e, one);
      const X inverse = _mm512_rcp14_ps(one + e), y = top * inverse;
      return xsimd::fma(xsimd::fnma(y, e, top - y), inverse, y);
#else
      // e^-|x|, but 2^60 e^-|x| and more where this does not change 1 + e^-|x|
      const Reduced<T> part(-xsimd::min(X(105), xsimd::abs(x)));
      const X whole = constant<T>(to_whole<T>), least(-60);
      const X power = power_of_two<T>(xsimd::max(part.sum, whole + least));
      const X e = xsimd::fma(power, part.less_one, power), sum = one + e;
      const X y = quotient(select(x < zero, e, one), sum, e - (sum - one));
      const X rest = power_of_two<T>(whole + xsimd::min(zero, part.n - least));
      return select(x < zero, y * rest, y);
#endif
    }
  }
  /// Calls f(twice y, as a constant) for each exponent y whose powers need no logarithm.
  template <class F>
  static void for_easy_exponents(const F& f) {
    [&]<int... twice>(std::integer_sequence<int, twice...>) {
      (f(std::integral_constant<int, twice>()), ...);
    }
    (std::integer_sequence<int, 4, 2, 6, 1, -1, -2>());
  }
  /// x to the power twice / 2, for these exponents. Special values have the powers of std::pow.
  template <int twice>
  static X half_power(const X& x) {
    if constexpr (twice == 2) {
      return x;
    } else if constexpr (twice == 4 || twice == 6) {
      return twice == 4 ? x * x : x * x * x;
    } else if constexpr (twice == -2) {
      return X(1) / x;
    } else {  // -0 counts as 0, -infinity as infinity
      const X infinity = number(__builtin_inf());
      const X root = sqrt(select(x == -infinity, infinity, x) + X(0));
      return twice > 0 ? root : X(1) / root;
    }
  }
  [[gnu::noinline]] static X power(const X& x, const X& y) {
    X result(0);
    Bool rest(true);
    for_easy_exponents([&](auto twice) {
      const Bool here = y == X(T(twice) / 2);
      if (!xsimd::any(here)) return;
      result = select(here, half_power<decltype(twice)::value>(select(here, x, X(1))), result);
      rest = rest & ~here;
    });
    if (!xsimd::any(rest)) return result;
    if constexpr (sizeof(T) == 4)
      return select(rest, by_halves(power_of_single, x, y), result);
    else
      return select(rest, by_lane(Functions<T>::power, x, y), result);
  }
  [[gnu::noinline]] static X remainder(const X& x, const X& y) {
    const Division of(x, y);
    if (!of.exact) return by_lane(Functions<T>::remainder, x, y);
    return select(of.rest == X(0), X(0) | xsimd::bitofsign(y), of.rest);
  }
  [[gnu::noinline]] static X floor_divide(const X& x, const X& y) {
    const Division of(x, y);
    return of.exact ? of.whole : by_lane(Functions<T>::floor_divide, x, y);
  }
  // Not xsimd's own, which order NaN by version and machine; nor x != x, false for NaN on AVX.
  static X maximum(const X& x, const X& y) {
    return select(xsimd::isnan(x), x, larger_or_second(x, y));
  }
  static X minimum(const X& x, const X& y) {
    return select(xsimd::isnan(x), x, smaller_or_second(x, y));
  }

 private:
  /// x = whole y + rest, where rest is 0 or has the sign of y. If the quotient was rounded up to a
  /// whole number, the first rest has the other sign; a fused multiply-add keeps this sign.
  struct Division {
    X whole, rest;
    bool exact = false;  // for all elements
    Division([[maybe_unused]] const X& x, [[maybe_unused]] const X& y) {
#if defined(__FMA__) || defined(__aarch64__)
      const X quotient = x / y, near = xsimd::floor(quotient), left = xsimd::fnma(near, y, x);
      whole = select((left ^ xsimd::bitofsign(y)) < X(0), near - X(1), near);
      rest = xsimd::fnma(whole, y, x);
      exact = xsimd::all((xsimd::abs(quotient) < constant<T>(is_single<T> ? 0x1p21 : 0x1p50)) &
                         (xsimd::abs(rest) < number(__builtin_inf())));
#endif
    }
  };
  static X by_lane(T (*f)(T, T), const X& x, const X& y) {
    alignas(64) T xs[X::size], ys[X::size];
    x.store_aligned(xs);
    y.store_aligned(ys);
    for (std::size_t i = 0; i < X::size; ++i) xs[i] = f(xs[i], ys[i]);
    return X::load_aligned(xs);
  }
  /// f, or f in double for the elements that are too large for f in float, or the C library's
  /// function for those that are too large for both.
  template <class F>
  static X by_quadrant(const F& f, double (*exact)(double), const X& x) {
    const X size = xsimd::abs(x);
    X y;
    if constexpr (is_single<T> && reduces_single) {
      y = f(x);
      const Bool large = size > constant<T>(Quadrant<T>::largest);
      if (!xsimd::any(large)) return y;
      y = select(large, in_double(f, x), y);
    } else {
      y = in_double(f, x);
    }
    if (!xsimd::any(size > constant<T>(Quadrant<double>::largest))) return y;
    alignas(64) T xs[X::size], ys[X::size];
    x.store_aligned(xs);
    y.store_aligned(ys);
    for (std::size_t i = 0; i < X::size; ++i)
      if (__builtin_fabs(static_cast<double>(xs[i])) > Quadrant<double>::largest)
        ys[i] = static_cast<T>(exact(static_cast<double>(xs[i])));
    return X::load_aligned(ys);
  }
  template <class F>
  static X in_double(const F& f, const X& x) {
    if constexpr (is_single<T>)
      return by_halves([&](const auto& v, const auto&) { return f(v); }, x, x);
    else
      return f(x);
  }
  /// Two vectors of double for one of float.
  template <class F>
  static X by_halves(const F& f, const X& x, const X& y) {
    const Halves xs(x), ys(y);
    Halves results = xs;
    results.low = f(xs.low, ys.low);
    results.high = f(xs.high, ys.high);
    return results.rounded();
  }
};
}  // namespace reel::kernels::REEL_ISA::formulas::math
