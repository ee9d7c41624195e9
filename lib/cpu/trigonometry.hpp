// SPDX-License-Identifier: BSD-3-Clause
// Sine, cosine and tangent over vectors. Those of xsimd 8.1 choose a method by all elements of a
// vector, so that the bits of one element depend on its neighbours.
#pragma once
#include "lib/cpu/exponential.hpp"

namespace reel::kernels::REEL_ISA {
/// |x| = q pi/2 + r + rest with a whole q and |r| at most slightly above pi/4, for |x| up to
/// `largest`, where q times a part of pi/2 is exact (method and constants of fdlibm). Larger
/// numbers count as 0.
struct Quadrant {
  using V = Vector<double>;
  static constexpr double largest = 1.6e6;
  V sine, cosine, quarter;  // of r; q mod 4
  explicit Quadrant(const V& size) {
    const V x = xsimd::select(size > V(largest), V(0.0), size);
    const V q = xsimd::nearbyint(x * V(0.63661977236758134));
    const V first = x - q * V(1.57079632673412561417), second = q * V(6.07710050630396597660e-11);
    const V near = first - second, lost = (first - near) - second;
    const V third = lost - q * V(2.02226624879595063154e-21), r = near + third;
    const V rest = (near - r) + third, z = r * r, v = z * r, half(0.5);
    const V s = polynomial(
        z, {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
            -1.98412698298579493134e-04, 8.33333333332248946124e-03});
    sine = r - ((z * (half * rest - v * s) - rest) - v * V(-1.66666666666666324348e-01));
    const V c = z * polynomial(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09,
                                   -2.75573143513906633035e-07, 2.48015872894767294178e-05,
                                   -1.38888888888741095749e-03, 4.16666666666666019037e-02});
    const V half_z = half * z, most = V(1.0) - half_z;
    cosine = most + (((V(1.0) - most) - half_z) + (z * c - r * rest));
    quarter = q - V(4.0) * xsimd::floor(q * V(0.25));
  }
  /// Where sine and cosine change places.
  auto is_odd() const { return xsimd::abs(quarter - V(2.0)) == V(1.0); }
};

inline Vector<double> sine_of(const Vector<double>& x) {
  using V = Vector<double>;
  const Quadrant at(xsimd::abs(x));
  const V y = xsimd::select(at.is_odd(), at.cosine, at.sine);
  return xsimd::select(at.quarter > V(1.5), -y, y) ^ xsimd::bitofsign(x);
}
inline Vector<double> cosine_of(const Vector<double>& x) {
  using V = Vector<double>;
  const Quadrant at(xsimd::abs(x));
  const V y = xsimd::select(at.is_odd(), at.sine, at.cosine);
  return xsimd::select(xsimd::abs(at.quarter - V(1.5)) < V(1.0), -y, y);
}
inline Vector<double> tangent_of(const Vector<double>& x) {
  using V = Vector<double>;
  const Quadrant at(xsimd::abs(x));
  const auto odd = at.is_odd();
  const V top = xsimd::select(odd, -at.cosine, at.sine),
          bottom = xsimd::select(odd, at.sine, at.cosine);
  return (top / bottom) ^ xsimd::bitofsign(x);
}
}  // namespace reel::kernels::REEL_ISA
