// SPDX-License-Identifier: BSD-3-Clause
// Folds the lanes of a vector by halves, in registers.
#pragma once
#include "lib/cpu/simd.hpp"
#include "lib/cpu/transpose.hpp"

namespace reel::kernels::REEL_ISA {
/// Lane l of the result is lane l + Half, for l < Half. The other lanes are not used.
template <int Half, class T>
Vector<T> upper_half(const Vector<T>& x) {
  [[maybe_unused]] constexpr int bytes = Half * static_cast<int>(sizeof(T));
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    if constexpr (bytes == 32) return _mm512_shuffle_f32x4(x, x, 0x4e);
    if constexpr (bytes == 16) return _mm512_shuffle_f32x4(x, x, 0xb1);
    if constexpr (bytes == 8) return _mm512_permute_ps(x, 0x4e);
    if constexpr (bytes == 4) return _mm512_permute_ps(x, 0xb1);
  } else {
    if constexpr (bytes == 32) return _mm512_shuffle_f64x2(x, x, 0x4e);
    if constexpr (bytes == 16) return _mm512_shuffle_f64x2(x, x, 0xb1);
    if constexpr (bytes == 8) return _mm512_permute_pd(x, 0x55);
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 4) {
    if constexpr (bytes == 16) return _mm256_permute2f128_ps(x, x, 1);
    if constexpr (bytes == 8) return _mm256_permute_ps(x, 0x4e);
    if constexpr (bytes == 4) return _mm256_permute_ps(x, 0xb1);
  } else {
    if constexpr (bytes == 16) return _mm256_permute2f128_pd(x, x, 1);
    if constexpr (bytes == 8) return _mm256_permute_pd(x, 5);
  }
#elif defined(__SSE2__)
  if constexpr (sizeof(T) == 4) {
    if constexpr (bytes == 8) return _mm_shuffle_ps(x, x, 0x4e);
    if constexpr (bytes == 4) return _mm_shuffle_ps(x, x, 0xb1);
  } else {
    return _mm_shuffle_pd(x, x, 1);
  }
#else
  alignas(64) T lanes_of[2 * lanes<T>] = {};
  x.store_aligned(lanes_of);
  return load(lanes_of + Half);
#endif
}

/// Joins all lanes of x by f(a, b), as a tree of halves.
template <class T, int Half = static_cast<int>(lanes<T>) / 2, class F>
T fold_lanes(const Vector<T>& x, const F& f) {
  const Vector<T> joined = f(x, upper_half<Half>(x));
  if constexpr (Half == 1) {
    return joined.get(0);
  } else {
    return fold_lanes<T, Half / 2>(joined, f);
  }
}

/// The lanes of a vector of float as two vectors of double.
struct Halves {
  Vector<double> low, high;
  explicit Halves(const Vector<float>& x) {
#if defined(__AVX512F__)
    low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
#elif defined(__AVX2__)
    low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
#elif defined(__SSE2__)
    low = _mm_cvtps_pd(x);
    high = _mm_cvtps_pd(_mm_movehl_ps(x, x));
#else
    alignas(64) float narrow[lanes<float>];
    alignas(64) double wide[lanes<float>];
    x.store_aligned(narrow);
    for (std::int64_t i = 0; i < lanes<float>; ++i) wide[i] = narrow[i];
    low = load(wide);
    high = load(wide + lanes<double>);
#endif
  }
  Vector<float> rounded() const {
#if defined(__AVX512F__)
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high),
                              1);
#elif defined(__AVX2__)
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high),
                                1);
#elif defined(__SSE2__)
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
#else
    alignas(64) float narrow[lanes<float>];
    alignas(64) double wide[lanes<float>];
    store(wide, low);
    store(wide + lanes<double>, high);
    for (std::int64_t i = 0; i < lanes<float>; ++i) narrow[i] = static_cast<float>(wide[i]);
    return load(narrow);
#endif
  }
};
template <class T>
T lane_sum(const Vector<T>& x) {
  return fold_lanes<T>(x, [](const Vector<T>& a, const Vector<T>& b) { return a + b; });
}
/// The lanes of several rows' vectors.
template <class T, std::int64_t Rows>
struct Lanes {
  alignas(64) T row[Rows][lanes<T>] = {};

  /// Folds the lanes of the first rows. Many rows are transposed and folded at once, in the order
  /// of fold_lanes().
  template <class Join>
  void fold(std::int64_t rows, const Join& join, T* to) const {
    constexpr std::int64_t L = lanes<T>;
    static_assert(Rows % L == 0);
    for (std::int64_t r = 0; r < rows; r += L) {
      if (rows - r < L / 2) {
        for (std::int64_t i = r; i < rows; ++i) to[i] = fold_lanes<T>(load(row[i]), join);
        return;
      }
      alignas(64) T transposed[L * L];
      transpose_elements(row[r], L, transposed, L, L, L);
      for (std::int64_t half = L / 2; half > 0; half /= 2)
        for (std::int64_t i = 0; i < half * L; i += L)
          store(transposed + i, join(load(transposed + i), load(transposed + i + half * L)));
      store(to + r, load(transposed));
    }
  }
};
}  // namespace reel::kernels::REEL_ISA
