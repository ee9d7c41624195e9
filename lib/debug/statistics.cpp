// SPDX-License-Identifier: BSD-3-Clause
#include "lib/debug/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace reel::debugger {
namespace {
// On x86-64 the loader chooses the wider registers, if the processor has them.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define REEL_WIDE [[gnu::target_clones("avx2", "default")]]
#else
#define REEL_WIDE
#endif

using Floats = float __attribute__((vector_size(32)));
using Bits = std::uint32_t __attribute__((vector_size(32)));
constexpr int lanes = 8;

/// Whether no element has all bits of its exponent set. Adding the lowest of them then does not
/// carry into the sign bit.
REEL_WIDE bool all_finite(const float* x, std::int64_t n) {
  Bits sums[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    Bits some[4];
    std::memcpy(some, x + i, sizeof some);
    for (int k = 0; k < 4; ++k) sums[k] |= (some[k] & 0x7f800000) + 0x00800000;
  }
  for (; i + lanes <= n; i += lanes) {
    Bits some;
    std::memcpy(&some, x + i, sizeof some);
    sums[0] |= (some & 0x7f800000) + 0x00800000;
  }
  constexpr std::uint32_t sign = 0x80000000;
  std::uint32_t any = 0;
  for (; i < n; ++i) any |= std::isfinite(x[i]) ? 0 : sign;
  const Bits all = sums[0] | sums[1] | sums[2] | sums[3];
  for (int k = 0; k < lanes; ++k) any |= all[k];
  return !(any & sign);
}

struct Sums {
  float low = INFINITY, high = -INFINITY;
  double sum = 0, squares = 0;
  std::int64_t zeros = 0;
};
/// Of some of the lanes.
struct Lanes {
  Floats low, high, sum, squares;
  Bits zeros;
  [[gnu::always_inline]] void add(const float* x) {
    Floats each;
    std::memcpy(&each, x, sizeof each);
    low = low < each ? low : each;
    high = high > each ? high : each;
    zeros -= each == 0;
    sum += each;
    squares += each * each;
  }
};
/// Sums of short blocks are formed in float32, their sum in float64. They are finite only if all
/// elements are.
REEL_WIDE void add_floats(const float* x, std::int64_t n, Sums& all) {
  constexpr std::int64_t block = 128;  // of additions to a lane
  Lanes a = {}, b = {};                // two, which do not wait for each other
  a.low = b.low = a.low + INFINITY;
  a.high = b.high = a.high - INFINITY;
  std::int64_t i = 0;
  while (i + lanes <= n) {
    a.sum = b.sum = a.squares = b.squares = Floats{};
    a.zeros = b.zeros = Bits{};
    const std::int64_t end = std::min(i + block * 2 * lanes, n);
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      a.add(x + i);
      b.add(x + i + lanes);
    }
    if (i + lanes <= end) {
      a.add(x + i);
      i += lanes;
    }
    const Floats sum = a.sum + b.sum, squares = a.squares + b.squares;
    const Bits zeros = a.zeros + b.zeros;
    for (int k = 0; k < lanes; ++k) {
      all.zeros += zeros[k];
      all.sum += static_cast<double>(sum[k]);
      all.squares += static_cast<double>(squares[k]);
    }
  }
  for (int k = 0; k < lanes && n >= lanes; ++k) {
    all.low = std::min({all.low, a.low[k], b.low[k]});
    all.high = std::max({all.high, a.high[k], b.high[k]});
  }
  for (; i < n; ++i) {
    all.low = std::min(all.low, x[i]);
    all.high = std::max(all.high, x[i]);
    all.zeros += x[i] == 0;
    all.sum += static_cast<double>(x[i]);
    all.squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
}
/// How many elements are below `low` or above `high`.
REEL_WIDE std::int64_t count_outside(const float* x, std::int64_t n, float low, float high) {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // so that a lane does not overflow
  std::int64_t count = 0, i = 0;
  while (i + lanes <= n) {
    Bits found = {};
    for (const std::int64_t end = std::min(i + most, n); i + lanes <= end; i += lanes) {
      Floats each;
      std::memcpy(&each, x + i, sizeof each);
      found -= static_cast<Bits>((each < low) | (each > high));
    }
    for (int k = 0; k < lanes; ++k) count += found[k];
  }
  for (; i < n; ++i) count += x[i] < low || x[i] > high;
  return count;
}
/// Whether the sums are those of finite elements, and squares were neither too large nor too small.
bool are_exact(const Sums& sums) {
  return std::isfinite(sums.sum) && std::isfinite(sums.squares) &&
         (sums.squares > 1e-28 || (sums.low == 0 && sums.high == 0));
}
template <class T>
std::int64_t saturated_in(const T* x, std::int64_t n, Bounds bounds) {
  const T low = bounds == Bounds::tanh ? T(-0.99) : T(0.01), high = T(0.99);
  if constexpr (std::is_same_v<T, float>) return count_outside(x, n, low, high);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) count += x[i] > high || x[i] < low;
  return count;
}
std::int64_t saturated_in(const Body& body, Bounds bounds) {
  if (body.dtype == DType::float32) return saturated_in(body.as<float>(), body.elements, bounds);
  if (body.dtype == DType::float64) return saturated_in(body.as<double>(), body.elements, bounds);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < body.elements; ++i) {
    const double x = element(body, i);
    count += saturated_in(&x, 1, bounds);
  }
  return count;
}
/// Calls f with the first element and the length of each row of float32 elements on the CPU that
/// lie side by side. False: there are none.
template <class F>
bool each_row(const Body& body, const F& f) {
  if (body.dtype != DType::float32 || !on_cpu(body) || body.elements == 0) return false;
  if (body.contiguous) return f(body.as<float>(), body.elements), true;
  const std::size_t rank = body.shape.rank();
  const std::int64_t length = rank ? body.shape.data()[rank - 1] : 1;
  if (rank < 2 || body.strides[rank - 1] != 1 || length < lanes) return false;
  std::int64_t position[Shape::max_rank] = {};
  for (std::int64_t row = 0; row < body.elements / length; ++row) {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis + 1 < rank; ++axis)
      place += position[axis] * body.strides[axis];
    f(body.as<float>() + place, length);
    for (std::size_t axis = rank - 1; axis-- > 0;) {
      if (++position[axis] < body.shape.data()[axis]) break;
      position[axis] = 0;
    }
  }
  return true;
}
/// Element by element, for all dtypes and for elements that are not finite.
Statistics slow_statistics(const Body& body) {
  Statistics found;
  std::int64_t zeros = 0, numbers = 0;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < body.elements; ++i) {
    const double x = element(body, i);
    zeros += x == 0;
    sum += x;
    squares += x * x;
    if (std::isnan(x)) {
      ++found.nans;
      continue;
    }
    found.infinities += std::isinf(x);
    found.low = numbers ? std::min(found.low, x) : x;
    found.high = numbers ? std::max(found.high, x) : x;
    ++numbers;
  }
  const auto count = static_cast<double>(body.elements);
  if (!numbers) found.low = found.high = body.elements ? NAN : 0;
  found.elements = body.elements;
  found.zeros = body.elements ? static_cast<double>(zeros) / count : 0;
  found.mean = body.elements ? sum / count : 0;
  found.norm = std::sqrt(squares);
  return found;
}
/// Leaves out what a view repeats along axes of stride 0. Returns how often the rest is there.
std::int64_t leave_out_repeats(Body& view) {
  std::int64_t times = 1, stride = 1;
  auto* const lengths = const_cast<std::int64_t*>(view.shape.data());  // `view` is a copy
  bool in_order = true;
  for (std::size_t axis = view.shape.rank(); axis-- > 0;) {
    if (view.strides[axis] == 0) times *= std::exchange(lengths[axis], 1);
    in_order &= lengths[axis] == 1 || view.strides[axis] == stride;
    stride *= lengths[axis];
  }
  view.elements /= times;
  view.contiguous = in_order;
  return times;
}
}  // namespace

Odd odd_of(const Body& body) {
  if (!is_floating(body.dtype) || body.elements == 0) return {};
  if (!body.contiguous) {
    Body part = body;
    if (leave_out_repeats(part) > 1) return odd_of(part);
  }
  bool finite = true;
  const bool known =
      each_row(body, [&](const float* x, std::int64_t n) { finite = finite && all_finite(x, n); });
  if (known && finite) return {};
  if (!is_readable(body)) return odd_of(*copy_of(body));
  Odd found;
  for (std::int64_t i = 0; i < body.elements; ++i) {
    const double x = element(body, i);
    found.nan |= std::isnan(x);
    found.infinity |= std::isinf(x);
  }
  return found;
}

Bounds bounds_of(std::string_view op) {
  if (op == "tanh") return Bounds::tanh;
  return op == "sigmoid" || op == "hard_sigmoid" ? Bounds::sigmoid : Bounds::none;
}

double dead_of(const Body& readable) {
  const std::size_t rank = readable.shape.rank();
  const std::int64_t units = rank ? readable.shape.data()[rank - 1] : 1;
  if (readable.elements == 0) return 0;
  std::vector<char> lives(static_cast<std::size_t>(units));
  for (std::int64_t i = 0; i < readable.elements; ++i)
    if (element(readable, i) != 0) lives[static_cast<std::size_t>(i % units)] = 1;
  return static_cast<double>(std::count(lives.begin(), lives.end(), 0)) /
         static_cast<double>(units);
}

Statistics statistics_of(const Body& body, Bounds bounds) {
  if (!body.contiguous && body.elements > 0) {
    Body part = body;
    if (const std::int64_t times = leave_out_repeats(part); times > 1) {
      Statistics found = statistics_of(part, bounds);
      found.elements *= times;
      found.nans *= times;
      found.infinities *= times;
      found.norm *= std::sqrt(static_cast<double>(times));
      return found;
    }
  }
  Sums sums;
  const bool known =
      each_row(body, [&](const float* x, std::int64_t n) { add_floats(x, n, sums); });
  if (!is_readable(body) && !(known && are_exact(sums) && bounds == Bounds::none))
    return statistics_of(*copy_of(body), bounds);
  Statistics found;
  if (!known || !are_exact(sums)) {
    found = slow_statistics(body);
  } else {
    const auto count = static_cast<double>(body.elements);
    found.elements = body.elements;
    found.zeros = static_cast<double>(sums.zeros) / count;
    found.low = static_cast<double>(sums.low);
    found.high = static_cast<double>(sums.high);
    found.mean = sums.sum / count;
    found.norm = std::sqrt(sums.squares);
  }
  if (bounds != Bounds::none && body.elements)
    found.saturated =
        static_cast<double>(saturated_in(body, bounds)) / static_cast<double>(body.elements);
  return found;
}

// A sum of a term for each 8 bytes, so that NumPy can compute it too: tools/torch_log.py.
std::uint64_t hash_of(const Body& body) {
  if (!is_readable(body)) return hash_of(*copy_of(body));
  const auto bytes = static_cast<std::size_t>(body.bytes());
  std::uint64_t sum = bytes;
  const auto add = [&](std::size_t i, std::size_t count) {
    std::uint64_t term = 0;
    std::memcpy(&term, body.data + i, count);
    term = (term ^ (i / 8 + 1) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    sum += (term ^ term >> 32) * 0x94d049bb133111ebu;
  };
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) add(i, 8);
  if (i < bytes) add(i, bytes - i);
  return sum;
}

std::uint64_t fingerprint_of(const Body& body) {
  const auto bytes = static_cast<std::size_t>(body.bytes());
  std::uint64_t hash = bytes * 8 + static_cast<std::uint64_t>(body.dtype);
  if (!is_readable(body) || bytes == 0) return hash;
  const auto add = [&](std::size_t at, std::uint64_t factor) {
    std::uint64_t word;
    std::memcpy(&word, body.data + at, sizeof word);
    word *= factor;
    hash += word ^ word >> 29;
  };
  if (bytes < sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      word = word << 8 | std::to_integer<std::uint64_t>(body.data[i]);
    return hash + word * 0x9e3779b97f4a7c15u;
  }
  const std::size_t last = bytes - sizeof(std::uint64_t);
  add(0, 0x9e3779b97f4a7c15u);
  add(last / 4, 0xbf58476d1ce4e5b9u);
  add(last / 2, 0x94d049bb133111ebu);
  add(last / 2 + last / 4, 0xff51afd7ed558ccdu);
  add(last, 0xc4ceb9fe1a85ec53u);
  return hash;
}
}  // namespace reel::debugger
