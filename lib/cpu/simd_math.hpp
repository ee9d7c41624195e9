// SPDX-License-Identifier: BSD-3-Clause
// The functions of formulas for vectors of float and double.
#pragma once
#include "lib/cpu/exponential.hpp"
#include "lib/formulas/functions.hpp"

namespace reel::kernels::REEL_ISA::formulas::math {
template <class T, class A>
struct Functions<xsimd::batch<T, A>> {
  using X = xsimd::batch<T, A>;
  using Bool = typename X::batch_bool_type;

  static X select(const Bool& condition, const X& x, const X& y) {
    return xsimd::select(condition, x, y);
  }
  /// xsimd's own minus makes 0 of 0.
  static X negative(const X& x) { return x ^ X(T(-0.0)); }
  static X abs(const X& x) { return xsimd::abs(x); }
  static X sqrt(const X& x) { return xsimd::sqrt(x); }
  static X exp(const X& x) { return exponential(x); }
  static X log(const X& x) { return logarithm(x); }
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
      const X one(1), e = exponential(-xsimd::abs(x)), sum = one + e;
      const X top = select(x < X(0), e, one);
#if defined(__AVX512F__)  // the rest is top - y (1 + e), without the rounded sum
      const X inverse = _mm512_rcp14_ps(sum), y = top * inverse;
      return xsimd::fma(xsimd::fnma(y, e, top - y), inverse, y);
#else
      return quotient(top, sum, e - (sum - one));
#endif
    }
  }
  [[gnu::noinline]] static X power(const X& x, const X& y) {
    if (xsimd::all(y == X(2))) return x * x;
    if (xsimd::all(y == X(1))) return x;
    if constexpr (sizeof(T) == 4)
      return by_halves(power_by_logarithm, x, y);
    else
      return by_lane(Functions<T>::power, x, y);
  }
  [[gnu::noinline]] static X remainder(const X& x, const X& y) {
    return by_lane(Functions<T>::remainder, x, y);
  }
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
  /// Two vectors of double for one of float.
  template <class F>
  static X by_halves(const F& f, const X& x, const X& y) {
    using Half = xsimd::batch<double, A>;
    alignas(64) T results[X::size];
    alignas(64) double xs[X::size], ys[X::size];
    alignas(64) T narrow_x[X::size], narrow_y[X::size];
    x.store_aligned(narrow_x);
    y.store_aligned(narrow_y);
    for (std::size_t i = 0; i < X::size; ++i) xs[i] = narrow_x[i];
    for (std::size_t i = 0; i < X::size; ++i) ys[i] = narrow_y[i];
    for (std::size_t i = 0; i < X::size; i += Half::size)
      f(Half::load_aligned(xs + i), Half::load_aligned(ys + i)).store_aligned(xs + i);
    for (std::size_t i = 0; i < X::size; ++i) results[i] = static_cast<T>(xs[i]);
    return X::load_aligned(results);
  }
};
}  // namespace reel::kernels::REEL_ISA::formulas::math
