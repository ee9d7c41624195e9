// SPDX-License-Identifier: BSD-3-Clause
// The functions that formulas use: the same names for numbers, vectors of numbers and Tensors.
#pragma once
#include <cstdint>

// Each file that is compiled for an instruction set has its own copy of the formulas: the linker
// must not use a copy made for AVX-512 on all machines.
#ifdef REEL_ISA
#define REEL_FORMULAS kernels::REEL_ISA::formulas
#else
#define REEL_FORMULAS formulas
#endif

/// Calls f(name) for the functions of one number that have the same name in the C library, in CUDA
/// and in reel.
#define REEL_EACH_FUNCTION(f)                                                                     \
  f(acos) f(acosh) f(asin) f(asinh) f(atan) f(atanh) f(cos) f(cosh) f(erf) f(erfc) f(exp) f(exp2) \
      f(expm1) f(log) f(log1p) f(log2) f(sin) f(sinh) f(sqrt) f(tan) f(tanh)
/// Functions whose results are whole numbers.
#define REEL_EACH_ROUNDING(f) f(ceil) f(floor) f(nearbyint) f(trunc)

namespace reel::REEL_FORMULAS {
/// The dtypes that an op is for: float32 and float64; all but bool; all; bool and integers.
enum class Domain { floating, numbers, everything, bits };

namespace math {
template <class X>
struct Functions;
/// The functions of numbers, by the compiler's own in double.
template <class X>
struct NumberFunctions {
  static constexpr bool fraction = static_cast<X>(0.5) != X(0);
  static constexpr X apply(double (*f)(double), X x) {
    return static_cast<X>(f(static_cast<double>(x)));
  }

  static constexpr X number(double value) { return static_cast<X>(value); }
  static constexpr X select(bool condition, auto x, auto y) {
    return condition ? static_cast<X>(x) : static_cast<X>(y);
  }
  static constexpr X negative(X x) { return static_cast<X>(-x); }
  static constexpr X abs(X x) {
    if constexpr (fraction) return static_cast<X>(__builtin_fabs(static_cast<double>(x)));
    // Computed in unsigned 64 bits, because the negative of the smallest int does not fit int.
    else
      return x < X(0) ? static_cast<X>(0 - static_cast<std::uint64_t>(x)) : x;
  }
#define REEL_OF_NUMBERS(name)                                      \
  static constexpr X name(X x) {                                   \
    return apply([](double v) { return __builtin_##name(v); }, x); \
  }
  REEL_EACH_FUNCTION(REEL_OF_NUMBERS)
#undef REEL_OF_NUMBERS
#define REEL_OF_NUMBERS(name)                                        \
  static constexpr X name(X x) {                                     \
    if constexpr (!fraction)                                         \
      return x;                                                      \
    else                                                             \
      return apply([](double v) { return __builtin_##name(v); }, x); \
  }
  REEL_EACH_ROUNDING(REEL_OF_NUMBERS)
#undef REEL_OF_NUMBERS
  static constexpr X sigmoid(X x) {
    return apply([](double v) { return 1 / (1 + __builtin_exp(-v)); }, x);
  }
  static constexpr X power(X x, X y) {
    return static_cast<X>(__builtin_pow(static_cast<double>(x), static_cast<double>(y)));
  }
  static constexpr X atan2(X y, X x) {
    return static_cast<X>(__builtin_atan2(static_cast<double>(y), static_cast<double>(x)));
  }
  static constexpr X hypot(X x, X y) {
    return static_cast<X>(__builtin_hypot(static_cast<double>(x), static_cast<double>(y)));
  }
  /// x y + z, rounded once.
  static constexpr X fused(X x, X y, X z) {
    if constexpr (sizeof(X) == 4)
      return __builtin_fmaf(x, y, z);
    else
      return __builtin_fma(x, y, z);
  }
  /// x - y floor(x / y), exactly; of integers by zero it is 0.
  static constexpr X remainder(X x, X y) {
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
  /// The largest whole number that is at most x / y; of integers by zero it is 0.
  static constexpr X floor_divide(X x, X y) {
    if constexpr (!fraction) {
      if (y == X(0)) return X(0);
      const auto wrapped = [](X v) { return static_cast<std::uint64_t>(v); };
      if (X(-1) < X(0) && y == X(-1)) return static_cast<X>(0 - wrapped(x));
      const X whole = static_cast<X>(x / y);
      return static_cast<X>(whole - ((x % y != 0) & ((x < X(0)) != (y < X(0)))));
    } else {
      // Where x / y was rounded up to a whole number, the difference has the other sign. For 0 and
      // infinities it is NaN; -1 is the floor of a negative number that vanishes.
      const X whole = Functions<X>::floor(x / y), left = fused(-whole, y, x);
      if (whole == X(0) && x != X(0) && (x < X(0)) != (y < X(0))) return X(-1);
      return (y < X(0) ? left > X(0) : left < X(0)) ? whole - X(1) : whole;
    }
  }
  /// NaN if one is NaN.
  static constexpr X maximum(X x, X y) { return x > y || x != x ? x : y; }
  static constexpr X minimum(X x, X y) { return x < y || x != x ? x : y; }
};
/// The functions of a type: of vectors in lib/cpu/simd_math.hpp, of Tensors in autograd/, of
/// numbers on GPUs in cuda/numbers.hpp, else of numbers. A formula finds them when it is used,
/// whatever was included first.
template <class X>
struct Functions : NumberFunctions<X> {};

/// x where the condition holds, else y; one of them may be a number. Conditions are written
/// without !=, which xsimd 8.1 finds false for NaN.
template <class C, class X, class Y>
constexpr auto select(const C& condition, const X& x, const Y& y) {
  return Functions<decltype(x + y)>::select(condition, x, y);
}
/// A constant as a number of the type of x.
template <class X>
constexpr auto like(const X&, double value) {
  return Functions<X>::number(value);
}
#define REEL_OF_ONE(name)           \
  template <class X>                \
  constexpr auto name(const X& x) { \
    return Functions<X>::name(x);   \
  }
#define REEL_OF_TWO(name)                       \
  template <class X>                            \
  constexpr auto name(const X& x, const X& y) { \
    return Functions<X>::name(x, y);            \
  }
REEL_EACH_FUNCTION(REEL_OF_ONE)
REEL_EACH_ROUNDING(REEL_OF_ONE)
REEL_OF_ONE(abs)
REEL_OF_ONE(negative)
REEL_OF_ONE(sigmoid)
REEL_OF_TWO(atan2)
REEL_OF_TWO(floor_divide)
REEL_OF_TWO(hypot)
REEL_OF_TWO(maximum)
REEL_OF_TWO(minimum)
REEL_OF_TWO(power)
REEL_OF_TWO(remainder)
#undef REEL_OF_ONE
#undef REEL_OF_TWO
}  // namespace math

/// A number that a formula takes: of floats those for floating dtypes, of integers all others.
template <class F>
struct NumberFor {
  using type = int;
};
template <class F>
requires(F::domain == Domain::floating) struct NumberFor<F> {
  using type = float;
};
template <class F, class... X>
concept Takes = requires(F f, X... x) {
  f(x...);
};
/// How many numbers a formula takes: 1, 2 or 3.
template <class F, class X = typename NumberFor<F>::type>
inline constexpr int arity_of = Takes<F, X, X, X> ? 3
                                : Takes<F, X, X>  ? 2
                                                  : 1;
template <class F>
inline constexpr bool is_binary = arity_of<F> == 2;

/// The formulas of a family. Its kernels, gradient rules and tests are made of them.
template <class... F>
struct List {};

// A formula may say `wraps` (integers are computed without a sign, so that they wrap around) and
// `slow` (its loops are not worth unrolling), `quick_slope` (its gradient is not slow, although it
// is) and `by_number` (input 1 is a single number in most calls).
// A gradient formula sees g.dy(), the inputs g.x(), g.y() and g.z(), and g.out(); it is d0 for the
// first input, d1 for the second, d2 for the third. What it reads of inputs and out is kept alive
// for it: see lib/ops/pointwise.hpp. Of formulas of three inputs, gradients are made of ops.
}  // namespace reel::REEL_FORMULAS
