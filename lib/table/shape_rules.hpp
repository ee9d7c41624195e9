// SPDX-License-Identifier: BSD-3-Clause
// Shape rules that many ops share, and what they check.
#pragma once
#include <string>

#include "lib/body/shape.hpp"
#include "lib/body/text.hpp"
#include "lib/memory/blocks.hpp"
#include "lib/table/op.hpp"

namespace reel {
/// A new body for a result. Throws MemoryError, and ShapeError for too many elements.
Body* allocate_or_fail(ThreadMemory& memory, Device device, const Op& op, DType dtype,
                       const Shape& shape, Caller caller);

/// Axes from 0, sorted, without repeats; every() becomes all of them. Throws ShapeError.
Axes normal_axes(const Op& op, const Axes& axes, std::size_t rank, Caller caller);
/// An axis from 0. Throws ShapeError.
std::int64_t normal_axis(const Op& op, std::int64_t axis, std::size_t rank, Caller caller);

[[noreturn]] void fail_floating(const Inference& call, int i);
[[noreturn]] void fail_rank(const Inference& call, int i, int at_least);

void same_as_input(Inference& call);
void broadcast(Inference& call);  // of all inputs; Op::result_dtype() of the promoted ones
void reduced(Inference& call);    // ReduceOptions
void reduced_to(Inference& call, DType dtype);
bool broadcasts_to(const Shape& from, const Shape& to);
Shape broadcast_shapes(const Inference& call, int first, int count);
/// Throws DTypeError unless input i is floating.
inline void require_floating(const Inference& call, int i) {
  if (!is_floating(call.input(i).dtype)) [[unlikely]]
    fail_floating(call, i);
}
void require_integer(const Inference& call, int i, const char* argument = nullptr);
/// Name of input i for errors, from Op::argument_names.
Text argument_name(const Op& op, int i);
[[noreturn]] void fail_arithmetic(const Op& op, const Text& argument, DType dtype, Caller caller);
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
