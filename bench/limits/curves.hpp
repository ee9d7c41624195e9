// SPDX-License-Identifier: BSD-3-Clause
// Curves over vectors, as cheap as float accuracy allows.
#pragma once
#include <xsimd/xsimd.hpp>

namespace limits {

using Batch = xsimd::batch<float>;

/// A rational function, x p(x^2) / q(x^2), within 5 units in the last place of tanh.
inline Batch tanh(Batch x) {
  x = xsimd::min(xsimd::max(x, Batch(-7.99881172180175781f)), Batch(7.99881172180175781f));
  const Batch x2 = x * x;
  Batch p(-2.76076847742355e-16f), q(1.19825839466702e-06f);
  for (float c : {2.00018790482477e-13f, -8.60467152213735e-11f, 5.12229709037114e-08f,
                  1.48572235717979e-05f, 6.37261928875436e-04f, 4.89352455891786e-03f}) {
    p = xsimd::fma(p, x2, Batch(c));
  }
  for (float c : {1.18534705686654e-04f, 2.26843463243900e-03f, 4.89352518554385e-03f}) {
    q = xsimd::fma(q, x2, Batch(c));
  }
  return x * p / q;
}

inline Batch sigmoid(Batch x) { return Batch(1.0f) / (Batch(1.0f) + xsimd::exp(-x)); }

}  // namespace limits
