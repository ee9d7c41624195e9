// SPDX-License-Identifier: BSD-3-Clause
// What public ops take: a tensor, a Variable or a number, together with the caller's line.
#pragma once  // defined in lib/body, lib/gate
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include <reel/caller.hpp>
#include <reel/dtype.hpp>

namespace reel {
class Shape;
class Tensor;
class Variable;
template <Element T>
requires Number<T>
class Live;

/// A C++ number and its dtype. Every floating type gives float32. This includes double, because a
/// literal such as 0.5 is a double even where float64 is not wanted. An integer too large for int64
/// gives float32 too, and a short gives int32, in which ops compute. real() keeps the double
/// unrounded.
class Scalar {
 public:
  template <Number T>
  constexpr Scalar(T value)
      : dtype_(is_real(value)                  ? DType::float32
               : has_arithmetic(dtype_of<T>()) ? dtype_of<T>()
                                               : DType::int32) {
    if (is_real(value))
      real_ = static_cast<double>(value);
    else
      integer_ = static_cast<std::int64_t>(value);
  }
  template <UnscopedEnum E>
  constexpr Scalar(E value) : Scalar(static_cast<std::underlying_type_t<E>>(value)) {}
  constexpr DType dtype() const { return dtype_; }
  constexpr double real() const {
    return is_floating(dtype_) ? real_ : static_cast<double>(integer_);
  }
  constexpr std::int64_t integer() const {
    return is_floating(dtype_) ? static_cast<std::int64_t>(real_) : integer_;
  }

 private:
  template <class T>
  static constexpr bool is_real(T value) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) >= sizeof(std::int64_t))
      return value > static_cast<T>(INT64_MAX);
    else
      return std::is_floating_point_v<T>;
  }
  union {
    double real_;
    std::int64_t integer_;
  };
  DType dtype_;
};

/// The type of the arguments that ops take: a Tensor, a Variable, a Live number or a C++ number,
/// with the line of the caller. It copies a C++ number and points to any other argument. Use it
/// only as the type of a function's argument: a local `Operand h = relu(x);` points to a tensor
/// that no longer exists. Keep results in a Tensor.
class Operand {
 public:
  enum class Kind : std::uint8_t { tensor, temporary, variable, scalar };
  Operand(const Tensor& tensor REEL_LIFETIMEBOUND, Caller caller = Caller::here())
      : value_(&tensor), file_(caller.file), line_(caller.line), kind_(Kind::tensor) {}
  Operand(Tensor&& tensor REEL_LIFETIMEBOUND, Caller caller = Caller::here())
      : value_(&tensor), file_(caller.file), line_(caller.line), kind_(Kind::temporary) {}
  Operand(const Variable& variable REEL_LIFETIMEBOUND, Caller caller = Caller::here())
      : value_(&variable), file_(caller.file), line_(caller.line), kind_(Kind::variable) {}
  template <Element T>
  requires Number<T> Operand(const Live<T>& number, Caller caller = Caller::here())
      : Operand(number.variable(), caller) {}
  template <Number T>
  Operand(T value, Caller caller = Caller::here())
      : scalar_(value), file_(caller.file), line_(caller.line), kind_(Kind::scalar) {}
  template <UnscopedEnum E>
  Operand(E value, Caller caller = Caller::here())
      : Operand(static_cast<std::underlying_type_t<E>>(value), caller) {}
  // The copy constructor is not trivial, so calls pass a pointer to an Operand. A trivial class of
  // 32 bytes would be copied for each call, which costs 8 ns.
  // An op may reuse the memory of a temporary. A copy is not a temporary, because its tensor may be
  // read again through the original.
  Operand(const Operand& other) noexcept
      : file_(other.file_),
        line_(other.line_),
        kind_(other.kind_ == Kind::temporary ? Kind::tensor : other.kind_) {
    if (kind_ == Kind::scalar)
      scalar_ = other.scalar_;
    else
      value_ = other.value_;  // only the 8 bytes that were stored: a wider load stalls the CPU
  }
  Operand& operator=(const Operand&) = delete;  // keep results in a Tensor
  Kind kind() const { return kind_; }
  Caller caller() const { return {file_, line_}; }
  /// The argument as a tensor, whatever its kind. A number becomes a tensor of shape () on the
  /// CPU. Gradients flow through the tensor to the argument.
  REEL_API Tensor value() const;
  /// The lengths of the axes, the length of one axis, and the dtype, as those of a Tensor.
  REEL_API const Shape& shape() const;
  REEL_API std::int64_t shape(int axis) const;
  REEL_API DType dtype() const;
  /// The argument itself. Throws Error if the operand is of another kind.
  const Tensor& tensor() const {
    if (kind_ > Kind::temporary) fail_kind("a Tensor");
    return *static_cast<const Tensor*>(value_);
  }
  const Variable& variable() const {
    if (kind_ != Kind::variable) fail_kind("a Variable");
    return *static_cast<const Variable*>(value_);
  }
  const Scalar& scalar() const {
    if (kind_ != Kind::scalar) fail_kind("a number");
    return scalar_;
  }

 private:
  [[noreturn]] REEL_API void fail_kind(const char* expected) const;
  union {
    const void* value_;  // of a tensor or a Variable
    Scalar scalar_;
  };
  const char* file_;
  unsigned line_;
  Kind kind_;
};

/// Several operands: a list `{a, b}`, a vector of Tensors or of Variables, or a span of Tensors.
class Operands {
 public:
  Operands(std::initializer_list<Operand> operands, Caller caller = Caller::here())
      : first_(operands.begin()), count_(operands.size()), caller_(caller), kind_(Kind::operands) {}
  Operands(const std::vector<Tensor>& tensors, Caller caller = Caller::here());
  Operands(const std::vector<Variable>& variables, Caller caller = Caller::here());
  Operands(std::span<const Tensor> tensors, Caller caller = Caller::here());
  Operands(const Operands& other) noexcept  // not trivial, as Operand's
      : first_(other.first_), count_(other.count_), caller_(other.caller_), kind_(other.kind_) {}
  std::size_t size() const { return count_; }
  Caller caller() const { return caller_; }
  Operand operator[](std::size_t i) const;

 private:
  friend struct Access;
  enum class Kind : std::uint8_t { operands, tensors, variables };
  const void* first_;
  std::size_t count_;
  Caller caller_;
  Kind kind_;
};
}  // namespace reel
