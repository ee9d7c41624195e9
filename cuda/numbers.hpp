// SPDX-License-Identifier: BSD-3-Clause
// The math functions of formulas for float and double on GPUs. The float functions do not compute
// in double. Include this file before a formula is used. The errors of CUDA's own functions
// are in the appendix of the CUDA programming guide; they have not been measured here yet.
#pragma once
#include "cuda/kernel.hpp"
#include "lib/formulas/functions.hpp"

#ifdef __CUDACC__
namespace reel::REEL_FORMULAS::math {
// Long functions are not inlined. Files then compile three times as fast.
/// e^-size for size >= 0 as (high + low) 2^n with more bits than a double has, as in
/// lib/cpu/exponential.hpp.
struct Exponential {
  double high, low;
  int n;
  explicit __host__ __device__ Exponential(double size) {
    const double x = size < 746 ? -size : -746, whole = ::rint(x * 1.44269504088896340736);
    const double upper = ::fma(whole, -6.93147180369123816490e-1, x);
    const double lower = whole * 1.90821492927058770002e-10, r = upper - lower, z = r * r;
    constexpr double inverse_factorials[] = {
        1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
        1.0 / 5040,       1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      1.0 / 2};
    double sum = 0;
    for (const double c : inverse_factorials) sum = ::fma(sum, r, c);
    const double rest = ::fma((upper - r) - lower, 1 + r, z * sum);
    const double most = 1 + r, more = ((1 - most) + r) + rest;
    high = most + more;
    low = (most - high) + more;
    n = static_cast<int>(whole);
  }
};

template <>
struct Functions<float> : NumberFunctions<float> {
  static __host__ __device__ float abs(float x) { return ::fabsf(x); }
#define REEL_OF_NUMBERS(name) \
  static __host__ __device__ float name(float x) { return ::name##f(x); }
  REEL_EACH_FUNCTION(REEL_OF_NUMBERS)
  REEL_EACH_ROUNDING(REEL_OF_NUMBERS)
#undef REEL_OF_NUMBERS
  static __host__ __device__ float atan2(float y, float x) { return ::atan2f(y, x); }
  static __host__ __device__ float hypot(float x, float y) { return ::hypotf(x, y); }
  /// e^x / (1 + e^x) below 0, 1 / (1 + e^-x) above, without the rounding of the sum.
  static __host__ __device__ float sigmoid(float x) {
    const float e = ::expf(-::fabsf(x)), sum = 1 + e, lost = e - (sum - 1), inverse = 1 / sum;
    const float top = x < 0 ? e : 1, rough = top * inverse;
    return ::fmaf(::fmaf(-rough, lost, ::fmaf(-rough, sum, top)), inverse, rough);
  }
  static __host__ __device__ __noinline__ float power(float x, float y) {
    return y == 2 ? x * x : y == 1 ? x : ::powf(x, y);
  }
  static __host__ __device__ __noinline__ float remainder(float x, float y) {
    const float rest = ::fmodf(x, y);
    if (rest == 0) return ::copysignf(0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
  }
};
template <>
struct Functions<double> : NumberFunctions<double> {
  static __host__ __device__ double abs(double x) { return ::fabs(x); }
#define REEL_OF_NUMBERS(name) \
  static __host__ __device__ double name(double x) { return ::name(x); }
  REEL_EACH_FUNCTION(REEL_OF_NUMBERS)
  REEL_EACH_ROUNDING(REEL_OF_NUMBERS)
#undef REEL_OF_NUMBERS
  static __host__ __device__ double atan2(double y, double x) { return ::atan2(y, x); }
  static __host__ __device__ double hypot(double x, double y) { return ::hypot(x, y); }
  static __host__ __device__ __noinline__ double sigmoid(double x) {
    if (x != x) return x;
    const Exponential e(::fabs(x));
    const double scale = ::ldexp(1.0, e.n < -1000 ? -1000 : e.n);  // smaller does not change 1
    const double one_more = 1 + e.high * scale, inverse = 1 / one_more;
    const double lost = ((1 - one_more) + e.high * scale) + e.low * scale;
    const double top = x < 0 ? e.high : 1, rough = top * inverse;
    const double rest = ::fma(-rough, one_more, top) + ::fma(-rough, lost, x < 0 ? e.low : 0);
    return ::ldexp(::fma(rest, inverse, rough), x < 0 ? e.n : 0);
  }
  static __host__ __device__ __noinline__ double power(double x, double y) {
    return y == 2 ? x * x : y == 1 ? x : ::pow(x, y);
  }
  static __host__ __device__ __noinline__ double remainder(double x, double y) {
    const double rest = ::fmod(x, y);
    if (rest == 0) return ::copysign(0.0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
  }
};
}  // namespace reel::REEL_FORMULAS::math
#endif
