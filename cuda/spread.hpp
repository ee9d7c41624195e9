// SPDX-License-Identifier: BSD-3-Clause
// Means, variances and covariances in one pass: those of parts are joined.
#pragma once
#include "cuda/fold.hpp"

namespace reel::gpu {
/// The number of some elements, their sum, and the sum of (x - mean)^2. The sum is kept, not the
/// mean: a mean is rounded in relation to its size each time that it is changed.
template <class T>
struct Spread {
  T count, sum, squares;
  __device__ T mean() const { return sum / count; }
};
/// Spreads of parts become the spread of all (Chan, Golub and LeVeque 1983). The order of two parts
/// makes no difference.
template <class T>
struct JoinSpreads {
  static __device__ Spread<T> none() { return {T(0), T(0), T(0)}; }
  static __device__ Spread<T> join(const Spread<T>& a, const Spread<T>& b) {
    if (a.count == T(0)) return b;
    if (b.count == T(0)) return a;
    const T count = a.count + b.count, by = a.mean() - b.mean();
    return {count, a.sum + b.sum, a.squares + b.squares + by * by * (a.count * b.count / count)};
  }
};
template <class T>
__device__ Spread<T> other_lane(const Spread<T>& value, int by) {
  return {other_lane(value.count, by), other_lane(value.sum, by), other_lane(value.squares, by)};
}
/// The spread of the first `count` elements of a pack.
template <class T, int n>
__device__ Spread<T> spread_of(const Pack<T, n>& x, int count) {
  T each[n], squares = 0;
  for (int v = 0; v < n; ++v) each[v] = v < count ? x.of[v] : T(0);
  for (int half = n / 2; half > 0; half /= 2)
    for (int v = 0; v < half; ++v) each[v] += each[v + half];
  const T mean = count == n ? each[0] * (T(1) / T(n)) : each[0] / static_cast<T>(count);
  for (int v = 0; v < n; ++v) squares += v < count ? (x.of[v] - mean) * (x.of[v] - mean) : T(0);
  return {static_cast<T>(count), each[0], squares};
}

/// The spread of x, the sum of other numbers g, and the sum of g (x - mean).
template <class T>
struct Covariance {
  Spread<T> x;
  T sum, product;
};
template <class T>
struct JoinCovariances {
  static __device__ Covariance<T> none() { return {JoinSpreads<T>::none(), T(0), T(0)}; }
  static __device__ Covariance<T> join(const Covariance<T>& a, const Covariance<T>& b) {
    if (a.x.count == T(0)) return b;
    if (b.x.count == T(0)) return a;
    const Spread<T> x = JoinSpreads<T>::join(a.x, b.x);
    const T mean = x.mean();
    return {x, a.sum + b.sum, about(a, mean) + about(b, mean)};
  }
  /// The sum of g (x - mean) for another mean.
  static __device__ T about(const Covariance<T>& a, T mean) {
    return a.product + a.sum * (a.x.mean() - mean);
  }
};
template <class T>
__device__ Covariance<T> other_lane(const Covariance<T>& value, int by) {
  return {other_lane(value.x, by), other_lane(value.sum, by), other_lane(value.product, by)};
}
}  // namespace reel::gpu
