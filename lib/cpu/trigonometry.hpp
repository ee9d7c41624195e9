// SPDX-License-Identifier: BSD-3-Clause
// Sine, cosine and tangent over vectors. xsimd 8.1 chooses a method by all elements of a vector, so
// that the bits of one element depend on the elements beside it.
#pragma once
#include "lib/cpu/exponential.hpp"

namespace reel::kernels::REEL_ISA {
/// Whether float32 is reduced in float32, with fused multiply-adds: sine and cosine err by at most
/// 1.7 ulp then, the tangent by 3.3. Other machines compute it in float64.
#if defined(__FMA__) || defined(__aarch64__)
inline constexpr bool reduces_single = true;
#else
inline constexpr bool reduces_single = false;
#endif

/// |x| = q pi/2 + r + rest with a whole q and |r| at most slightly above pi/4, for |x| up to
/// `largest`. Larger numbers count as 0. pi/2 is a sum of three numbers; the first has so few bits
/// that q times it is exact. The method and all constants for float64 are fdlibm's, the polynomials
/// for float32 are Cephes's.
template <class T>
struct Quadrant {
  using V = Vector<T>;
  static constexpr double largest = is_single<T> ? 30'000 : 1.6e6;
  V sine, cosine, quarter;  // of r; q mod 4
  explicit Quadrant(const V& size) {
    const V x = xsimd::select(size > constant<T>(largest), V(0), size), half = constant<T>(0.5);
    const V q = xsimd::nearbyint(x * constant<T>(0.63661977236758134));
    V r, rest;
    if constexpr (is_single<T>) {
      const V first = xsimd::fnma(q, V(1.5703125f), x);
      const V second = xsimd::fnma(q, V(4.838267923e-4f), first), part(2.563344068e-12f);
      r = xsimd::fnma(q, part, second);
      rest = xsimd::fnma(q, part, second - r);
    } else {
      const V first = x - q * V(1.57079632673412561417), second = q * V(6.07710050630396597660e-11);
      const V near = first - second, lost = (first - near) - second;
      const V third = lost - q * V(2.02226624879595063154e-21);
      r = near + third;
      rest = (near - r) + third;
    }
    const V z = r * r, half_z = half * z, most = V(1) - half_z, lost = (V(1) - most) - half_z;
    V c;
    if constexpr (is_single<T>) {
      const V s = polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
      sine = r + xsimd::fma(z * r, s, rest);
      c = z * polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
    } else {
      const V v = z * r;
      const V s = polynomial(
          z, {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
              -1.98412698298579493134e-04, 8.33333333332248946124e-03});
      sine = r - ((z * (half * rest - v * s) - rest) - v * V(-1.66666666666666324348e-01));
      c = z * polynomial(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                             -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                             -1.38888888888741095749e-03, 4.16666666666666019037e-02});
    }
    cosine = most + (lost + (z * c - r * rest));
    quarter = q - V(4) * xsimd::floor(q * constant<T>(0.25));
  }
  /// Where sine and cosine change places.
  auto is_odd() const { return xsimd::abs(quarter - V(2)) == V(1); }
};

template <class T>
Vector<T> sine_of(const Vector<T>& x) {
  using V = Vector<T>;
  const Quadrant<T> at(xsimd::abs(x));
  const V y = xsimd::select(at.is_odd(), at.cosine, at.sine);
  return xsimd::select(at.quarter > constant<T>(1.5), -y, y) ^ xsimd::bitofsign(x);
}
template <class T>
Vector<T> cosine_of(const Vector<T>& x) {
  using V = Vector<T>;
  const Quadrant<T> at(xsimd::abs(x));
  const V y = xsimd::select(at.is_odd(), at.sine, at.cosine);
  return xsimd::select(xsimd::abs(at.quarter - constant<T>(1.5)) < V(1), -y, y);
}
template <class T>
Vector<T> tangent_of(const Vector<T>& x) {
  using V = Vector<T>;
  const Quadrant<T> at(xsimd::abs(x));
  const auto odd = at.is_odd();
  const V top = xsimd::select(odd, -at.cosine, at.sine),
          bottom = xsimd::select(odd, at.sine, at.cosine);
  return (top / bottom) ^ xsimd::bitofsign(x);
}
}  // namespace reel::kernels::REEL_ISA
