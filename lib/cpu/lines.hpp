// SPDX-License-Identifier: BSD-3-Clause
// Reads rows of any alignment, one cache line at a time.
#pragma once
#include "lib/cpu/simd.hpp"

namespace reel::kernels::REEL_ISA {
/// A row that is read by ordinary loads.
template <class T>
struct Row {
  const T* first = nullptr;
  /// One vector, whose first element is element i.
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
/// Loads a vector without its first n elements. These lanes are 0, and their memory is not read.
inline Vector<float> load_past(const float* from, int n) {
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>(~low_bits(n)), from);
}
inline Vector<double> load_past(const double* from, int n) {
  return _mm512_maskz_loadu_pd(static_cast<__mmask8>(~low_bits(n)), from);
}

/// A row with vectors as long as a cache line. An unaligned vector spans two lines and would need
/// two reads. So each line is read once, and each vector is combined from two lines.
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
  /// Call it for i = 0, then for each next vector, as long as another vector follows.
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
