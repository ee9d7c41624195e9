// SPDX-License-Identifier: BSD-3-Clause
// The gate: every op passes through run().
#pragma once
#include <initializer_list>
#include <span>
#include <string>

#include <reel/error.hpp>

#include "lib/dispatch/op.hpp"
#include "lib/tensor/access.hpp"

namespace reel {
/// Checks, infers, allocates, calls the kernel; records and tells the stages where someone listens.
Tensor run(Op& op, std::initializer_list<Operand> inputs, OptionsView options = {});
Tensor run(Op& op, const Operand& x, OptionsView options = {});
Tensor run(Op& op, const Operand& x, const Operand& y);
/// The same for any number of inputs, and for ops with several outputs.
void run(Op& op, std::span<const Operand> inputs, OptionsView options, Caller caller,
         Few<Tensor, 2>& outputs);
Tensor run(Op& op, const Operands& inputs, OptionsView options = {});
/// Adds the result to `output` in place; for ops that accumulate, from inputs ready for the kernel.
void run_into(Op& op, std::initializer_list<Operand> inputs, OptionsView options, Body& output);
/// Ops without inputs.
Tensor run(Op& op, OptionsView options, Caller caller);
/// Pointwise ops of one and two inputs: a straight path for the common layouts.
Tensor run_unary(Op& op, const Operand& x);
Tensor run_binary(Op& op, const Operand& x, const Operand& y);

/// Ops that write Variables in place: output i is variables[i]; inputs are the Variables' values,
/// then `inputs`. Nothing changes if it throws.
void run_update(Op& op, std::span<const Variable> variables, std::span<const Operand> inputs,
                OptionsView options, Caller caller);

/// The body of an operand; null for a number and an undefined tensor.
inline Body* body_of(const Operand& x) {
  if (x.kind() == Operand::Kind::scalar) return nullptr;
  if (x.kind() == Operand::Kind::variable) return Access::body(Access::cell(x.variable()).value);
  return Access::body(x.tensor());
}

/// What an operand, input i, is before it passes.
const Shape& shape_of(const Op& op, const Operand& x, int i = 0);
DType dtype_of(const Op& op, const Operand& x, int i = 0);

/// The line errors speak of: the outermost CallerScope's, else `caller`.
Caller site_of(Caller caller);

std::string to_text(const Shape& shape);  // "(2, 3)"
std::string to_text(Scalar number);       // as few digits as name it
/// "an index in [-3, 3)"
std::string one_of(std::string_view what, std::int64_t first, std::int64_t end);

/// count_elements() of shapes that are not small matrices.
std::int64_t count_all_elements(const Shape& shape, std::string_view op, Caller caller);
/// The product of the lengths. Throws ShapeError above 2^58.
inline std::int64_t count_elements(const Shape& shape, std::string_view op, Caller caller) {
  if (shape.rank() <= 2) {  // and none too long: 2^29 by 2^29 fits
    const std::int64_t rows = shape.rank() < 2 ? 1 : shape.data()[0];
    const std::int64_t columns = shape.rank() < 1 ? 1 : shape.end()[-1];
    if (!((rows | columns) >> 29)) return rows * columns;
  }
  return count_all_elements(shape, op, caller);
}

/// A new body for a result. Throws MemoryError, and ShapeError for too many elements.
Body* allocate_or_fail(Context& context, const Op& op, DType dtype, const Shape& shape,
                       Caller caller);

/// Axes from 0, sorted, without repeats; every() becomes all of them. Throws ShapeError.
Axes normal_axes(const Op& op, const Axes& axes, std::size_t rank, Caller caller);
/// An axis from 0. Throws ShapeError.
std::int64_t normal_axis(const Op& op, std::int64_t axis, std::size_t rank, Caller caller);

[[noreturn]] void fail_floating(const Inference& call, int i);
[[noreturn]] void fail_rank(const Inference& call, int i, int at_least);

// Shape rules that many ops share (shape_rules.cpp).
void same_as_input(Inference& call);
void broadcast(Inference& call);  // of all inputs, dtype of the promoted ones
void broadcast_to_bool(Inference& call);
void reduced(Inference& call);  // ReduceOptions
void reduced_to(Inference& call, DType dtype);
bool broadcasts_to(const Shape& from, const Shape& to);
Shape broadcast_shapes(const Inference& call, int first, int count);
/// Throws DTypeError unless input i is floating.
inline void require_floating(const Inference& call, int i) {
  if (!is_floating(call.input(i).dtype)) [[unlikely]]
    fail_floating(call, i);
}
void require_integer(const Inference& call, int i);
/// Name of input i for errors, from Op::argument_names.
std::string argument_name(const Op& op, int i);
[[noreturn]] void fail_arithmetic(const Op& op, const std::string& argument, DType dtype,
                                  Caller caller);
/// Throws DTypeError if input i has a dtype that is only for storage.
inline void require_arithmetic(const Inference& call, int i) {
  if (!has_arithmetic(call.input(i).dtype)) [[unlikely]]
    fail_arithmetic(call.op, argument_name(call.op, i), call.input(i).dtype, call.caller);
}
inline void require_rank(const Inference& call, int i, int at_least) {
  if (call.input(i).rank() < at_least) [[unlikely]]
    fail_rank(call, i, at_least);
}
}  // namespace reel
