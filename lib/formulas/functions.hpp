// SPDX-License-Identifier: BSD-3-Clause
// What formulas are written in: the same functions for numbers, vectors of numbers and Tensors.
#pragma once
#include <cstdint>

// Units compiled for an instruction set keep formulas to themselves: a copy made for AVX-512 must
// never be the one that the linker keeps for all.
#ifdef REEL_ISA
#define REEL_FORMULAS kernels::REEL_ISA::formulas
#else
#define REEL_FORMULAS formulas
#endif

namespace reel::REEL_FORMULAS {
/// The dtypes that an op is for: float32 and float64; all but bool; all; bool and integers.
enum class Domain { floating, numbers, everything, bits };

namespace math {
/// The functions of a type. Of numbers here, of vectors in lib/cpu/simd_math.hpp, of Tensors in
/// autograd/; a formula finds them when it is used, whatever was included first.
template <class X>
struct Functions {
  static constexpr bool fraction = static_cast<X>(0.5) != X(0);
  static X apply(double (*f)(double), X x) { return static_cast<X>(f(static_cast<double>(x))); }

  static X select(bool condition, X x, X y) { return condition ? x : y; }
  static X negative(X x) { return static_cast<X>(-x); }
  static X abs(X x) {
    if constexpr (fraction) return static_cast<X>(__builtin_fabs(static_cast<double>(x)));
    // Through 64 bits without a sign: the least int has no positive twin.
    else
      return x < X(0) ? static_cast<X>(0 - static_cast<std::uint64_t>(x)) : x;
  }
  static X sqrt(X x) {
    return apply([](double v) { return __builtin_sqrt(v); }, x);
  }
  static X exp(X x) {
    return apply([](double v) { return __builtin_exp(v); }, x);
  }
  static X log(X x) {
    return apply([](double v) { return __builtin_log(v); }, x);
  }
  static X tanh(X x) {
    return apply([](double v) { return __builtin_tanh(v); }, x);
  }
  static X sigmoid(X x) {
    return apply([](double v) { return 1 / (1 + __builtin_exp(-v)); }, x);
  }
  static X power(X x, X y) {
    return static_cast<X>(__builtin_pow(static_cast<double>(x), static_cast<double>(y)));
  }
  /// x - y floor(x / y), exactly; of integers by zero it is 0.
  static X remainder(X x, X y) {
    if constexpr (fraction) {
      const X rest =
          sizeof(X) == 4
              ? static_cast<X>(__builtin_fmodf(static_cast<float>(x), static_cast<float>(y)))
              : static_cast<X>(__builtin_fmod(x, y));
      if (rest == 0) return static_cast<X>(__builtin_copysign(0.0, static_cast<double>(y)));
      return (rest < 0) != (y < 0) ? rest + y : rest;
    } else {
      constexpr X minus_one = static_cast<X>(-1);
      if (y == X(0) || (minus_one < X(0) && y == minus_one)) return X(0);  // -1 divides everything
      const X rest = static_cast<X>(x % y);
      return rest != X(0) && (rest < X(0)) != (y < X(0)) ? static_cast<X>(rest + y) : rest;
    }
  }
  /// NaN if one is NaN.
  static X maximum(X x, X y) { return x > y || x != x ? x : y; }
  static X minimum(X x, X y) { return x < y || x != x ? x : y; }
};

/// x where the condition holds, else y; one of them may be a number. Conditions are written
/// without !=, which xsimd 8.1 finds false for NaN.
template <class C, class X, class Y>
constexpr auto select(const C& condition, const X& x, const Y& y) {
  return Functions<decltype(x + y)>::select(condition, x, y);
}
template <class X>
constexpr auto negative(const X& x) {
  return Functions<X>::negative(x);
}
template <class X>
constexpr auto abs(const X& x) {
  return Functions<X>::abs(x);
}
template <class X>
constexpr auto sqrt(const X& x) {
  return Functions<X>::sqrt(x);
}
template <class X>
constexpr auto exp(const X& x) {
  return Functions<X>::exp(x);
}
template <class X>
constexpr auto log(const X& x) {
  return Functions<X>::log(x);
}
template <class X>
constexpr auto tanh(const X& x) {
  return Functions<X>::tanh(x);
}
template <class X>
constexpr auto sigmoid(const X& x) {
  return Functions<X>::sigmoid(x);
}
template <class X>
constexpr auto power(const X& x, const X& y) {
  return Functions<X>::power(x, y);
}
template <class X>
constexpr auto remainder(const X& x, const X& y) {
  return Functions<X>::remainder(x, y);
}
template <class X>
constexpr auto maximum(const X& x, const X& y) {
  return Functions<X>::maximum(x, y);
}
template <class X>
constexpr auto minimum(const X& x, const X& y) {
  return Functions<X>::minimum(x, y);
}
}  // namespace math

/// The formulas of a family: what the kernels, the gradient rules and the tests of it are made of.
template <class... F>
struct List {};

// A formula may say `wraps` (integers are computed without a sign, so that they wrap around) and
// `slow` (its loops are not worth unrolling).
// A gradient formula sees g.dy(), g.x(), g.y() (of two inputs) and g.out(); it is d0 for the first
// input, d1 for the second. What it reads of x, y and out is kept alive for it: see
// lib/ops/pointwise.hpp.
}  // namespace reel::REEL_FORMULAS
