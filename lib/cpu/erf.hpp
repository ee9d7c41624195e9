// SPDX-License-Identifier: BSD-3-Clause
// The error function over vectors. erf_table.py says what the polynomials are.
#pragma once
#include "lib/cpu/erf_table.hpp"
#include "lib/cpu/exponential.hpp"

namespace reel::kernels::REEL_ISA {
#if defined(__SSE2__) && !defined(__FMA__)
inline constexpr bool has_fused_product = false;
#else
inline constexpr bool has_fused_product = true;
#endif

/// x^2 rounded, and the error of the rounding.
template <class T>
struct Square {
  Vector<T> rounded, lost;
  explicit Square(const Vector<T>& x) : rounded(x * x) {
    if constexpr (has_fused_product) {
      lost = xsimd::fms(x, x, rounded);
    } else {  // the square of the upper half of the bits is exact
      const Vector<T> wide = x * constant<T>(is_single<T> ? 0x1p12 + 1 : 0x1p27 + 1);
      const Vector<T> upper = wide - (wide - x);
      lost = (upper * upper - rounded) + (x - upper) * (x + upper);
    }
  }
};

/// erfc x for x >= 0. The square of x is computed with its rounding error, which e to its power
/// would multiply.
template <class T>
Vector<T> erfc_of_size(const Vector<T>& size) {
  using V = Vector<T>;
  constexpr double k = is_single<T> ? 2 : 4;
  const V x = xsimd::min(constant<T>(is_single<T> ? 10.5 : 28), size);
  const Square<T> square(x);
  const V power = exponential<T>(-square.rounded);
  const V t = (x - constant<T>(k)) / (x + constant<T>(k)), q = [&] {
    if constexpr (is_single<T>)
      return polynomial<T>(t, erfc_float32);
    else
      return polynomial<T>(t, erfc_float64);
  }();
  return xsimd::fnma(power, square.lost, power) * (q / (constant<T>(1) + x + x));
}

/// erf x for 0 <= x <= 1, and of 1 beyond.
template <class T>
Vector<T> erf_near(const Vector<T>& size) {
  const Vector<T> x = xsimd::min(size, Vector<T>(T(1)));
  if constexpr (is_single<T>)
    return x * polynomial<T>(x * x, erf_near_float32);
  else
    return x * polynomial<T>(x * x, erf_near_float64);
}

template <class T>
Vector<T> error_function(const Vector<T>& x) {
  using V = Vector<T>;
  const V size = xsimd::abs(x), near = erf_near<T>(size);
  const V far = V(T(1)) - erfc_of_size<T>(size);
  const V result = xsimd::select(size < V(T(1)), near, far) | xsimd::bitofsign(x);
  return xsimd::select(xsimd::isnan(x), x, result);
}

template <class T>
Vector<T> error_complement(const Vector<T>& x) {
  using V = Vector<T>;
  const V far = erfc_of_size<T>(xsimd::abs(x));
  V result = xsimd::select(x < V(T(0)), V(T(2)) - far, far);
  if constexpr (!is_single<T> || !has_fused_product) {  // the error would be above 5 units
    const V near = V(T(1)) - (erf_near<T>(xsimd::abs(x)) | xsimd::bitofsign(x));
    result = xsimd::select(xsimd::abs(x) < constant<T>(0.5), near, result);
  }
  return xsimd::select(xsimd::isnan(x), x, result);
}
}  // namespace reel::kernels::REEL_ISA
