// SPDX-License-Identifier: BSD-3-Clause
// The operations of scans: of() makes the state of one element (or of x and y, for two inputs),
// join() combines two states and is associative, result() makes the stored element. Floating states
// are float64.
#pragma once
#include <type_traits>

#include "lib/formulas/functions.hpp"

namespace reel::REEL_FORMULAS::scan {
template <class T>
inline constexpr bool is_floating = std::is_floating_point_v<T>;
template <class T>
using Wide = std::conditional_t<is_floating<T>, double, std::int64_t>;

/// Integers become int64.
template <class T>
struct Widened {
  using State = Wide<T>;
  using Out = std::conditional_t<is_floating<T>, T, std::int64_t>;
  static constexpr int inputs = 1;
  static constexpr State of(T x) { return static_cast<State>(x); }
  static constexpr Out result(State x) { return static_cast<Out>(x); }
};
template <class T>
struct Sum : Widened<T> {
  using State = Wide<T>;
  static constexpr State join(State a, State b) {
    if constexpr (is_floating<T>)
      return a + b;
    else
      return static_cast<State>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
};
template <class T>
struct Product : Widened<T> {
  using State = Wide<T>;
  static constexpr State join(State a, State b) {
    if constexpr (is_floating<T>)
      return a * b;
    else
      return static_cast<State>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};
template <class T>
struct Largest {
  using State = T;
  using Out = T;
  static constexpr int inputs = 1;
  static constexpr T of(T x) { return x; }
  static constexpr T join(T a, T b) { return b > a || b != b ? b : a; }
  static constexpr T result(T x) { return x; }
};
/// The logarithm of the sum of exponentials is most + log(sum).
template <class T>
struct LogSum {
  struct State {
    double most, sum;
  };
  using Out = T;
  static constexpr int inputs = 1;
  static constexpr State of(T x) { return {static_cast<double>(x), 1}; }
  static constexpr State join(const State& a, const State& b) {
    if (a.most == b.most) return {a.most, a.sum + b.sum};
    if (b.most > a.most) return {b.most, a.sum * math::exp(a.most - b.most) + b.sum};
    return {a.most, a.sum + b.sum * math::exp(b.most - a.most)};
  }
  static constexpr T result(const State& x) { return static_cast<T>(x.most + math::log(x.sum)); }
};
/// r[i] = x[i] r[i - 1] + y[i], where r[-1] is 0.
template <class T>
struct Linear {
  struct State {
    double scale, value;
  };
  using Out = T;
  static constexpr int inputs = 2;
  static constexpr State of(T x, T y) { return {static_cast<double>(x), static_cast<double>(y)}; }
  static constexpr State join(const State& a, const State& b) {
    return {a.scale * b.scale, b.scale * a.value + b.value};
  }
  static constexpr T result(const State& x) { return static_cast<T>(x.value); }
};
}  // namespace reel::REEL_FORMULAS::scan
