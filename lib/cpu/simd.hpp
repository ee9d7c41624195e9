// SPDX-License-Identifier: BSD-3-Clause
// Vectors of the instruction set that this translation unit is compiled for. xsimd has the
// arithmetic; this file has loads and stores.
#pragma once
#include <cstdint>
#include <xsimd/xsimd.hpp>

// What xsimd 8 does not define: fused multiply-adds of AVX-512, and instructions of 64-bit ARM. For
// ARM it takes the code of 32-bit ARM instead: quotients and roots of float32 are estimates, fnma()
// rounds twice, and a rounding to whole numbers is several instructions. xsimd's own functions use
// these specializations too.
#if (defined(__AVX512F__) && XSIMD_VERSION_MAJOR == 8) || defined(__aarch64__)
namespace xsimd::kernel {
#define REEL_BATCH(type) batch<type, REEL_ISA_ARCH>
#define REEL_OF_ONE(name, type, from, result)                                             \
  template <>                                                                             \
  inline REEL_BATCH(type) name(REEL_BATCH(type) const& x, requires_arch<from>) noexcept { \
    return result;                                                                        \
  }
#define REEL_OF_THREE(name, type, result)                                                    \
  template <>                                                                                \
  inline REEL_BATCH(type) name(REEL_BATCH(type) const& x, REEL_BATCH(type) const& y,         \
                               REEL_BATCH(type) const& z, requires_arch<generic>) noexcept { \
    return result;                                                                           \
  }
#ifdef __AVX512F__
REEL_OF_THREE(fma, float, _mm512_fmadd_ps(x, y, z))
REEL_OF_THREE(fma, double, _mm512_fmadd_pd(x, y, z))
REEL_OF_THREE(fms, float, _mm512_fmsub_ps(x, y, z))
REEL_OF_THREE(fms, double, _mm512_fmsub_pd(x, y, z))
REEL_OF_THREE(fnma, float, _mm512_fnmadd_ps(x, y, z))
REEL_OF_THREE(fnma, double, _mm512_fnmadd_pd(x, y, z))
#else
REEL_OF_THREE(fnma, float, vfmsq_f32(z, x, y))
REEL_OF_THREE(fnma, double, vfmsq_f64(z, x, y))
REEL_OF_ONE(sqrt, float, neon, vsqrtq_f32(x))
REEL_OF_ONE(floor, float, generic, vrndmq_f32(x))
REEL_OF_ONE(floor, double, generic, vrndmq_f64(x))
REEL_OF_ONE(ceil, float, generic, vrndpq_f32(x))
REEL_OF_ONE(ceil, double, generic, vrndpq_f64(x))
REEL_OF_ONE(trunc, float, generic, vrndq_f32(x))
REEL_OF_ONE(trunc, double, generic, vrndq_f64(x))
REEL_OF_ONE(nearbyint, float, generic, vrndnq_f32(x))
REEL_OF_ONE(nearbyint, double, generic, vrndnq_f64(x))
template <>
inline batch<float, neon64> div(batch<float, neon64> const& x, batch<float, neon64> const& y,
                                requires_arch<neon>) noexcept {
  return vdivq_f32(x, y);
}
#endif
#undef REEL_OF_ONE
#undef REEL_OF_THREE
#undef REEL_BATCH
}  // namespace xsimd::kernel
#endif

// Iterations are independent, although input and output may be the same memory.
#ifdef __clang__
#define REEL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define REEL_INDEPENDENT _Pragma("GCC ivdep")
#endif

// Prevents the vectorization of a function's loops. Vector code would be larger, and not much
// faster.
#ifdef __clang__
#define REEL_NOT_IN_VECTORS
#else
#define REEL_NOT_IN_VECTORS [[gnu::optimize("no-tree-vectorize")]]
#endif

// Loops over registers are unrolled before g++ decides which values are kept in memory.
#ifdef __clang__
#define REEL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define REEL_UNROLL _Pragma("GCC unroll 16")
#endif

// Unrolls a loop by four iterations.
#ifdef __clang__
#define REEL_UNROLL_FOUR _Pragma("clang loop unroll_count(4)")
#else
#define REEL_UNROLL_FOUR _Pragma("GCC unroll 4")
#endif

namespace reel::kernels::REEL_ISA {
using Arch = REEL_ISA_ARCH;
template <class T>
using Vector = xsimd::batch<T, Arch>;
template <class T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(Vector<T>::size);

template <class T>
Vector<T> load(const T* from) {
  return Vector<T>::load_unaligned(from);
}
template <class T>
void store(T* to, const Vector<T>& x) {
  x.store_unaligned(to);
}

/// Non-temporal store: the data does not go through the caches. `to` is aligned to a vector. Call
/// stream_end() after the last one.
inline void stream(float* to, const Vector<float>& x) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, x);
#elif defined(__AVX__)
  _mm256_stream_ps(to, x);
#elif defined(__SSE__)
  _mm_stream_ps(to, x);
#else
  x.store_aligned(to);
#endif
}
inline void stream(double* to, const Vector<double>& x) {
#if defined(__AVX512F__)
  _mm512_stream_pd(to, x);
#elif defined(__AVX__)
  _mm256_stream_pd(to, x);
#elif defined(__SSE2__)
  _mm_stream_pd(to, x);
#else
  x.store_aligned(to);
#endif
}
inline void stream_end() {
#ifdef __SSE__
  _mm_sfence();
#endif
}

/// x where it is larger (smaller), else y, also where one of them is NaN. xsimd's own functions
/// differ by machine.
#if defined(__AVX512F__)
#define REEL_EXTREME(function, type) _mm512_##function##_##type
#elif defined(__AVX__)
#define REEL_EXTREME(function, type) _mm256_##function##_##type
#elif defined(__SSE2__)
#define REEL_EXTREME(function, type) _mm_##function##_##type
#endif
#ifdef REEL_EXTREME
inline Vector<float> larger_or_second(const Vector<float>& x, const Vector<float>& y) {
  return REEL_EXTREME(max, ps)(x, y);
}
inline Vector<double> larger_or_second(const Vector<double>& x, const Vector<double>& y) {
  return REEL_EXTREME(max, pd)(x, y);
}
inline Vector<float> smaller_or_second(const Vector<float>& x, const Vector<float>& y) {
  return REEL_EXTREME(min, ps)(x, y);
}
inline Vector<double> smaller_or_second(const Vector<double>& x, const Vector<double>& y) {
  return REEL_EXTREME(min, pd)(x, y);
}
#undef REEL_EXTREME
#else
template <class X>
X larger_or_second(const X& x, const X& y) {
  return xsimd::select(x > y, x, y);
}
template <class X>
X smaller_or_second(const X& x, const X& y) {
  return xsimd::select(x < y, x, y);
}
#endif

/// Loads the first n elements, fewer than a vector holds. The other lanes are 0, and their memory
/// is not read.
template <class T>
Vector<T> load_part(const T* from, std::int64_t n) {
  alignas(64) T padded[lanes<T>] = {};
  for (std::int64_t i = 0; i < n; ++i) padded[i] = from[i];
  return Vector<T>::load_aligned(padded);
}
/// Loads the first n elements, at least one. The other lanes repeat the first element, so they
/// raise no floating-point exception that the elements do not raise.
template <class T>
Vector<T> load_repeated(const T* from, std::int64_t n) {
  alignas(64) T padded[lanes<T>];
  for (std::int64_t i = 0; i < lanes<T>; ++i) padded[i] = from[i < n ? i : 0];
  return Vector<T>::load_aligned(padded);
}
template <class T>
void store_part(T* to, const Vector<T>& x, std::int64_t n) {
  alignas(64) T padded[lanes<T>];
  x.store_aligned(padded);
  for (std::int64_t i = 0; i < n; ++i) to[i] = padded[i];
}
#if defined(__AVX512F__)
inline unsigned low_bits(std::int64_t n) { return (1u << n) - 1; }
template <>
inline Vector<float> load_part(const float* from, std::int64_t n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(low_bits(n)), from);
}
template <>
inline Vector<double> load_part(const double* from, std::int64_t n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(low_bits(n)), from);
}
template <>
inline Vector<float> load_repeated(const float* from, std::int64_t n) {
  return _mm512_mask_loadu_ps(_mm512_set1_ps(*from), static_cast<__mmask16>(low_bits(n)), from);
}
template <>
inline Vector<double> load_repeated(const double* from, std::int64_t n) {
  return _mm512_mask_loadu_pd(_mm512_set1_pd(*from), static_cast<__mmask8>(low_bits(n)), from);
}
template <>
inline void store_part(float* to, const Vector<float>& x, std::int64_t n) {
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>(low_bits(n)), x);
}
template <>
inline void store_part(double* to, const Vector<double>& x, std::int64_t n) {
  _mm512_mask_storeu_pd(to, static_cast<__mmask8>(low_bits(n)), x);
}
#elif defined(__AVX2__)
inline __m256i low_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
template <>
inline Vector<float> load_part(const float* from, std::int64_t n) {
  return _mm256_maskload_ps(from, low_lanes(static_cast<int>(n)));
}
template <>
inline Vector<double> load_part(const double* from, std::int64_t n) {
  return _mm256_maskload_pd(from, low_lanes(static_cast<int>(2 * n)));
}
template <>
inline Vector<float> load_repeated(const float* from, std::int64_t n) {
  const __m256i mask = low_lanes(static_cast<int>(n));
  return _mm256_blendv_ps(_mm256_set1_ps(*from), _mm256_maskload_ps(from, mask),
                          _mm256_castsi256_ps(mask));
}
template <>
inline Vector<double> load_repeated(const double* from, std::int64_t n) {
  const __m256i mask = low_lanes(static_cast<int>(2 * n));
  return _mm256_blendv_pd(_mm256_set1_pd(*from), _mm256_maskload_pd(from, mask),
                          _mm256_castsi256_pd(mask));
}
template <>
inline void store_part(float* to, const Vector<float>& x, std::int64_t n) {
  _mm256_maskstore_ps(to, low_lanes(static_cast<int>(n)), x);
}
template <>
inline void store_part(double* to, const Vector<double>& x, std::int64_t n) {
  _mm256_maskstore_pd(to, low_lanes(static_cast<int>(2 * n)), x);
}
#elif defined(__SSE2__)
template <>
inline Vector<float> load_part(const float* from, std::int64_t n) {
  if (n == 0) return _mm_setzero_ps();
  if (n == 1) return _mm_load_ss(from);
  const __m128 two = _mm_castsi128_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  return n == 2 ? two : _mm_movelh_ps(two, _mm_load_ss(from + 2));
}
template <>
inline Vector<double> load_part(const double* from, std::int64_t n) {
  return n ? _mm_load_sd(from) : _mm_setzero_pd();
}
template <>
inline Vector<float> load_repeated(const float* from, std::int64_t n) {
  if (n == 1) return _mm_set1_ps(*from);
  const __m128 two = load_part(from, 2);
  return n == 2 ? _mm_movelh_ps(two, two) : _mm_movelh_ps(two, _mm_set1_ps(from[2]));
}
template <>
inline Vector<double> load_repeated(const double* from, std::int64_t) {
  return _mm_set1_pd(*from);
}
template <>
inline void store_part(float* to, const Vector<float>& x, std::int64_t n) {
  if (n == 1) _mm_store_ss(to, x);
  if (n > 1) _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_castps_si128(x));
  if (n > 2) _mm_store_ss(to + 2, _mm_movehl_ps(x, x));
}
template <>
inline void store_part(double* to, const Vector<double>& x, std::int64_t n) {
  if (n) _mm_storel_pd(to, x);
}
#endif
}  // namespace reel::kernels::REEL_ISA
