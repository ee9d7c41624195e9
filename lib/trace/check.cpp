// SPDX-License-Identifier: BSD-3-Clause
#include "lib/trace/check.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/body/dtypes.hpp"
#include "lib/gate/call_kernel.hpp"
#include "lib/gate/devices.hpp"

namespace reel::tracing {
namespace {
/// Relative to the largest element of a tensor, and to the largest of all compared values. If terms
/// cancel, the rest is rounding.
constexpr double tolerance = 1e-4, tolerance_of_all = 1e-6;
/// Relative to the element itself: two units of the last place of 16 bits.
double own_tolerance(DType dtype) {
  return dtype == DType::bfloat16 ? 0x1p-6 : dtype == DType::float16 ? 0x1p-9 : 0;
}
constexpr int doubling_checks = 7;

template <class T>
double largest_of(const T* values, std::int64_t n) {
  double most = 0;
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto size = std::abs(static_cast<double>(values[i])); std::isfinite(size))
      most = std::max(most, size);
  return most;
}
/// The elements on the host, in row-major order.
Tensor packed(const Tensor& x) {
  const Tensor host = on_host(x);
  return Access::body(host)->contiguous ? host : contiguous_copy(*Access::body(host));
}
double largest(const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) return 0;
  const Tensor host = packed(x);
  const Body& body = *Access::body(host);
  return with_element(body.dtype,
                      [&]<class T>(Type<T>) { return largest_of(body.as<T>(), body.elements); });
}

/// The number of the first element that differs; n if there is none.
template <class T>
std::int64_t first_other(const T* a, const T* b, std::int64_t n, double allowed, double own) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!(std::abs(x - y) <= allowed + own * std::abs(x))) return i;
  }
  return n;
}
std::int64_t first_other(const Body& a, const Body& b, double allowed) {
  if (is_floating(a.dtype))
    return with_element(a.dtype, [&]<class T>(Type<T>) {
      return first_other(a.as<T>(), b.as<T>(), a.elements, allowed, own_tolerance(a.dtype));
    });
  std::int64_t i = 0;
  const int size = size_of(a.dtype);
  while (i < a.elements &&
         !std::memcmp(a.data + i * size, b.data + i * size, static_cast<std::size_t>(size)))
    ++i;
  return i;
}

std::string kind_of(const Tensor& x) {
  return x.defined() ? std::string(name_of(x.dtype())) + to_text(x.shape()) : "undefined";
}

bool has_same_bits(const Compared& pair) {
  if (kind_of(pair.replayed) != kind_of(pair.run)) return false;
  if (!pair.run.defined()) return true;
  const Tensor a = packed(pair.replayed), b = packed(pair.run);
  const Body &p = *Access::body(a), &q = *Access::body(b);
  return !p.elements || !std::memcmp(p.data, q.data, static_cast<std::size_t>(p.bytes()));
}

Difference compare(const Compared& pair, double allowed) {
  const auto& [what, replayed, run] = pair;
  if (kind_of(replayed) != kind_of(run)) return {what, kind_of(replayed), kind_of(run)};
  if (!run.defined()) return {};
  const Tensor a = packed(replayed), b = packed(run);
  const Body &p = *Access::body(a), &q = *Access::body(b);
  const std::int64_t i = first_other(p, q, allowed + tolerance * largest(run));
  if (i == p.elements) return {};
  const std::string where = p.elements == 1 ? what : "element " + std::to_string(i) + " of " + what;
  return {where, element_text(p, i), element_text(q, i)};
}

/// The number in the environment variable REEL_TRACE_CHECK; -1 if there is none.
double share_of_environment() {
  const char* const value = std::getenv("REEL_TRACE_CHECK");
  if (!value || !*value) return -1;
  double share = -1;
  const char* const end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, share);
  if (error == std::errc() && stop == end && share >= 0 && share <= 1) return share;
  std::fprintf(stderr, "reel: REEL_TRACE_CHECK: expected a number in [0, 1], got \"%.40s\"\n",
               value);
  return -1;
}
}  // namespace

Difference compare(std::span<const Compared> pairs) {
  std::vector<const Compared*> others;  // most pairs have the same bits
  for (const Compared& pair : pairs)
    if (!has_same_bits(pair)) others.push_back(&pair);
  if (others.empty()) return {};
  double most = 0;
  for (const Compared& pair : pairs) most = std::max(most, largest(pair.run));
  for (const Compared* const pair : others)
    if (Difference difference = compare(*pair, tolerance_of_all * most)) return difference;
  return {};
}

double share_of_checks(double asked) {
  const double environment = share_of_environment();
  return environment < 0 ? asked : environment;
}

bool needs_times(const Ending& ending, double share) {
  return share < 1 && ending.checks.load(std::memory_order_relaxed) + 1 >= doubling_checks;
}

void plan_next_check(Ending& ending, double share, double check_seconds, double replay_seconds) {
  const int checks = ++ending.checks;
  const double doubled = std::ldexp(1.0, checks - 1);
  double replays = 1;
  if (share < 1)
    replays = checks < doubling_checks
                  ? doubled
                  : std::min(doubled, check_seconds / (share * std::max(replay_seconds, 1e-9)));
  ending.until_check = static_cast<std::uint32_t>(std::clamp(replays, 1.0, 1e9));
}
}  // namespace reel::tracing
