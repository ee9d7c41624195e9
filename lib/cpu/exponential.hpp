// SPDX-License-Identifier: BSD-3-Clause
// Exponential and logarithm over vectors. Unlike those of xsimd 8.1 they are correct for subnormal
// results and arguments, and for results near the largest number.
#pragma once
#include "lib/cpu/simd.hpp"
#include "lib/cpu/tanh_table.hpp"

namespace reel::kernels::REEL_ISA {
template <class T>
inline constexpr bool is_single = sizeof(T) == 4;
template <class T>
Vector<T> constant(double value) {
  return Vector<T>(static_cast<T>(value));
}

/// c[0] x^n + ... + c[n].
template <class T, int n>
Vector<T> polynomial(const Vector<T>& x, const double (&coefficients)[n]) {
  Vector<T> sum = constant<T>(coefficients[0]);
  for (int i = 1; i < n; ++i) sum = xsimd::fma(sum, x, constant<T>(coefficients[i]));
  return sum;
}

/// x limited to the bounds. NaN stays NaN: if one operand is NaN, these operations return the
/// second operand.
template <class T>
Vector<T> clamped(const Vector<T>& x, double least, double most) {
  return xsimd::min(constant<T>(most), xsimd::max(constant<T>(least), x));
}

/// A large number without a fraction. If a small number is added to it, the sum is rounded to a
/// whole number. The low bits of the sum are the exponent for 2 to the power of that number.
template <class T>
inline constexpr double to_whole = is_single<T> ? 0x1.8p23 + 127 : 0x1.8p52 + 1023;

/// 2^n from n + to_whole, if 2^n is a normal number: n becomes the exponent.
template <class T>
Vector<T> power_of_two(const Vector<T>& sum) {
  using Bits [[maybe_unused]] = std::conditional_t<is_single<T>, std::int32_t, std::int64_t>;
  constexpr int fraction = is_single<T> ? 23 : 52;
#ifdef __aarch64__  // xsimd's cast takes g++ 20 seconds to compile here
  if constexpr (is_single<T>)
    return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(sum), fraction));
  else
    return vreinterpretq_f64_s64(vshlq_n_s64(vreinterpretq_s64_f64(sum), fraction));
#else
  return xsimd::bitwise_cast<Vector<T>>(xsimd::bitwise_cast<Vector<Bits>>(sum) << fraction);
#endif
}

/// y 2^n for a whole n. The result may be subnormal or infinite.
template <class T>
Vector<T> scaled(const Vector<T>& y, const Vector<T>& n) {
#if defined(__AVX512F__)
  if constexpr (is_single<T>)
    return _mm512_scalef_ps(y, n);
  else
    return _mm512_scalef_pd(y, n);
#else
  const Vector<T> whole = constant<T>(to_whole<T>), half = xsimd::floor(n * constant<T>(0.5));
  return y * power_of_two<T>(half + whole) * power_of_two<T>(n - half + whole);
#endif
}

/// x = n ln 2 + r and e^r = 1 + r + rest for float64, where |r| is at most slightly above ln 2 / 2.
/// The error of `rest` is below 2^-56: Taylor's series ends after r^13.
struct Reduced64 {
  using V = Vector<double>;
  V sum, n, r, rest;  // sum = n + to_whole
  explicit Reduced64(const V& x) {
    sum = xsimd::fma(x, V(1.44269504088896340736), V(to_whole<double>));
    n = sum - V(to_whole<double>);
    // ln 2 in two parts. The first part has so few bits that this difference is exact.
    const V high = xsimd::fnma(n, V(6.93147180369123816490e-1), x);
    const V low = n * V(1.90821492927058770002e-10);
    r = high - low;
    const V lost = (high - r) - low, z = r * r;
    const V even =
        polynomial(z, {1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 1.0 / 2});
    const V odd = polynomial(
        z, {1.0 / 6227020800, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6});
    rest = xsimd::fma(lost, V(1) + r, z * xsimd::fma(odd, r, even));
  }
};

/// e^r - 1 for float32, where |r| is at most slightly above ln 2 / 2. The polynomial has the least
/// maximum of its relative error, 1.4e-8.
inline Vector<float> less_one_of(const Vector<float>& r) {
  using T = float;
  const Vector<T> z = r * r;  // independent pairs, which run in parallel
  const Vector<T> low = polynomial(r, {1.6666543484e-1, 0.5});
  const Vector<T> middle = polynomial(r, {8.3665922284e-3, 4.1666280478e-2});
  const Vector<T> high = constant<T>(1.3946464751e-3);
  return xsimd::fma(xsimd::fma(xsimd::fma(high, z, middle), z, low), z, r);
}

/// x = n ln 2 + r, where |r| is at most slightly above ln 2 / 2, and e^r - 1.
template <class T>
struct Reduced {
  Vector<T> sum, n, less_one;  // sum = n + to_whole
  /// is_small: |x| <= 20, where ln 2 in one part is enough.
  explicit Reduced(const Vector<T>& x, bool is_small = false) {
    if constexpr (is_single<T>) {
      sum = xsimd::fma(x, constant<T>(1.44269504088896340736), constant<T>(to_whole<T>));
      n = sum - constant<T>(to_whole<T>);
      using V = Vector<T>;
      V r = x;
#if defined(__SSE2__) && !defined(__FMA__)
      constexpr bool rounds = true;  // the product n ln 2
#else
      constexpr bool rounds = false;
#endif
      if (rounds || !is_small) {
        r = xsimd::fnma(n, constant<T>(0.693359375), r);
        r = xsimd::fnma(n, constant<T>(-2.12194440e-4), r);
      } else {
        r = xsimd::fnma(n, constant<T>(0.693147180559945309), r);
      }
      less_one = less_one_of(r);
    } else {
      const Reduced64 e(x);
      sum = e.sum;
      n = e.n;
      less_one = e.r + e.rest;
    }
  }
};

template <class T>
Vector<T> exponential(const Vector<T>& x) {
  const Vector<T> one(T(1)), cut = clamped(x, is_single<T> ? -105 : -746, is_single<T> ? 90 : 711);
  if constexpr (is_single<T>) {
    const Reduced<T> e(cut);
    return scaled(one + e.less_one, e.n);
  } else {
    const Reduced64 e(cut);
    const Vector<T> most = one + e.r;
    return scaled(most + (((one - most) + e.r) + e.rest), e.n);
  }
}

/// 1 - e^x = (1 - 2^n) - 2^n (e^r - 1). The result is accurate near 0 too, if 2^n is a normal
/// number.
template <class T>
Vector<T> one_less_exponential(const Vector<T>& x, bool is_small = false) {
  const Reduced<T> e(x, is_small);
  const Vector<T> power = power_of_two<T>(e.sum);
  return xsimd::fnma(power, e.less_one, constant<T>(1) - power);
}

/// tanh |x| = top / (2 - top), so that nothing overflows. Where |x| is limited, tanh |x| is 1.
template <class T>
Vector<T> tanh_top(const Vector<T>& x) {
  const Vector<T> size = xsimd::min(constant<T>(is_single<T> ? 10 : 20), xsimd::abs(x));
  return one_less_exponential<T>(constant<T>(-2) * size, true);
}

#if defined(__AVX512F__)
/// tanh |x| by a polynomial around the nearest position of a table. Two registers hold a row of the
/// table. The exponent and two bits of the fraction select the position.
inline Vector<float> tanh_by_table(const Vector<float>& x) {
  const Vector<float> size = xsimd::min(constant<float>(9.02), xsimd::abs(x));
  const __m512i place = _mm512_max_epi32(_mm512_srli_epi32(_mm512_castps_si512(size), 21),
                                         _mm512_set1_epi32(123 << 2));
  const auto pick = [&](int row) {
    const float* const half = tanh_table[row];
    return Vector<float>(
        _mm512_permutex2var_ps(_mm512_load_ps(half), place, _mm512_load_ps(half + 16)));
  };
  const Vector<float> t = size - pick(0);
  Vector<float> y = pick(6);
  for (int row = 5; row > 0; --row) y = xsimd::fma(y, t, pick(row));
  return y;
}
#endif

/// tanh x = top / denominator, for callers that divide in any case.
template <class T>
struct TanhFraction {
  Vector<T> top, denominator;
  explicit TanhFraction(const Vector<T>& x) {
#if defined(__AVX512F__)
    if constexpr (is_single<T>) {
      top = tanh_by_table(x);
      denominator = constant<T>(1);
    } else
#endif
    {
      top = tanh_top<T>(x);
      denominator = constant<T>(2) - top;
    }
    top = top | xsimd::bitofsign(x);
  }
};

/// top / (sum + lost) in float32. sum is between 1 and 2, and lost is the error of its rounding. It
/// is used where products are rounded before they are added.
inline Vector<float> quotient(const Vector<float>& top, const Vector<float>& sum,
                              [[maybe_unused]] const Vector<float>& lost) {
  const Vector<float> y = top / sum;
#if defined(__SSE2__) && !defined(__FMA__)
  return y - y * (lost * (Vector<float>(1.5f) - Vector<float>(0.5f) * sum));
#else
  return y;
#endif
}

/// The sum of two numbers of float64. The second is smaller than the rounding error of the first.
struct Pair {
  using V = Vector<double>;
  V high, low;
  /// For |x| >= |y|.
  static Pair sum(const V& x, const V& y) {
    const V high = x + y;
    return {high, (x - high) + y};
  }
};

/// x - y z, where y z is nearly x.
inline Vector<double> rest_of(const Vector<double>& x, const Vector<double>& y,
                              const Vector<double>& z) {
#if defined(__SSE2__) && !defined(__FMA__)
  using V = Vector<double>;
  const auto upper = [](const V& v) {  // 26 bits (Veltkamp and Dekker)
    const V wide = v * V(0x1p27 + 1);
    return wide - (wide - v);
  };
  const V product = y * z, y_upper = upper(y), z_upper = upper(z);
  const V y_lower = y - y_upper, z_lower = z - z_upper;
  const V lost =
      (((y_upper * z_upper - product) + y_upper * z_lower) + y_lower * z_upper) + y_lower * z_lower;
  return (x - product) - lost;
#else
  return xsimd::fnma(y, z, x);
#endif
}

/// x / y with nearly one rounding.
inline Vector<double> quotient(const Pair& x, const Pair& y) {
  const Vector<double> inverse = Vector<double>(1.0) / y.high, rough = x.high * inverse;
  const Vector<double> rest = rest_of(x.high, rough, y.high) + xsimd::fnma(rough, y.low, x.low);
  return xsimd::fma(rest, inverse, rough);
}

/// e^x = power 2^n, and 1 + e^x, for x <= 0.
struct Exponential64 {
  using V = Vector<double>;
  V n;
  Pair power, scaled, one_more;
  explicit Exponential64(const V& x) {
    const Reduced64 e(x);
    const V one(1.0);
    const Pair most = Pair::sum(one, e.r);
    n = e.n;
    power = Pair::sum(most.high, most.low + e.rest);
    // Numbers below 2^-1000 do not change 1.
    const V scale = power_of_two<double>(xsimd::max(e.sum, V(to_whole<double> - 1000)));
    scaled = {power.high * scale, power.low * scale};
    one_more = Pair::sum(one, scaled.high);
    one_more.low += scaled.low;
  }
};

/// tanh x with an error of at most 1 unit of the last place. Near 0 it is Taylor's series, which is
/// at most x. Elsewhere it is (1 - e) / (1 + e) with e = e^-2|x|. This is computed with more bits
/// than the result has, so that the result is monotonic.
inline Vector<double> tanh64(const Vector<double>& x) {
  using V = Vector<double>;
  const V one(1.0), size = xsimd::min(V(20.0), xsimd::abs(x)), z = size * size;
  const V series = polynomial(
      z, {443861162.0 / 1856156927625, -6404582.0 / 10854718875, 929569.0 / 638512875,
          -21844.0 / 6081075, 1382.0 / 155925, -62.0 / 2835, 17.0 / 315, -2.0 / 15, 1.0 / 3});
  const V near = xsimd::fnma(size * z, series, size);
  const Exponential64 e(V(-2.0) * size);
  Pair one_less = Pair::sum(one, -e.scaled.high);
  one_less.low -= e.scaled.low;
  return xsimd::select(size < V(0.1875), near, quotient(one_less, e.one_more)) |
         xsimd::bitofsign(x);
}

/// 1 / (1 + e^-x), and e^x / (1 + e^x) below 0, with an error of at most 1 unit of the last place.
inline Vector<double> sigmoid64(const Vector<double>& x) {
  using V = Vector<double>;
  const V zero(0.0);
  const Exponential64 e(xsimd::max(V(-746.0), -xsimd::abs(x)));
  const auto below = x < zero;
  const Pair top{xsimd::select(below, e.power.high, V(1.0)),
                 xsimd::select(below, e.power.low, zero)};
  return scaled(quotient(top, e.one_more), xsimd::select(below, e.n, zero));
}

/// tanh |x| of float32 without a table.
inline Vector<float> tanh_of_size(const Vector<float>& x) {
  using V = Vector<float>;
  const V two(2.0f), top = tanh_top<float>(x), sum = two - top;
#if defined(__SSE2__) && !defined(__FMA__)
  // The rounding errors of `sum` and of `top` = (1 - 2^n) - 2^n (e^r - 1) are used too.
  const Reduced<float> e(V(-2.0f) * xsimd::min(V(10.0f), xsimd::abs(x)));
  const V power = power_of_two<float>(e.sum), whole = V(1.0f) - power;
  const V top_lost = (whole - top) - power * e.less_one, y = top / sum, lost = (two - sum) - top;
  return y + (top_lost - y * lost) * (V(1.5f) - V(0.5f) * sum);
#else
  return top / sum;
#endif
}

template <class T>
Vector<T> logarithm(const Vector<T>& x) {
  if constexpr (is_single<T>) {
    return xsimd::log(x);
  } else {
    const auto subnormal = x < constant<T>(2.2250738585072014e-308);
    const Vector<T> y = xsimd::log(xsimd::select(subnormal, x * constant<T>(0x1p54), x));
    return xsimd::select(subnormal, y - constant<T>(37.429947750237046), y);
  }
}

/// log2 x of a positive normal number with a relative error of 2^-37. x = 2^k m with m from
/// sqrt(1/2) to sqrt(2), and log2 m is a series in (m - 1) / (m + 1).
inline Vector<double> rough_log2(const Vector<double>& x) {
  using V = Vector<double>;
  using Bits = Vector<std::int64_t>;
  constexpr std::int64_t of_one = 0x3ff0000000000000, of_root = 0x3fe6a09e667f3bcd;
  const Bits bits = xsimd::bitwise_cast<Bits>(x);
  const Bits power = (bits + Bits(of_one - of_root)) & Bits(0x7ff0000000000000);
  const V k = xsimd::bitwise_cast<V>((power >> 52) | Bits(0x4330000000000000)) - V(0x1p52 + 1023);
  const V m = xsimd::bitwise_cast<V>(bits - power + Bits(of_one));
  const V t = (m - V(1.0)) / (m + V(1.0));
  const V series =
      polynomial(t * t, {0.340714136651911993, 0.411673658400815963, 0.577083567703489245,
                         0.961796673443228255, 2.88539008178999316});
  return xsimd::fma(t, series, k);
}
/// 2^x with a relative error of 2^-28, for |x| <= 1000.
inline Vector<double> rough_exp2(const Vector<double>& x) {
  using V = Vector<double>;
  const V whole(to_whole<double>), sum = x + whole, r = x - (sum - whole);
  const V series =
      polynomial(r, {0.000154531828299597406, 0.00133908863321066976, 0.00961808251999046688,
                     0.0555035707115250732, 0.240226507606458073, 0.693147188035200285});
  return xsimd::fma(r, series, V(1.0)) * power_of_two<double>(sum);
}

/// x^y = 2^(y log2 |x|) with a sign, for numbers of float32. The result is off by at most 0.03
/// units of the last place of float32, before it is rounded.
inline Vector<double> power_of_single(const Vector<double>& x, const Vector<double>& y) {
  using V = Vector<double>;
  const V zero(0.0), one(1.0), infinity(__builtin_inf()), size = xsimd::abs(x);
  const auto none = size == zero;
  // A NaN stays. Beyond 1000, the result is infinite or 0 in float32.
  const auto power = [&](const V& logarithm) {
    return rough_exp2(larger_or_second(V(-1000.0), smaller_or_second(V(1000.0), y * logarithm)));
  };
  if (xsimd::all((x > zero) & (x < infinity) & (xsimd::abs(y) < infinity)))
    return power(rough_log2(x));
  const V half = y * V(0.5);
  const auto whole = xsimd::floor(y) == y, odd = whole & ~(xsimd::floor(half) == half);
  const V undefined(__builtin_nan(""));
  const V sign = xsimd::select(odd, xsimd::bitofsign(x), zero);
  const V logarithm = rough_log2(xsimd::select(none, one, size));
  const V of_zero = xsimd::select(y < zero, infinity, xsimd::select(y > zero, zero, y));
  V result = xsimd::select(none, of_zero, power(xsimd::select(size < infinity, logarithm, size)));
  result = xsimd::select(size == one, one, result) | sign;
  result = xsimd::select((x < zero) & (size < infinity) & ~whole, undefined, result);
  return xsimd::select((x == one) | (y == zero), one, result);
}
}  // namespace reel::kernels::REEL_ISA
