// SPDX-License-Identifier: BSD-3-Clause
// What calls read and write, and the sums of what a thread has counted, which others read.
#pragma once
#include <algorithm>
#include <array>

#include "lib/bench/profile.hpp"

namespace reel::detail {
/// What a call has read and written.
struct Bytes {
  std::int64_t moved = 0;  // of inputs and results
  std::int64_t made = 0;   // of results that have memory of their own, not that of an input
  bool large = false;      // a result has a large block
};
inline constexpr auto bytes_each = [] {
  std::array<std::uint8_t, dtype_count> sizes{};
  for (int i = 0; i < dtype_count; ++i)
    sizes[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(size_of(static_cast<DType>(i)));
  return sizes;
}();
inline std::int64_t bytes_in(const Body& x) {
  return x.elements * bytes_each[static_cast<std::size_t>(x.dtype)];
}
inline std::int64_t bytes_read(const GateCall& call) {
  std::int64_t bytes = 0;
  for (int i = 0, count = call.input_count; i < count; ++i)
    if (const Body* const input = call.inputs[i]) bytes += bytes_in(*input);
  return bytes;
}
/// Whether output i has memory of its own.
inline bool is_made(const GateCall& call, const Body& output, int i = 0) {
  if (output.owner || call.accumulates >> std::min(i, 30) & 1) return false;
  for (int k = 0, count = call.input_count; k < count; ++k)
    if (call.inputs[k] == &output) return false;
  return true;
}
/// The bytes of outputs behind the first one.
[[gnu::noinline]] inline void add_others(const GateCall& call, Bytes& bytes) {
  for (int i = 1; i < call.output_count; ++i) {
    const Body* const output = call.outputs[i];
    if (!output) continue;
    bytes.moved += bytes_in(*output);
    bytes.large |= output->large_class != 0;
    if (is_made(call, *output, i)) bytes.made += bytes_in(*output);
  }
}
[[gnu::always_inline]] inline Bytes bytes_of(const GateCall& call) {
  const Body* const first = call.output_count > 0 ? call.outputs[0] : nullptr;
  std::int64_t moved = 0;
  bool own = true;
  const Body* const* const inputs = call.inputs;
  for (int i = 0, count = call.input_count; i < count; ++i)
    if (const Body* const input = inputs[i]) {
      moved += bytes_in(*input);
      own &= input != first;
    }
  Bytes bytes{moved, 0, false};
  if (first) {
    bytes.moved += bytes_in(*first);
    bytes.large = first->large_class != 0;
    if (own && !first->owner && !(call.accumulates & 1)) bytes.made = bytes_in(*first);
  }
  if (call.output_count > 1) [[unlikely]]
    add_others(call, bytes);
  return bytes;
}
/// A number that one thread writes and others read.
template <class T>
void store(T& number, T value) {
  __atomic_store_n(&number, value, __ATOMIC_RELAXED);
}
template <class T>
T load(const T& number) {
  return __atomic_load_n(&number, __ATOMIC_RELAXED);
}
template <class T>
void add_to(T& sum, T more) {
  store(sum, sum + more);
}
inline void add_sums(SpanSums& sums, const SpanSums& more) {
  add_to(sums.calls, load(more.calls));
  add_to(sums.moved, load(more.moved));
  add_to(sums.made, load(more.made));
  add_to(sums.total, load(more.total));
  add_to(sums.inside, load(more.inside));
}
/// The counted calls that the sums of a place lack. Behind Lock::profiles.
inline SpanSums alike_of(const SpanPlace& place) {
  const std::int64_t calls = __atomic_load_n(&place.alike, __ATOMIC_ACQUIRE);
  return {.calls = calls,
          .moved = calls * load(place.moved),
          .made = calls * load(place.made),
          .total = static_cast<Ticks>(calls) * load(place.typical)};
}
}  // namespace reel::detail
