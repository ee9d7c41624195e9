// SPDX-License-Identifier: BSD-3-Clause
// The gate for ops that write Variables in place, and the assignment of slices.
#include "lib/dispatch/update.hpp"

#include <cstring>

#include <reel/ops.hpp>

#include "lib/dispatch/pointwise.hpp"
#include "lib/dispatch/promotion.hpp"
#include "lib/dispatch/recording.hpp"
#include "lib/ops/ops.hpp"
#include "lib/tensor/indexing.hpp"

namespace reel {
namespace {
/// The value as the op wants it: of the Variable's dtype, tensors as they are.
Tensor prepared(const Op& op, int i, const Operand& x, DType dtype, bool converts, Caller caller) {
  Tensor value;
  const bool scalar = x.kind() == Operand::Kind::scalar;
  if (scalar && converts && !fits(x.scalar(), dtype))
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a number that fits " + std::string(name_of(dtype)),
                     std::to_string(x.scalar().real()));
  if (scalar)
    value =
        cast(Operand(full({}, x.scalar(), caller), caller), converts ? dtype : x.scalar().dtype());
  else
    value = x.kind() == Operand::Kind::variable ? Access::cell(x.variable()).value : x.tensor();
  if (!value.defined())
    fail<Error>(caller, op.name, argument_name(op, i), "a tensor", "an undefined Tensor");
  if (!converts || value.dtype() == dtype) return value;
  if (value.dtype() > dtype)
    fail<DTypeError>(caller, op.name, argument_name(op, i),
                     "a dtype that promotes to " + std::string(name_of(dtype)),
                     std::string(name_of(value.dtype())), "Convert it first: x.to(...).");
  return cast(Operand(value, caller), dtype);
}
}  // namespace

void run_update(Op& op, std::span<const Variable> variables, std::span<const Operand> operands,
                OptionsView options, Caller caller) {
  if (!op.cpu) [[unlikely]]
    assemble();
  Context& context = Context::here();
  const RecordingPause pause(context);
  const std::size_t written = variables.size(), count = written + operands.size();
  Few<Tensor, 4> values;
  Few<Body*, 8> inputs(count);
  for (std::size_t i = 0; i < written; ++i)
    inputs[i] = Access::body(Access::cell(variables[i]).value);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool converts = op.promoted >> (written + i < 7 ? written + i : 7) & 1;
    values.push_back(prepared(op, static_cast<int>(written + i), operands[i], inputs[0]->dtype,
                              converts, caller));
    inputs[written + i] = Access::body(values[i]);
  }
  Inference inference{op, inputs.data(), static_cast<int>(count), options.data, caller, {}};
  op.shape(inference);
  if (context.mode & infer_only) return;

  Few<Tensor, 4> made;  // new buffers, where the old one is shared
  Few<Body*, 4> places(written);
  for (std::size_t i = 0; i < written; ++i) {
    places[i] = inputs[i];
    if (unshared(*inputs[i])) continue;
    places[i] = allocate(context, inputs[i]->dtype, inputs[i]->shape, inputs[i]->elements);
    if (!places[i])
      fail<MemoryError>(caller, op.name, "result", "memory for a new value",
                        "none from the system");
    made.push_back(Access::adopt(places[i]));
  }
  const GateCall call{op,
                      inputs.data(),
                      static_cast<int>(count),
                      options,
                      context.site_of(caller),
                      places.data(),
                      static_cast<int>(written),
                      variables.data()};
  bool kernel = true;
  for (Stage* stage = context.stages; stage; stage = stage->next)
    kernel = stage->before(call) && kernel;
  if (kernel) run_kernel(call);
  for (std::size_t i = 0; i < written; ++i)
    if (places[i] != inputs[i]) Access::cell(variables[i]).value = Access::share(places[i]);
  for (Stage* stage = context.stages; stage; stage = stage->next) stage->after(call);
}

namespace {
/// Copies row-major elements into a strided view.
void copy_into(const Body& from, Body& view) {
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  const int rank = view.rank();
  std::int64_t position[Shape::max_rank] = {};
  std::byte* to = view.data;
  for (std::int64_t i = 0; i < view.elements; ++i) {
    std::memcpy(to, from.data + static_cast<std::size_t>(i) * size, size);
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto step = view.strides[axis] * static_cast<std::int64_t>(size);
      to += step;
      if (++position[axis] < view.shape.data()[axis]) break;
      to -= step * view.shape.data()[axis];
      position[axis] = 0;
    }
  }
}

/// The part of the value that the indices name, before the write.
Tensor new_part(Op& op, const Variable& variable, const Selection& selection,
                const Operand& value) {
  const Caller caller = value.caller();
  const Tensor part = prepared(op, 1, value, variable.dtype(), true, caller);
  const Operand whole(Access::cell(variable).value, caller);
  Tensor current = reshape(Operand(slice(whole, selection.slice), caller), selection.shape);
  if (&op == &assign_add_op) return add(Operand(current, caller), Operand(part, caller));
  if (&op == &assign_sub_op) return subtract(Operand(current, caller), Operand(part, caller));
  return broadcast_to(Operand(part, caller), selection.shape);
}
}  // namespace

void run_slice_update(Op& op, const Variable& variable, std::span<const Index> indices,
                      const Operand& value) {
  Context& context = Context::here();
  const RecordingPause pause(context);
  const Caller caller = value.caller();
  const Selection selection = select(variable.shape(), indices, op.name);
  Tensor part = new_part(op, variable, selection, value);
  if (!(part.shape() == selection.shape))
    fail<ShapeError>(caller, op.name, argument_name(op, 1), "shape " + to_text(selection.shape),
                     to_text(part.shape()));
  part = contiguous_copy(*Access::body(part));
  Tensor& cell = Access::cell(variable).value;
  if (!unshared(*Access::body(cell))) cell = contiguous_copy(*Access::body(cell));
  const Tensor place = slice(Operand(cell, caller), selection.slice);
  copy_into(*Access::body(part), *Access::body(place));
}
}  // namespace reel
