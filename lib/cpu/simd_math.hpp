// SPDX-License-Identifier: BSD-3-Clause
// The functions of formulas for vectors of float and double.
#pragma once
#include "lib/cpu/simd.hpp"
#include "lib/formulas/functions.hpp"

namespace reel::kernels::REEL_ISA::formulas::math {
template <class T, class A>
struct Functions<xsimd::batch<T, A>> {
  using X = xsimd::batch<T, A>;
  using Bool = typename X::batch_bool_type;

  static X select(const Bool& condition, const X& x, const X& y) {
    return xsimd::select(condition, x, y);
  }
  static X abs(const X& x) { return xsimd::abs(x); }
  static X sqrt(const X& x) { return xsimd::sqrt(x); }
  static X exp(const X& x) { return xsimd::exp(x); }
  static X log(const X& x) { return xsimd::log(x); }
  static X tanh(const X& x) { return xsimd::tanh(x); }
  static X sigmoid(const X& x) { return X(1) / (X(1) + exp(-x)); }
  static X power(const X& x, const X& y) { return by_lane(Functions<T>::power, x, y); }
  static X remainder(const X& x, const X& y) { return by_lane(Functions<T>::remainder, x, y); }
  // Not xsimd's own, which order NaN by version and machine; nor x != x, false for NaN on AVX.
  static X maximum(const X& x, const X& y) { return select((x > y) | xsimd::isnan(x), x, y); }
  static X minimum(const X& x, const X& y) { return select((x < y) | xsimd::isnan(x), x, y); }

 private:
  static X by_lane(T (*f)(T, T), const X& x, const X& y) {
    alignas(64) T xs[X::size], ys[X::size];
    x.store_aligned(xs);
    y.store_aligned(ys);
    for (std::size_t i = 0; i < X::size; ++i) xs[i] = f(xs[i], ys[i]);
    return X::load_aligned(xs);
  }
};
}  // namespace reel::kernels::REEL_ISA::formulas::math
