// SPDX-License-Identifier: BSD-3-Clause
// The error function over vectors. erf_table.py says what the polynomials are.
#pragma once
#include "lib/cpu/erf_table.hpp"
#include "lib/cpu/exponential.hpp"

namespace reel::kernels::REEL_ISA {
/// x with so few bits that its square is exact.
template <class T>
Vector<T> half_of_bits(const Vector<T>& x) {
  const Vector<T> wide = x * constant<T>(is_single<T> ? 0x1p12 + 1 : 0x1p27 + 1);
  return wide - (wide - x);
}

/// erfc x for x >= 0. The square of x is computed with its rounding error, which e to its power
/// would multiply.
template <class T>
Vector<T> erfc_of_size(const Vector<T>& size) {
  using V = Vector<T>;
  constexpr double k = is_single<T> ? 2 : 4;
  const V x = xsimd::min(constant<T>(is_single<T> ? 10.5 : 28), size), most = half_of_bits<T>(x);
  const V of_most = most * most, rest = (x - most) * (x + most), square = of_most + rest;
  const V lost = (of_most - square) + rest;
  const V power = exponential<T>(-square) * (constant<T>(1) - lost);
  const V t = (x - constant<T>(k)) / (x + constant<T>(k)), below = constant<T>(1) + x + x;
  if constexpr (is_single<T>)
    return power * (polynomial<T>(t, erfc_float32) / below);
  else
    return power * (polynomial<T>(t, erfc_float64) / below);
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
  const V size = xsimd::abs(x), far = erfc_of_size<T>(size);
  const V near = V(T(1)) - (erf_near<T>(size) | xsimd::bitofsign(x));
  const V result =
      xsimd::select(size < constant<T>(0.5), near, xsimd::select(x < V(T(0)), V(T(2)) - far, far));
  return xsimd::select(xsimd::isnan(x), x, result);
}
}  // namespace reel::kernels::REEL_ISA
