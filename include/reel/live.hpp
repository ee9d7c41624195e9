// SPDX-License-Identifier: BSD-3-Clause
// Live: a C++ number that a traced function reads anew at every call.
#pragma once  // defined in lib/tensor
#include <reel/variable.hpp>

namespace reel {
namespace detail {
REEL_API Variable make_live(Scalar value, DType dtype, Caller caller);
}  // namespace detail

/// A handle to a number; copies share it. In an op it takes the other operand's dtype, as a C++
/// number does. A Live integer beside an integer tensor of a narrower dtype gives the wider dtype,
/// so that no value wraps around. A replay reads the number anew. If a traced function reads it
/// with value(), the trace has a branch for each value.
///
///     Live<double> rate{0.1};
///     auto step = trace([&](Tensor x) { return x * rate; });
///     rate = 0.05;
///
/// The next call of `step` uses 0.05. A traced function can also take the number as an argument of
/// type Tensor: `[](Tensor x, Tensor rate)`, called with `live(0.1)`.
template <Element T>
requires Number<T>
class Live {
  static_assert(has_arithmetic(dtype_of<T>()), "ops compute in no int8 and int16: use an int");

 public:
  Live(T value, Caller caller = Caller::here())
      : number_(detail::make_live(value, dtype_of<T>(), caller)) {}
  Live& operator=(T value) {
    number_.assign(value);
    return *this;
  }
  T value() const { return number_.value().template item<T>(); }
  /// A tensor of rank 0, which also takes the other operand's dtype.
  operator Tensor() const { return number_.value(); }
  const Variable& variable() const { return number_; }

 private:
  Variable number_;
};

/// A Live number, for one call of a traced function.
template <Element T>
requires Number<T> Live<T> live(T value, Caller caller = Caller::here()) {
  return Live<T>(value, caller);
}
}  // namespace reel
