// SPDX-License-Identifier: BSD-3-Clause
// The words of CUDA C++ that kernels use, as host functions. Included by cuda/kernel.hpp where nvcc
// does not compile; not for other files.
#pragma once
#include <cmath>
#include <cstring>
#include <type_traits>

#include "cuda/emulate/threads.hpp"

#define threadIdx (::reel::emulate::thread_indices().thread)
#define blockIdx (::reel::emulate::thread_indices().block)
#define blockDim (::reel::emulate::thread_indices().block_dim)
#define gridDim (::reel::emulate::thread_indices().grid_dim)
constexpr int warpSize = 32;
// The toolkit's headers define this one to what no host compiler knows.
#undef __launch_bounds__
#define __launch_bounds__(...)

// The line of the call, as a default argument.
#define REEL_SITE \
  ::reel::emulate::Caller caller = {__builtin_FILE(), static_cast<int>(__builtin_LINE())}

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
inline void __syncthreads(REEL_SITE) { reel::emulate::block_barrier(false, caller); }
inline int __syncthreads_count(int vote, REEL_SITE) {
  return reel::emulate::block_barrier(vote != 0, caller).count;
}
inline int __syncthreads_and(int vote, REEL_SITE) {
  return reel::emulate::block_barrier(vote != 0, caller).all;
}
inline int __syncthreads_or(int vote, REEL_SITE) {
  return reel::emulate::block_barrier(vote != 0, caller).any;
}
inline void __syncwarp(unsigned mask = ~0u, REEL_SITE) {
  reel::emulate::warp_barrier(mask, caller);
}
inline unsigned __activemask() { return reel::emulate::active_lanes(); }
// Alone these order nothing that ThreadSanitizer sees: use reel::gpu::count_arrival.
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] inline void __trap() { reel::emulate::stop_kernel(cudaErrorLaunchFailure); }

namespace reel::emulate {
template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes exchange values of 4 or 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

/// The lane from which a shuffle takes its value; its own where the source is outside of the part
/// of the warp that `width` divides it into.
enum class Shuffle { index, up, down, exclusive_or };
inline unsigned source_lane(Shuffle kind, unsigned operand, unsigned width) {
  const unsigned lane = thread_indices().lane, first = lane / width * width, end = first + width;
  switch (kind) {
    case Shuffle::index:
      return first + operand % width;
    case Shuffle::up:
      return lane < first + operand ? lane : lane - operand;
    case Shuffle::down:
      return lane + operand < end ? lane + operand : lane;
    case Shuffle::exclusive_or:
      return (lane ^ operand) < end ? lane ^ operand : lane;
  }
  return lane;
}
template <class T>
T shuffle_lanes(Shuffle kind, unsigned mask, T value, unsigned operand, int width, Caller caller) {
  const unsigned from = source_lane(kind, operand, static_cast<unsigned>(width));
  return from_bits<T>(exchange(mask, to_bits(value), caller)[from]);
}
template <class T, class F>
T reduce_lanes(unsigned mask, T value, F f, Caller caller) {
  const std::uint64_t* const values = exchange(mask, to_bits(value), caller);
  T sum = value;
  bool first = true;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    const T other = from_bits<T>(values[lane]);
    sum = first ? other : f(sum, other);
    first = false;
  }
  return sum;
}
}  // namespace reel::emulate

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, REEL_SITE) {
  using reel::emulate::Shuffle;
  return reel::emulate::shuffle_lanes(Shuffle::index, mask, value, unsigned(lane), width, caller);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, REEL_SITE) {
  return reel::emulate::shuffle_lanes(reel::emulate::Shuffle::up, mask, value, by, width, caller);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, REEL_SITE) {
  return reel::emulate::shuffle_lanes(reel::emulate::Shuffle::down, mask, value, by, width, caller);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32, REEL_SITE) {
  using reel::emulate::Shuffle;
  return reel::emulate::shuffle_lanes(Shuffle::exclusive_or, mask, value, unsigned(with), width,
                                      caller);
}
inline unsigned __ballot_sync(unsigned mask, int vote, REEL_SITE) {
  const std::uint64_t* const votes = reel::emulate::exchange(mask, vote != 0, caller);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && votes[lane] == 1) bits |= 1u << lane;
  return bits;
}
inline int __any_sync(unsigned mask, int vote, REEL_SITE) {
  return __ballot_sync(mask, vote, caller) != 0;
}
inline int __all_sync(unsigned mask, int vote, REEL_SITE) {
  return __ballot_sync(mask, !vote, caller) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, REEL_SITE) {
  const std::uint64_t mine = reel::emulate::to_bits(value);
  const std::uint64_t* const values = reel::emulate::exchange(mask, mine, caller);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && values[lane] == mine) bits |= 1u << lane;
  return bits;
}
// nvcc knows the __reduce words for int and unsigned only, from sm_80 on.
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> T __reduce_add_sync(unsigned mask,
                                                                                   T value,
                                                                                   REEL_SITE) {
  return reel::emulate::reduce_lanes(
      mask, value, [](T a, T b) { return T(unsigned(a) + unsigned(b)); }, caller);
}
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> T __reduce_max_sync(unsigned mask,
                                                                                   T value,
                                                                                   REEL_SITE) {
  return reel::emulate::reduce_lanes(
      mask, value, [](T a, T b) { return a < b ? b : a; }, caller);
}
template <class T>
requires std::is_same_v<T, int> || std::is_same_v<T, unsigned> T __reduce_min_sync(unsigned mask,
                                                                                   T value,
                                                                                   REEL_SITE) {
  return reel::emulate::reduce_lanes(
      mask, value, [](T a, T b) { return b < a ? b : a; }, caller);
}

// --- atomics: of one address, they order nothing else ---
namespace reel::emulate {
template <class T, class F>
T atomic_update(T* at, F f) {
  T old;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  for (T next = f(old);
       !__atomic_compare_exchange(at, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
    next = f(old);
  return old;
}
/// Integers wrap around in CUDA.
template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  else
    return a + b;
}
}  // namespace reel::emulate

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(
      at, [=](T old) { return reel::emulate::wrapping_sum(old, value); });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(at, [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(at, [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(at, [=](T) { return value; });
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(at, [=](T old) { return T(old | value); });
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> value) {
  return reel::emulate::atomic_update(at, [=](T old) { return T(old & value); });
}
inline unsigned atomicInc(unsigned* at, unsigned limit) {
  return reel::emulate::atomic_update(at, [=](unsigned old) { return old >= limit ? 0 : old + 1; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  T old = expected;
  __atomic_compare_exchange(at, &old, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return old;
}

// --- reads and writes with a hint for the caches; bits; arithmetic ---
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, std::type_identity_t<T> value) {
  *at = value;
}
template <class T>
void __stcg(T* at, std::type_identity_t<T> value) {
  *at = value;
}

template <class To, class From>
To reel_emulate_cast(From value) {
  To to;
  std::memcpy(&to, &value, sizeof(To));
  return to;
}
inline int __float_as_int(float x) { return reel_emulate_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return reel_emulate_cast<unsigned>(x); }
inline float __int_as_float(int x) { return reel_emulate_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return reel_emulate_cast<float>(x); }
inline long long __double_as_longlong(double x) { return reel_emulate_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return reel_emulate_cast<double>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((std::uint64_t(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return int((std::int64_t(a) * b) >> 32); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1 / x; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
// NOLINTEND(bugprone-reserved-identifier)
