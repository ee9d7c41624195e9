// SPDX-License-Identifier: BSD-3-Clause
// Exponential and logarithm over vectors, right where xsimd 8.1 is not: subnormal results and
// arguments, and results near the largest number.
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

/// x between the bounds. NaN stays: of two of which one is NaN, the second comes back.
template <class T>
Vector<T> clamped(const Vector<T>& x, double least, double most) {
  return xsimd::min(constant<T>(most), xsimd::max(constant<T>(least), x));
}

/// What makes a whole number of a small one that it is added to, too large to have a fraction; the
/// low bits of the sum are the exponent's of 2 to the power of that number.
template <class T>
inline constexpr double to_whole = is_single<T> ? 0x1.8p23 + 127 : 0x1.8p52 + 1023;

/// 2^n from n + to_whole, if it is a normal number: n moves into the exponent.
template <class T>
Vector<T> power_of_two(const Vector<T>& sum) {
  using Bits [[maybe_unused]] = std::conditional_t<is_single<T>, std::int32_t, std::int64_t>;
  constexpr int fraction = is_single<T> ? 23 : 52;
#ifdef __aarch64__  // where xsimd's cast takes g++ 20 seconds to see
  if constexpr (is_single<T>)
    return vreinterpretq_f32_s32(vshlq_n_s32(vreinterpretq_s32_f32(sum), fraction));
  else
    return vreinterpretq_f64_s64(vshlq_n_s64(vreinterpretq_s64_f64(sum), fraction));
#else
  return xsimd::bitwise_cast<Vector<T>>(xsimd::bitwise_cast<Vector<Bits>>(sum) << fraction);
#endif
}

/// y 2^n for a whole n; the result may be subnormal or infinite.
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

/// x = n ln 2 + r with |r| <= ln 2 / 2 or hardly more, and e^r - 1 (constants of Cephes).
template <class T>
struct Reduced {
  Vector<T> sum, n, less_one;  // sum = n + to_whole
  explicit Reduced(const Vector<T>& x) {
    using V = Vector<T>;
    sum = xsimd::fma(x, constant<T>(1.44269504088896340736), constant<T>(to_whole<T>));
    n = sum - constant<T>(to_whole<T>);
    if constexpr (is_single<T>) {
      const V r =
          xsimd::fnma(n, constant<T>(-2.12194440e-4), xsimd::fnma(n, constant<T>(0.693359375), x));
      const V z = r * r;  // in pairs, which do not wait for each other
      const V low = polynomial(r, {1.6666665459e-1, 5.0000001201e-1});
      const V middle = polynomial(r, {8.3334519073e-3, 4.1665795894e-2});
      const V high = polynomial(r, {1.9875691500e-4, 1.3981999507e-3});
      less_one = xsimd::fma(xsimd::fma(xsimd::fma(high, z, middle), z, low), z, r);
    } else {
      const V r = xsimd::fnma(n, constant<T>(1.42860682030941723212e-6),
                              xsimd::fnma(n, constant<T>(6.93145751953125e-1), x));
      const V z = r * r;
      const V p = r * polynomial(z, {1.26177193074810590878e-4, 3.02994407707441961300e-2,
                                     9.99999999999999999910e-1});
      const V q = polynomial(z, {3.00198505138664455042e-6, 2.52448340349684104192e-3,
                                 2.27265548208155028766e-1, 2.00000000000000000005});
      less_one = constant<T>(2) * (p / (q - p));
    }
  }
};

template <class T>
Vector<T> exponential(const Vector<T>& x) {
  const Reduced<T> e(clamped(x, is_single<T> ? -105 : -746, is_single<T> ? 90 : 711));
  return scaled(constant<T>(1) + e.less_one, e.n);
}

/// 1 - e^x = (1 - 2^n) - 2^n (e^r - 1), exact to the last places near 0 too, for x of which 2^n is
/// a normal number.
template <class T>
Vector<T> one_less_exponential(const Vector<T>& x) {
  const Reduced<T> e(x);
  const Vector<T> power = power_of_two<T>(e.sum);
  return xsimd::fnma(power, e.less_one, constant<T>(1) - power);
}

/// tanh |x| = top / (2 - top), so that nothing overflows; it is 1 where |x| is cut.
template <class T>
Vector<T> tanh_top(const Vector<T>& x) {
  const Vector<T> size = xsimd::min(constant<T>(is_single<T> ? 10 : 20), xsimd::abs(x));
  return one_less_exponential<T>(constant<T>(-2) * size);
}

#if defined(__AVX512F__)
/// tanh |x| by a polynomial about the nearest place of a table, which two registers hold a row of.
/// The place is named by the exponent and two bits of the fraction.
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

/// tanh x = top / denominator, for who divides anyway.
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

/// top / (sum + lost), where sum lies between 1 and 2 and lost is what its rounding left: the rest
/// and a rough inverse's are made up for in one step, so that the result is rounded once.
template <class T>
Vector<T> quotient(const Vector<T>& top, const Vector<T>& sum, const Vector<T>& lost) {
#if defined(__SSE2__) && !defined(__FMA__)
  const Vector<T> y = top / sum;  // without fused products what is left cannot be seen
  return y - y * (lost * (constant<T>(1.5) - constant<T>(0.5) * sum));
#else
#if defined(__AVX512F__)
  Vector<T> inverse;
  if constexpr (is_single<T>)
    inverse = _mm512_rcp14_ps(sum);
  else
    inverse = constant<T>(1) / sum;
#else
  const Vector<T> inverse = constant<T>(1) / sum;
#endif
  const Vector<T> y = top * inverse;
  const Vector<T> rest = xsimd::fnma(y, lost, xsimd::fnma(y, sum, top));
  return xsimd::fma(rest, inverse, y);
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

/// x^y = e^(y log |x|) with a sign: exact to about |y log x| units of the last place.
inline Vector<double> power_by_logarithm(const Vector<double>& x, const Vector<double>& y) {
  using V = Vector<double>;
  const V zero(0.0), one(1.0), size = xsimd::abs(x), half = y * V(0.5);
  const auto whole = xsimd::floor(y) == y, odd = whole & ~(xsimd::floor(half) == half);
  const V infinity(__builtin_inf()), undefined(__builtin_nan(""));
  const V sign = xsimd::select(odd, xsimd::bitofsign(x), zero);
  V result = xsimd::select(size == one, one, exponential(y * logarithm(size))) | sign;
  result = xsimd::select((x < zero) & (size < infinity) & ~whole, undefined, result);
  return xsimd::select((x == one) | (y == zero), one, result);
}
}  // namespace reel::kernels::REEL_ISA
