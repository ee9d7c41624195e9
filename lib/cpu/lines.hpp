// SPDX-License-Identifier: BSD-3-Clause
// Rows that begin anywhere in memory, read by whole cache lines.
#pragma once
#include "lib/cpu/simd.hpp"

namespace reel::kernels::REEL_ISA {
/// A row of memory as it is.
template <class T>
struct Row {
  const T* first = nullptr;
  /// Elements i to i + a vector.
  Vector<T> take(std::int64_t i) { return load(first + i); }
};

#ifdef __AVX512F__
inline __m512i places_from(int first, float) {
  const __m512i all = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_add_epi32(all, _mm512_set1_epi32(first));
}
inline __m512i places_from(int first, double) {
  return _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64(first));
}
inline Vector<float> pick(const Vector<float>& a, __m512i places, const Vector<float>& b) {
  return _mm512_permutex2var_ps(a, places, b);
}
inline Vector<double> pick(const Vector<double>& a, __m512i places, const Vector<double>& b) {
  return _mm512_permutex2var_pd(a, places, b);
}
/// All but the first n elements, which are 0 and not touched in memory.
inline Vector<float> load_past(const float* from, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(~low_bits(n)), from);
}
inline Vector<double> load_past(const double* from, int n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(~low_bits(n)), from);
}

/// A row whose vectors are as long as a cache line but may lie across two, and then cost two reads
/// each: lines are read once, and each vector put together of two.
template <class T>
class Lines {
 public:
  Lines() = default;
  explicit Lines(const T* row) {
    const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(row) % 64 / sizeof(T));
    line_ = row - past;
    places_ = places_from(past, T());
    last_ = load_past(line_, past);
  }
  /// To be asked for i = 0, a vector, two vectors and so on, as long as one more follows.
  Vector<T> take(std::int64_t i) {
    const Vector<T> before = last_;
    last_ = Vector<T>::load_aligned(line_ + i + lanes<T>);
    return pick(before, places_, last_);
  }

 private:
  const T* line_ = nullptr;
  __m512i places_;
  Vector<T> last_;
};
inline constexpr bool reads_by_lines = true;
#else
inline constexpr bool reads_by_lines = false;
template <class T>
using Lines = Row<T>;
#endif
}  // namespace reel::kernels::REEL_ISA
